"""Views of shared memory: the types that views of views have, and where their elements lie.

The element with coordinates c of a view lies at byte `base + itemsize * padded(mixed ^ L(c))` of shared memory, in
which L is the layout's map from coordinates to offsets, `base` a number of bytes and `mixed` an offset in elements.
A slice changes `mixed` only, by XOR, so that it stays in the swizzle of what it is a part of; choosing a buffer
changes `base` only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from glueball.errors import LayoutError
from glueball.layouts import LinearLayout, PaddedSharedLayout, f2, permute_shared_layout, reshape_shared_layout
from glueball.layouts.base import HARDWARE, SharedLayout
from glueball.tile.types import ScalarType, shared_memory_descriptor_type

Descriptor = shared_memory_descriptor_type
ACCESS_BYTES = 16
"""Buffers start at multiples of so many bytes, or of their own size where that is less."""
CTA_STRIDE = 1 << 32
"""Between the memories of two CTAs, where addresses tell them apart."""


def paddings(layout: SharedLayout) -> tuple[tuple[int, int], ...]:
    """The interval and padding pairs of a layout, in elements; none where it has no padding."""
    return tuple((pair[0], pair[1]) for pair in getattr(layout, "interval_padding_pairs", ()))


def padded(offset: int, layout: SharedLayout) -> int:
    """An offset in elements with the padding before it."""
    return offset + sum(offset // interval * padding for interval, padding in paddings(layout))


def buffer_bytes(kind: Descriptor) -> int:
    """Distance in bytes from one buffer of a view to the next."""
    elements = kind.linear.size("offset")
    size = padded(elements, kind.layout) * kind.element_ty.itemsize
    return size if size == elements * kind.element_ty.itemsize else _multiple(size, ACCESS_BYTES)


def allocated_bytes(kind: Descriptor) -> int:
    """Bytes that an allocation of this type takes; there is no padding after the last element."""
    last = padded(kind.linear.size("offset") - 1, kind.layout) + 1
    others = kind.shape[0] - 1 if kind.is_buffered else 0
    return others * buffer_bytes(kind) + last * kind.element_ty.itemsize


def allocation_alignment(kind: Descriptor) -> int:
    """Bytes of which the address of an allocation of this type is a multiple."""
    return max(ACCESS_BYTES, kind.layout.alignment)


Columns = tuple[tuple[int, ...], ...]


def coordinate_offsets(kind: Descriptor) -> Columns:
    """For every dimension of the layout, the offsets in elements that the bits of its coordinate add, lowest first."""
    return _coordinate_places(kind)[0]


def coordinate_ctas(kind: Descriptor) -> Columns:
    """For every dimension of the layout, which bits of its coordinate lead to other CTAs: by how much ranks differ."""
    return _coordinate_places(kind)[1]


@lru_cache(maxsize=256)
def _coordinate_places(kind: Descriptor) -> tuple[Columns, Columns]:
    linear = kind.linear
    size = linear.bits("offset")
    span = f2.Echelon((*linear.flat_bases("offset"), *linear.flat_bases("block")))
    offsets, ctas = [], []
    for extent, shift in zip(kind.layout_shape, linear.shifts(), strict=True):
        places = [span.solve(1 << (bit + shift)) or 0 for bit in range(extent.bit_length() - 1)]
        offsets.append(tuple(place & ((1 << size) - 1) for place in places))
        ctas.append(tuple(place >> size for place in places))
    return tuple(offsets), tuple(ctas)


def dropped_offsets(kind: Descriptor) -> int:
    """The offset bits that `mixed` can have: those of the coordinates that slices have fixed."""
    bits = 0
    for extent, column in zip(kind.tile_shape, coordinate_offsets(kind), strict=True):
        for offset in column[extent.bit_length() - 1 :]:
            bits |= offset
    return bits


def tile_offsets(linear: LinearLayout, kind: Descriptor) -> LinearLayout:
    """The map from register, lane, warp and block to offset, in elements, of a tile of one buffer of a view."""
    return _tile_places(linear, kind, coordinate_offsets(kind), kind.linear.size("offset"), "offset")


def tile_ctas(linear: LinearLayout, kind: Descriptor) -> LinearLayout:
    """The same map to the CTA in whose memory an element lies: by how much its rank differs from the thread's own."""
    return _tile_places(linear, kind, coordinate_ctas(kind), kind.linear.size("block"), "block")


def part_shape(kind: Descriptor) -> tuple[int, ...]:
    """The extents of what one CTA has of one buffer of a view."""
    extents = []
    for extent, column in zip(kind.tile_shape, coordinate_ctas(kind), strict=True):
        extents.append(1 << sum(not cta for cta in column[: extent.bit_length() - 1]))
    return tuple(extents)


def parts_of_ctas(kind: Descriptor) -> tuple[int, ...]:
    """For each bit of a CTA's rank, the row-major index, in the view's shape, by which it moves the CTA's part."""
    linear = kind.linear
    bases = map(linear.unflatten, linear.flat_bases("block"))
    strides = [math.prod(kind.tile_shape[axis + 1 :]) for axis in range(len(kind.tile_shape))]
    return tuple(sum(value * stride for value, stride in zip(basis, strides, strict=True)) for basis in bases)


def cta_of(coordinates: Sequence[int], kind: Descriptor) -> int:
    """The rank of the CTA in whose memory an element of a view lies, the first of those that have it."""
    return _offset(coordinates, coordinate_ctas(kind))


def leaves_cta(linear: LinearLayout, kind: Descriptor) -> bool:
    """Whether some thread holds an element of a tile that lies in the memory of another CTA."""
    return any(tile_ctas(linear, kind).all_columns())


def without_axis(linear: LinearLayout, kind: Descriptor, columns: Columns, axis: int) -> dict[str, list[int]]:
    """What each input bit of a tile adds to the place in a view of an element whose coordinate along an axis is 0.

    `columns` are the view's `coordinate_offsets`, or its `coordinate_ctas`.
    """
    places = {}
    for name, found in _coordinates(linear, kind).items():
        rests = [(*each[:axis], 0, *each[axis + 1 :]) for each in found]
        places[name] = [_offset(each, columns) for each in rests]
    return places


def _tile_places(linear: LinearLayout, kind: Descriptor, columns: Columns, size: int, output: str) -> LinearLayout:
    found = _coordinates(linear, kind).values()
    return LinearLayout(
        HARDWARE, tuple(tuple(_offset(each, columns) for each in bases) for bases in found), (size,), (output,)
    )


def _coordinates(linear: LinearLayout, kind: Descriptor) -> dict[str, list[tuple[int, ...]]]:
    """The bases of a tile, those of CTAs less the view's: a thread finds what both give to its CTA at home."""
    own = [kind.linear.unflatten(basis) for basis in kind.linear.flat_bases("block")]
    found = {name: [linear.unflatten(basis) for basis in linear.flat_bases(name)] for name in HARDWARE}
    pairs = zip(found["block"], own, strict=True)
    found["block"] = [tuple(one ^ other for one, other in zip(*pair, strict=True)) for pair in pairs]
    return found


def _offset(coordinates: Sequence[int], offsets: Sequence[Sequence[int]]) -> int:
    result = 0
    for coordinate, column in zip(coordinates, offsets, strict=True):
        result ^= f2.apply(column, coordinate)
    return result


def slice_offset(kind: Descriptor, start: int, dim: int) -> int:
    """What a slice of a view adds to `mixed`; `dim` counts the layout's dimensions."""
    return f2.apply(coordinate_offsets(kind)[dim], start)


def element_offsets(kind: Descriptor) -> NDArray[np.int64]:
    """The offset L(c) of every element of one buffer of a view, in its shape."""
    return _element_table(kind, coordinate_offsets(kind))


def _element_table(kind: Descriptor, columns: Columns) -> NDArray[np.int64]:
    table = np.zeros(1, np.int64)
    for extent, column in zip(kind.tile_shape, columns, strict=True):
        along = np.zeros(1, np.int64)
        for offset in column[: extent.bit_length() - 1]:
            along = np.concatenate([along, along ^ offset])
        table = (table[:, None] ^ along).ravel()
    return table.reshape(kind.tile_shape)


def element_addresses(kind: Descriptor, base: int, mixed: int = 0) -> NDArray[np.int64]:
    """The byte addresses of all elements of a view, each in the memory of its CTA, in the view's shape."""
    offsets = element_offsets(kind) ^ mixed
    places = offsets.copy()
    for interval, padding in paddings(kind.layout):
        places += offsets // interval * padding
    addresses: NDArray[np.int64] = base + places * kind.element_ty.itemsize
    if not kind.is_buffered:
        return addresses
    starts = np.arange(kind.shape[0], dtype=np.int64) * buffer_bytes(kind)
    result: NDArray[np.int64] = starts.reshape(-1, *(1,) * len(kind.tile_shape)) + addresses
    return result


def cluster_addresses(kind: Descriptor, base: int) -> NDArray[np.int64]:
    """The byte addresses of all elements of a view in the memory of all CTAs, which are `CTA_STRIDE` apart."""
    ctas = _element_table(kind, coordinate_ctas(kind))
    result: NDArray[np.int64] = element_addresses(kind, base) + CTA_STRIDE * ctas
    return result


def footprint(kind: Descriptor) -> int:
    """Bytes from the first to after the last element of a view."""
    addresses = element_addresses(kind, 0)
    return int(addresses.max() - addresses.min()) + kind.element_ty.itemsize


def is_whole(kind: Descriptor) -> bool:
    """Whether a view has all elements of its layout, in as many buffers as there may be."""
    return kind.tile_shape == kind.layout_shape


def allocated(element: ScalarType, shape: Sequence[int], layout: SharedLayout) -> Descriptor:
    """The type of a new allocation; `LayoutError` for a shape or width that cannot be, or that the layout refuses."""
    bits = element.primitive_bitwidth
    if bits % 8 or not bits:
        raise LayoutError(f"the bits of an element in shared memory must be a multiple of 8, not {bits}: {element}")
    kind = shared_memory_descriptor_type(element, tuple(shape), layout, tuple(shape))
    if isinstance(layout, PaddedSharedLayout) and kind.layout_shape != layout.shape:
        layout.linear(kind.layout_shape)
    if kind.linear.inputs != ("offset", "block"):
        raise LayoutError(f"shared memory in partitions is not there yet: {layout}")
    return kind


def indexed(kind: Descriptor) -> Descriptor:
    """The type of one buffer of a view."""
    if not kind.is_buffered:
        raise LayoutError(
            f"index needs a view of several buffers: the layout rank must be equal to or one less than the shape size "
            f"after it, but {kind} has a layout of its own rank; allocate [count, *shape] with a layout of rank "
            f"{len(kind.shape) - 1}"
        )
    return shared_memory_descriptor_type(kind.element_ty, kind.shape[1:], kind.layout, kind.layout_shape)


def sliced(kind: Descriptor, start: int, length: int, dim: int) -> Descriptor:
    """The type of a part of a view; `ValueError` for one that cannot be addressed."""
    extent = kind.shape[dim]
    if start < 0 or length < 1 or start + length > extent:
        raise ValueError(
            f"a slice of {length} elements from {start} on may not exceed the source shape: dimension {dim} of "
            f"{list(kind.shape)}"
        )
    shape = (*kind.shape[:dim], length, *kind.shape[dim + 1 :])
    axis = dim - int(kind.is_buffered)
    if axis >= 0:
        if length & (length - 1):
            raise ValueError(f"shape must have power-of-2 and non-zero dimensions, and a slice of {length} has none")
        if start % length:
            raise ValueError(
                f"a slice of {length} elements from {start} on may not touch the tile before it: its start must be a "
                f"multiple of its length"
            )
        if any(coordinate_ctas(kind)[axis]):
            raise ValueError(f"dimension {dim} is spread over CTAs, and a slice of it would not be: {kind.layout}")
        dropped = coordinate_offsets(kind)[axis][length.bit_length() - 1 : extent.bit_length() - 1]
        if any(offset & (offset - 1) for offset in dropped):
            raise ValueError(
                f"splitting along the swizzling pattern: a slice of {length} elements of dimension {dim} cuts through "
                f"a period of the swizzle of {kind.layout}"
            )
    return shared_memory_descriptor_type(kind.element_ty, shape, kind.layout, kind.alloc_shape)


def permuted(kind: Descriptor, order: Sequence[int]) -> Descriptor:
    """The type of a view whose dimension i is dimension `order[i]`; `ValueError` where that cannot be."""
    rank = len(kind.shape)
    if len(order) != rank:
        raise ValueError(f"source rank ({rank}) and order length ({len(order)}) must match")
    if sorted(order) != list(range(rank)):
        raise ValueError(f"order {list(order)} must be a permutation of the {rank} dimensions")
    buffers = int(kind.is_buffered)
    if buffers and order[0] != 0:
        raise ValueError(f"order {list(order)} moves the dimension that counts buffers, which stays the first one")
    inner = [axis - buffers for axis in order[buffers:]]
    layout = permute_shared_layout(kind.layout, inner, kind.layout_shape)
    alloc = kind.alloc_shape[: len(kind.alloc_shape) - len(inner)]
    return shared_memory_descriptor_type(
        kind.element_ty,
        tuple(kind.shape[axis] for axis in order),
        layout,
        (*alloc, *(kind.layout_shape[axis] for axis in inner)),
    )


def reshaped(kind: Descriptor, shape: Sequence[int]) -> Descriptor:
    """The type of a view whose elements are read, row by row, in another shape; `ValueError` where that cannot be."""
    if math.prod(shape) != kind.numel:
        raise ValueError(
            f"source shape {list(kind.shape)} and reshape {list(shape)}: total elements mismatch, {kind.numel} and "
            f"{math.prod(shape)}"
        )
    if kind.is_buffered:
        raise ValueError(f"a view of several buffers cannot be reshaped, only one of them: {kind}")
    if not is_whole(kind):
        raise ValueError(f"NYI: memdesc_reshape of memdesc_subslice; {kind} is a slice")
    layout = reshape_shared_layout(kind.layout, kind.shape, shape)
    return shared_memory_descriptor_type(kind.element_ty, tuple(shape), layout, tuple(shape))


def reinterpreted(kind: Descriptor, element: ScalarType, shape: Sequence[int], layout: SharedLayout) -> Descriptor:
    """The type of a view of the same bytes; `ValueError` where they are not in one piece or too few."""
    if not is_whole(kind):
        offsets = element_offsets(kind)
        if kind.is_buffered or int(offsets.max()) != offsets.size - 1:
            raise ValueError(f"the bytes of a slice that do not lie side by side cannot be reinterpreted: {kind}")
    found = allocated(element, shape, layout)
    if footprint(found) > footprint(kind):
        raise ValueError(
            f"the new view of {footprint(found)} bytes exceeds the source view of {footprint(kind)} bytes: "
            f"{found} of {kind}"
        )
    return found


def _multiple(value: int, of: int) -> int:
    return -(-value // of) * of
