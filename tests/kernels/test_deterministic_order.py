"""With `deterministic`, sums and running sums of floats do not depend on layout, warps, target or executor."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import glueball
import glueball.language as gl
from tests.kernels import random_layouts
from tests.kernels.harness import EXECUTORS, random_array, run
from tests.kernels.test_reductions import store_line, tile_of

LANES = {"sm_90a": 32, "gfx942": 64}
SHAPES = [(4, 256), (64, 8)]


@glueball.jit
def sums(x, total, line, running, M: gl.constexpr, N: gl.constexpr, axis: gl.constexpr, layout: gl.constexpr):
    tile = tile_of(x, M, N, layout)
    gl.store(total, gl.sum(tile))
    store_line(line, gl.sum(tile, axis), axis, M if axis == 1 else N, layout)
    rows = gl.arange(0, M, gl.SliceLayout(1, layout))[:, None]
    place = rows * N + gl.arange(0, N, gl.SliceLayout(0, layout))[None, :]
    gl.store(running + place, gl.cumsum(tile, axis, reverse=axis == 0))


def halves_summed(values: np.ndarray) -> np.ndarray:
    """One half of the last axis added to the other, until one element is left."""
    while values.shape[-1] > 1:
        middle = values.shape[-1] // 2
        values = (values[..., :middle] + values[..., middle:]).astype(values.dtype)
    return values[..., 0]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("kind", [np.float32, np.float16], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("axis", [0, 1])
def test_the_order_follows_from_the_shape(axis, kind, executor, monkeypatch):
    random = np.random.default_rng(axis)
    for shape in SHAPES:
        x = random_array(shape, kind, shape[0])
        scans = {}
        for target, lanes in LANES.items():
            if executor == "gpu" and target != "sm_90a":
                continue
            for warps in (1, 2, 8):
                layout = random_layouts.any_layout(random, lanes, warps, shape)
                total, line, running = np.zeros(1, kind), np.zeros(shape[1 - axis], kind), np.zeros_like(x)
                with monkeypatch.context() as patch:
                    if executor != "gpu":
                        patch.setenv("GLUEBALL_TARGET", target)
                    launch = functools.partial(sums[(1,)], num_warps=warps, deterministic=True)
                    run(executor, patch, launch, x, total, line, running, *shape, axis, layout)
                where = f"{shape}, {warps} warps, {layout}"
                np.testing.assert_array_equal(total[0], halves_summed(x.reshape(-1)), where)
                np.testing.assert_array_equal(line, halves_summed(np.moveaxis(x, axis, -1)), where)
                np.testing.assert_array_equal(running, scans.setdefault(target, running), where)
                ordered = np.flip(x, 0) if axis == 0 else x
                exact = np.cumsum(ordered.astype(np.float64), axis)
                tolerance = {2: 0.1, 4: 1e-4, 8: 1e-12}[x.dtype.itemsize]
                np.testing.assert_allclose(
                    running.astype(np.float64), np.flip(exact, 0) if axis == 0 else exact, rtol=tolerance,
                    atol=tolerance * 100,
                )  # fmt: skip


@glueball.jit
def counts(flags, bytes_, small, halves, out):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    index = gl.arange(0, 4096, layout)
    gl.store(out, gl.sum(gl.load(flags + index, index < 1024, False)))
    gl.store(out + 1, gl.sum(gl.load(small + index, index < 300, 0)))
    gl.store(out + 2, gl.sum(gl.load(bytes_ + index, index < 1000, 0)))
    gl.store(out + 3, gl.sum(gl.load(halves + index)))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_sums_of_narrow_types_are_wide_enough(executor, monkeypatch):
    out = np.zeros(4, np.int64)
    flags, bytes_ = np.ones(1024, np.bool_), np.full(1000, 255, np.uint8)
    small, halves = np.full(300, 100, np.int8), np.ones(4096, np.float16)
    run(executor, monkeypatch, counts[(1,)], flags, bytes_, small, halves, out)
    assert out.tolist() == [1024, 30000, 255000, 4096]
