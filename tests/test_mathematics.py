"""How far glueball's own functions are off, against extended precision or Python's exact numbers."""

from __future__ import annotations

import decimal
import math
from fractions import Fraction

import numpy as np
import pytest

from glueball.mathematics import FLOAT32_BOUND, FUNCTIONS, on_arrays

EXTENDED = np.finfo(np.longdouble).nmant >= 63
COUNT = 20000


def _uniform(low, high):
    return np.random.default_rng(31).uniform(low, high, COUNT)


def _spread(least, greatest):
    """Numbers of both signs, their exponents evenly spread between two powers of ten."""
    random = np.random.default_rng(32)
    return 10.0 ** random.uniform(least, greatest, COUNT) * random.choice([-1.0, 1.0], COUNT)


def _positive(least, greatest):
    return np.abs(_spread(least, greatest))


def _near_multiples():
    """The numbers next to multiples of pi / 2, and very large ones."""
    multiples = np.arange(1, COUNT) * (math.pi / 2)
    return np.concatenate([multiples, _spread(-10, 15), _uniform(-4, 4)])


def _two_spreads(least, greatest):
    return _spread(least, greatest), _spread(least, greatest)[::-1].copy()


DOMAINS = {
    "exp": lambda: (np.concatenate([_uniform(-745, 709.7), _spread(-18, 0)]),),
    "exp2": lambda: (np.concatenate([_uniform(-1074, 1023.9), _uniform(-1, 1)]),),
    "exp10": lambda: (np.concatenate([_uniform(-323, 308), _uniform(-1, 1)]),),
    "expm1": lambda: (np.concatenate([_uniform(-50, 709.7), _uniform(-2, 2), _spread(-18, 0)]),),
    "log": lambda: (np.concatenate([_positive(-323, 308), _uniform(0.5, 2), 1 + _spread(-15, -1)]),),
    "log1p": lambda: (np.concatenate([_positive(-320, 308), _uniform(-0.9999, 3), _spread(-15, -1)]),),
    "sinh": lambda: (np.concatenate([_uniform(-700, 700), _uniform(-1, 1), _spread(-18, 0)]),),
    "cosh": lambda: (np.concatenate([_uniform(-700, 700), _uniform(-1, 1)]),),
    "tanh": lambda: (np.concatenate([_uniform(-25, 25), _uniform(-1, 1), _spread(-18, 0)]),),
    "sin": lambda: (_near_multiples(),),
    "atan": lambda: (np.concatenate([_uniform(-2, 2), _spread(-18, 18)]),),
    "rsqrt": lambda: (np.concatenate([_positive(-323, 308), _uniform(0.5, 4)]),),
    "cbrt": lambda: (np.concatenate([_spread(-323, 308), _uniform(-8, 8)]),),
    "pow": lambda: (_positive(-5, 5), _uniform(-60, 60)),
    "atan2": lambda: _two_spreads(-3, 3),
    "hypot": lambda: _two_spreads(-3, 3),
}
DOMAINS |= {"log2": DOMAINS["log"], "log10": DOMAINS["log"], "cos": DOMAINS["sin"], "tan": DOMAINS["sin"]}
NUMPY_NAMES = {"pow": "power", "atan": "arctan", "atan2": "arctan2"}


def _extended(name, *operands):
    wide = [operand.astype(np.longdouble) for operand in operands]
    if name == "rsqrt":
        return 1 / np.sqrt(wide[0])
    if name == "exp10":
        return np.power(np.longdouble(10), wide[0])
    return getattr(np, NUMPY_NAMES.get(name, name))(*wide)


def _units_off(result, exact):
    """Distance in units in the last place of the result's type; infinities must be equal."""
    spacing = np.spacing(np.abs(exact).astype(result.dtype)).astype(exact.dtype)
    infinite = np.isinf(exact.astype(result.dtype)) | np.isinf(result)
    np.testing.assert_array_equal(result[infinite], exact.astype(result.dtype)[infinite])
    return np.abs(result.astype(exact.dtype) - exact)[~infinite] / spacing[~infinite]


@pytest.mark.skipif(not EXTENDED, reason="this machine's long double has no more bits than double")
@pytest.mark.parametrize("name", DOMAINS)
def test_float64_is_within_the_bound(name):
    operands = DOMAINS[name]()
    with np.errstate(all="ignore"):
        off = _units_off(on_arrays(name, *operands), _extended(name, *operands))
    assert float(off.max()) <= FUNCTIONS[name].bound


@pytest.mark.parametrize("name", DOMAINS)
def test_float32_is_within_the_bound(name):
    with np.errstate(all="ignore"):
        operands = [operand.astype(np.float32) for operand in DOMAINS[name]()]
        exact = _extended(name, *(operand.astype(np.float64) for operand in operands))
        off = _units_off(on_arrays(name, *operands), exact)
    assert float(off[~np.isnan(off)].max()) <= FLOAT32_BOUND


def _exact_error_function(x):
    """The error function by its series in decimals: exact to 40 digits for |x| below 6."""
    with decimal.localcontext() as context:
        context.prec = 70
        argument = decimal.Decimal(x)
        term = total = argument
        for k in range(1, 400):
            term = -term * argument * argument / k
            total += term / (2 * k + 1)
        pi = decimal.Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
        return Fraction(total * 2 / pi.sqrt())


def test_error_function():
    x = np.concatenate([np.linspace(-6, 6, 301), [1e-30, -1e-8, 0.9999999, 1.0, 1.0000001]])
    for dtype, bound in ((np.float64, FUNCTIONS["erf"].bound), (np.float32, FLOAT32_BOUND)):
        values = x.astype(dtype)
        for argument, value in zip(values, on_arrays("erf", values), strict=True):
            off = abs(Fraction(float(value)) - _exact_error_function(float(argument)))
            assert off <= bound * Fraction(float(np.spacing(np.abs(value))))


FIXED = 1500
"""Bits after the point of the whole numbers that stand for exact ones below."""


def _inverse_tangent_of_inverse(n):
    total = term = (1 << FIXED) // n
    for k in range(3, 3 * FIXED, 2):
        term //= -n * n
        total += term // k
    return total


def _exact_sine(x):
    """The sine by exact reduction and its series."""
    pi = 4 * (4 * _inverse_tangent_of_inverse(5) - _inverse_tangent_of_inverse(239))
    angle = int(Fraction(x) * (1 << FIXED)) % (2 * pi)
    term = total = angle
    for k in range(1, 400):
        term = -(term * angle >> FIXED) * angle >> FIXED
        term //= 2 * k * (2 * k + 1)
        total += term
    return Fraction(total, 1 << FIXED)


def test_sines_of_very_large_numbers():
    # The first is the double that comes closest to a multiple of pi / 2.
    x = np.concatenate([[6381956970095103.0 * 2.0**797, 2.0**1000, 1e22, 1.7e308], _spread(6, 308)[:40]])
    for argument, value in zip(x, on_arrays("sin", x), strict=True):
        off = abs(Fraction(float(value)) - _exact_sine(float(argument)))
        assert off <= FUNCTIONS["sin"].bound * Fraction(float(np.spacing(np.abs(value))))
    assert abs(on_arrays("cos", x[:1])[0]) < 1e-18


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, 1e300, -1e300, 5e-324, -5e-324, math.inf,
           -math.inf, math.nan]  # fmt: skip


@pytest.mark.parametrize("name", [*DOMAINS, "erf"])
def test_special_values(name):
    """Zeros and their signs, infinities, NaN and the ends of the range, as C has them."""
    x = np.array(SPECIAL)
    operands = [x] if FUNCTIONS[name].operands == 1 else [grid.reshape(-1) for grid in np.meshgrid(x, x)]
    result = on_arrays(name, *operands)
    with np.errstate(all="ignore"):
        expected = np.array([math.erf(a) for a in x]) if name == "erf" else _extended(name, *operands)
        expected = expected.astype(np.float64)
    np.testing.assert_allclose(result, expected, rtol=1e-15, atol=1e-320)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(expected[numbers]))


def test_scaling_by_powers_of_two():
    random = np.random.default_rng(33)
    x, y = random.standard_normal(4000), random.integers(-2200, 2200, 4000)
    x = np.ldexp(x, random.integers(-1000, 1000, 4000))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(on_arrays("ldexp", x, y.astype(np.float64)), np.ldexp(x, y))
