"""Calls a function of the kernel library on an executor, with NumPy arrays in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from glueball import kernels
from tests.kernels.harness import run

BFLOAT16 = ml_dtypes.bfloat16


def call(
    executor: str, monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], *arguments: Any, **keywords: Any
) -> Any:
    """What `function` gives, as NumPy arrays."""
    results = run(executor, monkeypatch, lambda *given: function(*given, **keywords), *arguments)
    return tuple(map(_to_numpy, results)) if isinstance(results, tuple) else _to_numpy(results)


def _to_numpy(array: Any) -> np.ndarray | None:
    if array is None or isinstance(array, np.ndarray):
        return array
    import torch

    name = str(array.dtype).removeprefix("torch.")
    raw = array.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return raw.view(np.dtype(getattr(ml_dtypes, name, None) or name)).reshape(tuple(array.shape))


def normal(shape: Any, dtype: Any = np.float32, seed: int = 0, spread: float = 3.0) -> np.ndarray:
    """Normally distributed numbers, in the precision of `dtype`."""
    return (np.random.default_rng(seed).standard_normal(shape) * spread).astype(dtype)


def wide(array: np.ndarray) -> np.ndarray:
    """As float64."""
    return array.astype(np.float64)


def assert_within(actual: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Errors up to `tolerance` times the greatest expected magnitude of a row, plus a rounding of the actual type."""
    rounding = {np.dtype(BFLOAT16): 2.0**-8, np.dtype(np.float16): 2.0**-11}.get(actual.dtype, 0.0)
    scale = np.abs(expected).max(axis=-1, keepdims=True) if expected.ndim else np.abs(expected)
    error = np.abs(wide(actual) - expected)
    allowed = tolerance * scale + rounding * np.abs(expected)
    assert (error <= allowed).all(), f"the error is up to {(error / np.maximum(allowed, 1e-300)).max():.3g} of allowed"


def exact_softmax(x: np.ndarray) -> np.ndarray:
    """Softmax of rows, in float64."""
    power = np.exp(wide(x) - wide(x).max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


def normalised(x: np.ndarray, *, centred: bool) -> tuple[np.ndarray, Any, np.ndarray]:
    """Layer norm of rows where `centred`, else RMS norm, with the means and the scales, in float64."""
    x = wide(x)
    mean = x.mean(-1, keepdims=True) if centred else 0.0
    scale = 1 / np.sqrt(np.square(x - mean).mean(-1, keepdims=True) + 1e-5)
    return (x - mean) * scale, mean, scale


def check_softmax_of_extremes(executor: str, monkeypatch: pytest.MonkeyPatch, columns: int, plan: Any) -> None:
    """Softmax of large elements, of rows with many of minus infinity, of only such, and of NaN."""
    x = normal((4, columns), spread=1e4)
    x[1, ::3] = -np.inf
    x[2, :600] = -np.inf
    x[3] = -3e38
    assert_within(call(executor, monkeypatch, kernels.softmax, x, plan=plan), exact_softmax(x), 1e-5)
    x[0], x[1, 5] = -np.inf, np.nan
    y = call(executor, monkeypatch, kernels.softmax, x, plan=plan)
    assert np.isnan(y[:2]).all() and not np.isnan(y[2:]).any()
