"""What arithmetic means, on NumPy arrays: written once, so that every executor gives the same bits.

Integers wrap. Floats narrower than 32 bits are computed in float32 and rounded once. Where only the NaN-ness of a
result is defined, its bits are not: any NaN equals any NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT8_E5M2 = np.dtype(ml_dtypes.float8_e5m2)
FLOAT8_E5M2FNUZ = np.dtype(ml_dtypes.float8_e5m2fnuz)
FLOAT8_E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
FLOAT8_E4M3FNUZ = np.dtype(ml_dtypes.float8_e4m3fnuz)
FLOAT8 = (FLOAT8_E5M2, FLOAT8_E5M2FNUZ, FLOAT8_E4M3FN, FLOAT8_E4M3FNUZ)

_LARGEST = {
    FLOAT8_E5M2: np.float32(57344),
    FLOAT8_E5M2FNUZ: np.float32(57344),
    FLOAT8_E4M3FN: np.float32(448),
    FLOAT8_E4M3FNUZ: np.float32(240),
}
_NARROW = (np.dtype(np.float16), BFLOAT16, *FLOAT8)
_FLOAT8_WITHOUT_NEGATIVE_ZERO = (FLOAT8_E5M2FNUZ, FLOAT8_E4M3FNUZ)
_FACTOR_E4M3B15 = np.float32(2.0**112)
_LARGEST_E4M3B15 = 1.875
_quiet = np.errstate(all="ignore")


@_quiet
def divide(x: Array, y: Array) -> Array:
    """Integer quotient truncated toward zero. The least integer over -1 wraps; over zero every bit is set."""
    x, y = np.asarray(x), np.asarray(y)
    quotient = np.floor_divide(x, y)
    if quotient.dtype.kind == "i":
        inexact = quotient * y != x
        quotient = quotient + (inexact & ((x < 0) != (y < 0))).astype(quotient.dtype)
    return np.where(y == 0, np.invert(np.zeros_like(quotient)), quotient)


@_quiet
def remainder(x: Array, y: Array) -> Array:
    """Integer remainder with the sign of the dividend, as in C; over zero, the dividend."""
    x, y = np.asarray(x), np.asarray(y)
    return np.where(y == 0, x, np.fmod(x, y))


def shift_left(x: Array, amount: Array) -> Array:
    """`x << amount`; zero where the amount, read as unsigned, is the width or more."""
    x, safe, over = _shift_operands(x, amount)
    return np.where(over, np.zeros_like(x), np.left_shift(x, safe))


def shift_right(x: Array, amount: Array) -> Array:
    """`x >> amount`, copying the sign of signed integers; only sign bits where the amount is the width or more."""
    x, safe, over = _shift_operands(x, amount)
    return np.where(over, np.where(x < 0, np.invert(np.zeros_like(x)), np.zeros_like(x)), np.right_shift(x, safe))


def _shift_operands(x: Array, amount: Array) -> tuple[Array, Array, Array]:
    x, amount = np.asarray(x), np.asarray(amount)
    over = (amount < 0) | (amount >= x.dtype.itemsize * 8)
    return x, np.where(over, np.zeros_like(amount), amount).astype(x.dtype), over


@_quiet
def minimum_number(x: Array, y: Array) -> Array:
    """The lesser float; the other one where one is a NaN, also a signalling one; -0 is less than +0."""
    x, y = np.asarray(x), np.asarray(y)
    return np.where((x < y) | ((x == y) & np.signbit(x)) | np.isnan(y), x, y)


@_quiet
def maximum_number(x: Array, y: Array) -> Array:
    """The greater float; the other one where one is a NaN, also a signalling one; +0 is greater than -0."""
    x, y = np.asarray(x), np.asarray(y)
    return np.where((x > y) | ((x == y) & np.signbit(y)) | np.isnan(y), x, y)


@_quiet
def divide_float(x: Array, y: Array) -> Array:
    """Correctly rounded quotient of float32 or float64."""
    return np.asarray(np.divide(x, y))


@_quiet
def remainder_float(x: Array, y: Array) -> Array:
    """The exact `x - trunc(x / y) * y` of float32 or float64, with the sign of the dividend, as C's `fmod`."""
    return np.asarray(np.fmod(x, y))


def widen(x: Array) -> Array:
    """Floats narrower than 32 bits as float32, exactly; the others as they are."""
    x = np.asarray(x)
    return x.astype(np.float32) if x.dtype in _NARROW else x


def rounding_once(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of float32 or float64 arrays as one of every float type: narrow ones round to nearest even, once."""

    @_quiet
    def apply(*operands: Array) -> Array:
        result = np.asarray(function(*map(widen, operands)))
        return round_float(result, np.asarray(operands[0]).dtype)

    return apply


def choosing(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of float32 or float64 arrays that gives one of its operands, as one of every float type."""

    @_quiet
    def apply(*operands: Array) -> Array:
        return np.asarray(function(*map(widen, operands))).astype(np.asarray(operands[0]).dtype)

    return apply


@_quiet
def round_float(x: Array, dtype: np.dtype[Any], rounding: str = "nearest") -> Array:
    """Any float type to any other: exact, or rounded once.

    `rounding` is `nearest` (ties to even) or `zero`. Beyond the greatest finite value, float16 and wider become
    infinite (toward zero: the greatest finite value, unless the source is infinite); 8-bit floats saturate, infinities
    included, as PTX `cvt.satfinite` does.
    """
    if rounding not in ("nearest", "zero"):
        raise ValueError(f"rounding must be `nearest` or `zero`, not {rounding!r}")
    dtype = np.dtype(dtype)
    x = np.asarray(x)
    if x.dtype == dtype:
        return x
    wide = widen(x)
    if wide.dtype.itemsize <= dtype.itemsize:
        return wide.astype(dtype)
    if wide.dtype.itemsize == 8 and dtype.itemsize < 4:
        wide = _odd_float32(wide)
    inside = np.clip(wide, -_LARGEST[dtype], _LARGEST[dtype]) if dtype in _LARGEST else wide
    nearest = np.asarray(inside.astype(dtype))
    return nearest if rounding == "nearest" else _toward_zero(wide, nearest)


def _toward_zero(exact: Array, nearest: Array) -> Array:
    """One step down in magnitude where rounding went up: for every float type that is one less in the bits."""
    up = np.abs(nearest.astype(exact.dtype)) > np.abs(exact)
    bits = nearest.view(f"u{nearest.dtype.itemsize}")
    down: Array = bits - up.astype(bits.dtype)
    if nearest.dtype in _FLOAT8_WITHOUT_NEGATIVE_ZERO:
        # These have no negative zero: its bits are the NaN.
        down = np.where(up & (down == 0x80), bits.dtype.type(0), down)
    return down.view(nearest.dtype)


def _odd_float32(x: Array) -> Array:
    """float64 to float32 with inexact results made odd, so that rounding again to fewer bits rounds as if once."""
    truncated = _toward_zero(x, np.asarray(x.astype(np.float32)))
    inexact = (truncated.astype(np.float64) != x) & ~np.isnan(x)
    odd: Array = truncated.view(np.uint32) | inexact.astype(np.uint32)
    return odd.view(np.float32)


@_quiet
def float_to_integer(x: Array, dtype: np.dtype[Any]) -> Array:
    """Toward zero; a NaN gives 0, what lies outside the integer type gives its nearest end."""
    dtype = np.dtype(dtype)
    ends = np.iinfo(dtype)
    whole = np.trunc(np.asarray(x).astype(np.float64))
    above = whole >= float(int(ends.max) + 1)
    below = whole < float(ends.min)
    inside = np.where(above | below | np.isnan(whole), 0.0, whole).astype(dtype)
    return np.where(above, dtype.type(ends.max), np.where(below, dtype.type(ends.min), inside))


@_quiet
def integer_to_float(x: Array, dtype: np.dtype[Any]) -> Array:
    """Integers or booleans to any float type, rounded to nearest even once."""
    dtype = np.dtype(dtype)
    x = np.asarray(x)
    if dtype.itemsize >= 4:
        return x.astype(dtype)
    if x.dtype.itemsize == 8:
        # Beyond 2^53 float64 is not exact: fold the low 11 bits into one sticky bit, as rounding again needs it.
        low = x.dtype.type(0x7FF)
        folded = (x & ~low) | (((x & low) != 0).astype(x.dtype) << 11)
        large = (x >= 1 << 53) | ((x <= -(1 << 53)) if x.dtype.kind == "i" else np.zeros(x.shape, bool))
        x = np.where(large, folded, x)
    return round_float(x.astype(np.float64), dtype)


def decode_e4m3b15(codes: Array) -> Array:
    """Codes of the 8-bit float of 4 exponent bits and bias 15 as float32; every code is a finite number."""
    codes = np.asarray(codes).view(np.uint8).astype(np.uint32)
    magnitude = ((codes & 0x7F) << 20).view(np.float32) * _FACTOR_E4M3B15
    return np.where(codes & 0x80, -magnitude, magnitude)


@_quiet
def encode_e4m3b15(x: Array, rounding: str = "nearest") -> Array:
    """Any float type to codes of that float, rounded once; it saturates at 1.875, which is also what NaN gives."""
    wide = widen(x).astype(np.float64)
    magnitude = np.where(np.abs(wide) < _LARGEST_E4M3B15, np.abs(wide), _LARGEST_E4M3B15)
    exponent = np.where(magnitude == 0, -14, np.maximum(np.frexp(magnitude)[1] - 1, -14))
    steps = np.ldexp(magnitude, 3 - exponent)
    whole = np.rint(steps) if rounding == "nearest" else np.trunc(steps)
    # One step beyond the last mantissa is the first of the next exponent, also in the bits.
    codes = np.minimum((exponent + 14) * 8 + whole, 0x7F).astype(np.uint8)
    negative: Array = np.signbit(wide) & ~np.isnan(wide)
    return np.asarray(codes | np.where(negative, np.uint8(0x80), np.uint8(0)))


@_quiet
def fused_multiply_add(x: Array, y: Array, z: Array) -> Array:
    """`x * y + z` rounded once, of operands of one float type."""
    x, y, z = np.broadcast_arrays(x, y, z)
    if x.dtype == np.float64:
        return _fused_float64(x, y, z)
    wide = [widen(operand).astype(np.float64) for operand in (x, y, z)]
    return round_float(odd_sum(wide[0] * wide[1], wide[2]), x.dtype)


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """The rounded sum of two float64, and what rounding lost, exactly."""
    total = x + y
    of_y = total - x
    return total, (x - (total - of_y)) + (y - of_y)


def _two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """The rounded product of two float64, and what rounding lost, where nothing under- or overflows."""
    product = x * y
    parts = []
    for factor in (x, y):
        scaled = factor * 134217729.0
        high = scaled - (scaled - factor)
        parts.append((high, factor - high))
    (x_high, x_low), (y_high, y_low) = parts
    lost = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return product, lost


def odd_sum(x: Array, y: Array) -> Array:
    """The sum of two float64, made odd where it is inexact, so that rounding to fewer bits rounds as if once."""
    total, lost = _two_sum(x, y)
    bits = total.view(np.int64)
    even = (bits & 1) == 0
    inexact = (lost != 0) & np.isfinite(total) & even
    toward = np.where((lost > 0) == (total > 0), np.int64(1), np.int64(-1))
    return np.where(inexact, bits + toward, bits).view(np.float64)


_SAFE_LEAST, _SAFE_GREATEST = 2.0**-400, 2.0**400


def _fused_float64(x: Array, y: Array, z: Array) -> Array:
    """Boldo and Melquiond's algorithm where no step under- or overflows, whole numbers where one might."""
    safe = np.ones(x.shape, bool)
    for operand in (x, y, z):
        magnitude = np.abs(operand)
        safe &= ((magnitude > _SAFE_LEAST) & (magnitude < _SAFE_GREATEST)) | (operand == 0)
    high, low = _two_product(x, y)
    total, lost = _two_sum(z, low)
    first, second = _two_sum(high, total)
    result = np.asarray(first + odd_sum(lost, second))
    # Where a factor is zero or something is not finite, one rounding is all there is.
    plain = (x == 0) | (y == 0) | (z == 0) & safe | ~(np.isfinite(x) & np.isfinite(y) & np.isfinite(z))
    # An infinite addend is the result of any finite product, also of one that would overflow.
    addend_rules = np.isfinite(x) & np.isfinite(y) & ~np.isfinite(z)
    result = np.where(plain, np.where(addend_rules, z, x * y + z), result)
    rare = ~(safe | plain)
    if rare.any():
        exact = [_fused_exactly(*map(float, operands)) for operands in zip(x[rare], y[rare], z[rare], strict=True)]
        result[rare] = exact
    return result


def _fused_exactly(x: float, y: float, z: float) -> float:
    """`x * y + z` of finite numbers in rational arithmetic."""
    from fractions import Fraction

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return x * y + z
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def high_product(x: Array, y: Array) -> Array:
    """The upper half of the product of two 32-bit or 64-bit integers of one type."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.itemsize == 4:
        wide = np.dtype("int64" if x.dtype.kind == "i" else "uint64")
        return (x.astype(wide) * y.astype(wide) >> 32).astype(x.dtype)
    unsigned = _high_unsigned(x.view(np.uint64), y.view(np.uint64))
    if x.dtype.kind == "u":
        return unsigned
    zero = np.int64(0)
    return unsigned.view(np.int64) - np.where(x < 0, y, zero) - np.where(y < 0, x, zero)


def _high_unsigned(x: Array, y: Array) -> Array:
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x_high, x_low, y_high, y_low = x >> half, x & low, y >> half, y & low
    middle = x_high * y_low + (x_low * y_low >> half)
    other = x_low * y_high + (middle & low)
    return np.asarray(x_high * y_high + (middle >> half) + (other >> half))


def matrix_element(values: Array) -> Array:
    """What a matrix unit multiplies, as float64: floats of any type, or integers of 8 bits.

    Of float32 it sees what the type tf32 keeps: sign, exponent, and the upper 10 bits of the fraction.
    """
    values = np.asarray(values)
    if values.dtype == np.float32:
        values = (np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return values.astype(np.float64)


@_quiet
def matrix_product(left: Array, right: Array, total: Array, *, saturating: bool = False) -> Array:
    """`total + left @ right` of elements as `matrix_element` gives them, in the type of `total`.

    Floats are added up in float64 and rounded once, which is what a matrix unit gives where that is exact. Sums of
    integers are exact, and wrap or end at the least and the greatest one.
    """
    total = np.asarray(total)
    exact = np.matmul(left, right) + total.astype(np.float64)
    if total.dtype.kind != "i":
        return round_float(exact, total.dtype)
    if saturating:
        ends = np.iinfo(total.dtype)
        exact = np.clip(exact, ends.min, ends.max)
    return np.asarray(exact.astype(np.int64).astype(total.dtype))


def and_undefined(x: Any, x_undefined: Array | None, y: Any, y_undefined: Array | None) -> Array | None:
    """Where `x & y` is undefined, told where the operands are; `None` for nowhere. A zero decides on its own."""
    if x_undefined is None and y_undefined is None:
        return None
    first, second = (np.asarray(False if where is None else where) for where in (x_undefined, y_undefined))
    decided = (np.equal(x, 0) & ~first) | (np.equal(y, 0) & ~second)
    found = np.asarray((first | second) & ~decided)
    return found if found.any() else None


def or_undefined(x: Any, x_undefined: Array | None, y: Any, y_undefined: Array | None) -> Array | None:
    """The same of `x | y`, on which an operand decides whose bits are all set."""
    return and_undefined(np.invert(x), x_undefined, np.invert(y), y_undefined)
