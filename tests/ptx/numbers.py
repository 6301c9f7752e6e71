"""Floats by their definition: bits as exact numbers, exact numbers as bits, in whole numbers and fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

INFINITE = None


@dataclass(frozen=True)
class Number:
    """A sign and a magnitude, `None` for infinity; or NaN."""

    negative: bool = False
    magnitude: Fraction | None = Fraction(0)
    nan: bool = False

    @property
    def value(self) -> Fraction:
        return -self.magnitude if self.negative else self.magnitude

    @property
    def finite(self) -> bool:
        return not self.nan and self.magnitude is not INFINITE

    @property
    def zero(self) -> bool:
        return self.finite and self.magnitude == 0

    def ordered(self):
        """What compares as the number does."""
        return (float("-inf") if self.negative else float("inf")) if self.magnitude is INFINITE else self.value


NAN = Number(nan=True)


def number(value, negative=None) -> Number:
    return Number(value < 0 if negative is None else negative, abs(Fraction(value)))


@dataclass(frozen=True)
class Format:
    """A float of the IEEE's kind; `ends_finite` has no infinity, and `nan` is its NaN's code if it has one."""

    exponent: int
    fraction: int
    nan: int | None = None
    ends_finite: bool = False
    greatest: int | None = None

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def last(self) -> int:
        """The code of the greatest finite value."""
        return self.greatest or (((1 << self.exponent) - 1) << self.fraction) - 1

    def magnitude(self, code: int) -> Fraction:
        exponent, fraction = code >> self.fraction, code & ((1 << self.fraction) - 1)
        whole = fraction + ((1 << self.fraction) if exponent else 0)
        return whole * Fraction(2) ** (max(exponent, 1) - self.bias - self.fraction)

    def decode(self, bits: int) -> Number:
        code, negative = bits & ((1 << (self.bits - 1)) - 1), bool(bits >> (self.bits - 1))
        if code <= self.last:
            return Number(negative, self.magnitude(code))
        return (
            Number(negative, INFINITE) if code == self.last + 1 and not self.ends_finite else Number(negative, nan=True)
        )

    def encode(self, exact: Number, rounding: str = "rn", saturates: bool = False) -> int:
        """Bits of an exact number, rounded."""
        if exact.nan:
            return self.last if self.nan is None else self.nan
        sign = int(exact.negative) << (self.bits - 1)
        if exact.magnitude is INFINITE:
            return sign | (self.last if saturates else self.last + 1)
        away = {"rn": None, "rz": False, "rp": not exact.negative, "rm": exact.negative, "rna": None}[rounding]
        low, high = 0, self.last + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.magnitude(middle) <= exact.magnitude else (low, middle)
        if self.magnitude(low) != exact.magnitude:
            half = (self.magnitude(low) + self.magnitude(high)) / 2
            if away is None:
                tied = exact.magnitude == half
                away = exact.magnitude > half or (tied and (low % 2 == 1 or rounding == "rna"))
            low += away
        return sign | (min(low, self.last) if saturates else low)


FORMATS = {
    "f16": Format(5, 10, 0x7FFF),
    "bf16": Format(8, 7, 0x7FFF),
    "f32": Format(8, 23, 0x7FFFFFFF),
    "f64": Format(11, 52, 0x7FF8000000000000),
    "tf32": Format(8, 10, 0x3FFFF),
    "e5m2": Format(5, 2, 0x7F),
    "e4m3": Format(4, 3, 0x7F, ends_finite=True, greatest=0x7E),
    "e2m3": Format(2, 3, None, ends_finite=True, greatest=0x1F),
    "e3m2": Format(3, 2, None, ends_finite=True, greatest=0x1F),
    "e2m1": Format(2, 1, None, ends_finite=True, greatest=0x7),
}


def add(x: Number, y: Number, rounding: str) -> Number:
    if x.nan or y.nan:
        return NAN
    if not (x.finite and y.finite):
        infinite = [each for each in (x, y) if not each.finite]
        return infinite[0] if all(each.negative == infinite[0].negative for each in infinite) else NAN
    total = x.value + y.value
    if total == 0:
        return number(0, x.negative if x.negative == y.negative else rounding == "rm")
    return number(total)


def negate(x: Number) -> Number:
    return Number(not x.negative, x.magnitude, x.nan)


def multiply(x: Number, y: Number) -> Number:
    if x.nan or y.nan or (x.zero and not y.finite) or (y.zero and not x.finite):
        return NAN
    if not (x.finite and y.finite):
        return Number(x.negative != y.negative, INFINITE)
    return Number(x.negative != y.negative, x.magnitude * y.magnitude)


def divide(x: Number, y: Number) -> Number:
    if x.nan or y.nan or (x.zero and y.zero) or not (x.finite or y.finite):
        return NAN
    negative = x.negative != y.negative
    if not x.finite or y.zero:
        return Number(negative, INFINITE)
    return Number(negative, Fraction(0) if not y.finite else x.magnitude / y.magnitude)


def root(x: Number) -> Number:
    """The square root: 200 bits of it, and one more where there are more."""
    if x.nan or x.zero:
        return x
    if x.negative:
        return NAN
    if not x.finite:
        return x
    shift = 2 * (200 + x.magnitude.denominator.bit_length())
    scaled = (x.magnitude.numerator << shift) // x.magnitude.denominator
    found = isqrt(scaled)
    exact = found * found == scaled and (x.magnitude.numerator << shift) % x.magnitude.denominator == 0
    return number(Fraction(2 * found + (not exact), 1 << (shift // 2 + 1)))
