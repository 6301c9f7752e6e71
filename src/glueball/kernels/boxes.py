"""What the launching functions of bulk copies share: whether the hardware can move an array, and its descriptors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glueball.kernels.arrays import row_stride, target_of
from glueball.language import NVMMASharedLayout
from glueball.language.nvidia.hopper import CachePolicy, FractionalEvictionPolicy
from glueball.nvidia.hopper import TensorDescriptor
from glueball.runtime.host_functions import next_power_of_2

GRANULE = 16
"""Bytes of which addresses, strides and rows of boxes are multiples."""
MOST_DIMENSIONS = 5
LONGEST_SIDE = 256
"""Elements of a box along a dimension."""
GREATEST_EXTENT = 1 << 31
GREATEST_STRIDE = 1 << 40
STREAMED_BYTES = 1 << 28
"""Several times what second-level caches hold."""
ROW_BYTES = 128
"""The shortest row of a box that is worth a message's while, and at whose multiples boxes lie in shared memory."""


def address_of(array: Any) -> int:
    """The address of an array's first element."""
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data_ptr())


def item_bytes(array: Any) -> int:
    """Bytes of an element."""
    size: int = array.dtype.itemsize
    return size


def why_not_bulk(array: Any, shape: Sequence[int], strides: Sequence[int], *, written: bool = False) -> str:
    """Why bulk copies cannot move a view of an array, of that shape and with strides in elements; empty if they can.

    One that is `written` has rows of whole pieces of 16 bytes: a bulk store overwrites what is left of one.
    """
    size, target = item_bytes(array), target_of(array)
    if not target.supports("bulk_copy"):
        return f"{target.name} has no bulk copies"
    if size not in (1, 2, 4):
        return f"elements have 1, 2 or 4 bytes, not {size}"
    if not 1 <= len(shape) <= MOST_DIMENSIONS:
        return f"there are 1 to {MOST_DIMENSIONS} dimensions, not {len(shape)}"
    if math.prod(shape) == 0 or max(shape) >= GREATEST_EXTENT:
        return f"extents are from 1 to 2^31 - 1, not {list(shape)}"
    if address_of(array) % GRANULE:
        return f"the address is a multiple of {GRANULE}, not {address_of(array):#x}"
    if strides[-1] != 1:
        return f"the elements of the last dimension are neighbours, not {strides[-1]} apart"
    for stride in strides[:-1]:
        if stride * size % GRANULE or not 0 < stride * size < GREATEST_STRIDE:
            return f"strides are positive multiples of {GRANULE} bytes below 2^40, not {stride * size}"
    if written and shape[-1] * size % GRANULE:
        return f"rows that are written are multiples of {GRANULE} bytes, not {shape[-1] * size}"
    return ""


def box_of(shape: Sequence[int], size: int, most_bytes: int) -> tuple[int, ...]:
    """A box of whole rows as far as they go, then of as many as `most_bytes` leave room for: powers of two.

    It has at least the `ROW_BYTES` at whose multiples the next one lies.
    """
    box: list[int] = []
    left = most_bytes // size
    for extent in reversed(shape):
        side = min(next_power_of_2(extent), LONGEST_SIDE, max(1, left))
        box.insert(0, max(side, GRANULE // size) if not box else side)
        left //= box[0]
    box[-1] = max(box[-1], ROW_BYTES // size * box[-1] // math.prod(box))
    return tuple(box)


def descriptor(
    array: Any, shape: Sequence[int], strides: Sequence[int], block: Sequence[int], swizzle: int = 0
) -> TensorDescriptor:
    """The descriptor of a view of an array."""
    layout = NVMMASharedLayout(swizzle, 8 * item_bytes(array), len(block))
    return TensorDescriptor(array, list(shape), list(strides), list(block), layout)


def line_of(columns: int, size: int) -> int:
    """Into pieces of how many elements a row of that many can be divided, up to a side of a box; 0 for too few."""
    line = min(columns & -columns, LONGEST_SIDE)
    return line if line * size >= ROW_BYTES else 0


def row_descriptor(matrix: Any, block_rows: int = 1) -> TensorDescriptor:
    """The descriptor of whole rows of a matrix, `block_rows` at a time.

    Rows that divide into lines of 128 bytes or more have three dimensions, so that one message moves up to 256 lines;
    others have two, and a message moves up to 256 elements.
    """
    rows, columns = matrix.shape
    stride, line = row_stride(matrix), line_of(columns, item_bytes(matrix))
    if line:
        parts = columns // line
        block = [block_rows, next_power_of_2(parts), line]
        return descriptor(matrix, [rows, parts, line], [stride, line, 1], block)
    block = [block_rows, max(next_power_of_2(columns), ROW_BYTES // item_bytes(matrix))]
    return descriptor(matrix, [rows, columns], [stride, 1], block)


def priority(name: str, cache_modifier: str | None = None) -> CachePolicy | None:
    """The policy of a priority in the second-level cache, such as `evict_first`; None of no name.

    Bulk copies have no cache modifier, loads may have one.
    """
    return CachePolicy(cache_modifier, l2=FractionalEvictionPolicy(name, 1.0)) if name else None


def moved_bytes(*arrays: Any) -> int:
    """Bytes of all elements of some arrays."""
    return sum(math.prod(array.shape) * item_bytes(array) for array in arrays)


def streaming_priority(array: Any, moved: int) -> str:
    """The priority of an array that a kernel loads, which reads and writes so many bytes in all, each once.

    A high one where no cache could hold all of them, and the target has priorities. Nothing reads those bytes again,
    but results then have the lower priority, leave the cache soon and probably in the order in which they came, and
    memory takes them faster (by 1 % to 4 % of the time of copies and of kernels on rows on an H200, with data that no
    cache holds). Of little data the results had better stay, for whoever reads them next.
    """
    return "evict_last" if moved >= STREAMED_BYTES and target_of(array).supports("cache_priorities") else ""


def streaming_policy(array: Any, moved: int, cache_modifier: str | None = None) -> CachePolicy | None:
    """The policy of that priority."""
    return priority(streaming_priority(array, moved), cache_modifier)
