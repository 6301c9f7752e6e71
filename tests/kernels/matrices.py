"""Matrices whose products are exact in every type and on every executor, and kernels' addresses of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import glueball
import glueball.language as gl

BFLOAT16 = ml_dtypes.bfloat16
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
ELEMENTS = {
    np.float16: gl.float16,
    BFLOAT16: gl.bfloat16,
    np.float32: gl.float32,
    np.float64: gl.float64,
    E4M3: gl.float8e4nv,
    E5M2: gl.float8e5,
    np.int8: gl.int8,
    np.uint8: gl.uint8,
    np.int32: gl.int32,
}


def whole(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Small whole numbers; unsigned ones also beyond 128."""
    random = np.random.default_rng(seed)
    low, high = (120, 137) if np.dtype(dtype).kind == "u" else (-4, 5)
    return random.integers(low, high, shape).astype(dtype)


def product(left: np.ndarray, right: np.ndarray, total: np.ndarray | None, dtype: Any) -> np.ndarray:
    """`total + left @ right` of what `whole` gives."""
    exact = left.astype(np.float64) @ right.astype(np.float64)
    return (exact if total is None else exact + total.astype(np.float64)).astype(dtype)


@glueball.jit
def places(M: gl.constexpr, N: gl.constexpr, layout: gl.constexpr):
    """Offsets of the elements of a row-major matrix."""
    return gl.arange(0, M, gl.SliceLayout(1, layout))[:, None] * N + gl.arange(0, N, gl.SliceLayout(0, layout))[None, :]


@glueball.jit
def batch_places(B: gl.constexpr, M: gl.constexpr, N: gl.constexpr, layout: gl.constexpr):
    """Offsets of the elements of row-major matrices one after another."""
    batch = gl.arange(0, B, gl.SliceLayout(1, gl.SliceLayout(2, layout)))[:, None, None]
    row = gl.arange(0, M, gl.SliceLayout(0, gl.SliceLayout(2, layout)))[None, :, None]
    column = gl.arange(0, N, gl.SliceLayout(0, gl.SliceLayout(1, layout)))[None, None, :]
    return (batch * M + row) * N + column
