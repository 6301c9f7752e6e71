"""Thread IR to machine code: LLVM text, PTX or AMDGCN assembly through LLVM, a cubin through an assembler."""

from __future__ import annotations

from dataclasses import dataclass

from glueball.codegen.assembler import Binary, assemble, assembler_versions
from glueball.codegen.family import family_of
from glueball.codegen.isolation import compile_isolated
from glueball.codegen.literals import symbol_of
from glueball.codegen.llvm import compile_module, llvm_version, module_header
from glueball.codegen.printer import print_module
from glueball.errors import TargetError
from glueball.targets import Target
from glueball.thread.ir import Function

__all__ = ["Binary", "GeneratedCode", "assemble", "assembler_versions", "generate", "llvm_version"]


@dataclass(frozen=True, slots=True)
class GeneratedCode:
    """LLVM text of a kernel and the assembly that LLVM made of it; `assembly_kind` is `ptx` or `amdgcn`.

    `symbol` is the kernel's name in both and in the binary: its own, spelled as assemblers take it.
    """

    llir: str
    assembly: str
    assembly_kind: str
    symbol: str


def generate(function: Function, target: Target, *, lines: bool = True, isolate: bool = False) -> GeneratedCode:
    """Assembly of a kernel for a target.

    `lines` adds source lines, `isolate` runs LLVM in a child process, so that its crash is an error here.
    Errors: `TargetError` at the author's line for an instruction that the target does not have, or where the kernel
    was lowered for another target; `CodeGenerationError` where LLVM refuses.
    """
    if function.target != target:
        raise TargetError(f"{function.name} was lowered for {function.target.name}, not for {target.name}")
    module = print_module(function, target, lines=lines)
    text = module_header(target) + module.text
    compiled = (compile_isolated if isolate else compile_module)(text, target, module.version)
    return GeneratedCode(text, compiled, family_of(target).assembly_kind, symbol_of(function.name))
