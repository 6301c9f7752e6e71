"""`glueball doctor`: what is there, and what each missing piece would give."""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
import platform
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import glueball
from glueball import knobs
from glueball.drivers.cuda import cuda_available, cuda_driver
from glueball.runtime.cache import disk_cache
from glueball.runtime.cache_upkeep import survey
from glueball.runtime.devices import device_target
from glueball.targets import TARGETS, target_named

if TYPE_CHECKING:
    from rich.console import Console

NVIDIA_EXTRA = "pip install 'glueball[nvidia]'"


@dataclass(frozen=True, slots=True)
class Finding:
    """One piece: what was found, or what it would give and how to get it."""

    name: str
    present: bool
    found: str
    gives: str = ""
    command: str = ""


def examine() -> list[Finding]:
    """Looks at this machine; never raises for what is missing."""
    return [*_host(), *_gpu(), *_tools(), *_extras(), _cache(), *_settings()]


def _host() -> Iterator[Finding]:
    yield Finding("glueball", True, f"{glueball.__version__} in {Path(glueball.__file__).parent}")
    yield Finding("Python", True, f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    yield Finding("NumPy", True, importlib.metadata.version("numpy"))
    try:
        from glueball.codegen import llvm_version

        yield Finding("LLVM", True, f"{llvm_version()} (llvmlite {importlib.metadata.version('llvmlite')})")
    except Exception as error:  # whatever keeps the library from loading is what the reader wants to know
        gives = "code for every target; the simulator works without"
        yield Finding("LLVM", False, _first_line(error), gives, "pip install --force-reinstall llvmlite")
    yield Finding("targets", True, ", ".join(f"{target.name} ({target.lanes} lanes)" for target in TARGETS.values()))


def _gpu() -> Iterator[Finding]:
    gives = "kernels run on the GPU instead of the simulator"
    available = cuda_available()
    if not available.ok:
        missing_bindings = importlib.util.find_spec("cuda") is None
        command = NVIDIA_EXTRA if missing_bindings else "install NVIDIA's driver, on a machine with a GPU"
        yield Finding("GPU", False, _no_gpu(available.reason), gives, command)
        return
    driver = cuda_driver()
    version = ".".join(map(str, driver.driver_version()))
    for index in range(driver.device_count()):
        try:
            target = device_target(index).name
        except glueball.errors.TargetError as error:
            yield Finding(f"GPU {index}", False, f"{driver.device_name(index)}: {error}", gives)
            continue
        yield Finding(f"GPU {index}", True, f"{driver.device_name(index)}, {target}, driver for CUDA {version}")


def _no_gpu(reason: str) -> str:
    """The reason, with what the machine itself says where the bindings are missing."""
    reason = reason.rstrip(". ")
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        ctypes.CDLL(name)
    except OSError:
        return f"{reason}; there is no {name}, NVIDIA's driver library"
    return f"{reason}; {name} is there"


def _tools() -> Iterator[Finding]:
    gives = "machine code for NVIDIA GPUs; without it the driver of a present GPU assembles"
    version = _version("nvidia-nvjitlink")
    if version and importlib.util.find_spec("cuda") is not None:
        yield Finding("assembler", True, f"nvJitLink {version}")
    else:
        yield Finding("assembler", False, "no nvJitLink", gives, NVIDIA_EXTRA)
    program = _disassembler()
    if program is not None:
        yield Finding("disassembler", True, str(program))
    else:
        yield Finding(
            "disassembler", False, "no nvdisasm", "`kernel.asm['sass']`, the machine code as text", NVIDIA_EXTRA
        )


def _disassembler() -> Path | None:
    wheel = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin"
    found = shutil.which("nvdisasm", path=str(wheel)) or shutil.which("nvdisasm")
    return None if found is None else Path(found)


def _extras() -> Iterator[Finding]:
    for name, gives, command in (
        ("torch", "its tensors as arguments, and its streams", "pip install torch"),
        ("cupy", "its arrays as arguments, and its streams", "pip install cupy-cuda13x"),
    ):
        present = importlib.util.find_spec(name) is not None
        version = _version(name) or (_version("cupy-cuda13x") if name == "cupy" else None)
        yield Finding(name, present, version or ("installed" if present else "not installed"), gives, command)


def _cache() -> Finding:
    gives, command = "compiled kernels are kept", "GLUEBALL_CACHE_DIR=FOLDER"
    try:
        folder = disk_cache().folder
        entries = survey(folder)
        _check_writable(folder)
    except (OSError, ValueError) as error:
        return Finding("cache", False, str(error), gives, command)
    size = sum(entry.bytes for entry in entries) / 1e6
    return Finding("cache", True, f"{folder}: {len(entries)} kernels, {size:.1f} MB")


def _check_writable(folder: Path) -> None:
    """Raises `OSError` unless files can be made in a folder, or in the one in which it would be made."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise OSError(f"{folder} cannot be written: {error.strerror or error}") from None


def _settings() -> Iterator[Finding]:
    for knob in knobs.KNOBS:
        try:
            value = knob.read()
            if knob is knobs.TARGET and value is not None:
                target_named(str(value))
        except ValueError as error:
            text = str(error)
            named = text if knob.variable in text else f"{knob.variable}={value}: {text}"
            yield Finding(knob.variable, False, named, knob.effect)
            continue
        if value != knob.default:
            yield Finding(knob.variable, True, f"{value}: {knob.effect}")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def print_findings(findings: list[Finding], console: Console) -> None:
    """One line per piece that is there, and for one that is not what it would give and the command that brings it."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for finding in findings:
        mark = Text("yes", style="green") if finding.present else Text("no", style="yellow")
        lines = [finding.found]
        if not finding.present:
            lines += [f"would give: {finding.gives}"] if finding.gives else []
            lines += [f"to get it: {finding.command}"] if finding.command else []
        table.add_row(mark, finding.name, Text("\n".join(lines)))
    console.print(table)
