"""Reductions along any axis, in any layout: values against NumPy, equal bits between executors."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError, SharedMemoryRaceError
from glueball.kernels.ladder import Launch
from glueball.lower import lower
from tests.kernels import random_layouts
from tests.kernels.harness import EXECUTORS, random_array, run
from tests.kernels.test_barriers import TARGET, barriers, tile_function, without_barrier
from tests.kernels.test_barriers import run as run_without

ROWS = gl.BlockedLayout([1, 4], [4, 8], [2, 2], [1, 0])
SHAPES = [(4, 64), (32, 16), (1, 256), (128, 1)]
TARGETS = [("sm_90a", 32), ("gfx942", 64)]


@glueball.jit
def add(x, y):
    return x + y


@glueball.jit
def welford(mean, square, count, other_mean, other_square, other_count):
    total = count + other_count
    distance = other_mean - mean
    share = other_count / total
    return mean + distance * share, square + other_square + distance * distance * count * share, total


@glueball.jit
def clipped_sum(x, y):
    total = x + y
    if total > 100:
        total = total - 100
    return total


@glueball.jit
def tile_of(pointer, M: gl.constexpr, N: gl.constexpr, layout: gl.constexpr):
    rows = gl.arange(0, M, gl.SliceLayout(1, layout))
    columns = gl.arange(0, N, gl.SliceLayout(0, layout))
    return gl.load(pointer + rows[:, None] * N + columns[None, :])


@glueball.jit
def store_line(pointer, value, axis: gl.constexpr, extent: gl.constexpr, layout: gl.constexpr):
    if axis is None:
        gl.store(pointer, value)
    else:
        gl.store(pointer + gl.arange(0, extent, gl.SliceLayout(axis, layout)), value)


@glueball.jit
def sum_kernel(x, out, M: gl.constexpr, N: gl.constexpr, axis: gl.constexpr, layout: gl.constexpr):
    store_line(out, gl.sum(tile_of(x, M, N, layout), axis), axis, M if axis == 1 else N, layout)


@glueball.jit
def welford_kernel(x, mean, square, M: gl.constexpr, N: gl.constexpr, axis: gl.constexpr, layout: gl.constexpr):
    tile = tile_of(x, M, N, layout)
    zero = gl.full([M, N], 0.0, gl.float32, layout)
    found = gl.reduce((tile, zero, zero + 1.0), axis, welford)
    store_line(mean, found[0], axis, M if axis == 1 else N, layout)
    store_line(square, found[1], axis, M if axis == 1 else N, layout)


def length(shape, axis):
    return 1 if axis is None else shape[1 - axis]


def run_on(executor, monkeypatch, target, kernel, *arguments, **options):
    if executor == "gpu" and target != "sm_90a":
        pytest.skip("needs a device of that target")
    if executor != "gpu":
        monkeypatch.setenv("GLUEBALL_TARGET", target)
    run(executor, monkeypatch, lambda *given: kernel[(1,)](*given, **options), *arguments)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("target", "lanes"), TARGETS)
@pytest.mark.parametrize("axis", [0, 1, None])
def test_float_sums_in_random_layouts_are_those_of_the_reference(axis, target, lanes, executor, monkeypatch):
    random = np.random.default_rng(lanes + (2 if axis is None else axis))
    for index in range(4 if executor == "gpu" else 10):
        shape, warps = SHAPES[index % len(SHAPES)], 1 << int(random.integers(4))
        layout = random_layouts.any_layout(random, lanes, warps, shape)
        x = random_array(shape, np.float32, index)
        found = {name: np.zeros(length(shape, axis), np.float32) for name in ("reference", executor)}
        for name, out in found.items():
            run_on(name, monkeypatch, target, sum_kernel, x, out, *shape, axis, layout, num_warps=warps)
        np.testing.assert_array_equal(found[executor], found["reference"], f"{layout}")
        np.testing.assert_allclose(found[executor], x.astype(np.float64).sum(axis), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("axis", [0, 1])
def test_combinations_that_round_by_order_agree_in_every_replica(axis, executor, monkeypatch):
    random = np.random.default_rng(axis)
    for index in range(6):
        shape, warps = SHAPES[index % len(SHAPES)], 1 << int(random.integers(3))
        layout = random_layouts.any_layout(random, 32, warps, shape)
        x = random_array(shape, np.float32, index)
        found = {}
        for name in ("reference", executor):
            found[name] = [np.zeros(length(shape, axis), np.float32) for _ in range(2)]
            run_on(name, monkeypatch, "sm_90a", welford_kernel, x, *found[name], *shape, axis, layout, num_warps=warps)
        np.testing.assert_array_equal(found[executor], found["reference"])
        np.testing.assert_allclose(found[executor][0], x.mean(axis, dtype=np.float64), rtol=1e-4, atol=1e-4)
        exact = x.var(axis, dtype=np.float64) * shape[axis]
        np.testing.assert_allclose(found[executor][1], exact, rtol=1e-3, atol=1e-3)


DTYPES = [
    np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.float16,
    ml_dtypes.bfloat16, np.float32, np.float64,
]  # fmt: skip


@glueball.jit
def types_kernel(x, total, greatest, least, place, layout: gl.constexpr, N: gl.constexpr):
    index = gl.arange(0, N, layout)
    tile = gl.load(x + index)
    gl.store(total, gl.sum(tile))
    gl.store(greatest, gl.max(tile))
    value, at = gl.min(tile, 0, return_indices=True)
    gl.store(least, value)
    gl.store(place, at)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_element_types(dtype, executor, monkeypatch):
    kind = np.dtype(dtype)
    x = random_array((512,), dtype)
    whole = kind.kind in "iub"
    sum_type = kind if kind.itemsize >= 4 or not whole else np.dtype(np.int32 if kind.kind == "i" else np.uint32)
    extreme_type = kind if kind.itemsize >= 4 else np.dtype(np.int32 if whole else np.float32)
    total, greatest, least = np.zeros(1, sum_type), np.zeros(1, extreme_type), np.zeros(1, extreme_type)
    place = np.zeros(1, np.int32)
    layout = gl.BlockedLayout([2], [32], [4], [0])
    run_on(executor, monkeypatch, "sm_90a", types_kernel, x, total, greatest, least, place, layout, 512)
    wide = x.astype(extreme_type)
    assert greatest[0] == wide.max() and least[0] == wide.min() and place[0] == wide.argmin()
    if whole:
        assert total[0] == x.astype(sum_type).sum(dtype=sum_type)
    else:
        tolerance = {2: 0.05, 4: 1e-4, 8: 1e-12}[kind.itemsize]
        np.testing.assert_allclose(
            total.astype(np.float64), x.astype(np.float64).sum(), rtol=tolerance, atol=tolerance * 512
        )


@glueball.jit
def library_kernel(x, out, M: gl.constexpr, N: gl.constexpr, layout: gl.constexpr):
    tile = tile_of(x, M, N, layout)
    line = gl.arange(0, M, gl.SliceLayout(1, layout))
    gl.store(out + line, tile.xor_sum(1))
    gl.store(out + M + line, tile.reduce_or(1))
    gl.store(out + 2 * M + line, tile.sum(axis=1, dtype=gl.int32))
    value, place = tile.max(-1, return_indices=True)
    gl.store(out + 3 * M + line, value)
    gl.store(out + 4 * M + line, place)
    column = gl.arange(0, N, gl.SliceLayout(0, layout))
    kept = tile.min(0, keep_dims=True)
    gl.static_assert(kept.shape[0] == 1 and kept.shape[1] == N)
    gl.store(out + 5 * M + column[None, :], kept)
    value, place = gl.max(tile, return_indices=True)
    gl.store(out + 5 * M + N, place)
    gl.store(out + 5 * M + N + 1, gl.reduce(tile & 15, None, clipped_sum))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_library_functions_and_methods(executor, monkeypatch):
    x = np.random.default_rng(0).integers(-20, 20, (8, 64), dtype=np.int32)
    out = np.zeros(5 * 8 + 64 + 2, np.int32)
    run_on(executor, monkeypatch, "sm_90a", library_kernel, x, out, 8, 64, ROWS)
    lines = out[:40].reshape(5, 8)
    np.testing.assert_array_equal(lines[0], np.bitwise_xor.reduce(x, 1))
    np.testing.assert_array_equal(lines[1], np.bitwise_or.reduce(x, 1))
    np.testing.assert_array_equal(lines[2], x.sum(1))
    np.testing.assert_array_equal(lines[3], x.max(1))
    np.testing.assert_array_equal(lines[4], x.argmax(1))
    np.testing.assert_array_equal(out[40:104], x.min(0))
    assert out[104] == x.argmax()
    assert 0 < out[105] <= 100 and (out[105] - (x & 15).sum()) % 100 == 0


@glueball.jit
def nan_kernel(x, out, layout: gl.constexpr):
    tile = gl.load(x + gl.arange(0, 64, layout))
    gl.store(out, gl.max(tile))
    value, place = gl.min(tile, 0, return_indices=True)
    gl.store(out + 1, value)
    gl.store(out + 2, place.to(gl.float32))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_extremes_pass_over_nan(executor, monkeypatch):
    x = np.full(64, np.nan, np.float32)
    x[[7, 40]] = (3.0, -2.0)
    out = np.zeros(3, np.float32)
    run_on(executor, monkeypatch, "sm_90a", nan_kernel, x, out, gl.BlockedLayout([1], [32], [4], [0]))
    assert out.tolist() == [3.0, -2.0, 40.0]


@glueball.jit
def looped_kernel(x, out, M: gl.constexpr, N: gl.constexpr, rounds, layout: gl.constexpr):
    rows = gl.arange(0, M, gl.SliceLayout(1, layout))
    columns = gl.arange(0, N, gl.SliceLayout(0, layout))
    best = gl.full([M], float("-inf"), gl.float32, gl.SliceLayout(1, layout))
    for step in range(rounds):
        best = gl.maximum(best, gl.max(gl.load(x + rows[:, None] * N * 3 + columns[None, :] + step * N), 1))
    gl.store(out + rows, best)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_reductions_in_a_loop_share_scratch_memory_safely(executor, monkeypatch):
    x = random_array((8, 192), np.float32)
    out = np.zeros(8, np.float32)
    layout = gl.BlockedLayout([1, 1], [1, 32], [1, 4], [1, 0])
    run_on(executor, monkeypatch, "sm_90a", looped_kernel, x, out, 8, 64, 3, layout)
    np.testing.assert_array_equal(out, x.max(1))


def test_a_row_takes_its_shuffles_one_round_trip_and_no_more():
    layout = gl.BlockedLayout([1, 4], [1, 32], [1, 8], [1, 0])
    kernel = glueball.compile_only(sum_kernel, "*fp32:16", "*fp32", 1, 4096, 1, layout, num_warps=8, target="sm_90a")
    names = [instruction.record.name for instruction in kernel.thread.body.walk()]
    assert names.count("fadd") == 3 + 12 + 5 + 3 + 1
    assert names.count("shuffle") == 5 + 1
    assert names.count("shared_store") == 1 and names.count("shared_load") == 1 and names.count("barrier") == 1
    assert kernel.metadata.shared == 32
    masks = re.findall(r"shfl\.sync\.(\w+)\.b32 \t%r\d+, %r\d+, (\d+), 31, -1;", kernel.asm["ptx"])
    assert masks == [("bfly", str(1 << bit)) for bit in (*range(5), 0)], "no register holds the partner's index"


@glueball.jit
def two_types(x, y):
    return x.to(gl.float64)


@glueball.jit
def loading(x, y):
    return x


@glueball.jit
def wrong_kernel(x, out, combine: gl.constexpr, axis: gl.constexpr, keep: gl.constexpr):
    tile = gl.load(x + gl.arange(0, 128, gl.BlockedLayout([1], [32], [4], [0])))
    gl.store(out, gl.reduce(tile, axis, combine, keep))


@pytest.mark.parametrize(
    ("combine", "axis", "keep", "message"),
    [
        (add, 1, False, "invalid axis 1 for reduce"),
        (add, -2, False, "invalid axis -2"),
        (add, None, True, "distributed_type"),
        (two_types, 0, False, "must return \\(fp32\\)"),
        (3, 0, False, "combine_fn must be a function decorated"),
        (welford, 0, False, "missing a required argument"),
    ],
)
def test_errors(combine, axis, keep, message, monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    with pytest.raises(CompilationError, match=message):
        wrong_kernel[(1,)](np.zeros(128, np.float32), np.zeros(1, np.float32), combine, axis, keep)


@glueball.jit
def everything_shared(x, out, M: gl.constexpr, N: gl.constexpr, layout: gl.constexpr):
    tile = tile_of(x, M, N, layout)
    for _ in range(2):
        total = gl.sum(tile)
        line = gl.cumsum(gl.max(tile, 1), 0)
        rows = gl.arange(0, M, gl.SliceLayout(1, layout))
        found = gl.gather(line, M - 1 - rows, 0)
        counts = gl.histogram((M - rows) & 7, 8, layout=gl.SliceLayout(1, layout))
        old = gl.atomic_add(out, total)
        gl.store(out + 8 + rows, found + old + gl.sum(counts))
        tile = tile + 1


def test_every_barrier_is_needed_and_there():
    layout = gl.BlockedLayout([1, 1], [4, 8], [2, 2], [1, 0])
    x, out = np.arange(1024, dtype=np.int32).reshape(32, 32) % 17, np.zeros(64, np.int32)
    launch = Launch(everything_shared, (1,), (x, out, 32, 32, layout), {}, 0)
    count = len(barriers(tile_function(launch)))
    assert count >= 6
    run_without(lower(tile_function(launch), TARGET), launch, "late")
    for number in range(count):
        function = tile_function(launch)
        with pytest.raises(SharedMemoryRaceError, match="no barrier between"):
            run_without(without_barrier(function, number), launch, "in_order")
