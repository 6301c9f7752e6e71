"""Layouts that suit a tensor's strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from glueball.errors import LayoutError
from glueball.layouts.distributed import BlockedLayout
from glueball.layouts.linear import log2_exact
from glueball.layouts.memory import VECTOR_BYTES, bytes_of


def coalesced_layout(
    shape: Sequence[int],
    strides: Sequence[int],
    element_bits: int,
    num_warps: int,
    *,
    lanes: int = 32,
    vector: int | Literal["widest"] | None = None,
) -> BlockedLayout:
    """A layout in which neighbouring lanes access neighbouring addresses of a tile with these strides (in elements).

    Lanes run along the dimension with the smallest nonzero absolute stride, then along the next one. Warps run along
    the other dimensions first, so that what a thread holds lies along the fastest one and shares an address register.
    What the tile has no room for lands on the fastest dimension, where it replicates. `vector` is the number of
    elements that a thread holds side by side along the fastest dimension: 1 by default, "widest" for 16 bytes where
    that dimension is contiguous and long enough for every lane.

    Raises LayoutError where ranks differ or a size is no power of two.
    """
    if len(shape) != len(strides) or not shape:
        raise LayoutError(f"shape {list(shape)} and strides {list(strides)} must have the same rank, at least 1")
    for axis, extent in enumerate(shape):
        log2_exact(extent, f"extent of dimension {axis} of {list(shape)}")
    log2_exact(num_warps, "num_warps")
    log2_exact(lanes, "lanes")
    # A dimension of one element has no stride to speak of; neither has one that repeats the same elements.
    order = sorted(
        range(len(shape)), key=lambda axis: (shape[axis] == 1 or strides[axis] == 0, abs(strides[axis]), -axis)
    )
    fastest = order[0]
    if vector == "widest":
        room = max(1, shape[fastest] // lanes)
        width = min(VECTOR_BYTES // bytes_of(element_bits), room) if abs(strides[fastest]) == 1 else 1
    else:
        width = 1 if vector is None else vector
        log2_exact(width, "vector")
    size_per_thread = [width if axis == fastest else 1 for axis in range(len(shape))]
    room_left = [max(1, extent // size) for extent, size in zip(shape, size_per_thread, strict=True)]
    threads_per_warp = _spread(lanes, room_left, order, fastest)
    warps_per_cta = _spread(num_warps, room_left, [*order[1:], fastest], fastest)
    return BlockedLayout(size_per_thread, threads_per_warp, warps_per_cta, order)


def _spread(count: int, room: list[int], order: Sequence[int], overflow: int) -> list[int]:
    """Distribute a power of two over dimensions in order, taking from `room`; what is left over goes to `overflow`."""
    sizes = [1] * len(room)
    for axis in order:
        sizes[axis] = min(count, room[axis])
        room[axis] //= sizes[axis]
        count //= sizes[axis]
    sizes[overflow] *= count
    return sizes
