"""Operations on shapes that move no data: the layout of the result, for which every register stays where it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import permutations
from typing import Any, TypeVar, cast

from glueball.errors import LayoutError
from glueball.layouts.base import HARDWARE, DistributedLayout
from glueball.layouts.distributed import BlockedLayout, DistributedLinearLayout, SliceLayout
from glueball.layouts.linear import LinearLayout, log2_exact
from glueball.layouts.normalise import Vector
from glueball.layouts.placeholders import PlaceholderLayout
from glueball.layouts.tiles import pick, unit

MAXIMUM_SEARCHED_RANK = 5


Rule = TypeVar("Rule", bound=Callable[..., DistributedLayout])


def of_known_layouts(rule: Rule) -> Rule:
    """The rule for layouts that are known; one that is inferred later stays what it is."""

    @wraps(rule)
    def result(layout: DistributedLayout, *arguments: Any, **keywords: Any) -> DistributedLayout:
        return layout if isinstance(layout, PlaceholderLayout) else rule(layout, *arguments, **keywords)

    return cast("Rule", result)


def slice_layout(axis: int, layout: DistributedLayout) -> DistributedLayout:
    """The layout after a dimension is taken out of a tensor."""
    return layout if isinstance(layout, PlaceholderLayout) else SliceLayout(axis, layout)


@of_known_layouts
def expand_dims_layout(layout: DistributedLayout, axis: int, shape: Sequence[int]) -> DistributedLayout:
    """The layout after a dimension of extent 1 is inserted at `axis` of a tensor of `shape`.

    That is P for SliceLayout(axis, P), and for every other layout one of which it is the slice along `axis`. Raises
    LayoutError where there is none: where registers of a thread hold copies, which no slice has.
    """
    if not 0 <= axis <= layout.rank:
        raise LayoutError(f"cannot insert a dimension at {axis} into a tensor of rank {layout.rank}")
    if isinstance(layout, SliceLayout) and layout.dim == axis:
        return layout.parent
    source = layout.linear(shape)
    extents = (*shape[:axis], 1, *shape[axis:])
    bases = {name: source.flat_bases(name) for name in HARDWARE}
    parent = DistributedLinearLayout.from_linear(LinearLayout.from_flat_bases(bases, extents))
    if SliceLayout(axis, parent).linear(shape) != source:
        raise LayoutError(
            f"expand_dims needs a SliceLayout along dimension {axis}; this is not the map of one: {layout}"
        )
    return parent


@of_known_layouts
def permute_layout(layout: DistributedLayout, order: Sequence[int], shape: Sequence[int]) -> DistributedLayout:
    """The layout after dimensions are permuted: dimension i of the result is dimension `order[i]` of the operand.

    A BlockedLayout stays one; any other becomes a DistributedLinearLayout for `shape`, the operand's.
    """
    if sorted(order) != list(range(layout.rank)):
        raise LayoutError(f"{list(order)} is not a permutation of the {layout.rank} dimensions")
    if isinstance(layout, BlockedLayout):
        return BlockedLayout(
            pick(layout.size_per_thread, order),
            pick(layout.threads_per_warp, order),
            pick(layout.warps_per_cta, order),
            [list(order).index(axis) for axis in layout.order],
            [pick(basis, order) for basis in layout.cga_layout],
        )
    bases = layout.linear(shape).bases
    register, lane, warp, block = ([pick(basis, order) for basis in bases[name]] for name in HARDWARE)
    return DistributedLinearLayout(register, lane, warp, block, pick(shape, order))


@of_known_layouts
def broadcast_layout(layout: DistributedLayout, shape: Sequence[int], new_shape: Sequence[int]) -> DistributedLayout:
    """The layout after extents of 1 grow: the same one, if no register then holds what its thread did not.

    Raises LayoutError where ranks differ, an extent other than 1 changes, or data would have to move.
    """
    if len(shape) != len(new_shape) or any(old not in (1, new) for old, new in zip(shape, new_shape, strict=True)):
        raise LayoutError(f"cannot broadcast a tensor of {list(shape)} to {list(new_shape)}")
    source, grown = layout.linear(shape).bases, layout.linear(new_shape).bases
    axes = [axis for axis, extent in enumerate(shape) if extent > 1]
    for name in ("lane", "warp", "block"):
        if [pick(basis, axes) for basis in source[name]] != [pick(basis, axes) for basis in grown[name]]:
            raise LayoutError(f"broadcasting {list(shape)} to {list(new_shape)} moves data in this layout: {layout}")
    return layout


@of_known_layouts
def reshape_layout(layout: DistributedLayout, shape: Sequence[int], new_shape: Sequence[int]) -> DistributedLayout:
    """The layout after a tensor of `shape` is read, row by row, as one of `new_shape`.

    A BlockedLayout stays one where some BlockedLayout has the map; any other becomes a DistributedLinearLayout.
    Raises LayoutError where the numbers of elements differ.
    """
    goal = layout.linear(shape).reshape(new_shape)
    if isinstance(layout, BlockedLayout):
        if tuple(shape) == tuple(new_shape):
            return layout
        found = _as_blocked(goal, math.prod(layout.size_per_thread), layout.ctas)
        if found is not None:
            return found
    return DistributedLinearLayout.from_linear(goal)


@of_known_layouts
def join_layout(layout: DistributedLayout, shape: Sequence[int]) -> DistributedLayout:
    """The layout of two tensors of `shape` put side by side along a new last dimension of extent 2."""
    if isinstance(layout, BlockedLayout):
        return BlockedLayout(
            [*layout.size_per_thread, 2],
            [*layout.threads_per_warp, 1],
            [*layout.warps_per_cta, 1],
            [layout.rank, *layout.order],
            [[*basis, 0] for basis in layout.cga_layout],
        )
    bases = layout.linear(shape).bases
    register, lane, warp, block = ([[*basis, 0] for basis in bases[name]] for name in HARDWARE)
    return DistributedLinearLayout([unit(layout.rank, 1, layout.rank + 1), *register], lane, warp, block, [*shape, 2])


@of_known_layouts
def split_layout(layout: DistributedLayout, shape: Sequence[int]) -> DistributedLayout:
    """The layout of either half of a tensor of `shape` that is split along its last dimension, of extent 2.

    Raises LayoutError where the extent is not 2, or a thread does not hold both halves.
    """
    if not shape or shape[-1] != 2:
        raise LayoutError(f"split needs a last dimension of extent 2, not the shape {list(shape)}")
    source = layout.linear(shape)
    halves = [basis for basis in source.flat_bases("register") if basis & 1]
    others = [basis for name in ("lane", "warp", "block") for basis in source.flat_bases(name) if basis & 1]
    if halves != [1] or others:
        raise LayoutError(f"split requires at least 2 elements per thread in the axis/last dimension: {layout}")
    result = SliceLayout(layout.rank - 1, layout)
    kept = [basis >> 1 for basis in source.flat_bases("register") if basis != 1]
    if list(result.linear(shape[:-1]).flat_bases("register")) == kept:
        return result
    bases = {name: [basis >> 1 for basis in source.flat_bases(name)] for name in HARDWARE} | {"register": kept}
    return DistributedLinearLayout.from_linear(LinearLayout.from_flat_bases(bases, shape[:-1]))


@of_known_layouts
def fp4_to_fp_layout(layout: DistributedLayout, shape: Sequence[int], axis: int) -> DistributedLayout:
    """The layout after each element of a tensor of `shape` became two neighbours along `axis`, in the same thread."""
    if not 0 <= axis < layout.rank:
        raise LayoutError(f"axis {axis} is out of range for a tensor of rank {layout.rank}")
    if isinstance(layout, BlockedLayout) and layout.order[0] == axis:
        sizes = [size * (2 if index == axis else 1) for index, size in enumerate(layout.size_per_thread)]
        return BlockedLayout(sizes, layout.threads_per_warp, layout.warps_per_cta, layout.order, layout.cga_layout)
    bases = {
        name: [[value * (2 if index == axis else 1) for index, value in enumerate(basis)] for basis in vectors]
        for name, vectors in layout.linear(shape).bases.items()
    }
    register, lane, warp, block = (bases[name] for name in HARDWARE)
    doubled = [extent * (2 if index == axis else 1) for index, extent in enumerate(shape)]
    return DistributedLinearLayout([unit(axis, 1, layout.rank), *register], lane, warp, block, doubled)


def _as_blocked(goal: LinearLayout, register_limit: int, ctas: int) -> BlockedLayout | None:
    """A BlockedLayout with exactly this map, its first registers at most `register_limit` elements; None if none is."""
    rank = len(goal.shape)
    if ctas > 1 or rank > MAXIMUM_SEARCHED_RANK:
        return None
    bases = {name: [*map(tuple, vectors)] for name, vectors in goal.bases.items()}
    bases["register"] = bases["register"][: log2_exact(register_limit, "the number of elements of a thread")]
    for order in permutations(reversed(range(rank))):
        extents = [1] * rank
        register, lane, warp = (_level(bases[name], order, extents, goal.shape) for name in HARDWARE[:3])
        layout = BlockedLayout(register, lane, warp, order)
        counts = (layout.lanes, layout.warps)
        if counts == (goal.size("lane"), goal.size("warp")) and layout.linear(goal.shape) == goal:
            return layout
    return None


def _level(bases: Sequence[Vector], order: Sequence[int], extents: list[int], shape: Sequence[int]) -> list[int]:
    """Read one level of a tile off its bases: how many of them walk each dimension; `extents` grow accordingly."""
    rank = len(shape)
    sizes = [1] * rank
    rest = list(bases)
    for axis in order:
        # Past the end of the tensor the tile goes on with zero bases.
        while rest and rest[0] == unit(axis, extents[axis] if extents[axis] < shape[axis] else 0, rank):
            extents[axis] *= 2
            sizes[axis] *= 2
            rest.pop(0)
    return sizes
