"""Gathers, histograms and functions mapped over elements."""

from __future__ import annotations

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError, OutOfBoundsError
from tests.kernels import random_layouts
from tests.kernels.harness import EXECUTORS, random_array
from tests.kernels.test_reductions import TARGETS, run_on, tile_of
from tests.kernels.test_scans import store_tile


@glueball.jit
def gather_kernel(x, index, out, M: gl.constexpr, N: gl.constexpr, axis: gl.constexpr, extent: gl.constexpr,
                  source_layout: gl.constexpr, layout: gl.constexpr):  # fmt: skip
    rows: gl.constexpr = extent if axis == 0 else M
    columns: gl.constexpr = extent if axis == 1 else N
    found = gl.gather(tile_of(x, M, N, source_layout), tile_of(index, rows, columns, layout), axis)
    store_tile(out, found, rows, columns, layout)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("target", "lanes"), TARGETS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
def test_gathers_between_random_layouts(dtype, axis, target, lanes, executor, monkeypatch):
    random = np.random.default_rng(lanes + axis)
    for index in range(5):
        shape, extent, warps = (16, 32), 1 << int(random.integers(7)), 1 << int(random.integers(3))
        wanted = (extent, 32) if axis == 0 else (16, extent)
        layouts = [random_layouts.any_layout(random, lanes, warps, each) for each in (shape, wanted)]
        x = random_array(shape, dtype, index)
        places = random.integers(0, shape[axis], wanted, dtype=np.int32)
        out = np.zeros(wanted, dtype)
        run_on(
            executor,
            monkeypatch,
            target,
            gather_kernel,
            x,
            places,
            out,
            *shape,
            axis,
            extent,
            *layouts,
            num_warps=warps,
        )
        np.testing.assert_array_equal(out, np.take_along_axis(x, places, axis))


@glueball.jit
def gather_slice(x, out, M: gl.constexpr, N: gl.constexpr, axis: gl.constexpr, place: gl.constexpr,
                 source_layout: gl.constexpr, layout: gl.constexpr):  # fmt: skip
    rows: gl.constexpr = 1 if axis == 0 else M
    columns: gl.constexpr = 1 if axis == 1 else N
    index = gl.full([rows, columns], place, gl.int32, layout)
    store_tile(out, gl.gather(tile_of(x, M, N, source_layout), index, axis), rows, columns, layout)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("target", "lanes"), TARGETS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64, np.bool_])
def test_gathers_of_one_place(dtype, axis, target, lanes, executor, monkeypatch):
    random = np.random.default_rng(lanes + axis)
    for index in range(8):
        shape, warps = (16, 32), 1 << int(random.integers(4))
        wanted = (1, 32) if axis == 0 else (16, 1)
        layouts = [random_layouts.any_layout(random, lanes, warps, each) for each in (shape, wanted)]
        x, out, place = random_array(shape, dtype, index), np.zeros(wanted, dtype), int(random.integers(shape[axis]))
        arguments = (x, out, *shape, axis, place, *layouts)
        run_on(executor, monkeypatch, target, gather_slice, *arguments, num_warps=warps)
        np.testing.assert_array_equal(out, np.take(x, [place], axis))


def test_one_place_of_a_row_takes_the_memory_of_one_element():
    layout = gl.BlockedLayout([1, 4], [1, 32], [1, 4], [1, 0])
    kernel = glueball.compile_only(gather_slice, "*fp32", "*fp32", 1, 2048, 1, 2047, layout, layout, target="sm_90a")
    assert kernel.shared_bytes == 16
    assert kernel.asm["ptx"].count("st.shared") == 1


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.bool_])
def test_a_gather_within_warps_needs_no_scratch_memory(dtype, executor, monkeypatch):
    layout = gl.BlockedLayout([1, 2], [4, 8], [4, 1], [1, 0])
    x, out = random_array((16, 16), dtype), np.zeros((16, 16), dtype)
    places = np.random.default_rng(0).integers(0, 16, (16, 16), dtype=np.int64)
    run_on(executor, monkeypatch, "sm_90a", gather_kernel, x, places, out, 16, 16, 1, 16, layout, layout)
    np.testing.assert_array_equal(out, np.take_along_axis(x, places, 1))
    kernel = glueball.compile_only(
        gather_kernel, "*fp32", "*i32", "*fp32", 16, 16, 1, 16, layout, layout, target="sm_90a"
    )
    assert kernel.metadata.shared == 0


@pytest.mark.parametrize("executor", ["reference", "sim"])
def test_a_gather_outside_is_reported(executor, monkeypatch):
    x, places, out = np.zeros((16, 16), np.float32), np.full((16, 16), 16, np.int32), np.zeros((16, 16), np.float32)
    places[0, 0] = 400
    row, column = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0]), gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    with pytest.raises(OutOfBoundsError):
        run_on(executor, monkeypatch, "sm_90a", gather_kernel, x, places, out, 16, 16, 1, 16, column, row)


@glueball.jit
def histogram_kernel(x, limit, out, N: gl.constexpr, bins: gl.constexpr, layout: gl.constexpr, into: gl.constexpr):
    index = gl.arange(0, N, layout)
    for block in range(2):
        values = gl.load(x + index + block * N)
        counts = gl.histogram(values, bins, mask=index + block * N < limit, layout=into)
        place = out + gl.arange(0, bins, into)
        gl.store(place, gl.load(place) + counts)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("target", "lanes"), TARGETS)
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
@pytest.mark.parametrize(("size", "bins"), [(512, 128), (16, 2), (64, 256)])
def test_histograms(size, bins, dtype, target, lanes, executor, monkeypatch):
    x = np.random.default_rng(size).integers(0, min(bins, 250), 2 * size).astype(dtype)
    out = np.zeros(bins, np.int32)
    layouts = [gl.BlockedLayout([2], [lanes], [4], [0]), gl.BlockedLayout([1], [lanes], [4], [0])]
    run_on(executor, monkeypatch, target, histogram_kernel, x, 2 * size - 3, out, size, bins, *layouts)
    np.testing.assert_array_equal(out, np.bincount(x[:-3], minlength=bins))


@glueball.jit
def collatz(start, limit):
    value = start
    steps = start * 0
    while (value > 1) & (steps < limit):
        if value % 2 == 0:  # noqa: SIM108 - a branch is what is tested
            value = value // 2
        else:
            value = 3 * value + 1
        steps += 1
    return steps


@glueball.jit
def ordered(a0, a1, b0, b1):
    return gl.minimum(a0, a1), gl.maximum(a0, a1), b0 - b1, b1 - b0


@glueball.jit
def map_kernel(x, out, N: gl.constexpr, layout: gl.constexpr):
    index = gl.arange(0, N, layout)
    values = gl.load(x + index)
    gl.store(out + index, gl.map_elementwise(collatz, values, 60))
    least, difference = gl.map_elementwise(ordered, values, values.to(gl.float32), pack=2)
    gl.store(out + N + index, least)
    gl.store(out + 2 * N + index, difference.to(gl.int32))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_mapped_functions_branch_for_every_element(executor, monkeypatch):
    x = np.random.default_rng(0).integers(1, 1000, 256, dtype=np.int32)
    out = np.zeros((3, 256), np.int32)
    layout = gl.BlockedLayout([2], [32], [2], [0])
    run_on(executor, monkeypatch, "sm_90a", map_kernel, x, out, 256, layout, num_warps=2)
    steps = []
    for start in x.tolist():
        value, count = start, 0
        while value > 1 and count < 60:
            value, count = (value // 2 if value % 2 == 0 else 3 * value + 1), count + 1
        steps.append(count)
    np.testing.assert_array_equal(out[0], steps)
    pairs = x.reshape(-1, 2)
    np.testing.assert_array_equal(out[1].reshape(-1, 2), np.sort(pairs, 1))
    np.testing.assert_array_equal(
        out[2].reshape(-1, 2), np.stack([pairs[:, 0] - pairs[:, 1], pairs[:, 1] - pairs[:, 0]], 1)
    )


@glueball.jit
def storing(x):
    gl.store(x.to(gl.pointer_type(gl.int32)), 1)
    return x


@glueball.jit
def wrong_map(x, which: gl.constexpr, layout: gl.constexpr):
    tile = gl.arange(0, 128, layout)
    if which == "nothing":
        gl.map_elementwise(collatz)
    elif which == "pack":
        gl.map_elementwise(ordered, tile, tile, pack=2)
    elif which == "store":
        gl.map_elementwise(storing, tile.to(gl.int64))
    elif which == "gather":
        gl.gather(tile, tile.to(gl.float32), 0)
    elif which == "bins":
        gl.histogram(tile, 24, layout=layout)
    else:
        gl.histogram(tile, 32)


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("nothing", "at least one tile"),
        ("pack", "2 elements of a thread at a time, but each holds 1"),
        ("store", "cannot use `store`"),
        ("gather", "index must be of integers"),
        ("bins", "power of 2"),
        ("layout", "requires a destination layout"),
    ],
)
def test_errors(which, message, monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    with pytest.raises(CompilationError, match=message):
        wrong_map[(1,)](np.zeros(1, np.int32), which, gl.BlockedLayout([1], [32], [4], [0]))
