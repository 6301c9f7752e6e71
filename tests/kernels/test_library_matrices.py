"""Transpose and product."""

from __future__ import annotations

import numpy as np
import pytest

from glueball import kernels, numerics
from tests.kernels.harness import EXECUTORS, random_array
from tests.kernels.library import BFLOAT16, call, normal

executors = pytest.mark.parametrize("executor", EXECUTORS)


@executors
@pytest.mark.parametrize("dtype", [np.int8, BFLOAT16, np.float32, np.float64], ids=lambda kind: np.dtype(kind).name)
def test_transpose(dtype, executor, monkeypatch):
    for shape in [(1, 1), (64, 128), (100, 37), (3, 500), (200, 1)]:
        x = random_array(shape, dtype)
        np.testing.assert_array_equal(call(executor, monkeypatch, kernels.transpose, x), x.T)
    x = random_array((70, 400), dtype)[::2, 7:300]
    np.testing.assert_array_equal(call(executor, monkeypatch, kernels.transpose, x), x.T)
    assert call(executor, monkeypatch, kernels.transpose, np.zeros((0, 8), dtype)).shape == (8, 0)


def product(a, b):
    """Terms added in order, each rounded once."""
    kind = {"float64": np.float64, "int8": np.int32, "uint8": np.int32}.get(a.dtype.name, np.float32)
    left, right, total = a.astype(kind), b.astype(kind), np.zeros((a.shape[0], b.shape[1]), kind)
    if kind is np.int32:
        return left @ right
    for k in range(a.shape[1]):
        total = numerics.fused_multiply_add(left[:, k, None], right[None, k], total)
    return total.astype(a.dtype)


TYPES = [np.float32, np.float16, BFLOAT16, np.float64, np.int8, np.uint8]


@executors
@pytest.mark.parametrize("dtype", TYPES, ids=lambda kind: np.dtype(kind).name)
def test_products(dtype, executor, monkeypatch):
    for rows, columns, inner in [(64, 64, 32), (70, 33, 19), (1, 130, 3), (5, 1, 40), (1, 1, 1)]:
        a, b = random_array((rows, inner), dtype), random_array((inner, columns), dtype, 1)
        np.testing.assert_array_equal(call(executor, monkeypatch, kernels.matmul, a, b), product(a, b))


@executors
def test_products_of_large_tiles(executor, monkeypatch):
    a, b = normal((1030, 9)), normal((9, 1024), seed=1)
    np.testing.assert_array_equal(call(executor, monkeypatch, kernels.matmul, a, b), product(a, b))


@executors
def test_products_of_rows_apart_in_memory_and_none_at_all(executor, monkeypatch):
    a, b = normal((80, 100))[::2, 3:40], normal((74, 50), seed=1)[::2, :48]
    np.testing.assert_array_equal(call(executor, monkeypatch, kernels.matmul, a, b), product(a, b))
    assert call(executor, monkeypatch, kernels.matmul, np.zeros((0, 8), np.float32), b[:8]).shape == (0, 48)


def test_wrong_arguments():
    x = np.zeros((4, 6), np.float32)
    with pytest.raises(ValueError, match="x must be a matrix, not of shape"):
        kernels.transpose(x[None])
    with pytest.raises(ValueError, match="neighbours"):
        kernels.transpose(x[:, ::2])
    with pytest.raises(ValueError, match="a's columns as many as b's rows"):
        kernels.matmul(x, x)
    with pytest.raises(ValueError, match="must be of one dtype"):
        kernels.matmul(x, np.zeros((6, 2)))
    with pytest.raises(ValueError, match="not int64"):
        kernels.matmul(x.astype(np.int64), np.zeros((6, 2), np.int64))
