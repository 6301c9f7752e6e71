"""Finished kernels, written in the language, and functions that launch them on NumPy and torch arrays.

The functions choose layouts and blocks from the shapes, return new arrays, and wait for nothing. They load when first
used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glueball.kernels.copies import copy_array
    from glueball.kernels.elementwise import (
        add,
        dequantize_rows,
        dropout,
        quantize_rows,
    )
    from glueball.kernels.gemm import gemm
    from glueball.kernels.matrices import matmul, transpose
    from glueball.kernels.rows import (
        layer_norm,
        layer_norm_backward,
        rms_norm,
        rms_norm_backward,
        row_max,
        row_sum,
        softmax,
    )
    from glueball.kernels.scan import cumsum
    from glueball.kernels.scatter import cross_entropy, cross_entropy_backward, embedding, histogram

_HOMES = {
    **dict.fromkeys(("add", "dropout", "quantize_rows", "dequantize_rows"), "elementwise"),
    **dict.fromkeys(
        ("softmax", "layer_norm", "layer_norm_backward", "rms_norm", "rms_norm_backward", "row_sum", "row_max"), "rows"
    ),
    "copy_array": "copies",
    "cumsum": "scan",
    "gemm": "gemm",
    **dict.fromkeys(("matmul", "transpose"), "matrices"),
    **dict.fromkeys(("embedding", "histogram", "cross_entropy", "cross_entropy_backward"), "scatter"),
}

__all__ = [
    "add", "copy_array", "cross_entropy", "cross_entropy_backward", "cumsum", "dequantize_rows", "dropout", "embedding",
    "gemm", "histogram", "layer_norm", "layer_norm_backward", "matmul", "quantize_rows", "rms_norm",
    "rms_norm_backward", "row_max", "row_sum", "softmax", "transpose",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"glueball.kernels.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'glueball.kernels' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
