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
    from glueball import errors, knobs, language, targets
    from glueball.language.aggregate import aggregate
    from glueball.language.function import ConstexprFunction, constexpr_function, must_use_result
    from glueball.runtime.compile_only import compile_only
    from glueball.runtime.host_functions import cdiv, next_power_of_2
    from glueball.runtime.jit import JITFunction, jit
    from glueball.runtime.kernel import CompiledKernel
    from glueball.runtime.specialization import ArgumentSpec

__version__ = "0.1.0"

_HOMES = {
    "jit": "glueball.runtime.jit",
    "JITFunction": "glueball.runtime.jit",
    "compile_only": "glueball.runtime.compile_only",
    "ArgumentSpec": "glueball.runtime.specialization",
    "CompiledKernel": "glueball.runtime.kernel",
    "cdiv": "glueball.runtime.host_functions",
    "next_power_of_2": "glueball.runtime.host_functions",
    "constexpr_function": "glueball.language.function",
    "aggregate": "glueball.language.aggregate",
    "must_use_result": "glueball.language.function",
    "ConstexprFunction": "glueball.language.function",
}
_MODULES = ("errors", "knobs", "language", "targets")
_NOT_YET = (
    "Config", "amd", "autotune", "heuristics", "nvidia", "set_allocator", "testing",
    "tools",
)  # fmt: skip

__all__ = [
    # kernels
    "CompiledKernel", "JITFunction", "jit", "compile_only", "ArgumentSpec",
    # records, and functions whose result must be used
    "aggregate", "must_use_result",
    # compile-time functions
    "ConstexprFunction", "constexpr_function", "cdiv", "next_power_of_2",
    # modules
    "errors", "knobs", "language", "targets",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"glueball.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name in _NOT_YET:
        raise AttributeError(f"`glueball.{name}` is not there yet in this version of glueball")
    raise AttributeError(f"module 'glueball' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
