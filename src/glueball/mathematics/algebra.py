"""What a mathematical function is written in, so that one text computes on arrays and makes instructions.

A number is a float64, an `integer` an int64, a condition a boolean: NumPy arrays or registers of one thread. Both have
Python's operators (`+ - *` and `/` rounded to nearest even, integers wrapping, `>>` copying the sign, comparisons,
`& | ~` of conditions); what Python has no operator for is a method of the algebra. Every operation is exact or rounded
once, the same on every executor, so a function of them gives equal bits everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from glueball import numerics

Number = Any


class Algebra(Protocol):
    """Operations on numbers; `select`, `bits` and the like without the fuss of types."""

    def fma(self, x: Number, y: Number, z: Number) -> Number:
        """`x * y + z` rounded once."""

    def select(self, condition: Number, then: Number, otherwise: Number) -> Number:
        """`then` where the condition holds, else `otherwise`; at least one of them is no Python number."""

    def bits(self, x: Number) -> Number:
        """A float64 as the int64 of its bits."""

    def from_bits(self, x: Number) -> Number:
        """An int64 as the float64 with those bits."""

    def to_integer(self, x: Number) -> Number:
        """A float64 to int64 toward zero; it saturates, NaN gives 0."""

    def to_number(self, x: Number) -> Number:
        """An int64 to float64, to nearest even."""

    def round_even(self, x: Number) -> Number:
        """The nearest whole number, ties to even."""

    def square_root(self, x: Number) -> Number:
        """The correctly rounded square root."""

    def high_product(self, x: Number, y: Number) -> Number:
        """The upper 64 bits of the product of two int64 read as unsigned."""

    def shift_logical(self, x: Number, amount: Number) -> Number:
        """An int64 shifted right as if unsigned."""

    def below_unsigned(self, x: Number, y: Number) -> Number:
        """Whether `x < y`, both read as unsigned."""

    def either(
        self, condition: Number, rare: Callable[[], Sequence[Number]], usual: Callable[[], Sequence[Number]]
    ) -> Sequence[Number]:
        """What `rare` computes where the condition holds, else what `usual` does; a GPU skips what no thread needs."""


class ArrayAlgebra:
    """The algebra of NumPy arrays."""

    fma = staticmethod(numerics.fused_multiply_add)
    round_even = staticmethod(np.rint)
    square_root = staticmethod(np.sqrt)

    @staticmethod
    def select(condition: Number, then: Number, otherwise: Number) -> Number:
        """Elementwise."""
        return np.where(condition, then, otherwise)

    @staticmethod
    def bits(x: Number) -> Number:
        """The same bytes."""
        return np.asarray(x).view(np.int64)

    @staticmethod
    def from_bits(x: Number) -> Number:
        """The same bytes."""
        return np.asarray(x).view(np.float64)

    @staticmethod
    def to_integer(x: Number) -> Number:
        """Saturating."""
        return numerics.float_to_integer(x, np.dtype(np.int64))

    @staticmethod
    def to_number(x: Number) -> Number:
        """Rounded once."""
        return np.asarray(x).astype(np.float64)

    @staticmethod
    def high_product(x: Number, y: Number) -> Number:
        """By halves."""
        unsigned = (np.asarray(operand).view(np.uint64) for operand in (x, y))
        return numerics.high_product(*unsigned).view(np.int64)

    @staticmethod
    def shift_logical(x: Number, amount: Number) -> Number:
        """As unsigned."""
        return numerics.shift_right(np.asarray(x).view(np.uint64), np.asarray(amount)).view(np.int64)

    @staticmethod
    def below_unsigned(x: Number, y: Number) -> Number:
        """As unsigned."""
        return np.asarray(x).view(np.uint64) < np.asarray(y).view(np.uint64)

    @classmethod
    def either(
        cls, condition: Number, rare: Callable[[], Sequence[Number]], usual: Callable[[], Sequence[Number]]
    ) -> Sequence[Number]:
        """Both are computed."""
        others = usual()
        if not np.any(condition):
            return others
        return [np.where(condition, then, otherwise) for then, otherwise in zip(rare(), others, strict=True)]


def polynomial(algebra: Algebra, x: Number, coefficients: Sequence[float]) -> Number:
    """`coefficients[0] + coefficients[1] * x + ...`, by Horner's rule with fused steps."""
    *rest, last = coefficients
    result: Number = last
    for coefficient in reversed(rest):
        result = algebra.fma(x, result, coefficient)
    return result


def copy_sign(algebra: Algebra, magnitude: Number, sign: Number) -> Number:
    """A magnitude that is not negative with the sign bit of another number."""
    return algebra.from_bits(algebra.bits(magnitude) | (algebra.bits(sign) & SIGN))


def absolute(algebra: Algebra, x: Number) -> Number:
    """The number without its sign bit."""
    return algebra.from_bits(algebra.bits(x) & ~SIGN)


def two_sum(x: Number, y: Number) -> tuple[Number, Number]:
    """The rounded sum and what rounding lost."""
    total = x + y
    of_y = total - x
    return total, (x - (total - of_y)) + (y - of_y)


def two_product(algebra: Algebra, x: Number, y: Number) -> tuple[Number, Number]:
    """The rounded product and what rounding lost."""
    product = x * y
    return product, algebra.fma(x, y, -product)


def power_of_two(algebra: Algebra, exponent: Number) -> Number:
    """Two to the power of an integer from -1022 to 1023."""
    return algebra.from_bits((exponent + 1023) << 52)


SIGN = -(1 << 63)
INFINITY = float("inf")
NAN = float("nan")
