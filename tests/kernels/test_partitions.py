"""Softmax by partitions that load, compute and store, on every executor and under every schedule."""

from __future__ import annotations

import numpy as np
import pytest

import glueball.language as gl
from glueball.kernels.boxes import descriptor
from tests.kernels.harness import EXECUTORS, run
from tests.kernels.partition_kernels import softmax_partitions

LAYOUT = gl.BlockedLayout([4], [32], [4], [0])


def launch_softmax(x, y, stages=2, programs=2):
    """Softmax of rows of 512 elements, which `programs` programs share."""
    described = (descriptor(array, array.shape, (512, 1), (1, 512)) for array in (x, y))
    return softmax_partitions[(programs,)](*described, x.shape[0], stages, LAYOUT)


def check(executor, stages, monkeypatch):
    x, y = np.random.default_rng(0).standard_normal((13, 512)).astype(np.float32), np.zeros((13, 512), np.float32)
    run(executor, monkeypatch, lambda x, y: launch_softmax(x, y, stages), x, y)
    power = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, power / power.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("stages", [2, 3])
def test_softmax(stages, executor, monkeypatch):
    check(executor, stages, monkeypatch)


@pytest.mark.parametrize("schedule", ["random", "late"])
def test_softmax_under_other_schedules(schedule, monkeypatch):
    monkeypatch.setenv("GLUEBALL_SCHEDULE", schedule)
    check("sim", 2, monkeypatch)
