"""What arithmetic means, on NumPy arrays: written once, so that every executor gives the same bits.

Integers wrap. Floats narrower than 32 bits are computed in float32 and rounded once. Where only the NaN-ness of a
result is defined, its bits are not: any NaN equals any NaN.
"""

from __future__ import annotations

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


def minimum_number(x: Array, y: Array) -> Array:
    """The lesser float; the other one where one is a NaN; -0 is less than +0."""
    x, y = np.asarray(x), np.asarray(y)
    return np.where(x == y, np.where(np.signbit(x), x, y), np.fmin(x, y))


def maximum_number(x: Array, y: Array) -> Array:
    """The greater float; the other one where one is a NaN; +0 is greater than -0."""
    x, y = np.asarray(x), np.asarray(y)
    return np.where(x == y, np.where(np.signbit(x), y, x), np.fmax(x, y))


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
    if nearest.dtype in (FLOAT8_E5M2FNUZ, FLOAT8_E4M3FNUZ):
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
