"""Calls a function of the kernel library on an executor, with NumPy arrays in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

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
