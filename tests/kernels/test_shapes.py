"""Operations that give elements another shape: values against NumPy, and the layouts of the results."""

from __future__ import annotations

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError
from tests.kernels import random_layouts
from tests.kernels.harness import EXECUTORS, random_array
from tests.kernels.test_reductions import run_on, tile_of

P = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])


@glueball.jit
def reshape_kernel(x, out, M: gl.constexpr, N: gl.constexpr, layout: gl.constexpr):
    tile = tile_of(x, M, N, layout)
    index = (
        gl.arange(0, M, gl.SliceLayout(1, layout))[:, None] * N + gl.arange(0, N, gl.SliceLayout(0, layout))[None, :]
    )
    flat = tile.reshape(M * N)
    gl.store(out + gl.ravel(index), flat)
    cube = gl.reshape(tile, [M // 2, 2, N])
    gl.store(out + M * N + index.reshape(M // 2, 2, N), cube)
    turned = gl.permute(cube, 2, 0, 1)
    gl.store(out + 2 * M * N + gl.permute(index.reshape(M // 2, 2, N), [2, 0, 1]), turned)
    gl.store(out + 3 * M * N + gl.ravel(index), gl.ravel(tile.T.trans()))
    pair = gl.join(tile, -tile)
    gl.static_assert(pair.shape[2] == 2)
    gl.store(out + 4 * M * N + gl.join(index * 2, index * 2 + 1), pair)
    first, second = gl.split(pair)
    gl.store(out + 6 * M * N + gl.split(gl.join(index, index))[0], first - second)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_shapes_in_random_layouts(executor, monkeypatch):
    random = np.random.default_rng(0)
    for _ in range(8):
        warps, shape = 1 << int(random.integers(3)), (8, 16)
        layout = random_layouts.units(random, 32, warps, shape)
        if random.integers(2):
            layout = random_layouts.blocked(random, 32, warps)
        x, out = random_array(shape, np.float32), np.zeros(7 * 128, np.float32)
        run_on(executor, monkeypatch, "sm_90a", reshape_kernel, x, out, *shape, layout, num_warps=warps)
        flat = x.reshape(-1)
        for part in (0, 1, 2, 3):
            np.testing.assert_array_equal(out[part * 128 : part * 128 + 128], flat, f"part {part} of {layout}")
        np.testing.assert_array_equal(out[512:768].reshape(-1, 2), np.stack([flat, -flat], 1))
        np.testing.assert_array_equal(out[768:], 2 * flat)


@glueball.jit
def small_kernel(x, out, layout: gl.constexpr):
    parent: gl.constexpr = gl.SliceLayout(1, gl.SliceLayout(2, layout))
    line = gl.load(x + gl.arange(0, 8, parent))
    wide = gl.expand_dims(line, [1, -1])
    gl.static_assert(wide.shape[0] == 8 and wide.shape[1] == 1 and wide.shape[2] == 1)
    grown, other = gl.broadcast(wide, gl.zeros([8, 2, 4], gl.float32, layout))
    gl.store(out, gl.sum(grown + other))
    gl.store(out + 1, gl.sum(line.expand_dims(1).expand_dims(2).broadcast_to(8, 2, 4)))
    one = gl.sum(line, 0, keep_dims=True)
    gl.store(out + 2, one.item() + one.reshape([]))
    two = gl.load(x + gl.arange(0, 2, gl.BlockedLayout([2], [32], [4], [0])))
    first, second = two.split()
    gl.store(out + 3, first - second)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_small_shapes(executor, monkeypatch):
    x, out = random_array((8,), np.float32), np.zeros(4, np.float32)
    layout = gl.BlockedLayout([1, 1, 1], [8, 2, 2], [1, 1, 4], [2, 1, 0])
    run_on(executor, monkeypatch, "sm_90a", small_kernel, x, out, layout)
    total = x.sum()
    np.testing.assert_allclose(out, [8 * total, 8 * total, 2 * total, x[0] - x[1]], rtol=1e-5)


@glueball.jit
def layouts_kernel(layout: gl.constexpr):
    tile = gl.zeros([64, 32], gl.float32, layout)
    cube: gl.constexpr = gl.BlockedLayout([1, 1, 4], [1, 4, 8], [4, 1, 1], [2, 1, 0])
    gl.static_assert(tile.reshape(16, 4, 32).type.layout == cube)
    gl.static_assert(tile.reshape(2048).type.layout == gl.BlockedLayout([4], [32], [4], [0]))
    gl.static_assert(tile.T.type.layout == gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1]))
    gl.static_assert(tile.sum(1).type.layout == gl.SliceLayout(1, layout))
    gl.static_assert(tile.sum(0, keep_dims=True).type.layout == layout)
    gl.static_assert(gl.join(tile, tile).type.layout == gl.BlockedLayout([1, 4, 2], [4, 8, 1], [4, 1, 1], [2, 1, 0]))
    halves: gl.constexpr = gl.split(gl.join(tile, tile))[0].type.layout
    gl.static_assert(halves == gl.SliceLayout(2, gl.join(tile, tile).type.layout))
    gl.static_assert(gl.cumsum(tile, 0).type == tile.type)


def test_result_layouts(monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    layouts_kernel[(1,)](P)


@glueball.jit
def wrong_kernel(case: gl.constexpr, layout: gl.constexpr):
    tile = gl.zeros([8, 32], gl.float32, layout)
    if case == "elements":
        tile.reshape(8, 16)
    elif case == "reorder":
        gl.reshape(tile, 256, can_reorder=True)
    elif case == "scalars":
        gl.join(1.0, 2.0)
    elif case == "extent":
        gl.split(tile)
    elif case == "threads":
        gl.split(gl.zeros([64, 2], gl.float32, gl.BlockedLayout([1, 1], [16, 2], [4, 1], [1, 0])))
    elif case == "item":
        tile.item()
    elif case == "scalar":
        gl.ravel(tile.sum())
    else:
        gl.permute(tile, 0, 0)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("elements", "cannot change total number of elements"),
        ("reorder", "not supported in gluon"),
        ("scalars", "Cannot join scalars"),
        ("extent", "last dimension of extent 2"),
        ("threads", "requires at least 2 elements per thread in the axis/last dimension"),
        ("item", "single-element"),
        ("scalar", "distributed_type"),
        ("permutation", "must be a permutation"),
    ],
)
def test_errors(case, message, monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    with pytest.raises(CompilationError, match=message):
        wrong_kernel[(1,)](case, P)
