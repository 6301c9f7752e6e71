"""LLVM text to PTX or AMDGCN assembly: parse, check, select instructions.

No pass runs on the module: the thread IR shares and folds already, and none changed the machine code for the better.
"""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm

from glueball.codegen.family import family_of
from glueball.errors import CodeGenerationError
from glueball.targets import Target

COALESCING_LEVEL = 1
"""Below it LLVM copies registers from name to name where control flow joins. NVIDIA's assembler leaves many copies in
loops, takes those of accumulators for uses of them, and lets no product overlap another one then."""
COPIED = ("wgmma", " phi ")
"""What a module has where copies cost; without, a higher level takes LLVM longer and gives nothing."""
DRIVER_FUNCTIONS = ("vprintf", "__assertfail")
"""What the driver of an NVIDIA GPU adds to every program."""


@functools.cache
def _initialize() -> None:
    """Registers the targets with LLVM, once a process."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def _machine(target: Target, version: int, level: int) -> Any:
    _initialize()
    family = family_of(target)
    return llvm.Target.from_triple(family.triple).create_target_machine(
        cpu=target.name, features=family.features(version), opt=level
    )


@functools.cache
def _data_layout(target: Target) -> str:
    return str(_machine(target, family_of(target).version(target), 0).target_data)


def module_header(target: Target) -> str:
    """Data layout and triple, as they stand at the head of a module."""
    return f'target datalayout = "{_data_layout(target)}"\ntarget triple = "{family_of(target).triple}"\n'


def llvm_version() -> str:
    """LLVM's version as llvmlite carries it, such as `22.1.0`."""
    return ".".join(map(str, llvm.llvm_version_info))


def compile_module(text: str, target: Target, version: int) -> str:
    """Assembly text of a module.

    Errors: `CodeGenerationError` where LLVM cannot read the text, or where it calls what neither LLVM nor the module
    has. LLVM ends the process on an operation its target cannot select: see `isolation`.
    """
    context = llvm.create_context()
    try:
        module = llvm.parse_assembly(text, context=context)
        module.verify()
    except RuntimeError as error:
        raise CodeGenerationError(f"LLVM refused its input: {error}") from error
    _reject_unknown_functions(module)
    family = family_of(target)
    copied = family.assembly_kind == "ptx" and any(each in text for each in COPIED)
    level = COALESCING_LEVEL if copied else family.level
    return str(_machine(target, version, level).emit_assembly(module))


def _reject_unknown_functions(module: Any) -> None:
    """Intrinsics that LLVM knows have attributes of their own; a misspelled one would become an external call."""
    for function in module.functions:
        if function.name in DRIVER_FUNCTIONS:
            continue
        if function.is_declaration and not (function.name.startswith("llvm.") and any(function.attributes)):
            raise CodeGenerationError(f"{function.name!r} is no function that LLVM {llvm_version()} knows")
