"""Arithmetic on every element type and every executor, against NumPy or whole numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import numerics
from glueball.errors import CompilationError
from glueball.language.arithmetic import PropagateNan
from tests.kernels.harness import EXECUTORS, run
from tests.kernels.test_numbers_casts import BLOCK, FLOATS, INTEGERS, LAYOUT, NARROW, assert_same, values_of

ALL_NAN = gl.constexpr(PropagateNan.ALL)


def pairs_of(name, count=4096):
    """Pairs of random values, the special ones among them."""
    values, random = values_of(name), np.random.default_rng(21)
    x, y = (values[random.integers(0, len(values), count)].copy() for _ in range(2))
    x[: count // 8] = y[: count // 8]
    y[-8:] = np.zeros(8, y.dtype)
    return x, y


@glueball.jit
def integer_arithmetic(x, y, a, b, c, d, e, f, g, h, i, j, k, m, n, BLOCK: gl.constexpr):
    index = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, LAYOUT)
    left, right = gl.load(x + index), gl.load(y + index)
    gl.store(a + index, left + right)
    gl.store(b + index, left - right)
    gl.store(c + index, left * right)
    gl.store(d + index, left // right)
    gl.store(e + index, left % right)
    gl.store(f + index, left << right)
    gl.store(g + index, left >> right)
    gl.store(h + index, gl.minimum(left, right))
    gl.store(i + index, gl.maximum(left, right) ^ (left & right | ~left))
    gl.store(j + index, -left)
    gl.store(k + index, gl.abs(left))
    gl.store(m + index, gl.clamp(left, gl.minimum(right, 7), 7))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name, executor, monkeypatch):
    x, y = pairs_of(name)
    y[::2] = np.arange(len(y[::2])).astype(y.dtype) % y.dtype.type(70)
    outputs = [np.zeros_like(x) for _ in range(12)]
    grid = (len(x) // BLOCK,)
    run(executor, monkeypatch, lambda *a: integer_arithmetic[grid](*a, len(x), BLOCK), x, y, *outputs)
    with np.errstate(all="ignore"):
        expected = [
            x + y, x - y, x * y, numerics.divide(x, y), numerics.remainder(x, y), numerics.shift_left(x, y),
            numerics.shift_right(x, y), np.minimum(x, y), np.maximum(x, y) ^ (x & y | ~x), -x,
            np.abs(x), np.minimum(np.maximum(x, np.minimum(y, x.dtype.type(7))), x.dtype.type(7)),
        ]  # fmt: skip
    for actual, right in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(actual, right)


@glueball.jit
def high_products(x, y, o, BLOCK: gl.constexpr):
    index = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, LAYOUT)
    gl.store(o + index, gl.umulhi(gl.load(x + index), gl.load(y + index)))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", ["int32", "uint32", "int64", "uint64"])
def test_upper_half_of_products(name, executor, monkeypatch):
    x, y = pairs_of(name)
    output = np.zeros_like(x)
    run(executor, monkeypatch, lambda *a: high_products[(len(x) // BLOCK,)](*a, BLOCK), x, y, output)
    bits = 8 * x.itemsize
    assert output.tolist() == [int(a) * int(b) >> bits for a, b in zip(x, y, strict=True)]


@glueball.jit
def boolean_arithmetic(x, y, a, b, c, d, e, f, g, h, i, j, BLOCK: gl.constexpr):
    index = gl.arange(0, BLOCK, LAYOUT)
    left, right = gl.load(x + index), gl.load(y + index)
    gl.store(a + index, left + right)
    gl.store(b + index, left & right)
    gl.store(c + index, left | ~right)
    gl.store(d + index, left ^ right)
    gl.store(e + index, left + 1)
    gl.store(f + index, -left * right)
    gl.store(g + index, gl.maximum(left, right))
    gl.store(h + index, left - right)
    gl.store(i + index, left << right)
    gl.store(j + index, left > right)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_booleans(executor, monkeypatch):
    x, y = np.array([False, False, True, True] * 32), np.array([False, True, False, True] * 32)
    outputs = [np.zeros(128, bool) for _ in range(4)] + [np.zeros(128, np.int32)]
    outputs += [np.zeros(128, bool) for _ in range(5)]
    run(executor, monkeypatch, lambda *a: boolean_arithmetic[(1,)](*a, 128), x, y, *outputs)
    expected = [x ^ y, x & y, x | ~y, x ^ y, x + 1, x & y, x | y, x ^ y, x & ~y, x & ~y]
    for actual, right in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(actual, right)


@glueball.jit
def constant_booleans(o):
    yes, no = gl.to_tensor(True), gl.to_tensor(False)
    gl.store(o, yes + True)
    gl.store(o + 1, yes + no)
    gl.store(o + 2, no - yes)
    gl.store(o + 3, yes * no)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_constant_booleans_wrap_as_others_do(executor, monkeypatch):
    output = np.ones(4, bool)
    run(executor, monkeypatch, constant_booleans[(1,)], output)
    np.testing.assert_array_equal(output, [False, True, True, False])


@glueball.jit
def narrow_comparisons(a, b, layout: gl.constexpr):
    index = gl.arange(0, 128, layout)
    narrow = index.to(gl.int8) - 64
    gl.store(a + index, narrow < 0)
    gl.store(b, gl.to_tensor(-3).to(gl.int8) < gl.to_tensor(0).to(gl.int8))
    gl.store(b + 1, gl.to_tensor(-3).to(gl.int16) >= gl.to_tensor(0).to(gl.int16))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_comparisons_of_narrow_integers_with_zero(executor, monkeypatch):
    tile, scalars = np.zeros(128, bool), np.zeros(2, bool)
    layout = gl.BlockedLayout([4], [32], [1], [0])
    run(executor, monkeypatch, lambda *a: narrow_comparisons[(1,)](*a, layout, num_warps=1), tile, scalars)
    np.testing.assert_array_equal(tile, np.arange(128) < 64)
    np.testing.assert_array_equal(scalars, [True, False])


@glueball.jit
def beyond_the_type(x, y, layout: gl.constexpr):
    index = gl.arange(0, 32, layout)
    gl.store(y + index, gl.minimum(gl.load(x + index), 65536.0) + 1e6)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_number_beyond_the_type_is_infinite(executor, monkeypatch):
    x, y = np.ones(32, np.float16), np.zeros(32, np.float16)
    run(executor, monkeypatch, lambda *a: beyond_the_type[(1,)](*a, gl.BlockedLayout([1], [32], [4], [0])), x, y)
    np.testing.assert_array_equal(y, np.full(32, np.inf, np.float16))


@glueball.jit
def float_arithmetic(x, y, a, b, c, d, e, f, g, h, i, j, BLOCK: gl.constexpr):
    index = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, LAYOUT)
    left, right = gl.load(x + index), gl.load(y + index)
    gl.store(a + index, left + right)
    gl.store(b + index, left - right)
    gl.store(c + index, left * right)
    gl.store(d + index, gl.minimum(left, right))
    gl.store(e + index, gl.maximum(left, right))
    gl.store(f + index, gl.minimum(left, right, propagate_nan=ALL_NAN))
    gl.store(g + index, gl.maximum(left, right, propagate_nan=ALL_NAN))
    gl.store(h + index, -left)
    gl.store(i + index, gl.abs(left))
    gl.store(j + index, gl.where(left < right, left, right))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", [*FLOATS, *NARROW])
def test_floats(name, executor, monkeypatch):
    x, y = pairs_of(name)
    outputs = [np.zeros_like(x) for _ in range(10)]
    run(executor, monkeypatch, lambda *a: float_arithmetic[(len(x) // BLOCK,)](*a, BLOCK), x, y, *outputs)
    with np.errstate(all="ignore"):
        wide, also = numerics.widen(x), numerics.widen(y)
        nan = np.isnan(wide) | np.isnan(also)
        least, greatest = numerics.minimum_number(wide, also), numerics.maximum_number(wide, also)
        computed = [numerics.round_float(value, x.dtype) for value in (wide + also, wide - also, wide * also)]
        chosen = [
            least, greatest, np.where(nan, np.nan, least), np.where(nan, np.nan, greatest), -wide, np.abs(wide),
            np.where(wide < also, wide, also),
        ]  # fmt: skip
    for actual, right in zip(outputs, [*computed, *(value.astype(x.dtype) for value in chosen)], strict=True):
        assert_same(actual, right)


@glueball.jit
def divisions(x, y, a, b, c, d, BLOCK: gl.constexpr):
    index = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, LAYOUT)
    left, right = gl.load(x + index), gl.load(y + index)
    gl.store(a + index, left / right)
    gl.store(b + index, left % right)
    gl.store(c + index, gl.fdiv(left, right))
    gl.store(d + index, gl.fdiv(left, right, ieee_rounding=True))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", FLOATS)
def test_division_and_remainder(name, executor, monkeypatch):
    x, y = pairs_of(name)
    wide = np.dtype(np.float64 if name == "float64" else np.float32)
    outputs = [np.zeros(len(x), wide) for _ in range(4)]
    run(executor, monkeypatch, lambda *a: divisions[(len(x) // BLOCK,)](*a, BLOCK), x, y, *outputs)
    with np.errstate(all="ignore"):
        left, right = x.astype(wide), y.astype(wide)
        expected = [left / right, np.fmod(left, right), left / right, left / right]
    for actual, value in zip(outputs, expected, strict=True):
        assert_same(actual, value)


@glueball.jit
def fused(x, y, z, o, BLOCK: gl.constexpr):
    index = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, LAYOUT)
    gl.store(o + index, gl.fma(gl.load(x + index), gl.load(y + index), gl.load(z + index)))


def fused_operands(name):
    """Random operands, some of whose sums nearly cancel and some of which lie halfway between two values."""
    x, y = pairs_of(name)
    _, z = pairs_of(name)
    with np.errstate(all="ignore"):
        product = -(numerics.widen(x).astype(np.float64) * numerics.widen(y).astype(np.float64))
        z[: len(z) // 2] = numerics.round_float(product, x.dtype)[: len(z) // 2]
    return x, y, z


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", [*FLOATS, *NARROW])
def test_fused_multiply_add(name, executor, monkeypatch):
    x, y, z = fused_operands(name)
    output = np.zeros_like(x)
    run(executor, monkeypatch, lambda *a: fused[(len(x) // BLOCK,)](*a, BLOCK), x, y, z, output)
    assert_same(output, numerics.fused_multiply_add(x, y, z))


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_fused_multiply_add_rounds_the_exact_sum(name):
    operands = [operand[::7] for operand in fused_operands(name)]
    result = numerics.fused_multiply_add(*operands)
    for a, b, c, value in zip(*operands, result, strict=True):
        if np.isfinite([a, b, c, value]).all():
            exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
            below, above = (float(np.nextafter(value, value.dtype.type(end))) for end in (-np.inf, np.inf))
            error = abs(Fraction(float(value)) - exact)
            assert all(error <= abs(Fraction(each) - exact) for each in (below, above) if np.isfinite(each))


@glueball.jit
def mixed(h, i, b, f, o, BLOCK: gl.constexpr):
    index = gl.arange(0, BLOCK, LAYOUT)
    half, whole, flag, single = gl.load(h + index), gl.load(i + index), gl.load(b + index), gl.load(f + index)
    gl.static_assert(gl.fma(half, 2.0, single).dtype == gl.float32)
    gl.static_assert(gl.clamp(half, 0, 1.0).dtype == gl.float16)
    gl.static_assert(gl.where(flag, 1, 0.0).dtype == gl.float32)
    gl.static_assert(gl.where(flag, 1, 2).dtype == gl.int32)
    gl.static_assert((half % half).dtype == gl.float32)
    gl.static_assert((whole.to(gl.int8) / 2).dtype == gl.float32)
    gl.store(o + index, gl.clamp(half, -1, 1.0) + gl.where(flag, whole, single) + gl.fma(half, 2.0, single))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_promotion(executor, monkeypatch):
    random = np.random.default_rng(3)
    half, single = random.standard_normal(128).astype(np.float16), random.standard_normal(128).astype(np.float32)
    whole, flag, output = np.arange(128, dtype=np.int32), random.random(128) < 0.5, np.zeros(128, np.float32)
    run(executor, monkeypatch, lambda *a: mixed[(1,)](*a, 128), half, whole, flag, single, output)
    wide = half.astype(np.float32)
    chosen = np.where(flag, whole.astype(np.float32), single)
    expected = np.clip(wide, -1, 1) + chosen + numerics.fused_multiply_add(wide, np.float32(2), single)
    np.testing.assert_array_equal(output, expected)


@glueball.jit
def choose_pointers(x, y, flags, o, BLOCK: gl.constexpr):
    index = gl.arange(0, BLOCK, LAYOUT)
    gl.store(o + index, gl.load(gl.where(gl.load(flags + index), x + index, y + index)))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_choice_between_pointers(executor, monkeypatch):
    x, y = np.arange(128, dtype=np.float32), -np.arange(128, dtype=np.float32)
    flags, output = np.arange(128) % 3 == 0, np.zeros(128, np.float32)
    run(executor, monkeypatch, lambda *a: choose_pointers[(1,)](*a, 128), x, y, flags, output)
    np.testing.assert_array_equal(output, np.where(flags, x, y))


@glueball.jit
def shifts(i, u, a, b, c, BLOCK: gl.constexpr):
    index = gl.arange(0, BLOCK, LAYOUT)
    signed, unsigned = gl.load(i + index), gl.load(u + index)
    gl.store(a + index, signed >> unsigned)
    gl.store(b + index, unsigned >> 3)
    gl.store(c + index, -256 >> (signed & 7))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_signedness_of_shifts(executor, monkeypatch):
    signed = np.arange(-64, 64, dtype=np.int32) * 1000003
    unsigned = (np.arange(128) % 32).astype(np.uint32)
    outputs = [np.zeros(128, np.uint32), np.zeros(128, np.uint32), np.zeros(128, np.int32)]
    run(executor, monkeypatch, lambda *a: shifts[(1,)](*a, 128), signed, unsigned, *outputs)
    np.testing.assert_array_equal(outputs[0].view(np.int32), signed >> unsigned.astype(np.int32))
    np.testing.assert_array_equal(outputs[1], unsigned >> 3)
    np.testing.assert_array_equal(outputs[2], -256 >> (signed & 7))


@glueball.jit
def created(x, a, b, c, d, e, BLOCK: gl.constexpr):
    index = gl.arange(0, BLOCK, LAYOUT)
    value = gl.load(x + index)
    gl.store(a + index, gl.zeros_like(value))
    gl.store(b + index, gl.full_like(value, 2.5, dtype=gl.float32))
    half = gl.full_like(value, 7, shape=[BLOCK // 2])
    gl.store(c + gl.arange(0, BLOCK // 2, LAYOUT), half)
    gl.store(d, gl.full_like(gl.to_tensor(1.5), 3))
    gl.store(e + index, gl.zeros([BLOCK], gl.bfloat16, LAYOUT) + gl.cdiv(value, 4))
    gl.static_assert(gl.cdiv(9, 4) == 3)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_creation(executor, monkeypatch):
    x = np.arange(256, dtype=np.int32)
    outputs = [np.ones(256, np.int32), np.zeros(256, np.float32), np.zeros(128, np.int32), np.zeros(1, np.float32)]
    outputs.append(np.zeros(256, np.float32))
    run(executor, monkeypatch, lambda *a: created[(1,)](*a, 256), x, *outputs)
    expected = [0 * x, np.full(256, 2.5), np.full(128, 7), [3.0], (x + 3) // 4]
    for actual, right in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(actual, right)


@glueball.jit
def refused(x, NAME: gl.constexpr):
    value = gl.load(x)
    if NAME == "exp":
        gl.exp(value)
    if NAME == "sqrt_rn":
        gl.sqrt_rn(value.to(gl.float64))
    if NAME == "umulhi":
        gl.umulhi(value.to(gl.int16), 1)
    if NAME == "fdiv":
        gl.fdiv(value, value, ieee_rounding=True, approx=True)
    if NAME == "fma":
        gl.fma(value.to(gl.int32), 1, 2)
    if NAME == "floordiv":
        value // value


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("exp", r"Expected dtype \['fp32', 'fp64'\] but got fp16"),
        ("sqrt_rn", r"Expected dtype \['fp32'\] but got fp64"),
        ("umulhi", "Expected dtype .* but got int16"),
        ("fdiv", "ieee_rounding and approx exclude one another"),
        ("fma", "fma is for floats, not int32"),
        ("floordiv", "`//` is for integers"),
    ],
)
def test_what_is_refused(name, message, monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    with pytest.raises(CompilationError, match=message):
        refused[(1,)](np.zeros(1, np.float16), name)
