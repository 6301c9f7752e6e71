"""Machine code: made by the assembler that is there, kept in the disk cache."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glueball.drivers.cuda import cuda_available, cuda_driver
from glueball.runtime.cache import disk_cache
from glueball.runtime.devices import device_target
from glueball.targets import Target

if TYPE_CHECKING:
    from glueball.codegen import Binary


@dataclass(frozen=True, slots=True)
class MachineCode:
    """What a device loads, and what is known of it.

    `registers` and `spilled_bytes` are per thread, `None` where the assembler did not tell; `shared_bytes` and
    `warps`, those of workers among them, per block, as are `global_scratch_bytes`, which a launch provides.
    """

    assembly: str
    binary: bytes
    registers: int | None
    spilled_bytes: int | None
    shared_bytes: int
    warps: int
    global_scratch_bytes: int = 0

    def store(self, key: str, about: Mapping[str, Any] | None = None) -> None:
        """Puts the code into the disk cache; `about` is for people who look at it."""
        values = {
            "registers": self.registers,
            "spilled_bytes": self.spilled_bytes,
            "shared_bytes": self.shared_bytes,
            "warps": self.warps,
            "global_scratch_bytes": self.global_scratch_bytes,
        }
        disk_cache().store(key, values, {"binary": self.binary, "assembly": self.assembly.encode()}, about)

    @staticmethod
    def load(key: str) -> MachineCode | None:
        """The code that the disk cache has for a key."""
        entry = disk_cache().load(key)
        match entry and (entry.values, entry.payloads):
            case (
                {
                    "registers": int() | None as registers,
                    "spilled_bytes": int() | None as spilled,
                    "shared_bytes": int(shared),
                    "warps": int(warps),
                    "global_scratch_bytes": int(scratch),
                },
                {"binary": binary, "assembly": assembly},
            ) if shared >= 0 and warps > 0 and scratch >= 0:
                text = assembly.decode(errors="replace")
                return MachineCode(text, binary, registers, spilled, shared, warps, scratch)
        return None


def assembler(target: Target) -> str:
    """The assembler for a target and its version, such as `nvidia-nvjitlink 13.3.33`; empty where there is none.

    The driver's own makes code for its device only.
    """
    if target.family != "nvidia":
        return ""
    found = _installed()
    if "nvidia-nvjitlink" in found and "cuda-bindings" in found:
        return f"nvidia-nvjitlink {found['nvidia-nvjitlink']}"
    if cuda_available().ok and device_target(cuda_driver().current_device()) is target:
        major, minor = cuda_driver().driver_version()
        return f"driver {major}.{minor}"
    return ""


@functools.cache
def _installed() -> dict[str, str]:
    from glueball import codegen

    return codegen.assembler_versions()


def assemble(assembly: str, target: Target) -> Binary:
    """The binary of an assembly text; `CodeGenerationError` says what refused it or is missing."""
    from glueball import codegen

    linker = _driver_linker if assembler(target).startswith("driver") else None
    return codegen.assemble(assembly, target, linker=linker)


def _driver_linker(assembly: str, target: Target) -> tuple[bytes, str]:
    driver = cuda_driver()
    return driver.link(assembly, target.name, driver.current_device())
