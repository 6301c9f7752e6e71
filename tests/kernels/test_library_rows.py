"""Softmax, norms and reductions of rows, held in registers and looped over, against float64.

Sums of float32 in a tree err by about log2(columns) roundings; 2e-6 of a row's greatest magnitude is twice what the
longest rows here showed, and the hardware's exponential adds 2^-22 + |x| 2^-23, hence 1e-5 for softmax.
"""

from __future__ import annotations

import numpy as np
import pytest

import glueball
from glueball import kernels
from glueball.kernels.arrays import RowPlan, plan_rows
from glueball.kernels.rows import softmax_looped, softmax_rows
from tests.kernels.harness import EXECUTORS
from tests.kernels.library import (
    BFLOAT16,
    assert_within,
    call,
    check_softmax_of_extremes,
    exact_softmax,
    normal,
    normalised,
    wide,
)

SHAPES = [(5, 300), (3, 1), (1, 1500), (67, 40)]
PLANS = {"held": None, "looped": RowPlan(1, 256, 2, 2)}
DTYPES = [np.float32, BFLOAT16]

executors = pytest.mark.parametrize("executor", EXECUTORS)
plans = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)


@executors
@plans
@dtypes
def test_softmax(dtype, plan, executor, monkeypatch):
    for shape in SHAPES:
        x = normal(shape, dtype)
        assert_within(call(executor, monkeypatch, kernels.softmax, x, plan=plan), exact_softmax(x), 1e-5)


@executors
@plans
def test_softmax_of_large_and_infinite_elements(plan, executor, monkeypatch):
    check_softmax_of_extremes(executor, monkeypatch, 700, plan)


@executors
@plans
@dtypes
def test_rms_norm(dtype, plan, executor, monkeypatch):
    for shape in SHAPES:
        x, weight = normal(shape, dtype), normal(shape[1], dtype, 1)
        y, scale = call(executor, monkeypatch, kernels.rms_norm, x, weight, plan=plan)
        expected, _, exact_scale = normalised(x, centred=False)
        assert_within(y, expected * wide(weight), 2e-6)
        assert_within(scale[:, None], exact_scale, 2e-6)


@executors
@plans
@dtypes
def test_layer_norm(dtype, plan, executor, monkeypatch):
    for shape in SHAPES:
        x, weight, bias = normal(shape, dtype) + dtype(20), normal(shape[1], dtype, 1), normal(shape[1], dtype, 2)
        y, mean, scale = call(executor, monkeypatch, kernels.layer_norm, x, weight, bias, plan=plan)
        expected, exact_mean, exact_scale = normalised(x, centred=True)
        assert_within(mean[:, None], exact_mean, 1e-6)
        if shape[1] > 1:
            # The mean, of magnitude 20, is rounded to 2^-20 of a deviation of about 3.
            assert_within(y, expected * wide(weight) + wide(bias), 5e-6)
            assert_within(scale[:, None], exact_scale, 2e-6)


@executors
def test_norms_without_weights_and_of_more_dimensions(executor, monkeypatch):
    x = normal((2, 3, 130))
    y, scale = call(executor, monkeypatch, kernels.rms_norm, x)
    assert scale.shape == (2, 3)
    assert_within(y, normalised(x, centred=False)[0], 2e-6)
    assert_within(call(executor, monkeypatch, kernels.layer_norm, x)[0], normalised(x, centred=True)[0], 2e-6)


def exact_gradients(gradient, x, weight, *, centred):
    normal_rows, _, scale = normalised(x, centred=centred)
    weighed = wide(gradient) * wide(weight)
    inner = weighed - normal_rows * (weighed * normal_rows).mean(-1, keepdims=True)
    if centred:
        inner = inner - weighed.mean(-1, keepdims=True)
    return scale * inner, (wide(gradient) * normal_rows).sum(0), wide(gradient).sum(0)


@executors
@dtypes
@pytest.mark.parametrize("centred", [False, True], ids=["rms", "layer"])
def test_gradients_of_norms(centred, dtype, executor, monkeypatch):
    for shape in [(300, 65), (5, 1030)]:
        x, gradient, weight = normal(shape, dtype), normal(shape, dtype, 1), normal(shape[1], dtype, 2)
        _, mean, scale = (each.astype(np.float32)[..., 0] if np.ndim(each) else None
                          for each in normalised(x, centred=centred))  # fmt: skip
        if centred:
            found = call(executor, monkeypatch, kernels.layer_norm_backward, gradient, x, weight, mean, scale)
        else:
            found = call(executor, monkeypatch, kernels.rms_norm_backward, gradient, x, weight, scale)
        for actual, expected in zip(found, exact_gradients(gradient, x, weight, centred=centred), strict=False):
            assert_within(actual, expected, 5e-6)


@executors
@plans
@dtypes
def test_sums_and_maxima(dtype, plan, executor, monkeypatch):
    for shape in SHAPES:
        x = normal(shape, dtype)
        total = call(executor, monkeypatch, kernels.row_sum, x, plan=plan)
        bound = 1e-6 * np.abs(wide(x)).sum(-1)
        assert (np.abs(total - wide(x).sum(-1)) <= bound).all()
        np.testing.assert_array_equal(call(executor, monkeypatch, kernels.row_max, x, plan=plan), wide(x).max(-1))


@executors
def test_rows_apart_in_memory_and_none_at_all(executor, monkeypatch):
    x = normal((6, 400))[::2, 7:300]
    assert_within(call(executor, monkeypatch, kernels.softmax, x), exact_softmax(x), 1e-5)
    assert call(executor, monkeypatch, kernels.softmax, np.zeros((0, 8), np.float32)).shape == (0, 8)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="last dimension"):
        kernels.softmax(np.zeros((3, 0), np.float32))
    with pytest.raises(ValueError, match="neighbours"):
        kernels.softmax(np.zeros((4, 6), np.float32)[:, ::2])
    with pytest.raises(ValueError, match="weight must have the shape"):
        kernels.rms_norm(np.zeros((4, 6), np.float32), np.zeros(5, np.float32))
    with pytest.raises(ValueError, match="at most"):
        line = np.zeros(20000, np.float32)
        kernels.rms_norm_backward(line[None], line[None], line, np.ones(1, np.float32))
    with pytest.raises(AttributeError, match="no attribute"):
        _ = kernels.sofmax


@pytest.mark.parametrize("columns", [1, 33, 1024, 1025, 4096, 16384, 32768, 131072, 10**6])
@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_plans_use_every_thread_and_whole_vectors(columns, itemsize):
    plan = plan_rows(columns, itemsize)
    layout = plan.layout(8 * itemsize, 32)
    assert plan.parts or plan.block >= columns
    assert layout.size_per_thread[1] * itemsize <= 16
    if columns >= 4096:
        assert layout.size_per_thread[1] * itemsize == 16 and layout.warps_per_cta == (1, plan.warps)


@pytest.mark.parametrize("columns", [4096, 32768, 131072])
def test_every_access_to_a_row_moves_sixteen_bytes(columns):
    plan = plan_rows(columns, 2)
    kernel = softmax_looped if plan.parts else softmax_rows
    numbers = ["i32:16"] * (3 if plan.parts else 4)
    compiled = glueball.compile_only(kernel, "*bf16:16", "*bf16:16", *numbers, **plan.keywords(16, 32), target="sm_90a")
    lines = [line for line in compiled.asm["ptx"].splitlines() if "ld.global" in line or "st.global" in line]
    assert lines and all(".v4.b32" in line for line in lines)
