"""Scans along any axis, in both directions, in any layout."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.codegen.disassembly import line_table
from tests.kernels import random_layouts
from tests.kernels.harness import EXECUTORS, random_array
from tests.kernels.machine_code import needs_disassembler
from tests.kernels.test_reductions import SHAPES, TARGETS, run_on, tile_of


@glueball.jit
def store_tile(pointer, value, M: gl.constexpr, N: gl.constexpr, layout: gl.constexpr):
    rows = gl.arange(0, M, gl.SliceLayout(1, layout))
    columns = gl.arange(0, N, gl.SliceLayout(0, layout))
    gl.store(pointer + rows[:, None] * N + columns[None, :], value)


@glueball.jit
def cumsum_kernel(
    x, out, M: gl.constexpr, N: gl.constexpr, axis: gl.constexpr, reverse: gl.constexpr, layout: gl.constexpr
):
    store_tile(out, gl.cumsum(tile_of(x, M, N, layout), axis, reverse), M, N, layout)


@glueball.jit
def compose(factor, shift, next_factor, next_shift):
    return factor * next_factor, shift * next_factor + next_shift


@glueball.jit
def affine_kernel(x, out, M: gl.constexpr, N: gl.constexpr, axis: gl.constexpr, reverse: gl.constexpr,
                  layout: gl.constexpr):  # fmt: skip
    tile = tile_of(x, M, N, layout)
    factor, shift = gl.associative_scan((tile, tile + 1), axis, compose, reverse)
    store_tile(out, factor, M, N, layout)
    store_tile(out + M * N, shift, M, N, layout)


def affine_scan(x, axis, reverse):
    """The same maps composed one by one, first to last."""
    x = np.moveaxis(x.astype(np.int32), axis, -1)[..., :: -1 if reverse else 1]
    factor, shift = np.empty_like(x), np.empty_like(x)
    factor[..., 0], shift[..., 0] = x[..., 0], x[..., 0] + 1
    for index in range(1, x.shape[-1]):
        factor[..., index] = factor[..., index - 1] * x[..., index]
        shift[..., index] = shift[..., index - 1] * x[..., index] + x[..., index] + 1
    return [np.moveaxis(each[..., :: -1 if reverse else 1], -1, axis) for each in (factor, shift)]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("target", "lanes"), TARGETS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_running_sums_in_random_layouts_are_those_of_the_reference(reverse, axis, target, lanes, executor, monkeypatch):
    random = np.random.default_rng(lanes + 2 * axis + reverse)
    for index in range(3 if executor == "gpu" else 8):
        shape, warps = SHAPES[index % len(SHAPES)], 1 << int(random.integers(4))
        layout = random_layouts.any_layout(random, lanes, warps, shape)
        x = random_array(shape, np.float32, index)
        found = {name: np.zeros(shape, np.float32) for name in ("reference", executor)}
        for name, out in found.items():
            run_on(name, monkeypatch, target, cumsum_kernel, x, out, *shape, axis, reverse, layout, num_warps=warps)
        np.testing.assert_array_equal(found[executor], found["reference"], f"{layout}")
        exact = x.astype(np.float64)
        exact = np.flip(np.cumsum(np.flip(exact, axis), axis), axis) if reverse else np.cumsum(exact, axis)
        np.testing.assert_allclose(found[executor], exact, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_combinations_that_do_not_commute(reverse, axis, executor, monkeypatch):
    random = np.random.default_rng(10 + 2 * axis + reverse)
    for index in range(6):
        shape, warps = SHAPES[index % len(SHAPES)], 1 << int(random.integers(4))
        layout = random_layouts.any_layout(random, 32, warps, shape)
        x = random.integers(-1000, 1000, shape, dtype=np.int32)
        out = np.zeros((2, *shape), np.int32)
        run_on(executor, monkeypatch, "sm_90a", affine_kernel, x, out, *shape, axis, reverse, layout, num_warps=warps)
        for found, wanted in zip(out, affine_scan(x, axis, reverse), strict=True):
            np.testing.assert_array_equal(found, wanted, f"{layout}")


@glueball.jit
def library_kernel(x, sums, products, narrow, layout: gl.constexpr):
    index = gl.arange(0, 64, layout)
    tile = gl.load(x + index)
    gl.store(sums + index, tile.cumsum())
    gl.store(products + index, gl.cumprod(tile, dtype=gl.float64))
    gl.store(narrow + index, gl.cumsum(tile, 0, True, gl.int8))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_library_functions(executor, monkeypatch):
    x = np.random.default_rng(0).integers(1, 3, 64, dtype=np.int8)
    sums, products, narrow = np.zeros(64, np.int32), np.zeros(64, np.float64), np.zeros(64, np.int8)
    layout = gl.BlockedLayout([2], [32], [2], [0])
    run_on(executor, monkeypatch, "sm_90a", library_kernel, x, sums, products, narrow, layout, num_warps=2)
    np.testing.assert_array_equal(sums, np.cumsum(x, dtype=np.int32))
    np.testing.assert_array_equal(products, np.cumprod(x, dtype=np.float64))
    np.testing.assert_array_equal(narrow, np.cumsum(x[::-1], dtype=np.int8)[::-1])


def compiled(layout, M, N, reverse=False):
    return glueball.compile_only(
        cumsum_kernel, "*fp32:16", "*fp32:16", M, N, 1, reverse, layout, num_warps=4, target="sm_90a"
    )


def test_a_scan_takes_one_round_trip_and_one_shift_per_lane_bit():
    kernel = compiled(gl.BlockedLayout([1, 4], [1, 32], [1, 4], [1, 0]), 1, 512)
    names = [instruction.record.name for instruction in kernel.thread.body.walk()]
    assert names.count("shift") == 5 + 1 and names.count("shuffle") == 1 and names.count("barrier") == 1
    assert names.count("shared_store") == 1 and names.count("shared_load") == 1
    # Of registers, lanes and warps, what comes before a warp in front of what comes before a lane, and each element.
    assert names.count("fadd") == 3 + 5 + 3 + 1 + 4
    assert kernel.metadata.shared == 16


@needs_disassembler
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_a_scan_within_a_warp_is_a_shuffle_and_an_addition_for_each_lane_bit(reverse):
    kernel = compiled(gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0]), 4, 128, reverse)
    found = Counter(re.sub(r"^@!?P\d+ ", "", each.text).split()[0] for each in line_table(kernel.asm["cubin"]))
    assert found["SHFL.DOWN" if reverse else "SHFL.UP"] == 5 + 1
    assert found["FADD"] == 3 + 5 + 4
    # The shuffle says whether there is such a lane; only the first sum is needed as it was.
    assert found["FSEL"] <= 2
    assert not any(name.startswith(("BAR", "STS", "LDS", "SHFL.IDX")) for name in found)
    assert kernel.n_spills == 0


@glueball.jit
def sums_and_scans(x, out, steps, layout: gl.constexpr):
    place = gl.arange(0, 256, layout)
    carry = 0.0
    for step in range(steps):
        tile = gl.load(x + step * 256 + place)
        gl.store(out + step * 256 + place, gl.cumsum(tile) + carry)
        carry += gl.sum(tile)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_exchanges_in_a_loop_do_not_wait_for_one_another(executor, monkeypatch):
    layout = gl.BlockedLayout([2], [32], [4], [0])
    x = np.random.default_rng(0).integers(-8, 8, 1024).astype(np.float32)
    out = np.zeros_like(x)
    run_on(executor, monkeypatch, "sm_90a", sums_and_scans, x, out, 4, layout)
    np.testing.assert_array_equal(out, np.cumsum(x))
    kernel = glueball.compile_only(sums_and_scans, "*fp32:16", "*fp32:16", 4, layout, target="sm_90a")
    names = [instruction.record.name for instruction in kernel.thread.body.walk()]
    assert names.count("barrier") == 2
    assert kernel.metadata.shared == 32
