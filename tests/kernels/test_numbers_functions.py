"""Functions on every executor: glueball's own with equal bits, the hardware's within their bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import mathematics
from glueball.errors import CompilationError
from glueball.language.extra import libdevice
from tests.kernels.harness import EXECUTORS, run
from tests.kernels.test_numbers_casts import BLOCK, LAYOUT, assert_same

OWN = ["exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "atan", "sinh", "cosh",
       "tanh", "cbrt", "rsqrt", "erf"]  # fmt: skip


def operands_of(dtype, count=2048):
    """Numbers of every size, many of them ordinary, and the special ones."""
    random = np.random.default_rng(41)
    values = random.standard_normal(count) * 10.0 ** random.choice([0, 0, 0, 1, 2, 5, -3, -10], count)
    values[:8] = [0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 1e30, -1e38]
    values[8:16] = np.arange(8) * (math.pi / 4)
    return values.astype(dtype)


@glueball.jit
def apply(x, o, FUNCTION: gl.constexpr, BLOCK: gl.constexpr):
    index = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, LAYOUT)
    gl.store(o + index, FUNCTION(gl.load(x + index)))


@glueball.jit
def apply_two(x, y, o, FUNCTION: gl.constexpr, BLOCK: gl.constexpr):
    index = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, LAYOUT)
    gl.store(o + index, FUNCTION(gl.load(x + index), gl.load(y + index)))


def applied(executor, monkeypatch, function, *operands, result=None):
    output = np.zeros(len(operands[0]), result or operands[0].dtype)
    kernel = apply if len(operands) == 1 else apply_two
    grid = (len(operands[0]) // BLOCK,)
    run(executor, monkeypatch, lambda *arrays: kernel[grid](*arrays, function, BLOCK), *operands, output)
    return output


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", OWN)
def test_own_functions(name, dtype, executor, monkeypatch):
    x = operands_of(dtype)
    assert_same(applied(executor, monkeypatch, getattr(libdevice, name), x), mathematics.on_arrays(name, x))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", ["pow", "atan2", "hypot"])
def test_own_functions_of_two(name, dtype, executor, monkeypatch):
    x = operands_of(dtype)
    y = np.roll(x, 3)
    if name == "pow":
        x = np.abs(x)
        y = np.clip(y, -30, 30)
    result = applied(executor, monkeypatch, getattr(libdevice, name), x, y)
    assert_same(result, mathematics.on_arrays(name, x, y))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf"])
def test_functions_of_float64(name, executor, monkeypatch):
    x = operands_of(np.float64)
    with np.errstate(all="ignore"):
        expected = np.sqrt(x) if name == "sqrt" else mathematics.on_arrays(name, x)
    assert_same(applied(executor, monkeypatch, getattr(gl, name), x), expected)


# Per function: operands, and from them and the exact value the greatest error.
APPROXIMATE = {
    "exp": (lambda: np.linspace(-87, 88, 4096), lambda x, y: (2.0**-22 + np.abs(x) * 2.0**-23) * y),
    "exp2": (lambda: np.linspace(-126, 127, 4096), lambda x, y: 2.0**-22 * y),
    "log2": (lambda: np.geomspace(1e-37, 1e38, 4096), lambda x, y: 2.0**-22 * np.maximum(1, np.abs(y))),
    "log": (lambda: np.geomspace(1e-37, 1e38, 4096), lambda x, y: 2.0**-22 * np.maximum(1, np.abs(y))),
    "sin": (lambda: np.linspace(-2 * math.pi, 2 * math.pi, 4096), lambda x, y: 2.0**-20),
    "cos": (lambda: np.linspace(-2 * math.pi, 2 * math.pi, 4096), lambda x, y: 2.0**-20),
    "sqrt": (lambda: np.geomspace(1e-37, 1e38, 4096), lambda x, y: 2.0**-22 * y),
    "rsqrt": (lambda: np.geomspace(1e-37, 1e38, 4096), lambda x, y: 2.0**-22 * y),
}


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximations_keep_their_bounds(name, executor, monkeypatch):
    make, bound = APPROXIMATE[name]
    x = make().astype(np.float32)
    result = applied(executor, monkeypatch, getattr(gl, name), x).astype(np.float64)
    wide = x.astype(np.float64)
    exact = 1 / np.sqrt(wide) if name == "rsqrt" else getattr(np, name)(wide)
    assert (np.abs(result - exact) <= bound(wide, exact)).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximations_of_special_values(name, executor, monkeypatch):
    x = np.resize(np.array([0.0, 1.0, math.inf, math.nan], np.float32), BLOCK)
    result = applied(executor, monkeypatch, getattr(gl, name), x)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        exact = 1 / np.sqrt(wide) if name == "rsqrt" else getattr(np, name)(wide)
    np.testing.assert_allclose(result, exact, rtol=2.0**-21, atol=2.0**-20)


WHOLE = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint, "nearbyint": np.rint, "sqrt": np.sqrt}


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", WHOLE)
def test_exact_functions(name, dtype, executor, monkeypatch):
    x = operands_of(dtype)
    x[16:24] = [0.5, 1.5, -0.5, 2.5, -2.5, 0.49999997, 8388609.0, 4503599627370497.0]
    with np.errstate(all="ignore"):
        assert_same(applied(executor, monkeypatch, getattr(libdevice, name), x), WHOLE[name](x))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_round_half_away_from_zero(dtype, executor, monkeypatch):
    x = operands_of(dtype)
    x[16:24] = [0.5, 1.5, -0.5, 2.5, -2.5, 0.49999997, 8388609.0, 4503599627370497.0]
    with np.errstate(all="ignore"):
        whole = np.trunc(x)
        expected = np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(dtype(1), x), whole), x)
    assert_same(applied(executor, monkeypatch, libdevice.round, x), expected)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_classes_and_signs(executor, monkeypatch):
    x = operands_of(np.float32)
    y = np.roll(x, 5)
    for name in ("isnan", "isinf"):
        result = applied(executor, monkeypatch, getattr(libdevice, name), x, result=bool)
        np.testing.assert_array_equal(result, getattr(np, name)(x))
    assert_same(applied(executor, monkeypatch, libdevice.copysign, x, y), np.copysign(x, y))
    assert_same(applied(executor, monkeypatch, libdevice.abs, x), np.abs(x))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_scaling(dtype, executor, monkeypatch):
    random = np.random.default_rng(42)
    x, y = random.standard_normal(2048).astype(dtype), random.integers(-1200, 1200, 2048).astype(np.int32)
    x, y = np.concatenate([x, x]), np.concatenate([y, y // 10])
    with np.errstate(all="ignore"):
        assert_same(applied(executor, monkeypatch, libdevice.ldexp, x, y), np.ldexp(x, y))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_correctly_rounded_root_and_quotient(executor, monkeypatch):
    x = operands_of(np.float32)
    y = np.roll(x, 5)
    with np.errstate(all="ignore"):
        assert_same(applied(executor, monkeypatch, gl.sqrt_rn, x), np.sqrt(x))
        assert_same(applied(executor, monkeypatch, gl.div_rn, x, y), x / y)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_fast_functions(executor, monkeypatch):
    x = np.linspace(-80, 80, 2048).astype(np.float32)
    y = np.geomspace(1e-30, 1e30, 2048).astype(np.float32)
    wide, also = x.astype(np.float64), y.astype(np.float64)
    result = applied(executor, monkeypatch, libdevice.fast_dividef, x, y)
    assert (np.abs(result - wide / also) <= 2 * np.spacing(np.abs(x / y))).all()
    result = applied(executor, monkeypatch, libdevice.fast_expf, x)
    assert (np.abs(result / np.exp(wide) - 1) <= 2.0**-22 + np.abs(wide) * 2.0**-23).all()
    result = applied(executor, monkeypatch, libdevice.fast_logf, y)
    assert (np.abs(result - np.log(also)) <= 2.0**-22 * np.maximum(1, np.abs(np.log(also)))).all()


@glueball.jit
def scalars(o):
    gl.store(o, gl.exp2(3.0) + gl.sqrt(gl.to_tensor(16.0)) + gl.abs(-2.0) + gl.extra.libdevice.pow(2.0, 5.0))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_scalars(executor, monkeypatch):
    output = np.zeros(1, np.float32)
    run(executor, monkeypatch, scalars[(1,)], output)
    assert output[0] == 46.0


@glueball.jit
def missing(o):
    gl.store(o, libdevice.lgamma(2.0))


def test_a_function_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    with pytest.raises(CompilationError, match=r"`libdevice\.lgamma` is not among"):
        missing[(1,)](np.zeros(1, np.float32))
