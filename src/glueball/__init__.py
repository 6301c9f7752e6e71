"""glueball: a layout-explicit GPU kernel language with its own compiler and a CPU simulator::

    import glueball
    import glueball.language as gl

    @glueball.jit
    def copy(source, destination, count, BLOCK: gl.constexpr, layout: gl.constexpr):
        offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
        mask = offsets < count
        gl.store(destination + offsets, gl.load(source + offsets, mask=mask), mask=mask)

    copy[(glueball.cdiv(x.size, 1024),)](x, y, x.size, 1024, layout, num_warps=4)

Names load when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glueball import amd, backends, compiler, errors, knobs, language, nvidia, runtime, targets, testing, tools
    from glueball.errors import CompilationError, InterpreterError, OutOfResources, TritonError
    from glueball.gpu_target import GPUTarget
    from glueball.language.aggregate import aggregate
    from glueball.language.function import ConstexprFunction, constexpr_function, must_use_result
    from glueball.runtime.allocation import set_allocator
    from glueball.runtime.ast_source import GluonASTSource, compile  # noqa: A004 - the name that programs call
    from glueball.runtime.async_compile import AsyncCompileMode, FutureKernel
    from glueball.runtime.autotuning import Config, autotune, heuristics
    from glueball.runtime.compile_only import compile_only
    from glueball.runtime.host_functions import cdiv, next_power_of_2
    from glueball.runtime.jit import GluonJITFunction, JITFunction, jit
    from glueball.runtime.kernel import CompiledKernel
    from glueball.runtime.launchable import KernelInterface
    from glueball.runtime.specialization import ArgumentSpec
    from glueball.runtime.tensor_wrapper import MockTensor, TensorWrapper, reinterpret

__version__ = "0.1.0"

_HOMES = {
    "jit": "glueball.runtime.jit",
    "GluonJITFunction": "glueball.runtime.jit",
    "JITFunction": "glueball.runtime.jit",
    "autotune": "glueball.runtime.autotuning",
    "Config": "glueball.runtime.autotuning",
    "heuristics": "glueball.runtime.autotuning",
    "compile_only": "glueball.runtime.compile_only",
    "compile": "glueball.runtime.ast_source",
    "GluonASTSource": "glueball.runtime.ast_source",
    "GPUTarget": "glueball.gpu_target",
    "KernelInterface": "glueball.runtime.launchable",
    "AsyncCompileMode": "glueball.runtime.async_compile",
    "FutureKernel": "glueball.runtime.async_compile",
    "MockTensor": "glueball.runtime.tensor_wrapper",
    "TensorWrapper": "glueball.runtime.tensor_wrapper",
    "reinterpret": "glueball.runtime.tensor_wrapper",
    "set_allocator": "glueball.runtime.allocation",
    "CompilationError": "glueball.errors",
    "InterpreterError": "glueball.errors",
    "OutOfResources": "glueball.errors",
    "TritonError": "glueball.errors",
    "ArgumentSpec": "glueball.runtime.specialization",
    "CompiledKernel": "glueball.runtime.kernel",
    "cdiv": "glueball.runtime.host_functions",
    "next_power_of_2": "glueball.runtime.host_functions",
    "constexpr_function": "glueball.language.function",
    "aggregate": "glueball.language.aggregate",
    "must_use_result": "glueball.language.function",
    "ConstexprFunction": "glueball.language.function",
}
_MODULES = (
    "amd", "backends", "compiler", "errors", "knobs", "language", "nvidia", "runtime", "targets", "testing", "tools",
)  # fmt: skip

__all__ = [
    # kernels
    "CompiledKernel", "GluonJITFunction", "JITFunction", "KernelInterface", "jit", "compile_only", "ArgumentSpec",
    # compiling without a launch, and in the background
    "AsyncCompileMode", "FutureKernel", "GPUTarget", "GluonASTSource", "compile",
    # arguments
    "MockTensor", "TensorWrapper", "reinterpret", "set_allocator",
    # errors that programs catch
    "CompilationError", "InterpreterError", "OutOfResources", "TritonError",
    # choosing parameters
    "Config", "autotune", "heuristics",
    # records, and functions whose result must be used
    "aggregate", "must_use_result",
    # compile-time functions
    "ConstexprFunction", "constexpr_function", "cdiv", "next_power_of_2",
    # modules
    "amd", "backends", "compiler", "errors", "knobs", "language", "nvidia", "runtime", "targets", "testing", "tools",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"glueball.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'glueball' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
