"""Tensors in global memory as bulk copies see them: what a kernel knows of a descriptor it was given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn, Self

from glueball.errors import did_you_mean
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.language.values import base_value
from glueball.layouts import NVMMASharedLayout
from glueball.tile.ir import Value
from glueball.tile.types import block_type, dtype, tensor_descriptor_type

MEMBERS = ("block_shape", "block_type", "dtype", "layout", "nbytes_per_cta", "shape", "strides", "type")


class tensor_descriptor(base_value):  # noqa: N801 - the name that kernel authors write
    """A tensor that bulk copies read and write block by block.

    `shape` (int32) and `strides` (int64, in elements) are those of the tensor, outermost dimension first; `block_shape`
    is what one copy moves, `layout` how it lies in shared memory, `dtype` the element type, `nbytes_per_cta` the bytes
    that a load of one block brings.
    """

    __slots__ = ("_handle", "shape", "strides")

    def __init__(self, handle: Value, shape: list[tensor], strides: list[tensor]) -> None:
        self._handle = handle
        self.shape = language_tuple(shape)
        self.strides = language_tuple(strides)

    @property
    def handle(self) -> Value:
        """The IR value of the descriptor itself."""
        return self._handle

    @property
    def type(self) -> tensor_descriptor_type:
        """The type."""
        kind = self._handle.type
        assert isinstance(kind, tensor_descriptor_type)
        return kind

    @property
    def dtype(self) -> dtype:
        """The element type."""
        return self.type.element_ty

    @property
    def block_shape(self) -> language_tuple:
        """The extents of a block as compile-time values."""
        return language_tuple(self.type.block_shape)

    @property
    def block_type(self) -> block_type:
        """Element type, shape and bytes of a block."""
        return self.type.block_type

    @property
    def layout(self) -> NVMMASharedLayout:
        """The layout of a block in shared memory."""
        return self.type.layout

    @property
    def nbytes_per_cta(self) -> int:
        """Bytes that a load of one block brings to a CTA."""
        return self.type.nbytes_per_cta

    def flatten(self) -> Iterator[Value]:
        """The descriptor, the extents, the strides."""
        yield self._handle
        for part in (*self.shape, *self.strides):
            yield from part.flatten()

    def rebuild(self, handles: Iterator[Value]) -> Self:
        """The descriptor around other IR values."""
        handle = next(handles)
        shape, strides = ([tensor(next(handles)) for _ in numbers.values] for numbers in (self.shape, self.strides))
        return type(self)(handle, shape, strides)

    def __repr__(self) -> str:
        return str(self.type)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a tensor_descriptor has no attribute {name!r}{did_you_mean(name, MEMBERS)}")


class tensor_descriptor_im2col(tensor_descriptor):  # noqa: N801 - the name that kernel authors write
    """A tensor of images whose pixels under a filter become the rows of a two-dimensional block."""

    __slots__ = ()


def make_descriptor(handle: Value, shape: list[tensor], strides: list[tensor]) -> tensor_descriptor:
    """The value for a kernel's parameter."""
    kind = handle.type
    assert isinstance(kind, tensor_descriptor_type)
    made = tensor_descriptor_im2col if kind.im2col else tensor_descriptor
    return made(handle, shape, strides)
