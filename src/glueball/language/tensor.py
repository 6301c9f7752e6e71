"""The value that a kernel computes with: a scalar, or a tile held in registers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NoReturn, Self

from glueball.language.constexpr import constexpr
from glueball.language.names import unavailable_method
from glueball.language.tuple import tuple as language_tuple
from glueball.language.values import base_value
from glueball.tile.ir import Value
from glueball.tile.types import ScalarType, TileType


class tensor(base_value):  # noqa: N801 - the name that kernel authors write
    """A scalar or a tile. `dtype` is the element type, `shape` the extents (empty for a scalar), `numel` their product.

    Operators and methods are the operations of the language; `glueball.language.methods` lists them.
    """

    __slots__ = ("handle",)

    def __init__(self, handle: Value) -> None:
        self.handle = handle

    @property
    def type(self) -> TileType:
        """The element type of a scalar, the `distributed_type` of a tile."""
        return self.handle.type

    @property
    def dtype(self) -> ScalarType:
        """The element type."""
        return self.handle.type.scalar

    @property
    def extents(self) -> list[int]:
        """The shape as plain integers."""
        return list(self.handle.type.shape)

    @property
    def shape(self) -> language_tuple:
        """The extents as compile-time values."""
        return language_tuple(self.handle.type.shape)

    @property
    def numel(self) -> constexpr:
        """Number of elements."""
        return constexpr(math.prod(self.handle.type.shape))

    def flatten(self) -> Iterator[Value]:
        """The one IR value."""
        yield self.handle

    def rebuild(self, handles: Iterator[Value]) -> Self:
        """The tensor around another IR value."""
        return type(self)(next(handles))

    def __getattr__(self, name: str) -> NoReturn:
        raise unavailable_method(name)

    def __repr__(self) -> str:
        return f"tensor[{self.handle.type}]"
