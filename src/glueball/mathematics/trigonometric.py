"""Sines and their kin of float64 numbers, for arguments of any size, and the inverse tangent."""

from __future__ import annotations

import math
from collections.abc import Sequence

from glueball.mathematics.algebra import (
    INFINITY,
    Algebra,
    Number,
    absolute,
    copy_sign,
    polynomial,
    two_product,
    two_sum,
)

HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
TWO_OVER_PI = 0.6366197723675814
LARGE = float(1 << 20)
"""From here on the argument is reduced by multiplication with as many bits of 2 / pi as it needs."""

_BITS_OF_TWO_OVER_PI = (
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d"
)
_WORDS = 21
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(1, 9)]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(2, 9)]
# The best polynomial for (atan(sqrt(z)) / sqrt(z) - 1) / z up to z = 0.1718: below 2e-19 off.
_INVERSE_TANGENT = (
    -0.3333333333333333, 0.199999999999998, -0.14285714285659326, 0.11111111105106705, -0.09090908751076636,
    0.0769229630497447, -0.06666423628069258, 0.058789145444006215, -0.052303478730160745, 0.04551108126325172,
    -0.034558092551413795, 0.01627194475162406,
)  # fmt: skip
_TANGENT_OF_EIGHTH = 0.41421356237309503


def _words_of_two_over_pi() -> list[int]:
    """The binary digits after the point in words of 64 bits, read as signed, a word of zeros before them."""
    digits = "0" * 16 + _BITS_OF_TWO_OVER_PI
    words = [int(digits[16 * index : 16 * index + 16], 16) for index in range(_WORDS)]
    return [word - (1 << 64) if word >> 63 else word for word in words]


def _reduce_small(algebra: Algebra, x: Number) -> Sequence[Number]:
    """Quadrant, and what is left as a sum of two numbers, for |x| up to LARGE."""
    whole = algebra.round_even(x * TWO_OVER_PI)
    # Exact: both are multiples of the last bit of pi / 2, and close to one another.
    first = algebra.fma(whole, -HALF_PI[0], x)
    product, lost = two_product(algebra, whole, HALF_PI[1])
    high, low = two_sum(first, -product)
    return algebra.to_integer(whole), high, algebra.fma(whole, -HALF_PI[2], low - lost)


def _reduce_large(algebra: Algebra, x: Number) -> Sequence[Number]:
    """The same for larger |x|: the fraction of x * 2 / pi from the 192 bits of 2 / pi that matter."""
    bits = algebra.bits(x)
    exponent = algebra.shift_logical(bits, 52) & 0x7FF
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    # Bits of weight four and more do not count; the first that does stands at this place.
    place = exponent - (1075 - 62)
    index, shift = algebra.shift_logical(place, 6), place & 63
    words: list[Number] = list(_words_of_two_over_pi())
    zero = 0 * index
    for bit in (4, 3, 2, 1, 0):
        step = 1 << bit
        chosen = (index & step) != 0
        # The four words from the chosen one on are wanted in the end.
        count = min(len(words), 3 + step)
        words = [
            algebra.select(chosen, words[k + step] + zero, words[k] + zero) if k + step < len(words) else words[k]
            for k in range(count)
        ]
    window = [
        (words[k] << shift) | algebra.shift_logical(algebra.shift_logical(words[k + 1], 1), 63 - shift)
        for k in range(3)
    ]
    low = mantissa * window[1]
    middle = algebra.high_product(mantissa, window[2])
    fraction = low + middle
    carry = algebra.select(algebra.below_unsigned(fraction, low), 1 + 0 * low, 0 * low)
    top = algebra.high_product(mantissa, window[1]) + mantissa * window[0] + carry
    return _centered(algebra, x, top, fraction)


def _centered(algebra: Algebra, x: Number, top: Number, fraction: Number) -> Sequence[Number]:
    """From two bits of quadrant and 126 of fraction to the nearest quadrant and what is left of x."""
    high, low = (top << 2) | algebra.shift_logical(fraction, 62), fraction << 2
    below = high < 0
    quadrant = algebra.shift_logical(top, 62) + algebra.select(below, 1 + 0 * top, 0 * top)
    negated = ~high + algebra.select(low == 0, 1 + 0 * low, 0 * low)
    high, low = algebra.select(below, negated, high), algebra.select(below, -low, low)
    first = algebra.to_number(algebra.shift_logical(high, 11)) * 2.0**-53
    second = algebra.to_number(((high & 0x7FF) << 42) | algebra.shift_logical(low, 22)) * 2.0**-106
    third = algebra.to_number(low & ((1 << 22) - 1)) * 2.0**-128
    turns, lost = two_sum(first, second)
    lost = lost + third
    result, rest = two_product(algebra, turns, HALF_PI[0])
    rest = algebra.fma(turns, HALF_PI[1], algebra.fma(lost, HALF_PI[0], rest))
    flips = below ^ (algebra.bits(x) < 0)
    result, rest = algebra.select(flips, -result, result), algebra.select(flips, -rest, rest)
    return algebra.select(x < 0.0, -quadrant, quadrant), result, rest


def _reduce(algebra: Algebra, x: Number) -> Sequence[Number]:
    """Quadrant (an integer, modulo 4) and the rest of x, from -pi/4 to pi/4, as a sum of two numbers."""
    large = (absolute(algebra, x) > LARGE) & (absolute(algebra, x) < INFINITY)
    return algebra.either(large, lambda: _reduce_large(algebra, x), lambda: _reduce_small(algebra, x))


def _sine(algebra: Algebra, x: Number, low: Number) -> Number:
    z = x * x
    series = polynomial(algebra, z, _SINE)
    return x + algebra.fma(x * z, series, algebra.fma(-0.5 * z, low, low))


def _cosine(algebra: Algebra, x: Number, low: Number) -> Number:
    z = x * x
    half = 0.5 * z
    near = 1.0 - half
    lost = (1.0 - near) - half
    return near + (lost + algebra.fma(z * z, polynomial(algebra, z, _COSINE), -x * low))


def _by_quadrant(algebra: Algebra, quadrant: Number, x: Number, low: Number) -> Number:
    """The sine of the angle in a quadrant."""
    value = algebra.select((quadrant & 1) != 0, _cosine(algebra, x, low), _sine(algebra, x, low))
    return algebra.select((quadrant & 2) != 0, -value, value)


def sin(algebra: Algebra, x: Number) -> Number:
    """The sine of an angle in radians."""
    result = _by_quadrant(algebra, *_reduce(algebra, x))
    return algebra.select(x == 0.0, x, result)


def cos(algebra: Algebra, x: Number) -> Number:
    """The cosine of an angle in radians."""
    quadrant, high, low = _reduce(algebra, x)
    return _by_quadrant(algebra, quadrant + 1, high, low)


def tan(algebra: Algebra, x: Number) -> Number:
    """The tangent of an angle in radians."""
    quadrant, high, low = _reduce(algebra, x)
    result = _by_quadrant(algebra, quadrant, high, low) / _by_quadrant(algebra, quadrant + 1, high, low)
    return algebra.select(x == 0.0, x, result)


def atan2(algebra: Algebra, y: Number, x: Number) -> Number:
    """The angle of the point (x, y), from -pi to pi."""
    nan = (x != x) | (y != y)  # noqa: PLR0124 - true for NaN alone
    tall, wide = absolute(algebra, y), absolute(algebra, x)
    both = (tall == INFINITY) & (wide == INFINITY)
    tall, wide = algebra.select(both, 1.0, tall), algebra.select(both, 1.0, wide)
    steep = tall > wide
    least, greatest = algebra.select(steep, wide, tall), algebra.select(steep, tall, wide)
    scale = algebra.select(greatest > 2.0**1000, 0.25, algebra.select(greatest < 2.0**-900, 2.0**100, 1.0))
    least, greatest = least * scale, greatest * scale
    near = (least > _TANGENT_OF_EIGHTH * greatest) & (greatest < INFINITY)
    top = algebra.select(near, least - greatest, least)
    bottom = algebra.select(near, least + greatest, greatest)
    ratio = algebra.select(greatest == 0.0, 0.0, top / bottom)
    z = ratio * ratio
    bend = ratio * z * polynomial(algebra, z, _INVERSE_TANGENT)
    angle, low = two_sum(algebra.select(near, 0.5 * HALF_PI[0], 0.0), ratio)
    low = low + bend + algebra.select(near, 0.5 * HALF_PI[1], 0.0)
    for turned, base in ((steep, 1.0), (algebra.bits(x) < 0, 2.0)):
        other, lost = two_sum(base * HALF_PI[0], -angle)
        lost = lost + (base * HALF_PI[1] - low)
        angle, low = algebra.select(turned, other, angle), algebra.select(turned, lost, low)
    return algebra.select(nan, x + y, copy_sign(algebra, angle + low, y))


def atan(algebra: Algebra, x: Number) -> Number:
    """The angle whose tangent is x, from -pi/2 to pi/2."""
    return atan2(algebra, x, 1.0 + 0.0 * algebra.select(absolute(algebra, x) < INFINITY, x, 0.0))
