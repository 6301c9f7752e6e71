"""Every conversion between element types on every executor, over all values of the narrow types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import numerics
from glueball.errors import CompilationError
from tests.kernels.harness import EXECUTORS, run

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
NARROW = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
BLOCK = 1024
LAYOUT = gl.constexpr(gl.BlockedLayout([4], [32], [4], [0]))


def numpy_type(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def assert_same(actual, expected):
    """Equal bits, any NaN being equal to any NaN."""
    assert actual.dtype == expected.dtype
    if actual.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
        return
    with np.errstate(all="ignore"):
        wide, also = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(wide, also)
    numbers = ~np.isnan(also)
    np.testing.assert_array_equal(np.signbit(wide[numbers]), np.signbit(also[numbers]))


def values_of(name):
    """All values of a type of up to 16 bits; of a wider one random bits, and what lies around every power of two."""
    dtype = numpy_type(name)
    if dtype.itemsize <= 2:
        count = 1 << (8 * dtype.itemsize)
        return np.arange(count, dtype=np.uint32).astype(f"u{dtype.itemsize}").view(dtype)
    unsigned = f"u{dtype.itemsize}"
    random = np.random.default_rng(11).integers(0, 1 << 62, 4096).astype(np.uint64)
    bits = (random * np.uint64(5)).astype(unsigned).view(dtype)
    with np.errstate(all="ignore"):
        if dtype.kind in "iu":
            powers = np.left_shift(dtype.type(1), np.arange(8 * dtype.itemsize, dtype=dtype))
            near = np.concatenate([powers - dtype.type(1), powers, powers + dtype.type(1)])
        else:
            powers = np.ldexp(np.ones(160), np.arange(-80, 80)).astype(dtype)
            normal = (np.random.default_rng(12).standard_normal(2048) * 100).astype(dtype)
            near = np.concatenate([powers, np.nextafter(powers, dtype.type(0)), powers * dtype.type(1.5), normal])
    values = np.concatenate([bits, near, np.negative(near) if dtype.kind != "u" else near])
    return values[: len(values) - len(values) % 8]


def converted(x, target):
    """What the table of numbers says."""
    if target == np.bool_:
        return x != 0
    if x.dtype.kind in "biu":
        return x.astype(target) if target.kind in "iu" else numerics.integer_to_float(x, target)
    return numerics.float_to_integer(x, target) if target.kind in "iu" else numerics.round_float(x, target)


@glueball.jit
def store_as_all(x, a, b, c, d, e, f, g, h, i, j, k, m, o, n, BLOCK: gl.constexpr):
    index = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, LAYOUT)
    mask = index < n
    value = gl.load(x + index, mask)
    gl.store(a + index, value, mask)
    gl.store(b + index, value, mask)
    gl.store(c + index, value, mask)
    gl.store(d + index, value, mask)
    gl.store(e + index, value, mask)
    gl.store(f + index, value, mask)
    gl.store(g + index, value, mask)
    gl.store(h + index, value, mask)
    gl.store(i + index, value, mask)
    gl.store(j + index, value, mask)
    gl.store(k + index, value, mask)
    gl.store(m + index, value, mask)
    gl.store(o + index, value, mask)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("source", ["bool", *INTEGERS, *FLOATS])
def test_casts_between_integers_and_floats(source, executor, monkeypatch):
    x = np.array([False, True] * 8) if source == "bool" else values_of(source)
    targets = [np.dtype(np.bool_), *map(numpy_type, [*INTEGERS, *FLOATS])]
    outputs = [np.zeros(len(x), target) for target in targets]
    grid = (-(-len(x) // BLOCK),)
    run(executor, monkeypatch, lambda *arrays: store_as_all[grid](*arrays, len(x), BLOCK), x, *outputs)
    with np.errstate(all="ignore"):
        for target, output in zip(targets, outputs, strict=True):
            assert_same(output, converted(x, target))


@glueball.jit
def round_to_narrow(x, a, b, c, d, e, zero_a, zero_b, zero_c, zero_d, zero_e, n, BLOCK: gl.constexpr):
    index = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, LAYOUT)
    mask = index < n
    value = gl.load(x + index, mask)
    gl.store(a + index, value.to(gl.float8e4nv), mask)
    gl.store(b + index, value.to(gl.float8e5), mask)
    gl.store(c + index, value.to(gl.float8e4b8), mask)
    gl.store(d + index, value.to(gl.float8e5b16), mask)
    gl.store(e + index, value.to(gl.float8e4b15).to(gl.uint8, bitcast=True), mask)
    gl.store(zero_a + index, value.to(gl.float8e4nv, fp_downcast_rounding="rtz"), mask)
    gl.store(zero_b + index, value.to(gl.float8e5, fp_downcast_rounding="rtz"), mask)
    gl.store(zero_c + index, value.to(gl.float8e4b8, fp_downcast_rounding="rtz"), mask)
    gl.store(zero_d + index, value.to(gl.float8e5b16, fp_downcast_rounding="rtz"), mask)
    gl.store(zero_e + index, value.to(gl.float8e4b15, fp_downcast_rounding="rtz").to(gl.uint8, bitcast=True), mask)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("source", FLOATS)
def test_rounding_to_eight_bits(source, executor, monkeypatch):
    x = values_of(source)
    outputs = [np.zeros(len(x), kind) for kind in (*map(numpy_type, NARROW), np.uint8) * 2]
    grid = (-(-len(x) // BLOCK),)
    run(executor, monkeypatch, lambda *arrays: round_to_narrow[grid](*arrays, len(x), BLOCK), x, *outputs)
    for position, output in enumerate(outputs):
        rounding = "nearest" if position < 5 else "zero"
        if position % 5 == 4:
            np.testing.assert_array_equal(output, numerics.encode_e4m3b15(x, rounding))
        else:
            assert_same(output, numerics.round_float(x, output.dtype, rounding))


@glueball.jit
def widen(x, a, b, c, d, e, f, n, KIND: gl.constexpr, BLOCK: gl.constexpr):
    index = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, LAYOUT)
    mask = index < n
    value = gl.load(x + index, mask).to(KIND, bitcast=True)
    gl.store(a + index, value.to(gl.float16), mask)
    gl.store(b + index, value.to(gl.bfloat16), mask)
    gl.store(c + index, value.to(gl.float32), mask)
    gl.store(d + index, value.to(gl.float64), mask)
    gl.store(e + index, value.to(gl.int1), mask)
    gl.store(f + index, gl.abs(value).to(gl.uint8, bitcast=True), mask)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("kind", [gl.float8e4nv, gl.float8e5, gl.float8e4b8, gl.float8e5b16, gl.float8e4b15], ids=str)
def test_every_code_of_eight_bits(kind, executor, monkeypatch):
    x = np.arange(256, dtype=np.uint8)
    outputs = [np.zeros(256, numpy_type(name)) for name in FLOATS] + [np.zeros(256, bool), np.zeros(256, np.uint8)]
    run(executor, monkeypatch, lambda *arrays: widen[(1,)](*arrays, 256, kind, BLOCK), x, *outputs)
    own = kind == gl.float8e4b15
    exact = numerics.decode_e4m3b15(x) if own else x.view(kind.numpy).astype(np.float32)
    for output in outputs[:4]:
        assert_same(output, exact.astype(output.dtype))
    np.testing.assert_array_equal(outputs[4], exact != 0)
    magnitude = outputs[5] if own else outputs[5].view(kind.numpy).astype(np.float32)
    np.testing.assert_array_equal(magnitude, x & 0x7F if own else np.abs(exact))


@glueball.jit
def between_narrow(x, a, b, c, d, BLOCK: gl.constexpr):
    index = gl.arange(0, BLOCK, LAYOUT)
    value = gl.load(x + index)
    gl.store(a + index, value.to(gl.float8e4nv))
    gl.store(b + index, value.to(gl.float8e5))
    gl.store(c + index, value.to(gl.float8e4b8))
    gl.store(d + index, value.to(gl.float8e5b16))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("source", NARROW)
def test_casts_between_kinds_of_eight_bits(source, executor, monkeypatch):
    x = values_of(source)
    outputs = [np.zeros(256, numpy_type(name)) for name in NARROW]
    run(executor, monkeypatch, lambda *arrays: between_narrow[(1,)](*arrays, 256), x, *outputs)
    for output in outputs:
        assert_same(output, numerics.round_float(x, output.dtype))


@glueball.jit
def round_toward_zero(x, half, brain, single, n, WIDE: gl.constexpr, BLOCK: gl.constexpr):
    index = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, LAYOUT)
    mask = index < n
    value = gl.load(x + index, mask)
    gl.store(half + index, value.to(gl.float16, fp_downcast_rounding="rtz"), mask)
    gl.store(brain + index, value.to(gl.bfloat16, fp_downcast_rounding="rtz"), mask)
    if WIDE:
        gl.store(single + index, value.to(gl.float32, fp_downcast_rounding="rtz"), mask)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_rounding_toward_zero(source, executor, monkeypatch):
    x = values_of(source)
    outputs = [np.zeros(len(x), numpy_type(name)) for name in ("float16", "bfloat16", "float32")]
    grid, wide = (-(-len(x) // BLOCK),), source == "float64"
    run(executor, monkeypatch, lambda *arrays: round_toward_zero[grid](*arrays, len(x), wide, BLOCK), x, *outputs)
    for output in outputs[: 3 if wide else 2]:
        assert_same(output, numerics.round_float(x, output.dtype, "zero"))


@glueball.jit
def literals(a, b, c, d, e, BLOCK: gl.constexpr):
    index = gl.arange(0, BLOCK, LAYOUT)
    gl.store(a + index, gl.full([BLOCK], 1.1, gl.float8e4nv, LAYOUT))
    gl.store(b + index, gl.full([BLOCK], -3.3, gl.float8e5, LAYOUT))
    gl.store(c + index, gl.full([BLOCK], 1000.0, gl.float8e4b8, LAYOUT))
    gl.store(d + index, gl.full([BLOCK], 0.1, gl.float8e5b16, LAYOUT))
    gl.store(e + index, gl.full([BLOCK], 0.3, gl.float8e4b15, LAYOUT).to(gl.uint8, bitcast=True))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_literals_of_eight_bits(executor, monkeypatch):
    outputs = [np.zeros(128, numpy_type(name)) for name in NARROW[:1] + NARROW[1:2] + NARROW[2:]]
    outputs.append(np.zeros(128, np.uint8))
    run(executor, monkeypatch, lambda *arrays: literals[(1,)](*arrays, 128), *outputs)
    for output, number in zip(outputs, (1.1, -3.3, 1000.0, 0.1), strict=False):
        assert_same(output, numerics.round_float(np.full(128, number), output.dtype))
    assert (outputs[4] == numerics.encode_e4m3b15(np.float64(0.3))).all()


@glueball.jit
def cast_with(x, TYPE: gl.constexpr, ROUNDING: gl.constexpr):
    value = gl.load(x)
    gl.static_assert(value.to(TYPE, fp_downcast_rounding=ROUNDING).dtype == TYPE)


@pytest.mark.parametrize(
    ("source", "target", "rounding", "message"),
    [
        ("float32", gl.float16, "up", "must be 'rtne' or 'rtz', not 'up'"),
        ("float32", gl.float64, "rtz", "should be set only for truncating fp conversions"),
        ("int32", gl.float16, "rtz", "should be set only for truncating fp conversions"),
        ("float8_e5m2", gl.int32, None, "cannot cast fp8e5 to int32"),
        ("int32", gl.float8e5, None, "cannot cast int32 to fp8e5"),
    ],
)
def test_casts_that_are_refused(source, target, rounding, message, monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    with pytest.raises(CompilationError, match=message):
        cast_with[(1,)](np.zeros(1, numpy_type(source)), target, rounding)


@glueball.jit
def store_bool(x, y, BLOCK: gl.constexpr):
    index = gl.arange(0, BLOCK, LAYOUT)
    gl.store(y + index, gl.load(x + index))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_stores_to_bool(executor, monkeypatch):
    x, y = np.array([0, 1, 2, 256, -1, 0, 0, 0] * 16, np.int32), np.zeros(128, bool)
    run(executor, monkeypatch, lambda *arrays: store_bool[(1,)](*arrays, 128), x, y)
    assert y[:5].tolist() == [False, True, True, True, True]
    np.testing.assert_array_equal(y.view(np.uint8), x != 0)
