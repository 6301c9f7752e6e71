"""Roots, the length of a vector and the error function of float64 numbers."""

from __future__ import annotations

import math

from glueball.mathematics.algebra import (
    INFINITY,
    Algebra,
    Number,
    absolute,
    copy_sign,
    polynomial,
    power_of_two,
    two_product,
    two_sum,
)
from glueball.mathematics.exponential import exp

_TWO_OVER_ROOT_PI = (1.1283791670955126, 1.533545961316588e-17)
_ERROR_FUNCTION = [
    2.0 / math.sqrt(math.pi) * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(1, 20)
]  # fmt: skip
# The best polynomial in t = (x - 2.5) / (x + 2.5) for exp(x * x) * erfc(x), x from 1 to 6: below 6e-19 off.
_SCALED_COMPLEMENT = (
    0.2108063640611436, -0.3717367339489734, 0.2517131932174494, -0.1250330523788247, 0.039922539075574935,
    -0.003993701166223159, -0.002642365963784453, 0.0008759154630794508, 0.00022838036598153182,
    -0.00012887741536369735, -3.4182063549802165e-05, 1.8617072081910595e-05, 7.5513017799442535e-06,
    -2.3140931150942177e-06, -1.79706306540687e-06, 1.2966926825389417e-07, 3.3657006736237105e-07,
)  # fmt: skip
_THIRD_OF_BIAS = 0x2A9F7893_00000000


def erf(algebra: Algebra, x: Number) -> Number:
    """The error function."""
    magnitude = absolute(algebra, x)
    square, lost = two_product(algebra, x, x)
    tail = algebra.fma(x * square, polynomial(algebra, square, _ERROR_FUNCTION), x * _TWO_OVER_ROOT_PI[1])
    near = algebra.fma(x, _TWO_OVER_ROOT_PI[0], tail)
    t = (magnitude - 2.5) / (magnitude + 2.5)
    scaled = exp(algebra, -square) * polynomial(algebra, t, _SCALED_COMPLEMENT)
    far = 1.0 - algebra.fma(scaled, -lost, scaled)
    far = algebra.select(magnitude > 6.0, 1.0, far)
    result = algebra.select(magnitude < 1.0, near, copy_sign(algebra, far, x))
    return algebra.select((x == 0.0) | (x != x), x, result)  # noqa: PLR0124 - true for NaN alone


def rsqrt(algebra: Algebra, x: Number) -> Number:
    """One over the square root, corrected once."""
    small, large = x < 2.0**-900, x > 2.0**900
    scaled = x * algebra.select(small, 2.0**200, algebra.select(large, 2.0**-200, 1.0))
    guess = 1.0 / algebra.square_root(scaled)
    square, lost = two_product(algebra, guess, guess)
    off = algebra.fma(-scaled, lost, algebra.fma(-scaled, square, 1.0))
    better = algebra.fma(0.5 * guess, off, guess)
    result = algebra.select((x > 0.0) & (x < INFINITY), better, guess)
    return result * algebra.select(small, 2.0**100, algebra.select(large, 2.0**-100, 1.0))


def cbrt(algebra: Algebra, x: Number) -> Number:
    """The cube root."""
    magnitude = absolute(algebra, x)
    small, large = magnitude < 2.0**-900, magnitude > 2.0**900
    scaled = magnitude * algebra.select(small, 2.0**300, algebra.select(large, 2.0**-300, 1.0))
    # A third of the bits is a root with five right bits.
    third = algebra.to_integer(algebra.to_number(algebra.bits(scaled)) * (1.0 / 3.0))
    root = algebra.from_bits(third + _THIRD_OF_BIAS)
    for _ in range(3):
        cube = root * root * root
        root = root * ((cube + 2.0 * scaled) / (2.0 * cube + scaled))
    square, lost = two_product(algebra, root, root)
    off = algebra.fma(root, lost, algebra.fma(root, square, -scaled))
    root = root - off / (3.0 * square)
    root = root * algebra.select(small, 2.0**-100, algebra.select(large, 2.0**100, 1.0))
    return algebra.select((magnitude > 0.0) & (magnitude < INFINITY), copy_sign(algebra, root, x), x)


def hypot(algebra: Algebra, x: Number, y: Number) -> Number:
    """The length of the vector (x, y)."""
    left, right = absolute(algebra, x), absolute(algebra, y)
    longer = left > right
    greatest, least = algebra.select(longer, left, right), algebra.select(longer, right, left)
    large, small = greatest > 2.0**500, greatest < 2.0**-400
    scale = algebra.select(large, 2.0**-600, algebra.select(small, 2.0**600, 1.0))
    back = algebra.select(large, 2.0**600, algebra.select(small, 2.0**-600, 1.0))
    first, first_low = two_product(algebra, greatest * scale, greatest * scale)
    second, second_low = two_product(algebra, least * scale, least * scale)
    total, lost = two_sum(first, second)
    root = algebra.square_root(total)
    off = algebra.fma(-root, root, total) + (lost + first_low + second_low)
    result = algebra.select(total > 0.0, root + off / (2.0 * root), 0.0) * back
    result = algebra.select((left == left) & (right == right), result, left + right)  # noqa: PLR0124
    return algebra.select((left == INFINITY) | (right == INFINITY), INFINITY, result)


def ldexp(algebra: Algebra, x: Number, y: Number) -> Number:
    """`x * 2**y` for whole y, rounded once: only the last of three factors can make the product inexact."""
    exponent = algebra.to_integer(y)
    factors = []
    for _ in range(2):
        high = algebra.select(exponent > 1000, 1000 + 0 * exponent, exponent)
        part = algebra.select(exponent < -1000, -1000 + 0 * exponent, high)
        factors.append(power_of_two(algebra, part))
        exponent = exponent - part
    high = algebra.select(exponent > 200, 200 + 0 * exponent, exponent)
    last = algebra.select(exponent < -200, -200 + 0 * exponent, high)
    return x * power_of_two(algebra, last) * factors[1] * factors[0]
