"""Arithmetic against Python's own integers and fractions, over every value of the 8-bit and 16-bit types."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from glueball import numerics

FLOAT16 = np.dtype(np.float16)
NARROW = (FLOAT16, numerics.BFLOAT16, *numerics.FLOAT8)
SATURATING = numerics.FLOAT8
# Exponent bits, mantissa bits and bias, as each format's definition gives them.
FIELDS = {
    FLOAT16: (5, 10, 15),
    numerics.BFLOAT16: (8, 7, 127),
    numerics.FLOAT8_E5M2: (5, 2, 15),
    numerics.FLOAT8_E5M2FNUZ: (5, 2, 16),
    numerics.FLOAT8_E4M3FN: (4, 3, 7),
    numerics.FLOAT8_E4M3FNUZ: (4, 3, 8),
}
LARGEST = {
    FLOAT16: 65504.0,
    numerics.BFLOAT16: (2.0 - 2.0**-7) * 2.0**127,
    numerics.FLOAT8_E5M2: 57344.0,
    numerics.FLOAT8_E5M2FNUZ: 57344.0,
    numerics.FLOAT8_E4M3FN: 448.0,
    numerics.FLOAT8_E4M3FNUZ: 240.0,
}


def every(dtype):
    """Every bit pattern of a type of at most 16 bits."""
    unsigned = np.dtype(f"u{dtype.itemsize}")
    return np.arange(1 << (8 * dtype.itemsize), dtype=np.uint32).astype(unsigned).view(dtype)


def nonnegative_finite(dtype):
    """All finite values from zero up in order of their bits, from the definition of the format alone, as float64."""
    exponent_bits, mantissa_bits, bias = FIELDS[dtype]
    values = []
    for bits in range(1 << (exponent_bits + mantissa_bits)):
        exponent, mantissa = bits >> mantissa_bits, bits & ((1 << mantissa_bits) - 1)
        leading = 1.0 if exponent else 0.0
        value = math.ldexp(leading + mantissa / (1 << mantissa_bits), max(exponent, 1) - bias)
        if value > LARGEST[dtype]:
            break
        values.append(value)
    assert values[-1] == LARGEST[dtype]
    return np.array(values)


def expected_bits(x, dtype, rounding):
    """Magnitude bits of `x` (float64) rounded, by search in the list of values; -1 stands for infinity, -2 for NaN."""
    values = nonnegative_finite(dtype)
    magnitude = np.abs(x)
    down = np.searchsorted(values, magnitude, side="right") - 1
    below = values[down]
    spacing = values[-1] - values[-2]
    above = np.append(values[1:], values[-1] + spacing)[down]
    with np.errstate(all="ignore"):
        # Exact: both differences are of neighbours of `magnitude`, or decide against infinity.
        closer = np.sign((above - magnitude) - (magnitude - below))
    up = (closer < 0) | ((closer == 0) & (down % 2 == 1))
    if rounding == "zero":
        up[:] = False
    bits = down + (up & (magnitude != below))
    last = len(values) - 1
    infinite = np.where((bits > last) | np.isinf(x), -1, bits)
    bits = np.minimum(bits, last) if dtype in SATURATING else infinite
    return np.where(np.isnan(x), -2, bits)


def assert_rounds(source, dtype, rounding):
    with np.errstate(all="ignore"):
        x = source.astype(np.float64)
    result = numerics.round_float(source, dtype, rounding)
    assert result.dtype == dtype
    bits = result.view(f"u{dtype.itemsize}").astype(np.int64)
    magnitude = bits & ((1 << (8 * dtype.itemsize - 1)) - 1)
    with np.errstate(all="ignore"):
        wide = result.astype(np.float64)
    magnitude = np.where(np.isnan(wide), -2, np.where(np.isinf(wide), -1, magnitude))
    np.testing.assert_array_equal(magnitude, expected_bits(x, dtype, rounding))
    signed = ~np.isnan(x) & (wide != 0)
    np.testing.assert_array_equal(np.signbit(wide)[signed], np.signbit(x)[signed])


@pytest.mark.parametrize("rounding", ["nearest", "zero"])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("source", [FLOAT16, numerics.BFLOAT16], ids=str)
def test_rounding_every_16_bit_float(source, dtype, rounding):
    if source != dtype:
        assert_rounds(every(source), dtype, rounding)


@pytest.mark.parametrize("rounding", ["nearest", "zero"])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_rounding_at_and_beside_every_boundary(dtype, rounding):
    values = nonnegative_finite(dtype)
    middles = (values[:-1] + values[1:]) / 2
    beyond = values[-1] + (values[-1] - values[-2]) / 2
    points = np.concatenate([values, middles, [beyond, 2 * beyond, np.inf, np.nan, 5e-324, 1.7e308]])
    for single in (points, np.nextafter(points, 0), np.nextafter(points, np.inf)):
        assert_rounds(single, dtype, rounding)
        assert_rounds(-single, dtype, rounding)
    with np.errstate(over="ignore"):
        single = points.astype(np.float32)
    for neighbour in (single, np.nextafter(single, np.float32(0)), np.nextafter(single, np.float32(np.inf))):
        assert_rounds(neighbour, dtype, rounding)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_widening_is_exact_for_every_value(dtype):
    values = nonnegative_finite(dtype)
    bits = np.arange(len(values)).astype(f"u{dtype.itemsize}")
    np.testing.assert_array_equal(numerics.widen(bits.view(dtype)).astype(np.float64), values)
    np.testing.assert_array_equal(numerics.round_float(bits.view(dtype), np.dtype(np.float64)), values)


def test_float64_to_float32_toward_zero():
    x = np.array([1 + 2.0**-24, 1 + 2.0**-24 + 2.0**-50, -1 - 2.0**-23 * 1.75, 1e300, np.inf, 1e-50, np.nan])
    result = numerics.round_float(x, np.dtype(np.float32), "zero")
    expected = np.array([1, 1, -1 - 2.0**-23, np.finfo(np.float32).max, np.inf, 0, np.nan], np.float32)
    np.testing.assert_array_equal(result, expected)


def test_unknown_rounding_is_refused():
    with pytest.raises(ValueError, match="`nearest` or `zero`, not 'up'"):
        numerics.round_float(np.ones(1, np.float32), FLOAT16, "up")


def truncated(x, y):
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def wrap(value, dtype):
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


@pytest.mark.parametrize("dtype", [np.dtype(np.int8), np.dtype(np.uint8)], ids=str)
def test_division_and_shifts_of_every_pair_of_bytes(dtype):
    x, y = (np.ascontiguousarray(grid) for grid in np.meshgrid(every(dtype), every(dtype)))
    pairs = [(int(a), int(b)) for a, b in zip(x.flat, y.flat, strict=True)]
    quotients = [wrap(truncated(a, b), dtype) if b else wrap(-1, dtype) for a, b in pairs]
    remainders = [a - b * truncated(a, b) if b else a for a, b in pairs]
    left = [wrap(a << b, dtype) if 0 <= b < 8 else 0 for a, b in pairs]
    right = [a >> b if 0 <= b < 8 else -(a < 0) for a, b in pairs]
    for function, expected in (
        (numerics.divide, quotients),
        (numerics.remainder, remainders),
        (numerics.shift_left, left),
        (numerics.shift_right, right),
    ):
        result = function(x, y)
        assert result.dtype == dtype
        assert result.reshape(-1).tolist() == expected


@pytest.mark.parametrize("dtype", [np.dtype(np.int16), np.dtype(np.uint16)], ids=str)
def test_division_and_shifts_of_every_16_bit_integer(dtype):
    x = every(dtype)
    for y in (1, 2, 3, 7, 255, 32767):
        divisor = np.full_like(x, y)
        assert numerics.divide(x, divisor).tolist() == [truncated(int(a), y) for a in x]
        assert numerics.remainder(x, divisor).tolist() == [int(a) - y * truncated(int(a), y) for a in x]
    for amount in range(18):
        shift = np.full_like(x, amount)
        expected = [wrap(int(a) << amount, dtype) if amount < 16 else 0 for a in x]
        assert numerics.shift_left(x, shift).tolist() == expected
        assert numerics.shift_right(x, shift).tolist() == [int(a) >> min(amount, 16) for a in x]


def test_least_integer_over_minus_one_wraps():
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        least = np.array([np.iinfo(dtype).min], dtype)
        assert numerics.divide(least, np.array([-1], dtype)) == least
        assert numerics.remainder(least, np.array([-1], dtype)) == 0


@pytest.mark.parametrize("source", [FLOAT16, numerics.BFLOAT16], ids=str)
@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_every_16_bit_float_to_integer(source, name):
    x = every(source)
    ends = np.iinfo(name)
    expected = []
    for value in numerics.widen(x).tolist():
        if math.isnan(value):
            expected.append(0)
        elif math.isinf(value):
            expected.append(ends.max if value > 0 else ends.min)
        else:
            expected.append(min(max(int(value), ends.min), ends.max))
    assert numerics.float_to_integer(x, np.dtype(name)).tolist() == expected


@pytest.mark.parametrize("dtype", [FLOAT16, numerics.BFLOAT16], ids=str)
@pytest.mark.parametrize("name", ["int16", "uint16"])
def test_every_16_bit_integer_to_float(dtype, name):
    x = every(np.dtype(name))
    result = numerics.integer_to_float(x, dtype).view(np.uint16).astype(np.int64) & 0x7FFF
    expected = expected_bits(x.astype(np.float64), dtype, "nearest")
    if dtype == FLOAT16:
        expected = np.where(expected == -1, 0x7C00, expected)
    np.testing.assert_array_equal(result, expected)


def nearest_even(value, mantissa_bits):
    """A positive integer rounded to so many bits after the leading one, ties to even."""
    spacing = 1 << max(0, value.bit_length() - 1 - mantissa_bits)
    return round(Fraction(value, spacing)) * spacing


@pytest.mark.parametrize("dtype", [numerics.BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)], ids=str)
@pytest.mark.parametrize("name", ["int32", "uint32", "int64", "uint64"])
def test_wide_integers_round_once(dtype, name):
    mantissa_bits = {2: 7, 4: 23, 8: 52}[dtype.itemsize]
    greatest = int(np.iinfo(name).max)
    values = {0, 1, greatest, greatest - 1}
    for exponent, low in itertools.product(range(greatest.bit_length()), (0, 1, 2)):
        for kept in (1 << mantissa_bits, (1 << mantissa_bits) + 1, (2 << mantissa_bits) - 1):
            middle = ((2 * kept + 1) << exponent) >> (mantissa_bits + 2)
            values |= {middle + low - 1, middle, (1 << exponent) + low}
    x = sorted(value for value in values if 0 <= value <= greatest)
    expected = [float(nearest_even(value, mantissa_bits)) for value in x]
    array = np.array(x, name)
    assert numerics.integer_to_float(array, dtype).astype(np.float64).tolist() == expected
    if array.dtype.kind == "i":
        negated = numerics.integer_to_float(-array, dtype).astype(np.float64)
        assert negated.tolist() == [-value for value in expected]


def test_minimum_and_maximum_number():
    specials = [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan]
    for a, b in itertools.product(specials, specials):
        for dtype in (np.float32, np.float64):
            x, y = np.array([a], dtype), np.array([b], dtype)
            numbers = [value for value in (a, b) if not math.isnan(value)]
            order = sorted(numbers, key=lambda value: (value, math.copysign(1, value)))
            least, greatest = (order[0], order[-1]) if order else (math.nan, math.nan)
            for function, expected in ((numerics.minimum_number, least), (numerics.maximum_number, greatest)):
                result = float(function(x, y)[0])
                same = math.isnan(result) and math.isnan(expected)
                assert same or (result == expected and math.copysign(1, result) == math.copysign(1, expected))


@pytest.mark.parametrize("bits", [np.uint32(0x7F800001), np.uint64(0x7FF0000000000001)])
def test_signalling_nans_are_nans_like_others(bits):
    signalling = np.array([bits]).view(f"f{bits.itemsize}")
    number = np.array([2], signalling.dtype)
    for function in (numerics.minimum_number, numerics.maximum_number):
        assert function(signalling, number) == 2 and function(number, signalling) == 2
    np.testing.assert_array_equal(numerics.encode_e4m3b15(signalling), [0x7F])


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_narrow_arithmetic_rounds_once(dtype):
    multiply = numerics.rounding_once(np.multiply)
    random = np.random.default_rng(7)
    bits = random.integers(0, 1 << (8 * dtype.itemsize), (2, 4096)).astype(f"u{dtype.itemsize}")
    x, y = bits.view(dtype)
    with np.errstate(all="ignore"):
        exact = x.astype(np.float64) * y.astype(np.float64)
        # The product of two narrow floats is exact in float64 and, but for the range of bfloat16, in float32.
        representable = exact.astype(np.float32).astype(np.float64) == exact
    result = multiply(x, y)
    assert result.dtype == dtype
    expected = numerics.round_float(exact, dtype)
    nan = np.isnan(exact)
    chosen = representable & ~nan
    assert chosen.sum() > 1000
    np.testing.assert_array_equal(result.view(bits.dtype)[chosen], expected.view(bits.dtype)[chosen])
    assert np.isnan(result.astype(np.float32)[nan]).all()


def test_scalars_are_accepted():
    assert int(numerics.divide(np.int32(-7), np.int32(2))) == -3
    assert int(numerics.remainder(np.int32(-7), np.int32(2))) == -1
    assert float(numerics.round_float(np.float32(1 + 2**-9), numerics.BFLOAT16)) == 1.0


def test_an_infinite_addend_outweighs_a_product_that_overflows():
    x, y = np.array([1e300, 1e300, 1e300, np.inf]), np.array([1e300, -1e300, 1e300, 1.0])
    z = np.array([-np.inf, np.inf, np.nan, -np.inf])
    with np.errstate(all="ignore"):
        result = numerics.fused_multiply_add(x, y, z)
    np.testing.assert_array_equal(result, [-np.inf, np.inf, np.nan, np.nan])
