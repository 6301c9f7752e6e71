"""Checks and prints, at compile time and while the kernel runs, and loops unrolled at compile time."""

from __future__ import annotations

import sys
from typing import Any

from glueball.errors import CompileTimeAssertionFailure
from glueball.language.arithmetic import compare
from glueball.language.broadcasting import broadcast_all, to_operand
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.conversion import convert, not_zero
from glueball.language.tensor import tensor
from glueball.language.tuple import unwrap
from glueball.tile.print_format import PrintFormat
from glueball.tile.types import ScalarType, dtype, float32


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
def device_print(
    prefix: str | constexpr,
    *args: Any,
    hex: bool | constexpr = False,  # noqa: A002 - the name that kernel authors write
    _builder: KernelBuilder = HIDDEN,
) -> None:
    """Print a line for each element of each value while the kernel runs: `pid (x, y, z) idx (i, j) prefix: value`.

    Python's `print` is the same. Without values it prints the prefix alone; with `hex` integers as such and floats as
    the C library's `%a`. The order of the lines is not defined. The reference executor prints each tile whole, as NumPy
    shows it, with the program and the line of the call.
    Errors: `AssertionError` for a prefix that is no printable ASCII text known at compile time; `TypeError` for what
    is no number.
    """
    text = _unwrap_if_constexpr(prefix)
    assert isinstance(text, str), f"device_print's prefix must be a compile-time string, not {text!r}"
    assert text.isascii() and (text.isprintable() or not text), f"device_print's prefix must be printable, not {text!r}"
    if not args:
        _builder.create("print", [], attributes={"format": PrintFormat(text)})
    for number, argument in enumerate(args):
        value = to_operand(argument, _builder)
        element, printed = value.dtype, str(value.dtype)
        if isinstance(element, dtype) and element.is_floating() and element.primitive_bitwidth < 32:
            value = convert(value, float32, _builder)
            element = float32
        layout = PrintFormat(
            text,
            _print_kind(element),
            element.primitive_bitwidth,
            (*value.extents,),
            number if len(args) > 1 else None,
            bool(_unwrap_if_constexpr(hex)),
            printed,
        )
        _builder.create("print", [value.handle], attributes={"format": layout})


def _print_kind(element: ScalarType) -> str:
    if not isinstance(element, dtype):
        return "pointer"
    if element.is_floating():
        return "float"
    return "signed" if element.signed else "unsigned"


@builtin
def device_assert(cond: Any, msg: str | constexpr = "", mask: Any = None, *, _builder: KernelBuilder = HIDDEN) -> None:
    """Stop the kernel with a message where a condition is false while it runs; only with the launch option `debug`.

    Python's `assert` is the same. Elements whose `mask` is false pass.
    Errors: `TypeError` for a message that is no compile-time string; `ValueError` for a mask that is not boolean.
    """
    if not _builder.debug:
        return
    message = _unwrap_if_constexpr(msg)
    if not isinstance(message, str):
        raise TypeError(f"the message of device_assert must be a compile-time string, not {message!r}")
    operands = [not_zero(to_operand(cond, _builder), _builder)]
    if _unwrap_if_constexpr(mask) is not None:
        chosen = to_operand(mask, _builder)
        if not chosen.dtype.is_bool():
            raise ValueError(f"the mask of device_assert must be boolean (int1), not {chosen.dtype}")
        operands.append(chosen)
    operands = broadcast_all(operands, _builder)
    _builder.create("assert", [operand.handle for operand in operands], attributes={"message": message})


@builtin
def expect_zero(x: tensor, mask: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x` itself; with the launch option `debug` the kernel stops where `mask` is true and `x` is not zero.

    Errors: `ValueError` for a mask that is not boolean.
    """
    value = to_operand(x, _builder)
    if _builder.debug:
        device_assert(compare("eq", value, 0, _builder), "expected zero", mask, _builder=_builder)
    return value


@builtin
def static_assert(condition: Any, message: Any = "", /, *, _builder: KernelBuilder = HIDDEN) -> None:
    """Refuse to compile the kernel unless a compile-time condition holds.

    Errors: `CompileTimeAssertionFailure` with the message; `NotImplementedError` for a run-time condition, and for one
    that is no bool.
    """
    holds = unwrap(condition)
    if isinstance(holds, tensor):
        raise NotImplementedError("the condition of static_assert could not be determined at compile-time")
    if not isinstance(holds, bool):
        raise NotImplementedError(
            f"the condition of static_assert could not be determined at compile-time: {holds!r} is no bool"
        )
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
