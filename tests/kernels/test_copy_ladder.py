"""Every rung of the ladder on every executor: equal bits, on sizes that fit and on those that do not."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from glueball.kernels.ladder import RUNGS, launch_1d, launch_converting, tensors
from tests.kernels.harness import EXECUTORS, random_array, run

SIZES = [(256, 256), (200, 1000), (300, 400), (1, 1)]
SMALL_SIZES = [(16, 128), (3, 67), (1, 1)]
DTYPES = [
    np.int8,
    np.uint8,
    np.int16,
    np.float16,
    ml_dtypes.bfloat16,
    np.float32,
    np.int32,
    np.float64,
    np.int64,
    np.bool_,
]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_rungs_copy(rung, executor, monkeypatch):
    for rows, columns in SMALL_SIZES if rung.name == "a" else SIZES:
        seeds = iter(range(10))
        source, destination = tensors(
            rung.view, lambda shape, seeds=seeds: random_array(shape, np.float32, next(seeds)), rows, columns
        )
        run(executor, monkeypatch, lambda x, y: rung.launch(x, y, 32).run(), source, destination)
        np.testing.assert_array_equal(destination, source)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("size", [1, 4])
def test_element_types(dtype, size, executor, monkeypatch):
    source, destination = random_array((5000,), dtype), random_array((5000,), dtype, 1)
    run(executor, monkeypatch, lambda x, y: launch_1d(size)(x, y, 32).run(), source, destination)
    np.testing.assert_array_equal(destination.view(np.uint8), source.view(np.uint8))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_converting_copies_of_every_element_type(dtype, executor, monkeypatch):
    source, destination = random_array((70, 130), dtype), random_array((130, 70), dtype, 1).T
    run(executor, monkeypatch, lambda x, y: launch_converting(64, 64, 4)(x, y, 32).run(), source, destination)
    np.testing.assert_array_equal(destination, source)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_views(executor, monkeypatch):
    backing, target = random_array((3000,), np.float32), random_array((3000,), np.float32, 1)
    before = target.copy()
    run(executor, monkeypatch, lambda x, y: launch_1d(4)(x, y, 32).run(), backing[1:2500], target[3:2502])
    np.testing.assert_array_equal(target[3:2502], backing[1:2500])
    np.testing.assert_array_equal(target[:3], before[:3])
    np.testing.assert_array_equal(target[2502:], before[2502:])


@pytest.mark.parametrize("executor", EXECUTORS)
def test_negative_and_zero_strides(executor, monkeypatch):
    backing, target = random_array((64, 96), np.float32), random_array((64, 96), np.float32, 1)
    launch = launch_converting(64, 64, 4)
    if executor != "gpu":
        run(executor, monkeypatch, lambda x, y: launch(x, y, 32).run(), backing[::-1, ::-1], target)
        np.testing.assert_array_equal(target, backing[::-1, ::-1])
    repeated = np.ndarray((64, 96), np.float32, backing, strides=(0, 4))
    run(executor, monkeypatch, lambda x, y: launch(x, y, 32).run(), repeated, target)
    np.testing.assert_array_equal(target, repeated)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_nothing_to_copy(executor, monkeypatch):
    source, destination = np.empty(0, np.float32), np.empty(0, np.float32)
    run(executor, monkeypatch, lambda x, y: launch_1d(4)(x, y, 32).run(), source, destination)
