"""The names of the vendors' device libraries, elementwise on float32 and float64 (integers where it says so).

These are functions of glueball's own: of float32 within 0.51 units in the last place, of float64 within the bounds of
`glueball.mathematics.FUNCTIONS`, and equal on every executor. `fast_*` are the hardware's approximations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from glueball.language import functions
from glueball.language.arithmetic import compare
from glueball.language.broadcasting import as_type, broadcast_all
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.conversion import bitcast, convert
from glueball.language.functions import checked_operand, combined_type, emit_binary
from glueball.language.names import UnavailableNameError
from glueball.language.tensor import tensor
from glueball.tile.types import dtype, float32, float64, int32, int64

FLOATS = (float32, float64)

abs = functions.abs
fma = functions.fma
floor = functions.floor
ceil = functions.ceil
erf = functions.erf


def _unary(name: str, meaning: str) -> Callable[..., tensor]:
    def function(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
        value = checked_operand(x, FLOATS, _builder)
        return _builder.emit("function", [value], value.type, function=name)

    return _documented(function, name, f"{meaning}, of float32 or float64.")


def _binary(name: str, meaning: str) -> Callable[..., tensor]:
    def function(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
        x, y = _unwrap_if_constexpr(x), _unwrap_if_constexpr(y)
        return emit_binary("function", x, y, _float_type([x, y]), _builder, function=name)

    return _documented(function, name, f"{meaning}, of float32 or float64.")


def _whole(opcode: str, name: str, meaning: str) -> Callable[..., tensor]:
    def function(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
        value = checked_operand(x, FLOATS, _builder)
        return _builder.emit(opcode, [value], value.type)

    return _documented(function, name, f"{meaning}, of float32 or float64.")


def _documented(function: Callable[..., tensor], name: str, sentence: str) -> Callable[..., tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{sentence}\n\n    Errors: `ValueError` for another element type.\n    "
    return builtin(function)


def _float_type(operands: list[Any]) -> dtype:
    element = combined_type(operands)
    functions.check_element(element, FLOATS)
    return element


exp = _unary("exp", "e to the power of `x`")
exp2 = _unary("exp2", "Two to the power of `x`")
exp10 = _unary("exp10", "Ten to the power of `x`")
expm1 = _unary("expm1", "`exp(x) - 1` without cancellation")
log = _unary("log", "The natural logarithm")
log2 = _unary("log2", "The logarithm in base 2")
log10 = _unary("log10", "The logarithm in base 10")
log1p = _unary("log1p", "`log(1 + x)` without cancellation")
sin = _unary("sin", "The sine of radians")
cos = _unary("cos", "The cosine of radians")
tan = _unary("tan", "The tangent of radians")
atan = _unary("atan", "The angle whose tangent is `x`")
sinh = _unary("sinh", "The hyperbolic sine")
cosh = _unary("cosh", "The hyperbolic cosine")
tanh = _unary("tanh", "The hyperbolic tangent")
cbrt = _unary("cbrt", "The cube root")
rsqrt = _unary("rsqrt", "One over the square root")
pow = _binary("pow", "`x` to the power of `y`")  # noqa: A001 - the library's name
atan2 = _binary("atan2", "The angle of the point (`y`, `x`), ordinate first")
hypot = _binary("hypot", "The length of the vector (`x`, `y`)")
sqrt = _whole("sqrt", "sqrt", "The correctly rounded square root")
trunc = _whole("round_to_zero", "trunc", "The whole part")
rint = _whole("round_even", "rint", "The nearest whole number, ties to even")
nearbyint = _whole("round_even", "nearbyint", "The nearest whole number, ties to even")


@builtin
def round(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:  # noqa: A001 - the library's name
    """The nearest whole number, ties away from zero, of float32 or float64.

    Errors: `ValueError` for another element type.
    """
    value = checked_operand(x, FLOATS, _builder)
    whole = _builder.emit("round_to_zero", [value], value.type)
    rest = functions.abs(_builder.emit("sub", [value, whole], value.type), _builder=_builder)
    far = compare("ge", rest, 0.5, _builder)
    assert isinstance(value.dtype, dtype)
    one = copysign(_builder.splat(_builder.constant(1.0, value.dtype), value.type), value, _builder=_builder)
    farther = _builder.emit("add", [whole, one], value.type)
    return copysign(_builder.emit("select", [far, farther, whole], value.type), value, _builder=_builder)


@builtin
def copysign(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x` with the sign bit of `y`, of float32 or float64.

    Errors: `ValueError` for another element type.
    """
    x, y = _unwrap_if_constexpr(x), _unwrap_if_constexpr(y)
    element = _float_type([x, y])
    integer = int32 if element == float32 else int64
    left, right = broadcast_all([as_type(x, element, _builder), as_type(y, element, _builder)], _builder)
    parts = []
    for value, mask in ((left, integer.get_int_max_value()), (right, integer.get_int_min_value())):
        bits = bitcast(value, integer, _builder)
        chosen = _builder.splat(_builder.constant(mask, integer), bits.type)
        parts.append(_builder.emit("and", [bits, chosen], bits.type))
    return bitcast(_builder.emit("or", parts, parts[0].type), element, _builder)


@builtin
def isnan(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """Whether `x`, float32 or float64, is a NaN, as int1.

    Errors: `ValueError` for another element type.
    """
    value = checked_operand(x, FLOATS, _builder)
    return compare("ne", value, value, _builder)


@builtin
def isinf(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """Whether `x`, float32 or float64, is an infinity, as int1.

    Errors: `ValueError` for another element type.
    """
    value = checked_operand(x, FLOATS, _builder)
    return compare("eq", functions.abs(value, _builder=_builder), float("inf"), _builder)


@builtin
def ldexp(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x * 2**y` rounded once, of float32 or float64 `x` and int32 `y`.

    Errors: `ValueError` for another element type.
    """
    value, exponent = checked_operand(x, FLOATS, _builder), checked_operand(y, (int32,), _builder)
    element = value.dtype
    wide = emit_binary("function", value, convert(exponent, float64, _builder), float64, _builder, function="ldexp")
    return convert(wide, element, _builder)


@builtin
def fast_expf(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`gl.exp` of float32, as the hardware approximates it.

    Errors: `ValueError` for another element type.
    """
    return functions.exp(checked_operand(x, (float32,), _builder), _builder=_builder)


@builtin
def fast_logf(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`gl.log` of float32, as the hardware approximates it.

    Errors: `ValueError` for another element type.
    """
    return functions.log(checked_operand(x, (float32,), _builder), _builder=_builder)


@builtin
def fast_dividef(x: Any, y: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x / y` of float32 within 2 units in the last place.

    Errors: `ValueError` for another element type.
    """
    left, right = (checked_operand(operand, (float32,), _builder) for operand in (x, y))
    return functions.fdiv(left, right, approx=True, _builder=_builder)


def __getattr__(name: str) -> NoReturn:
    raise UnavailableNameError(f"`libdevice.{name}` is not among glueball's own functions of that library")
