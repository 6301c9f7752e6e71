"""How a block of a tensor is cut into the boxes that one message of a bulk copy moves."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from glueball.errors import LayoutError
from glueball.layouts import f2
from glueball.layouts.shared import SWIZZLED_ROWS
from glueball.layouts.tiles import shape_per_cta
from glueball.tensor_map import TensorMapType, swizzled
from glueball.tile.shared_views import Descriptor, coordinate_offsets, dropped_offsets, parts_of_ctas
from glueball.tile.types import dtype, tensor_descriptor_type

STORED_AS = {"int8": "uint8", "int16": "uint16"}

LONGEST_SIDE = 256
"""Elements of a box along a dimension (CUDA driver, `cuTensorMapEncodeTiled`)."""
LONGEST_COLUMN = 1024
"""Pixels of a box of an im2col tensor map (`cuTensorMapEncodeIm2col`)."""
BOX_ALIGNMENT = 128
"""Bytes at whose multiples a box starts in shared memory (PTX ISA, `cp.async.bulk.tensor`)."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """The boxes of a block: their `shape`, and where each starts, in coordinates of the block.

    `counts` has how many there are along each dimension; those along the last one come first.
    """

    shape: tuple[int, ...]
    counts: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]

    @property
    def elements(self) -> int:
        """Elements of a box."""
        return math.prod(self.shape)


@functools.lru_cache(maxsize=256)
def boxes_of(kind: tensor_descriptor_type) -> Boxes:
    """The boxes of a descriptor's block, or of each CTA's part. `LayoutError` for a layout that no bulk copy writes."""
    layout, size = kind.layout, kind.element_ty.itemsize
    if layout.transposed:
        raise LayoutError(
            f"TMA descriptor layout must not be transposed: the last dimension is the contiguous one: {layout}"
        )
    block = shape_per_cta(kind.block_shape, layout.cga_layout)
    *outer, inner = block
    chunk = layout.swizzle_byte_width // size
    inner_box = min(inner, chunk or LONGEST_SIDE)
    longest = LONGEST_COLUMN if kind.im2col else LONGEST_SIDE
    shape = (*(min(extent, longest) for extent in outer), inner_box)
    if kind.im2col and shape[0] < outer[0]:
        raise LayoutError(f"an im2col block has at most {LONGEST_COLUMN} pixels, not {outer[0]}")
    if kind.im2col and block[0] < kind.block_shape[0]:
        raise LayoutError(f"the pixels of an im2col block cannot be spread over CTAs: {layout}")
    counts = tuple(extent // side for extent, side in zip(block, shape, strict=True))
    order = itertools.product(*(range(count) for count in counts))
    starts = tuple(tuple(i * side for i, side in zip(index, shape, strict=True)) for index in order)
    return Boxes(shape, counts, starts)


def part_bases(kind: tensor_descriptor_type) -> list[list[int]]:
    """For each bit of a CTA's rank, by how much it moves the CTA's part in a block, in coordinates."""
    return kind.layout.linear(kind.block_shape).bases["block"]


def parts_of(kind: tensor_descriptor_type) -> list[tuple[int, ...]]:
    """Where the part of each CTA starts in a block, in coordinates; the same ones once."""
    linear = kind.layout.linear(kind.block_shape)
    return [linear.unflatten(start) for start in dict.fromkeys(linear.table("block").tolist())]


@functools.lru_cache(maxsize=256)
def box_offsets(kind: tensor_descriptor_type, view: Descriptor) -> tuple[int, ...]:
    """Where each box of a block starts in a view of the block's elements, in elements from the view's start.

    View and block are compared element by element in row-major order, so their shapes may differ. `LayoutError` where
    the view does not keep a box together as the copy engine writes it: row after row, swizzled by the address.
    """
    boxes, size, span = boxes_of(kind), kind.element_ty.itemsize, kind.layout.swizzle_byte_width
    block = kind.layout.linear(kind.block_shape)
    if parts_of_ctas(view) != tuple(block.flat_bases("block")):
        raise LayoutError(f"a bulk copy gives each CTA its part of {kind.layout}, which {view.layout} does not hold")
    columns = _block_columns(kind, view)
    written, inside = 1, True
    for column, side in zip(reversed(columns), reversed(boxes.shape), strict=True):
        for bit in range(side.bit_length() - 1):
            inside = inside and column[bit] * size == swizzled(written * size, span)
            written *= 2
    pattern = max(BOX_ALIGNMENT, span * SWIZZLED_ROWS)
    starts = tuple(_offset(columns, start) for start in boxes.starts)
    moved = dropped_offsets(view) * size
    if not inside or any(start * size % pattern for start in starts) or moved % pattern:
        raise LayoutError(
            f"a bulk copy moves boxes of {list(boxes.shape)} elements, and {view} does not keep each of them together "
            f"at a multiple of {pattern} bytes, as a block {list(kind.block_shape)} of {kind.layout} needs"
        )
    return starts


def _block_columns(kind: tensor_descriptor_type, view: Descriptor) -> list[tuple[int, ...]]:
    """For every dimension of the block, the offsets that the bits of its coordinate add in a view."""
    bits = [
        offset
        for extent, column in reversed(list(zip(view.tile_shape, coordinate_offsets(view), strict=True)))
        for offset in column[: extent.bit_length() - 1]
    ]
    columns = []
    for extent in reversed(kind.block_shape):
        count = extent.bit_length() - 1
        columns.append(tuple(bits[:count]))
        bits = bits[count:]
    return columns[::-1]


def _offset(columns: Sequence[Sequence[int]], start: Sequence[int]) -> int:
    offset = 0
    for coordinate, column in zip(start, columns, strict=True):
        offset ^= f2.apply(column, coordinate)
    return offset


def stored_element(element: dtype) -> str:
    """What a tensor map calls an element type: 8-bit floats are bytes to it, short integers have no sign."""
    return "uint8" if element.is_fp8() else STORED_AS.get(element.name, element.long_name)


def tensor_map_type(kind: tensor_descriptor_type) -> TensorMapType:
    """What a kernel knows of the tensor map of a descriptor."""
    box, swizzle = boxes_of(kind).shape, kind.layout.swizzle_byte_width
    return TensorMapType(stored_element(kind.element_ty), kind.rank, box, swizzle, kind.im2col)
