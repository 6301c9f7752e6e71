"""Operations that compute, for every element type that they take: what NumPy computes.

Operands are whole numbers small enough that every float type has all results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from tests.kernels.harness import EXECUTORS, run

SIZE = gl.constexpr(64)
LINE = gl.constexpr(gl.BlockedLayout([2], [32], [4], [0]))
PLAIN = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
DENSE = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
NARROW = ["float8e5", "float8e4nv", "float8e4b8", "float8e5b16"]
WIDE = ["int32", "int64", "uint32", "uint64"]
NUMBERS = [*INTEGERS, *FLOATS]

everywhere = pytest.mark.parametrize("executor", EXECUTORS)


def small(kind: str, seed: int, least: int = 0, greatest: int = 8) -> np.ndarray:
    """Whole numbers of an element type; booleans are those that are odd."""
    values = np.random.default_rng(seed).integers(least, greatest, 64)
    return values % 2 == 1 if kind == "int1" else values.astype(getattr(gl, kind).numpy)


def launched(executor: str, kernel: Any, inputs: list[np.ndarray], kinds: list[Any], *arguments: Any) -> list[Any]:
    """What a kernel stores into arrays of 64 elements of the given NumPy types."""
    outputs = [np.zeros(64, kind) for kind in kinds]
    with pytest.MonkeyPatch.context() as patch:
        run(executor, patch, lambda *arrays: kernel[(1,)](*arrays, *arguments), *inputs, *outputs)
    return outputs


@glueball.jit
def comparisons(x, y, out):
    index = gl.arange(0, SIZE, LINE)
    a, b = gl.load(x + index), gl.load(y + index)
    bits = (a == b).to(gl.int32) + (a != b).to(gl.int32) * 2 + (a < b).to(gl.int32) * 4
    bits += (a <= b).to(gl.int32) * 8 + (a > b).to(gl.int32) * 16 + (a >= b).to(gl.int32) * 32
    chosen = gl.where(a < b, a, b)
    gl.static_assert(chosen.dtype == a.dtype)
    gl.store(out + index, bits + gl.where(chosen == a, 64, 0) + (not (a.to(gl.int1))).to(gl.int32) * 128)


@everywhere
@pytest.mark.parametrize("kind", ["int1", *NUMBERS, *NARROW])
def test_comparisons(kind: str, executor: str) -> None:
    x, y = small(kind, 1, -4 if kind[0] not in "u" else 0), small(kind, 2)
    if "float" in kind:
        x[:3] = np.nan
    (found,) = launched(executor, comparisons, [x, y], [np.int32])
    a, b = (array.astype(np.float64) if "float" in kind else array for array in (x, y))
    expected = (a == b) + (a != b) * 2 + (a < b) * 4 + (a <= b) * 8 + (a > b) * 16 + (a >= b) * 32
    np.testing.assert_array_equal(found, expected + np.where((a < b) | (a == b), 64, 0) + (a == 0) * 128)


@glueball.jit
def arithmetic(x, y, total, difference, product, clamped, quotient, remainder):
    index = gl.arange(0, SIZE, LINE)
    a, b = gl.load(x + index), gl.load(y + index)
    gl.store(total + index, gl.add(a, b))
    gl.store(difference + index, gl.sub(b, a))
    gl.store(product + index, gl.mul(a, b))
    gl.store(clamped + index, gl.clamp(a, 2, 5))
    gl.store(quotient + index, a / b)
    gl.store(remainder + index, a % b)


@everywhere
@pytest.mark.parametrize("kind", NUMBERS)
def test_arithmetic(kind: str, executor: str) -> None:
    x, y = small(kind, 1), small(kind, 2, 1)
    numpy_type = x.dtype
    wide = np.float64 if kind == "float64" else np.float32
    rest = numpy_type if kind in INTEGERS else wide
    found = launched(executor, arithmetic, [x, y], [*[numpy_type] * 4, wide, rest])
    expected = [x + y, y - x, x * y, np.clip(x, numpy_type.type(2), numpy_type.type(5))]
    expected += [x.astype(wide) / y.astype(wide), np.fmod(x.astype(rest), y.astype(rest))]
    for number, (part, wanted) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(part, wanted, f"part {number}")


@glueball.jit
def greater(a, b):
    return gl.maximum(a, b)


@glueball.jit
def mixed(a, b):
    if a < b:
        return b - a
    return a + b


@glueball.jit
def folds(x, y, sums, products, greatest, mapped, scalars):
    index = gl.arange(0, SIZE, LINE)
    a, b = gl.load(x + index), gl.load(y + index)
    gl.store(sums + index, gl.cumsum(a, 0))
    gl.store(products + index, gl.cumprod(gl.where(index < 4, a, a * 0 + 1), 0, reverse=True))
    gl.store(greatest + index, gl.associative_scan(a, 0, greater))
    gl.store(mapped + index, gl.map_elementwise(mixed, a, b))
    gl.store(scalars, gl.reduce(a, 0, greater))
    gl.static_assert(gl.max(a, 0, return_indices=True)[1].dtype == gl.int32)
    gl.store(scalars + 1, a.argmax(0).to(a.dtype))
    gl.store(scalars + 2, (b - b).argmin(0).to(a.dtype))


@everywhere
@pytest.mark.parametrize("kind", NUMBERS)
def test_folds(kind: str, executor: str) -> None:
    x, y = small(kind, 1, 0, 4), small(kind, 2, 0, 4)
    sums = {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}.get(kind, x.dtype)
    found = launched(executor, folds, [x, y], [sums, sums, x.dtype, x.dtype, x.dtype])
    exact = x.astype(np.float64)
    expected = [np.cumsum(exact), np.cumprod(np.where(np.arange(64) < 4, exact, 1)[::-1])[::-1]]
    expected += [np.maximum.accumulate(exact), np.where(x < y, y - x, x + y).astype(np.float64)]
    for number, (part, wanted) in enumerate(zip(found[:4], expected, strict=True)):
        np.testing.assert_array_equal(part.astype(np.float64), wanted, f"part {number}")
    assert found[4][:3].astype(np.float64).tolist() == [exact.max(), exact.argmax(), 0]


@glueball.jit
def bits(x, y, exclusive, inclusive, counts, found):
    index = gl.arange(0, SIZE, LINE)
    a, b = gl.load(x + index), gl.load(y + index)
    gl.store(exclusive, gl.xor_sum(a))
    gl.store(inclusive, gl.reduce_or(a, 0))
    gl.store(exclusive + 1, a.max(0) ^ b.min(0))
    bins = gl.arange(0, 16, PLAIN)
    gl.store(counts + bins, gl.histogram(a, 16, mask=index < 50, layout=PLAIN))
    gl.store(found + index, gl.gather(a, b, 0))


@everywhere
@pytest.mark.parametrize("kind", INTEGERS)
def test_bits(kind: str, executor: str) -> None:
    x, y = small(kind, 1, 0, 16), small(kind, 2, 0, 64)
    wide = np.int32 if x.dtype.itemsize < 4 else x.dtype
    exclusive, inclusive, counts, found = launched(executor, bits, [x, y], [x.dtype, x.dtype, np.int32, x.dtype])
    assert exclusive[0] == np.bitwise_xor.reduce(x) and inclusive[0] == np.bitwise_or.reduce(x)
    assert exclusive[1] == (x.astype(wide).max() ^ y.astype(wide).min())
    np.testing.assert_array_equal(counts[:16], np.bincount(x[:50].astype(np.int64), minlength=16))
    np.testing.assert_array_equal(found, x[y.astype(np.int64)])


@glueball.jit
def whole_accesses(x, out):
    index = gl.arange(0, SIZE, LINE)
    gl.atomic_store(out + index, gl.atomic_load(x + index), index < 60)
    there = gl.load(out + index)
    old = gl.atomic_cas(out + index, there, there)
    gl.atomic_store(out + index, gl.where(index < 10, old, gl.atomic_load(out + index, sem="relaxed")))


@everywhere
@pytest.mark.parametrize("kind", [*(kind for kind in NUMBERS if kind not in ("int8", "uint8"))])
def test_atomic_accesses(kind: str, executor: str) -> None:
    x = small(kind, 1, 1)
    (found,) = launched(executor, whole_accesses, [x], [x.dtype])
    np.testing.assert_array_equal(found, np.where(np.arange(64) < 60, x, x.dtype.type(0)))


@glueball.jit
def polls(x, out):
    index = gl.arange(0, SIZE, LINE)
    value = gl.load(x + index)
    gl.store(out + index, gl.atomic_poll(x + index, value) & ~gl.atomic_poll(x + index, value + 1, timeout_ns=0))


@everywhere
@pytest.mark.parametrize("kind", [kind for kind in INTEGERS if kind not in ("int8", "uint8")])
def test_polls(kind: str, executor: str) -> None:
    (found,) = launched(executor, polls, [small(kind, 1)], [np.bool_])
    assert found.all()


@glueball.jit
def shared_changes(x, out, old, NAME: gl.constexpr):
    index = gl.arange(0, SIZE, LINE)
    value = gl.load(x + index)
    view = gl.allocate_shared_memory(value.dtype, [SIZE], DENSE, value * 0 + 3)
    if NAME == "add":
        before = view.atomic_scatter_add(value, index & 15, 0)
    elif NAME == "max":
        before = view.atomic_scatter_max(value, index & 15, 0)
    elif NAME == "min":
        before = view.atomic_scatter_min(value, index & 15, 0)
    elif NAME == "and":
        before = view.atomic_scatter_and(value, index & 15, 0)
    elif NAME == "or":
        before = view.atomic_scatter_or(value, index & 15, 0)
    elif NAME == "xor":
        before = view.atomic_scatter_xor(value, index & 15, 0)
    else:
        before = view.atomic_scatter_xchg(value, index, 0, index < 60)
    gl.store(out + index, view.load(LINE))
    gl.store(old + index, before, index < 60)


CHANGES = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


@everywhere
@pytest.mark.parametrize("kind", [*WIDE, "float32", "float64"])
def test_changes_of_shared_memory(kind: str, executor: str) -> None:
    for name, change in CHANGES.items():
        if "float" in kind and name != "add":
            continue
        x = small(kind, 1)
        found, old = launched(executor, shared_changes, [x], [x.dtype, x.dtype], name)
        expected = np.full(64, 3, x.dtype)
        change.at(expected, np.arange(64) & 15, x)
        np.testing.assert_array_equal(found, expected, name)
        first = np.array([3 in old[place:60:16] for place in range(16)])
        assert first.all(), f"{name}: one access of each element finds what was there before"
    found, old = launched(executor, shared_changes, [x], [x.dtype, x.dtype], "xchg")
    np.testing.assert_array_equal(found, np.where(np.arange(64) < 60, x, x.dtype.type(3)))
    np.testing.assert_array_equal(old, np.where(np.arange(64) < 60, 3, 0))
