"""Compiling for a GPU that need not be there."""

from __future__ import annotations

from typing import Any

from glueball.gpu_target import GPUTarget
from glueball.runtime.devices import chosen_target
from glueball.runtime.jit import JITFunction
from glueball.runtime.kernel import CompiledKernel
from glueball.runtime.machine_code import assembler
from glueball.runtime.options import read_options
from glueball.runtime.parameters import ParameterRule, parse_type
from glueball.runtime.specialization import ArgumentSpec, specialize
from glueball.targets import Target
from glueball.tile.types import dtype, pointer_type


def compile_only(
    kernel: JITFunction, *arguments: Any, target: str | GPUTarget | Target | None = None, **keywords: Any
) -> CompiledKernel:
    """Compiles a kernel without launching it, for any target, whether or not such a GPU is there.

    An argument is what a launch would pass (an array, a number, a compile-time value) or describes it: `"*fp32"`,
    `"*fp32:16"` (the address is a multiple of 16), `"i32:16"`, a dtype, a pointer type or an `ArgumentSpec`. Keywords
    are parameters and launch options. `target` is a name such as `"sm_100a"`, or a `GPUTarget`; left out, that of the
    first device, else `sm_90a`.

    Code is generated, and assembled where an assembler for the target is there. Errors: as those of a launch before the
    kernel runs; `TargetError` for an unknown target.
    """
    if not isinstance(kernel, JITFunction):
        raise TypeError(f"a function decorated with @glueball.jit is needed, not {kernel!r}")
    chosen = chosen_target(target)
    options = read_options(kernel.__name__, keywords, frozenset(kernel.rules), kernel.debug)
    bound = kernel.bind(arguments, keywords)
    described = {name: _described(rule, bound[name]) for name, rule in kernel.rules.items()}
    executor = "gpu" if assembler(chosen) else "assembly"
    return kernel.compile(specialize(kernel.rules, described), options, chosen, executor)


def _described(rule: ParameterRule, value: Any) -> Any:
    """An argument, descriptions of run-time ones made into `ArgumentSpec`."""
    if rule.is_constexpr:
        return value
    if isinstance(value, dtype | pointer_type):
        return ArgumentSpec(value)
    if isinstance(value, str):
        text, separator, divisibility = value.partition(":")
        if separator and not divisibility.isdecimal():
            raise ValueError(
                f"parameter `{rule.name}`: {value!r} should end in a number after the colon, as '*fp32:16' does"
            )
        return ArgumentSpec(parse_type(text.strip()), int(divisibility) if separator else 1)
    return value
