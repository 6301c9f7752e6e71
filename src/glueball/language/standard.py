"""Library functions written in the language itself."""

from __future__ import annotations

from typing import Any

from glueball.language.core import full
from glueball.language.folds import max, sum
from glueball.language.function import JITCallable
from glueball.language.functions import exp, fdiv


@JITCallable
def cdiv(x: Any, div: Any) -> Any:
    """`x / div` rounded up, for positive integers; compile-time arguments give a compile-time result."""
    return (x + (div - 1)) // div


@JITCallable
def zeros(shape: Any, dtype: Any, layout: Any = None) -> Any:
    """A tile of `shape` and `dtype` whose every element is zero; an empty shape gives a scalar."""
    return full(shape, 0, dtype, layout)


@JITCallable
def sigmoid(x: Any) -> Any:
    """`1 / (1 + exp(-x))` of float32 or float64; a method of tensors only."""
    decay: Any = exp(-x)
    return 1 / (1 + decay)


@JITCallable
def _shares(x: Any, dim: Any, ieee_rounding: Any) -> Any:
    numerator = exp(x - max(x, dim, keep_dims=True))
    return fdiv(numerator, sum(numerator, dim, keep_dims=True), ieee_rounding)


@JITCallable
def softmax(x: Any, dim: Any = None, *, keep_dims: Any = None, ieee_rounding: Any = False) -> Any:
    """The exponentials along `dim`, the first dimension where it is not given, divided by their sum.

    Of float32 or float64; the shape stays, whatever `keep_dims`. A method of tensors only.
    """
    return _shares(x, 0 if dim is None else dim, ieee_rounding)
