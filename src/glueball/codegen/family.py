"""What differs between vendors when a kernel is printed: calling convention, attributes, shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from glueball.codegen.debug import Metadata
from glueball.codegen.literals import symbol_of
from glueball.codegen.partitions import register_limit
from glueball.errors import TargetError
from glueball.targets import Target
from glueball.thread.control import launched_warps
from glueball.thread.ir import Function, SharedAllocation

ARENA_ALIGNMENT = 1024
LEAST_PTX_VERSION = {80: 70, 90: 80, 100: 86, 120: 87}


@dataclass(frozen=True, slots=True)
class Family:
    """How kernels of one vendor look and how LLVM compiles them.

    `assembly_kind` names LLVM's output, `emission` how lines are told, `level` LLVM's level of code generation: PTX is
    optimised by its assembler (level 3 takes eight times as long for the same machine code), AMD's code by LLVM alone.
    `carries_words` says that a loop's narrow registers are better carried as words of 32 bits.
    """

    triple: str
    calling_convention: str
    assembly_kind: str
    emission: str
    level: int
    carries_words: bool = False

    def version(self, target: Target) -> int:
        """The least version of the assembly language that knows the target; 0 where it has no versions."""
        return 0

    def features(self, version: int) -> str:
        """LLVM's target features for a version of the assembly language."""
        return ""

    def attributes(self, function: Function) -> Iterator[str]:
        """Attributes of the kernel."""
        raise NotImplementedError

    def attachments(self, function: Function, metadata: Metadata) -> str:
        """Metadata attached to the kernel."""
        return ""

    def module_flags(self) -> Iterator[str]:
        """Module flags besides those of the debug information."""
        return iter(())

    def shared_globals(self, function: Function) -> Iterator[str]:
        """Module-level definitions of shared memory."""
        raise NotImplementedError

    def shared_base(self, allocation: SharedAllocation, name: str) -> str:
        """The instruction that puts an allocation's address into a register."""
        raise NotImplementedError

    def shared_offset(self, result: str, base: str, offset: str) -> str:
        """The instruction that adds a byte offset to an allocation's address."""
        raise NotImplementedError


class _Nvidia(Family):
    """PTX: one arena of dynamic shared memory, addressed by 32-bit numbers."""

    __slots__ = ()

    def version(self, target: Target) -> int:
        return LEAST_PTX_VERSION[target.generation]

    def features(self, version: int) -> str:
        return f"+ptx{version}"

    def attributes(self, function: Function) -> Iterator[str]:
        yield f'"nvvm.reqntid"="{launched_warps(function) * function.target.lanes}"'
        if function.num_ctas > 1:
            yield f'"nvvm.cluster_dim"="{function.num_ctas},1,1"'
        limit = register_limit(function) or function.options.get("maxnreg")
        if limit is not None:
            yield f'"nvvm.maxnreg"="{int(limit)}"'

    def shared_globals(self, function: Function) -> Iterator[str]:
        if function.allocations:
            yield f"@shared = external addrspace(3) global [0 x i8], align {ARENA_ALIGNMENT}"

    def shared_base(self, allocation: SharedAllocation, name: str) -> str:
        place = f"getelementptr (i8, ptr addrspace(3) @shared, i32 {allocation.offset})"
        return f"{name} = ptrtoint ptr addrspace(3) {place} to i32"

    def shared_offset(self, result: str, base: str, offset: str) -> str:
        return f"{result} = add i32 {base}, {offset}"


class _Amd(Family):
    """AMDGCN: one global in local memory per allocation, addressed by pointers."""

    __slots__ = ()

    def attributes(self, function: Function) -> Iterator[str]:
        threads = function.num_warps * function.target.lanes
        yield f'"amdgpu-flat-work-group-size"="{threads},{threads}"'
        yield '"uniform-work-group-size"="true"'
        if (waves := function.options.get("waves_per_eu")) is not None:
            yield f'"amdgpu-waves-per-eu"="{int(waves)}"'

    def attachments(self, function: Function, metadata: Metadata) -> str:
        size = metadata.add(f"!{{i32 {function.num_warps * function.target.lanes}, i32 1, i32 1}}")
        return f" !reqd_work_group_size {size}"

    def module_flags(self) -> Iterator[str]:
        yield '!{i32 1, !"amdhsa_code_object_version", i32 500}'

    def shared_globals(self, function: Function) -> Iterator[str]:
        for allocation in function.allocations.values():
            yield (
                f"@shared.{symbol_of(allocation.name)} = internal addrspace(3) global "
                f"[{allocation.bytes} x i8] poison, align {allocation.alignment}"
            )

    def shared_base(self, allocation: SharedAllocation, name: str) -> str:
        return f"{name} = getelementptr i8, ptr addrspace(3) @shared.{symbol_of(allocation.name)}, i32 0"

    def shared_offset(self, result: str, base: str, offset: str) -> str:
        return f"{result} = getelementptr i8, ptr addrspace(3) {base}, i32 {offset}"


_FAMILIES: dict[str, Family] = {
    "nvidia": _Nvidia("nvptx64-nvidia-cuda", "ptx_kernel", "ptx", "DebugDirectivesOnly", level=0, carries_words=True),
    "amd": _Amd("amdgcn-amd-amdhsa", "amdgpu_kernel", "amdgcn", "LineTablesOnly", level=1),
}


def family_of(target: Target) -> Family:
    """The family of a target; `TargetError` where there is no code generation for it."""
    try:
        return _FAMILIES[target.family]
    except KeyError:
        raise TargetError(f"there is no code generation for {target.name} (family {target.family!r})") from None
