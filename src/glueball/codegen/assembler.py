"""Assembly text to machine code: PTX to a cubin by nvJitLink, or by what the caller injects."""

from __future__ import annotations

import functools
import importlib.metadata
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from glueball.errors import AssemblerError, CodeGenerationError, PerformanceWarning
from glueball.targets import Target

_REGISTERS = re.compile(r"[Uu]sed (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes spill stores")
_SERIALIZED = re.compile(r"(wgmma\S* instructions are serialized [^\n]*)")
_SERIALIZED_ADVICE = (
    "the assembler waits for every matrix instruction by itself: use accumulators only once warpgroup_mma_wait has "
    "given them back"
)
_EXTRA = "install the `nvidia` extra (pip install 'glueball[nvidia]')"

Linker = Callable[[str, Target], tuple[bytes, str]]
"""PTX to a cubin and the assembler's log, such as a driver's linker."""


@dataclass(frozen=True, slots=True)
class Binary:
    """Machine code. `registers` of one thread and `spills` (bytes stored) are None where the assembler did not say."""

    data: bytes
    kind: str
    registers: int | None
    spills: int | None
    log: str = ""


def assemble(assembly: str, target: Target, *, linker: Linker | None = None, ptxas: str | Path | None = None) -> Binary:
    """Machine code of a kernel.

    PTX goes through nvJitLink, unless a `linker` or the path of a `ptxas` is given. A `PerformanceWarning` where the
    assembler says that it serialises matrix products.
    Errors: `AssemblerError` with the assembler's log, `CodeGenerationError` with what is missing.
    """
    if not target.supports("nvidia"):
        raise CodeGenerationError(
            f"no linker makes a loadable binary for {target.name} here: only its assembly text is available"
        )
    if linker is None:
        linker = functools.partial(_by_ptxas, str(ptxas)) if ptxas is not None else _by_nvjitlink
    data, log = linker(assembly, target)
    for line in _SERIALIZED.findall(log):
        warnings.warn(f"{line.strip()}; {_SERIALIZED_ADVICE}", PerformanceWarning, stacklevel=2)
    return Binary(data, "cubin", _first(_REGISTERS, log), _first(_SPILLS, log), log)


def assembler_versions() -> dict[str, str]:
    """Versions of the assemblers that are installed, for cache keys and reports; nothing is loaded for it."""
    found = {}
    for package in ("nvidia-nvjitlink", "cuda-bindings"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _first(pattern: re.Pattern[str], log: str) -> int | None:
    found = pattern.search(log)
    return int(found.group(1)) if found else None


def _by_nvjitlink(assembly: str, target: Target) -> tuple[bytes, str]:
    try:
        from cuda.bindings import nvjitlink
    except ImportError as error:
        raise CodeGenerationError(f"no assembler for PTX: cuda-bindings is missing; {_EXTRA}") from error
    options = [f"-arch={target.name}", "-O3", "-lineinfo", "-verbose"]
    try:
        handle = nvjitlink.create(len(options), options)
    except nvjitlink.nvJitLinkError as error:
        raise CodeGenerationError(f"nvJitLink does not take the options {options}: {error}") from error
    except Exception as error:  # a library that is not there raises an error type of its loader
        raise CodeGenerationError(f"no assembler for PTX: nvJitLink cannot be loaded ({error}); {_EXTRA}") from error
    try:
        text = assembly.encode()
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, text, len(text), "kernel.ptx")
        nvjitlink.complete(handle)
        data = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, data)
        log = bytearray(nvjitlink.get_info_log_size(handle))
        nvjitlink.get_info_log(handle, log)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        raise AssemblerError(f"nvJitLink refused the PTX for {target.name}: {error}\n{_text(log)}") from error
    finally:
        nvjitlink.destroy(handle)
    return bytes(data), _text(log)


def _text(log: bytearray) -> str:
    return log.decode(errors="replace").strip("\0\n ")


def _by_ptxas(program: str, assembly: str, target: Target) -> tuple[bytes, str]:
    if shutil.which(program) is None:
        raise CodeGenerationError(f"there is no assembler {program!r}")
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(assembly)
        command = [program, f"-arch={target.name}", "-O3", "-lineinfo", "-v", str(source), "-o", str(result)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssemblerError(f"{program} refused the PTX for {target.name}:\n{done.stderr}")
        return result.read_bytes(), done.stdout + done.stderr
