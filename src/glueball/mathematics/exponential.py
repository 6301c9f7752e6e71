"""Exponentials, logarithms and powers of float64 numbers. Series are Taylor's after an exact reduction."""

from __future__ import annotations

import math

from glueball.mathematics.algebra import (
    INFINITY,
    NAN,
    Algebra,
    Number,
    absolute,
    copy_sign,
    polynomial,
    power_of_two,
    two_product,
    two_sum,
)

LOG2_E = 1.4426950408889634
LN2 = (0.6931471805599453, 2.3190468138462996e-17)
# The first part has 32 bits, so that its product with an exponent is exact.
LN2_SPLIT = (float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33"))
LN2_REST = float.fromhex("0x1.cc01f97b57a08p-87")
LN10 = (2.302585092994046, -2.1707562233822494e-16)
LOG10_2_SPLIT = (float.fromhex("0x1.3441350800000p-2"), float.fromhex("0x1.f79fef311f12bp-34"))
LOG2_E_PARTS = (LOG2_E, 2.0355273740931033e-17)
LOG10_E_PARTS = (0.4342944819032518, 1.098319650216765e-17)

_EXPONENTIAL = [1.0 / math.factorial(k) for k in range(2, 15)]
_LOGARITHM = [2.0 / (2 * k + 1) for k in range(1, 13)]
_SQUARE_ROOT_OF_HALF = 0x3FE6A09E667F3BCD
_LEAST_NORMAL = 2.0**-1022
_TWO_THIRDS = (2.0 / 3.0, float.fromhex("0x1.5555555555555p-55"))


def _small_exponential(algebra: Algebra, high: Number, low: Number) -> Number:
    """`exp(high + low) - 1` for |high| up to ln(2) / 2."""
    bend = high * high * polynomial(algebra, high, _EXPONENTIAL)
    return bend + algebra.fma(bend + high, low, low) + high


def _scaled(algebra: Algebra, x: Number, exponent: Number) -> Number:
    """`x * 2**exponent` rounded once, for `x` near 1 and exponents beyond those of float64 on either side."""
    half = exponent >> 1
    return x * power_of_two(algebra, half) * power_of_two(algebra, exponent - half)


def _exponential_of_sum(algebra: Algebra, high: Number, low: Number) -> Number:
    """`exp(high + low)`, `low` below the last bit of `high`."""
    whole = algebra.round_even(high * LOG2_E)
    exact = algebra.fma(whole, -LN2_SPLIT[0], high)
    reduced = algebra.fma(whole, -LN2_SPLIT[1], exact)
    product, lost = two_product(algebra, whole, LN2_SPLIT[1])
    rest = ((exact - reduced) - product) - lost + low
    value = 1.0 + _small_exponential(algebra, reduced, rest)
    result = _scaled(algebra, value, algebra.to_integer(whole))
    return algebra.select(high > 710.0, INFINITY, algebra.select(high < -746.0, 0.0, result))


def exp(algebra: Algebra, x: Number) -> Number:
    """e to the power of x."""
    return _exponential_of_sum(algebra, x, 0.0 * x)


def exp2(algebra: Algebra, x: Number) -> Number:
    """Two to the power of x."""
    whole = algebra.round_even(x)
    part = x - whole
    high, lost = two_product(algebra, part, LN2[0])
    value = 1.0 + _small_exponential(algebra, high, algebra.fma(part, LN2[1], lost))
    result = _scaled(algebra, value, algebra.to_integer(whole))
    return algebra.select(x > 1025.0, INFINITY, algebra.select(x < -1076.0, 0.0, result))


def exp10(algebra: Algebra, x: Number) -> Number:
    """Ten to the power of x."""
    high, lost = two_product(algebra, x, LN10[0])
    return _exponential_of_sum(algebra, high, algebra.fma(x, LN10[1], lost))


def expm1(algebra: Algebra, x: Number) -> Number:
    """`exp(x) - 1` without cancellation near zero."""
    whole = algebra.round_even(x * LOG2_E)
    exact = algebra.fma(whole, -LN2_SPLIT[0], x)
    reduced = algebra.fma(whole, -LN2_SPLIT[1], exact)
    product, lost = two_product(algebra, whole, LN2_SPLIT[1])
    small = _small_exponential(algebra, reduced, ((exact - reduced) - product) - lost)
    exponent = algebra.to_integer(whole)
    inside = algebra.select((exponent > -60) & (exponent < 60), exponent, 0 * exponent)
    scale = power_of_two(algebra, inside)
    near = algebra.fma(small, scale, scale - 1.0)
    far = algebra.select(x > 40.0, exp(algebra, x), -1.0)
    result = algebra.select(absolute(algebra, x) > 40.0, far, near)
    # An infinity and the sign of zero come from these.
    return algebra.select((x == 0.0) | (x != x), x, result)  # noqa: PLR0124 - true for NaN alone


def _split(algebra: Algebra, x: Number) -> tuple[Number, Number]:
    """A positive number as (mantissa from sqrt(1/2) to sqrt(2), exponent as a number)."""
    small = x < _LEAST_NORMAL
    bits = algebra.bits(algebra.select(small, x * 2.0**54, x))
    exponent = (bits - _SQUARE_ROOT_OF_HALF) >> 52
    mantissa = algebra.from_bits(bits - (exponent << 52))
    return mantissa, algebra.to_number(algebra.select(small, exponent - 54, exponent))


def _log_of_sum(algebra: Algebra, f: Number) -> tuple[Number, Number]:
    """`log(1 + f)` as a sum of two numbers, f from -0.3 to 0.42."""
    s = f / (2.0 + f)
    z = s * s
    half_square = 0.5 * f * f
    rest = s * (half_square + z * polynomial(algebra, z, _LOGARITHM))
    high, low = two_sum(f, -half_square)
    return high, low + algebra.fma(-0.5 * f, f, half_square) + rest


def _ends(algebra: Algebra, x: Number, result: Number) -> Number:
    """The logarithm where it is none: of zero, negative numbers, infinity and NaN."""
    result = algebra.select(x == 0.0, -INFINITY, result)
    return algebra.select(x < 0.0, NAN, algebra.select(x < INFINITY, result, x))


def log(algebra: Algebra, x: Number) -> Number:
    """The natural logarithm."""
    mantissa, exponent = _split(algebra, x)
    high, low = _log_of_sum(algebra, mantissa - 1.0)
    large, lost = two_sum(exponent * LN2_SPLIT[0], high)
    return _ends(algebra, x, large + (lost + algebra.fma(exponent, LN2_SPLIT[1], low)))


def _log_in_base(algebra: Algebra, x: Number, factor: tuple[float, float], power: tuple[float, float]) -> Number:
    """`log(x) * factor`, of which `power` is the value for 2, in two parts of which the first is short."""
    mantissa, exponent = _split(algebra, x)
    high, low = two_sum(*_log_of_sum(algebra, mantissa - 1.0))
    product, lost = two_product(algebra, high, factor[0])
    rest = lost + algebra.fma(high, factor[1], low * factor[0])
    large, also = two_sum(exponent * power[0], product)
    return _ends(algebra, x, large + (also + algebra.fma(exponent, power[1], rest)))


def log2(algebra: Algebra, x: Number) -> Number:
    """The logarithm in base 2."""
    return _log_in_base(algebra, x, LOG2_E_PARTS, (1.0, 0.0))


def log10(algebra: Algebra, x: Number) -> Number:
    """The logarithm in base 10."""
    return _log_in_base(algebra, x, LOG10_E_PARTS, LOG10_2_SPLIT)


def log1p(algebra: Algebra, x: Number) -> Number:
    """`log(1 + x)` without cancellation near zero."""
    near = (x > -0.29) & (x < 0.41)
    total, lost = two_sum(algebra.select(x < INFINITY, x, 1.0), 1.0)
    mantissa, exponent = _split(algebra, total)
    f = algebra.select(near, x, mantissa - 1.0)
    exponent = algebra.select(near, 0.0, exponent)
    high, low = _log_of_sum(algebra, f)
    large, also = two_sum(exponent * LN2_SPLIT[0], high)
    rest = algebra.fma(exponent, LN2_SPLIT[1], low + algebra.select(near, 0.0, lost / total))
    result = _ends(algebra, x + 1.0, large + (also + rest))
    return algebra.select(x == 0.0, x, result)


def _precise_log(algebra: Algebra, x: Number) -> tuple[Number, Number]:
    """The logarithm of a positive number as two numbers with more than 65 bits between them."""
    mantissa, exponent = _split(algebra, x)
    f = mantissa - 1.0
    denominator, lost = two_sum(2.0 + 0.0 * f, f)
    s = f / denominator
    s_low = algebra.fma(-s, lost, algebra.fma(-s, denominator, f)) / denominator
    z, z_low = two_product(algebra, s, s)
    z_low = algebra.fma(2.0 * s, s_low, z_low)
    cube, cube_low = two_product(algebra, s, z)
    cube_low = algebra.fma(s, z_low, algebra.fma(s_low, z, cube_low))
    third, third_low = two_product(algebra, cube, _TWO_THIRDS[0])
    third_low = algebra.fma(cube, _TWO_THIRDS[1], algebra.fma(cube_low, _TWO_THIRDS[0], third_low))
    fifth = cube * z * polynomial(algebra, z, _LOGARITHM[1:])
    high, low = two_sum(2.0 * s, third)
    low = low + (2.0 * s_low + third_low + fifth)
    middle, middle_low = two_product(algebra, exponent, LN2_SPLIT[1])
    first, first_low = two_sum(exponent * LN2_SPLIT[0], high)
    second, second_low = two_sum(first, middle)
    rest = first_low + second_low + (low + algebra.fma(exponent, LN2_REST, middle_low))
    return two_sum(second, rest)


def power(algebra: Algebra, x: Number, y: Number) -> Number:
    """x to the power of y, with the special cases of C's `pow`."""
    magnitude = absolute(algebra, x)
    high, low = _precise_log(algebra, magnitude)
    product, lost = two_product(algebra, y, high)
    result = _exponential_of_sum(algebra, product, algebra.fma(y, low, lost))
    size = absolute(algebra, y)
    grows = (magnitude > 1.0) == (y > 0.0)
    extreme = (magnitude == 0.0) | (magnitude == INFINITY) | (size > 2.0**70)
    result = algebra.select(extreme, algebra.select(grows, INFINITY, 0.0 * result), result)
    result = algebra.select(extreme & ~grows, 0.0, result)
    half = 0.5 * y
    whole = algebra.round_even(y) == y
    odd = whole & (algebra.round_even(half) != half)
    result = algebra.select(magnitude == 1.0, 1.0, result)
    result = copy_sign(algebra, result, algebra.select(odd, x, 1.0))
    result = algebra.select((x < 0.0) & ~whole & (magnitude < INFINITY), NAN, result)
    nan = (x != x) | (y != y)  # noqa: PLR0124 - true for NaN alone
    result = algebra.select(nan, NAN, result)
    return algebra.select((y == 0.0) | (x == 1.0), 1.0, result)


def tanh(algebra: Algebra, x: Number) -> Number:
    """The hyperbolic tangent."""
    magnitude = absolute(algebra, x)
    grown = expm1(algebra, 2.0 * magnitude)
    result = algebra.select(magnitude > 22.0, 1.0, grown / (grown + 2.0))
    return algebra.select(magnitude == magnitude, copy_sign(algebra, result, x), x)  # noqa: PLR0124


def sinh(algebra: Algebra, x: Number) -> Number:
    """The hyperbolic sine."""
    magnitude = absolute(algebra, x)
    grown = expm1(algebra, magnitude)
    near = 0.5 * (grown + grown / (grown + 1.0))
    half = exp(algebra, 0.5 * magnitude)
    return copy_sign(algebra, algebra.select(magnitude > 40.0, 0.5 * half * half, near), x)


def cosh(algebra: Algebra, x: Number) -> Number:
    """The hyperbolic cosine."""
    magnitude = absolute(algebra, x)
    grown = exp(algebra, magnitude)
    half = exp(algebra, 0.5 * magnitude)
    return algebra.select(magnitude > 40.0, 0.5 * half * half, 0.5 * grown + 0.5 / grown)
