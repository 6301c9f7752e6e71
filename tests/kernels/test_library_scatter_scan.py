"""Embedding, histogram, cross entropy and running sums."""

from __future__ import annotations

import numpy as np
import pytest

from glueball import kernels
from tests.kernels.harness import EXECUTORS, random_array
from tests.kernels.library import BFLOAT16, assert_within, call, normal, wide

executors = pytest.mark.parametrize("executor", EXECUTORS)


@executors
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16, np.int8], ids=lambda kind: np.dtype(kind).name)
def test_embedding(dtype, executor, monkeypatch):
    random = np.random.default_rng(0)
    for entries, columns in [(10, 300), (1000, 7), (3, 1)]:
        table = random_array((entries, columns), dtype)
        for index in (random.integers(0, entries, (3, 11)), random.integers(0, entries, 70, dtype=np.int32)):
            np.testing.assert_array_equal(call(executor, monkeypatch, kernels.embedding, table, index), table[index])
    outside = np.array([1, -1, 3])
    expected = np.stack([table[1], np.zeros(1, dtype), np.zeros(1, dtype)])
    np.testing.assert_array_equal(call(executor, monkeypatch, kernels.embedding, table, outside), expected)


@executors
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8], ids=lambda kind: np.dtype(kind).name)
def test_histogram(dtype, executor, monkeypatch):
    for count, bins in [(9001, 37), (5, 1), (300, 256), (0, 8)]:
        x = np.random.default_rng(bins).integers(0 if dtype is np.uint8 else -3, bins + 10, count).astype(dtype)
        expected = np.bincount(x[(x >= 0) & (x < bins)].astype(np.int64), minlength=bins)
        np.testing.assert_array_equal(call(executor, monkeypatch, kernels.histogram, x, bins=bins), expected)


@executors
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16], ids=lambda kind: np.dtype(kind).name)
def test_cross_entropy_and_its_gradient(dtype, executor, monkeypatch):
    random = np.random.default_rng(3)
    for rows, classes in [(5, 1000), (3, 4700), (17, 3)]:
        logits, targets = normal((rows, classes), dtype), random.integers(0, classes, rows)
        targets[1] = -1
        loss, log_sum = call(executor, monkeypatch, kernels.cross_entropy, logits, targets)
        x = wide(logits)
        exact = np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1)
        np.testing.assert_allclose(log_sum, exact, rtol=2e-6)
        expected = np.where(targets < 0, 0.0, exact - x[np.arange(rows), targets])
        # The loss is a difference of numbers of up to some 15.
        np.testing.assert_allclose(loss, expected, atol=1e-5)
        outer = normal(rows, seed=4)
        found = call(executor, monkeypatch, kernels.cross_entropy_backward, outer, logits, targets, log_sum)
        share = np.exp(x - exact[:, None])
        share[np.arange(rows), targets] -= 1
        assert_within(found, share * np.where(targets < 0, 0.0, wide(outer))[:, None], 1e-5)


@executors
@pytest.mark.parametrize("chunk", [32768, 512])
def test_running_sums(chunk, executor, monkeypatch):
    for shape in [(3, 1), (5, 700), (2, 5000)]:
        x = normal(shape)
        bound = 1e-6 * np.cumsum(np.abs(wide(x)), -1)
        found = call(executor, monkeypatch, kernels.cumsum, x, chunk=chunk)
        assert (np.abs(found - np.cumsum(wide(x), -1)) <= bound).all()
        x = normal(shape, BFLOAT16)
        assert_within(call(executor, monkeypatch, kernels.cumsum, x, chunk=chunk), np.cumsum(wide(x), -1), 1e-5)
        for kind, total in [(np.int8, np.int32), (np.int64, np.int64)]:
            x = random_array(shape, kind)
            found = call(executor, monkeypatch, kernels.cumsum, x, chunk=chunk)
            np.testing.assert_array_equal(found, np.cumsum(x, -1, dtype=total))


@executors
def test_a_line_of_many_chunks(executor, monkeypatch):
    x = random_array(20011, np.int32)
    found = call(executor, monkeypatch, kernels.cumsum, x, chunk=64)
    np.testing.assert_array_equal(found, np.cumsum(x, dtype=np.int32))


def test_wrong_arguments():
    x = np.zeros((2, 2), np.float32)
    with pytest.raises(ValueError, match="bins"):
        kernels.histogram(np.zeros(4, np.int32), 10000)
    with pytest.raises(ValueError, match="power of two"):
        kernels.cumsum(x, 100)
    with pytest.raises(ValueError, match="one class a row"):
        kernels.cross_entropy(x, np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="signed integers"):
        kernels.cross_entropy(x, np.zeros(2, np.float32))
