"""Functions of numbers, elementwise. Operands are tensors or Python numbers; shapes and layouts as for arithmetic.

Of float32, `exp`, `exp2`, `log`, `log2`, `sin`, `cos`, `sqrt` and `rsqrt` are what the hardware approximates, for
speed; the same names in `gl.extra.libdevice` are within 0.51 units in the last place, and equal on every executor. Of
float64 all are functions of glueball's own, equal on every executor.
"""

from __future__ import annotations

from typing import Any

from glueball.language.arithmetic import PropagateNan, maximum, minimum
from glueball.language.broadcasting import as_type, broadcast_all, promoted_type, to_operand
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.promotion import literal_type, promote
from glueball.language.tensor import tensor
from glueball.tile.types import ScalarType, dtype, float32, float64, int32, int64, pointer_type, uint32, uint64

APPROXIMATED = ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt")


def checked_operand(x: Any, allowed: tuple[dtype, ...], builder: KernelBuilder) -> tensor:
    """An operand of one of the allowed element types; `ValueError` otherwise."""
    value = to_operand(x, builder)
    check_element(value.dtype, allowed)
    return value


def check_element(element: ScalarType, allowed: tuple[dtype, ...]) -> None:
    """Check an element type; `ValueError` where it is none of the allowed ones."""
    if element not in allowed:
        names = ", ".join(f"'{kind}'" for kind in allowed)
        raise ValueError(f"Expected dtype [{names}] but got {element}; convert with `.to(dtype)`")


def _of_float(name: str, x: Any, builder: KernelBuilder) -> tensor:
    """A function of float32, approximate if it is one of those, or of float64."""
    value = checked_operand(x, (float32, float64), builder)
    approximate = name in APPROXIMATED and value.dtype == float32
    if name == "sqrt" and not approximate:
        return builder.emit("sqrt", [value], value.type)
    return builder.emit("approximate" if approximate else "function", [value], value.type, function=name)


@builtin
def exp(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """e to the power of `x`, float32 (relative error up to 2^-22 + 2^-23 abs(x)) or float64 (1 unit in the last place).

    Errors: `ValueError` for another element type.
    """
    return _of_float("exp", x, _builder)


@builtin
def exp2(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """Two to the power of `x`, float32 (relative error up to 2^-22) or float64 (1 unit in the last place).

    Errors: `ValueError` for another element type.
    """
    return _of_float("exp2", x, _builder)


@builtin
def log(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The natural logarithm, float32 (error as `log2`, times ln 2, plus one rounding) or float64.

    Errors: `ValueError` for another element type.
    """
    return _of_float("log", x, _builder)


@builtin
def log2(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The logarithm in base 2, float32 (absolute error up to 2^-22 for `x` from 1/2 to 2, else relative) or float64.

    Errors: `ValueError` for another element type.
    """
    return _of_float("log2", x, _builder)


@builtin
def sin(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The sine of radians, float32 (absolute error up to 2^-20 from -2 pi to 2 pi, more beyond) or float64.

    Errors: `ValueError` for another element type.
    """
    return _of_float("sin", x, _builder)


@builtin
def cos(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The cosine of radians, float32 (absolute error up to 2^-20 from -2 pi to 2 pi, more beyond) or float64.

    Errors: `ValueError` for another element type.
    """
    return _of_float("cos", x, _builder)


@builtin
def sqrt(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The square root, float32 (relative error up to 2^-22) or float64 (correctly rounded).

    Errors: `ValueError` for another element type.
    """
    return _of_float("sqrt", x, _builder)


@builtin
def rsqrt(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """One over the square root, float32 (relative error up to 2^-22) or float64 (1 unit in the last place).

    Errors: `ValueError` for another element type.
    """
    return _of_float("rsqrt", x, _builder)


@builtin
def erf(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The error function, float32 (0.51 units in the last place) or float64 (1.5).

    Errors: `ValueError` for another element type.
    """
    return _of_float("erf", x, _builder)


@builtin
def floor(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The greatest whole number that is not above, float32 or float64.

    Errors: `ValueError` for another element type.
    """
    value = checked_operand(x, (float32, float64), _builder)
    return _builder.emit("floor", [value], value.type)


@builtin
def ceil(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The least whole number that is not below, float32 or float64.

    Errors: `ValueError` for another element type.
    """
    value = checked_operand(x, (float32, float64), _builder)
    return _builder.emit("ceil", [value], value.type)


@builtin
def sqrt_rn(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The square root of float32, rounded to nearest even.

    Errors: `ValueError` for another element type.
    """
    value = checked_operand(x, (float32,), _builder)
    return _builder.emit("sqrt", [value], value.type)


def emit_binary(opcode: str, x: Any, y: Any, element: dtype, builder: KernelBuilder, **attributes: Any) -> tensor:
    """An operation on two operands brought to one element type and shape."""
    left, right = broadcast_all([as_type(x, element, builder), as_type(y, element, builder)], builder)
    return builder.emit(opcode, [left, right], left.type, **attributes)


def _promoted(x: Any, y: Any, *, dividing: bool = False) -> tuple[Any, Any, dtype]:
    x, y = _unwrap_if_constexpr(x), _unwrap_if_constexpr(y)
    return x, y, promoted_type(x, y, dividing=dividing)


@builtin
def div_rn(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x / y` of float32, rounded to nearest even.

    Errors: `ValueError` for another element type.
    """
    x, y, element = _promoted(x, y)
    check_element(element, (float32,))
    return emit_binary("div", x, y, element, _builder)


@builtin
def fdiv(
    x: Any,
    y: Any,
    ieee_rounding: bool | constexpr = False,
    approx: bool | constexpr = False,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> tensor:
    """`x / y` of floats in float32 or float64, rounded to nearest even.

    With `approx=True` it is of float32 and within 2 units in the last place.

    Errors: `ValueError` for both flags and for `approx` of anything but float32; `TypeError` for two integers.
    """
    x, y, element = _promoted(x, y, dividing=True)
    exact, fast = (bool(_unwrap_if_constexpr(flag)) for flag in (ieee_rounding, approx))
    if not element.is_floating():
        raise TypeError(f"fdiv divides floats, not {element}; use `/`")
    if exact and fast:
        raise ValueError("fdiv: ieee_rounding and approx exclude one another")
    if fast:
        if element != float32:
            raise ValueError(f"fdiv: approx is for float32, not {element}")
        return emit_binary("approximate", x, y, element, _builder, function="divide")
    return emit_binary("div", x, y, element, _builder)


def combined_type(operands: list[Any]) -> dtype:
    """The element type of several operands: the tensors' first, then each number by its kind."""
    tensors = [operand for operand in operands if isinstance(operand, tensor)]
    numbers = [operand for operand in operands if not isinstance(operand, tensor)]
    element: ScalarType | None = None
    for value in tensors:
        element = value.dtype if element is None else promote(element, value.dtype)
    for number in numbers:
        kind = literal_type(number)
        element = kind if element is None else promote(element, kind, right_literal=bool(tensors))
    assert element is not None
    if isinstance(element, pointer_type):
        raise TypeError(f"numbers are needed, not {element}")
    return element


@builtin
def fma(x: Any, y: Any, z: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x * y + z` of floats, rounded once.

    Errors: `TypeError` where no operand is a float.
    """
    operands = [_unwrap_if_constexpr(operand) for operand in (x, y, z)]
    element = combined_type(operands)
    if not element.is_floating():
        raise TypeError(f"fma is for floats, not {element}")
    values = broadcast_all([as_type(operand, element, _builder) for operand in operands], _builder)
    return _builder.emit("fma", values, values[0].type)


@builtin
def umulhi(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The upper half of the product of two 32-bit or 64-bit integers, as the type to which they promote.

    Errors: `ValueError` for other element types.
    """
    x, y, element = _promoted(x, y)
    check_element(element, (int32, int64, uint32, uint64))
    return emit_binary("umulhi", x, y, element, _builder)


@builtin
def abs(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The absolute value of any number; that of the least signed integer is itself.

    Errors: `ValueError` for pointers.
    """
    value = to_operand(x, _builder)
    if isinstance(value.dtype, pointer_type):
        raise ValueError(f"a pointer has no absolute value ({value.dtype})")
    if value.dtype.is_int() and not value.dtype.signed:
        return value
    return _builder.emit("absolute", [value], value.type)


@builtin
def clamp(
    x: Any,
    min: Any,
    max: Any,
    propagate_nan: PropagateNan | constexpr = PropagateNan.NONE,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> tensor:
    """`minimum(maximum(x, min), max)`, in the type to which all three promote.

    A NaN in `x` gives `min`, or NaN with `PropagateNan.ALL`. Undefined where `min` exceeds `max` or either is NaN.
    """
    operands = [_unwrap_if_constexpr(operand) for operand in (x, min, max)]
    element = combined_type(operands)
    value, low, high = (as_type(operand, element, _builder) for operand in operands)
    raised = maximum(value, low, propagate_nan, _builder=_builder)
    return minimum(raised, high, propagate_nan, _builder=_builder)
