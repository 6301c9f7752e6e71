"""Compile-time checks, prints and loops."""

from __future__ import annotations

import sys
from typing import Any

from glueball.errors import CompileTimeAssertionFailure
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.tensor import tensor
from glueball.language.tuple import unwrap


@builtin
def static_print(
    *values: Any,
    sep: Any = " ",
    end: Any = "\n",
    file: Any = None,
    flush: Any = False,
    _builder: KernelBuilder = HIDDEN,
) -> None:
    """Print values while the kernel is compiled: compile-time values as they are, run-time ones by their type."""
    print(
        *map(unwrap, values),
        sep=_unwrap_if_constexpr(sep),
        end=_unwrap_if_constexpr(end),
        file=_unwrap_if_constexpr(file) or sys.stdout,
        flush=_unwrap_if_constexpr(flush),
    )


@builtin
def static_assert(condition: Any, message: Any = "", /, *, _builder: KernelBuilder = HIDDEN) -> None:
    """Refuse to compile the kernel unless a compile-time condition holds.

    Errors: `CompileTimeAssertionFailure` with the message; `NotImplementedError` for a run-time condition.
    """
    holds = unwrap(condition)
    if isinstance(holds, tensor):
        raise NotImplementedError("the condition of static_assert could not be determined at compile-time")
    if not holds:
        raise CompileTimeAssertionFailure(str(_unwrap_if_constexpr(message)) or "a static_assert failed")


class static_range:  # noqa: N801 - the name that kernel authors write
    """`for i in static_range(start, stop, step)`: unrolled at compile time, `i` being a compile-time integer.

    Takes what `range` takes. Errors: `AssertionError` for an argument that is no compile-time integer.
    """

    __slots__ = ("values",)

    def __init__(self, *bounds: Any) -> None:
        plain = []
        for bound in map(_unwrap_if_constexpr, bounds):
            assert isinstance(bound, int) and not isinstance(bound, bool), (
                f"static_range argument {bound!r} is not a constexpr integer; use range for a run-time loop"
            )
            plain.append(bound)
        self.values = range(*plain)

    def __iter__(self) -> Any:
        raise TypeError("static_range can only be iterated over by a `for` statement in a kernel")
