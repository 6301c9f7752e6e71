"""Loads of the pixels under a filter's tap: against NumPy, and as a convolution."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.language.nvidia.hopper import mbarrier, tma
from glueball.nvidia.hopper import TensorDescriptorIm2Col
from tests.kernels.bulk_kernels import rows_of
from tests.kernels.harness import EXECUTORS, random_array, run


@glueball.jit
def reads_pixels(source, y, where, taps, layout: gl.constexpr):
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.nbytes_per_cta)
    tma.async_load_im2col(source, where, taps, bar, view)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    M: gl.constexpr = source.block_shape[0]
    N: gl.constexpr = source.block_shape[1]
    row = gl.arange(0, M, layout=gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, N, layout=gl.SliceLayout(0, layout))[None, :]
    gl.store(y + row * N + column, view.load(layout))


def described(array: Any, block: Sequence[int], swizzle: int, **more: Any) -> TensorDescriptorIm2Col:
    return TensorDescriptorIm2Col.from_tensor(array, list(block), gl.NVMMASharedLayout(swizzle, 16), **more)


def walk(shape: Sequence[int], lower: Sequence[int], upper: Sequence[int], steps: Sequence[int]) -> Iterator[Any]:
    """Batch and place of every pixel of the box, the last spatial dimension fastest."""
    spatial = [
        range(low, extent + high, step)
        for extent, low, high, step in zip(shape[1:-1], lower, upper, steps[1:-1], strict=True)
    ]
    for batch in itertools.count():
        for place in itertools.product(*spatial):
            yield batch, place


def pixels_of(
    x: Any, block: Sequence[int], where: Sequence[int], taps: Sequence[int], lower: Any, upper: Any, steps: Any
) -> Any:
    """What a load brings, by the definition."""
    found = np.zeros(block, x.dtype)
    places = itertools.dropwhile(lambda at: (at[0], *at[1]) != tuple(where[:-1]), walk(x.shape, lower, upper, steps))
    for row, (batch, place) in enumerate(itertools.islice(places, block[0])):
        moved = [start + tap for start, tap in zip(place, taps, strict=True)]
        fits = all(0 <= index < extent for index, extent in zip(moved, x.shape[1:-1], strict=True))
        if batch < x.shape[0] and fits:
            channels = x[(batch, *moved)][where[-1] : where[-1] + block[1]]
            found[row, : len(channels)] = channels
    return found


CASES = [
    # shape, block, where, taps, lower, upper, steps, swizzle
    ((2, 20, 64), (16, 32), (0, -1, 32), (2,), (-1,), (-1,), (1, 1, 1), 64),
    ((2, 8, 8, 64), (64, 64), (0, -1, -1, 0), (0, 0), (-1, -1), (-1, -1), (1, 1, 1, 1), 128),
    ((2, 8, 8, 64), (64, 64), (0, 2, 3, 0), (1, 2), (-1, -1), (-1, -1), (1, 1, 1, 1), 128),
    ((2, 9, 7, 128), (32, 128), (1, 1, -1, 0), (2, 0), (-1, -1), (-1, -1), (1, 2, 2, 1), 128),
    ((1, 6, 6, 32), (64, 16), (0, 0, 0, 16), (0, 0), (0, 0), (0, 0), (1, 1, 1, 1), 32),
    ((2, 4, 5, 6, 32), (64, 32), (0, 0, -1, 2, 0), (1, 0, 2), (-1, -1, -1), (-1, -1, -1), (1, 1, 1, 1, 1), 64),
]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{len(case[0])}-{case[2]}")
def test_pixels(executor: str, case: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, block, where, taps, lower, upper, steps, swizzle = case
    x, y = random_array(shape, np.float16), np.zeros(block, np.float16)
    layout = rows_of(block)
    fields = {
        "element_strides": list(steps),
        "pixel_box_lower_corner": list(lower),
        "pixel_box_upper_corner": list(upper),
    }

    def launch(x: Any, y: Any) -> Any:
        return reads_pixels[(1,)](described(x, block, swizzle, **fields), y, where, taps, layout)

    run(executor, monkeypatch, launch, x, y)
    np.testing.assert_array_equal(y, pixels_of(x, block, where, taps, lower, upper, steps))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_tap_of_a_filter(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The taps of a 3 x 3 filter with a border of one pixel: each is the image moved by one."""
    x = random_array((1, 8, 8, 64), np.float16)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    layout = rows_of((64, 64))
    corners = {"pixel_box_lower_corner": [-1, -1], "pixel_box_upper_corner": [-1, -1]}
    for i, j in itertools.product(range(3), repeat=2):
        y = np.zeros((64, 64), np.float16)

        def launch(x: Any, y: Any, taps: Any = (i, j)) -> Any:
            return reads_pixels[(1,)](described(x, (64, 64), 128, **corners), y, (0, -1, -1, 0), taps, layout)

        run(executor, monkeypatch, launch, x, y)
        np.testing.assert_array_equal(y, padded[0, i : i + 8, j : j + 8].reshape(64, 64))
