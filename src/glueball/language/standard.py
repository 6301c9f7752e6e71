"""Library functions written in the language itself."""

from __future__ import annotations

from typing import Any

from glueball.language.core import full
from glueball.language.function import JITCallable


@JITCallable
def cdiv(x: Any, div: Any) -> Any:
    """`x / div` rounded up, for positive integers; compile-time arguments give a compile-time result."""
    return (x + (div - 1)) // div


@JITCallable
def zeros(shape: Any, dtype: Any, layout: Any = None) -> Any:
    """A tile of `shape` and `dtype` whose every element is zero; an empty shape gives a scalar."""
    return full(shape, 0, dtype, layout)
