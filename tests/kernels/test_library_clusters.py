"""Rows that clusters share, on every executor."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from glueball.kernels.cluster_rows import ClusterRowPlan, launch_rms_norm_split, launch_softmax_split, why_not_split
from tests.kernels.harness import EXECUTORS, run
from tests.kernels.library import exact_softmax, wide

executors = pytest.mark.parametrize("executor", EXECUTORS)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
PLANS = [ClusterRowPlan(2, 4, 2, 3), ClusterRowPlan(4, 4, 1, 1, 64), ClusterRowPlan(8, 2, 2, 2)]


def matrix(rows, columns, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(dtype)


@executors
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.ctas} CTAs")
@pytest.mark.parametrize("dtype", [BFLOAT16, np.dtype(np.float32)], ids=str)
def test_softmax(dtype, plan, executor, monkeypatch):
    x, y = matrix(5, 4096, dtype), np.zeros((5, 4096), dtype)
    run(executor, monkeypatch, lambda x, y: launch_softmax_split(x, y, plan).run(), x, y)
    np.testing.assert_allclose(wide(y), exact_softmax(x), rtol=1e-2 if dtype == BFLOAT16 else 1e-5)


def uneven_rows():
    """Rows of which warps have nothing but minus infinity, or one has what makes all others nothing."""
    x = matrix(9, 4096, np.float32)
    x[0, :2048] = -np.inf
    x[1, 256:] = -np.inf
    x[2, :] = -np.inf
    x[3, 4095] = np.inf
    x[4, 100] = np.nan
    x[5, 1024:2048] = np.nan
    x[6] += 1e6
    x[7] *= 3e37
    x[7, 3000], x[7, 10:20] = 3.4e38, -3.4e38
    x[8, 0::2] = -np.inf
    return x


@executors
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.ctas} CTAs")
def test_softmax_of_parts_with_nothing_in_them(plan, executor, monkeypatch):
    x = uneven_rows()
    y = np.zeros_like(x)
    run(executor, monkeypatch, lambda x, y: launch_softmax_split(x, y, plan).run(), x, y)
    with np.errstate(invalid="ignore"):
        expected = exact_softmax(x)
    assert np.isnan(expected).all(axis=1).tolist() == [False, False, True, True, True, True, False, False, False]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-37)


@executors
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.ctas} CTAs")
@pytest.mark.parametrize("weighted", [True, False])
def test_rms_norm(weighted, plan, executor, monkeypatch):
    x, y, scale = matrix(5, 4096, BFLOAT16), np.zeros((5, 4096), BFLOAT16), np.zeros(5, np.float32)
    weight = matrix(1, 4096, BFLOAT16, seed=1)[0] if weighted else None

    def launch(x, weight, y, scale):
        return launch_rms_norm_split(x, weight, y, scale, 1e-5, plan).run()

    run(executor, monkeypatch, launch, x, weight, y, scale)
    wide = x.astype(np.float64)
    expected_scale = 1 / np.sqrt((wide * wide).mean(axis=1) + 1e-5)
    expected = wide * expected_scale[:, None] * (1 if weight is None else weight.astype(np.float64))
    np.testing.assert_allclose(scale, expected_scale, rtol=1e-5)
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=1e-2, atol=1e-3)


def test_rows_that_a_cluster_does_not_share():
    assert "power of two" in why_not_split(np.zeros((2, 3072), np.float32), PLANS[0])
    with pytest.raises(ValueError, match="does not share these rows: rows have a power of two"):
        launch_softmax_split(np.zeros((2, 3072), np.float32), np.zeros((2, 3072), np.float32), PLANS[0])
