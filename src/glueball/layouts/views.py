"""Views of tensors in shared memory: the layout with which the same bytes are addressed by other coordinates."""

from __future__ import annotations

from collections.abc import Sequence

from glueball.errors import LayoutError
from glueball.layouts.base import SharedLayout
from glueball.layouts.padded import PaddedSharedLayout, PartitionedSharedLayout
from glueball.layouts.shared import NVMMASharedLayout, SharedLinearLayout, SwizzledSharedLayout
from glueball.layouts.tiles import pick


def to_shared_linear(layout: SharedLayout, shape: Sequence[int]) -> SharedLinearLayout:
    """The explicit spelling of a layout for a tensor of `shape`.

    Raises LayoutError where offsets are not linear, as with padding or partitions.
    """
    if isinstance(layout, PaddedSharedLayout | PartitionedSharedLayout):
        raise LayoutError(f"the offsets of this layout are not linear: {layout}")
    return SharedLinearLayout.from_linear(layout.linear(shape), layout.alignment)


def permute_shared_layout(layout: SharedLayout, order: Sequence[int], shape: Sequence[int]) -> SharedLayout:
    """The layout of a view whose dimension i is dimension `order[i]` of a tensor of `shape`."""
    if sorted(order) != list(range(layout.rank)):
        raise LayoutError(f"{list(order)} is not a permutation of the {layout.rank} dimensions")
    if list(order) == list(range(layout.rank)):
        return layout
    if isinstance(layout, SwizzledSharedLayout):
        moved = [list(order).index(axis) for axis in layout.order]
        cga = [pick(basis, order) for basis in layout.cga_layout]
        return SwizzledSharedLayout(layout.vec, layout.per_phase, layout.max_phase, moved, cga)
    if isinstance(layout, NVMMASharedLayout) and layout.rank == 2:
        cga = [pick(basis, order) for basis in layout.cga_layout]
        return NVMMASharedLayout(
            layout.swizzle_byte_width, layout.element_bitwidth, 2, not layout.transposed, layout.fp4_padded, cga
        )
    if isinstance(layout, PaddedSharedLayout):
        return PaddedSharedLayout(
            layout.interval_padding_pairs,
            [pick(basis, order) for basis in layout.offset_bases],
            [pick(basis, order) for basis in layout.cga_layout],
            pick(layout.shape, order),
        )
    linear = to_shared_linear(layout, shape)
    return SharedLinearLayout(
        [pick(basis, order) for basis in linear.offset_bases],
        [pick(basis, order) for basis in linear.block_bases],
        layout.alignment,
    )


def reshape_shared_layout(layout: SharedLayout, shape: Sequence[int], new_shape: Sequence[int]) -> SharedLayout:
    """The layout of a view in which a tensor of `shape` is read, row by row, as one of `new_shape`.

    An NVMMASharedLayout stays one where only leading dimensions are split, added or merged; any other, and any
    other reshape, gives a SharedLinearLayout.
    """
    if isinstance(layout, PaddedSharedLayout | PartitionedSharedLayout):
        raise LayoutError(f"the offsets of this layout are not linear, so its tensor cannot be reshaped: {layout}")
    goal = layout.linear(shape).reshape(new_shape)
    if isinstance(layout, NVMMASharedLayout) and not layout.transposed and not layout.cga_layout and len(new_shape) > 1:
        found = NVMMASharedLayout(
            layout.swizzle_byte_width, layout.element_bitwidth, len(new_shape), False, layout.fp4_padded
        )
        if shape[-1] == new_shape[-1] and found.linear(new_shape) == goal:
            return found
    return SharedLinearLayout.from_linear(goal, layout.alignment)
