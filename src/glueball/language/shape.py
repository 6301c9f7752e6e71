"""Operations that rename dimensions, repeat elements or move them between threads; no element changes its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glueball.errors import LayoutError
from glueball.language.broadcasting import broadcast_all, grow, set_layout, to_operand
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.core import require_layout, shape_of
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.language.tuple import unwrap
from glueball.layouts import (
    AutoLayout,
    BlockedLayout,
    DistributedLayout,
    LinearLayout,
    SliceLayout,
    expand_dims_layout,
    f2,
    permute_layout,
)
from glueball.tile.types import distributed_type


def tile_argument(x: Any, operation: str) -> tuple[tensor, distributed_type]:
    """An argument that is a tile, and its type; `ValueError` for anything else."""
    if not isinstance(x, tensor) or not isinstance(x.type, distributed_type):
        raise ValueError(f"{operation} expects its input to be a distributed_type (a tile), not {x!r}")
    return x, x.type


def insert_dimension(x: tensor, axis: int, builder: KernelBuilder) -> tensor:
    """The tile with a dimension of extent 1 at `axis`; `LayoutError` where its layout is no slice along it."""
    x, tile = tile_argument(x, "expand_dims")
    layout = tile.layout
    if isinstance(layout, SliceLayout) and layout.dim != axis:
        raise LayoutError(
            f"expected expand_dims input to have a layout sliced in axis {axis}, but it is sliced in axis "
            f"{layout.dim}: {layout}\nuse gl.SliceLayout({axis}, ...), or insert the dimension at axis {layout.dim}"
        )
    try:
        parent = expand_dims_layout(layout, axis, tile.shape)
    except LayoutError as error:
        raise LayoutError(f"expected expand_dims input to have a SliceLayout along axis {axis}: {error}") from error
    shape = (*tile.shape[:axis], 1, *tile.shape[axis:])
    return builder.emit("expand_dims", [x], distributed_type(tile.element_ty, shape, parent), axis=axis)


def _expanded(x: tensor, axis: int, builder: KernelBuilder) -> tensor:
    """`insert_dimension` as authors ask for it: a tile in a BlockedLayout is not meant to be a slice of another."""
    _, tile = tile_argument(x, "expand_dims")
    if isinstance(tile.layout, BlockedLayout):
        raise LayoutError(
            f"expected expand_dims input to have a SliceLayout along axis {axis}, not {tile.layout}\n"
            f"make the tile in gl.SliceLayout({axis}, ...) of the layout that it shall get, or convert it to one"
        )
    return insert_dimension(x, axis, builder)


@builtin
def expand_dims(
    input: tensor,  # noqa: A002 - the name that programs pass
    axis: Any,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> tensor:
    """The tile with a dimension of extent 1 inserted at `axis`, or at each of several; no element moves.

    Axes count in the result and may be negative. A tile in SliceLayout(axis, P) gives one in P; a linear or matrix
    layout must be the map of such a slice.
    Errors: `ValueError` for a scalar, an axis out of range or twice; `LayoutError` for a BlockedLayout, and for another
    layout that is no such slice.
    """
    axes = unwrap(axis)
    axes = [axes] if isinstance(axes, int) else list(axes)
    x, tile = tile_argument(input, "expand_dims")
    rank = len(tile.shape) + len(axes)
    for number in axes:
        if isinstance(number, bool) or not isinstance(number, int) or not -rank <= number < rank:
            raise ValueError(f"expand_dims axis {number!r} is out of range for a result of {rank} dimensions")
    positions = sorted(number % rank for number in axes)
    if len(set(positions)) != len(positions):
        raise ValueError(f"expand_dims received duplicate axes: {axes}")
    for position in positions:
        x = _expanded(x, position, _builder)
    return x


@builtin
def getitem(x: tensor, index: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`x[:, None]`: a new dimension of extent 1 for each `None`, in order.

    Errors: `ValueError` for an index other than `None` and `:`, and for more `:` than dimensions.
    """
    items = index.values if isinstance(index, language_tuple) else [index]
    axes, kept = [], 0
    for position, item in enumerate(map(_unwrap_if_constexpr, items)):
        if item is None:
            axes.append(position)
        elif isinstance(item, slice) and (item.start, item.stop, item.step) == (None, None, None):
            kept += 1
        else:
            raise ValueError(f"unsupported tensor index: {item!r}; only `None` and `:` are there")
    if kept > len(x.extents):
        raise ValueError(f"too many indices: {kept} for a tensor of {len(x.extents)} dimensions")
    for axis in axes:
        x = _expanded(x, axis, _builder)
    return x


@builtin
def broadcast(
    input: Any,  # noqa: A002 - the name that programs pass
    other: Any,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> language_tuple:
    """Both operands brought to their common shape: extents of 1 grow, scalars are repeated.

    Errors: `ValueError` for ranks or extents that do not fit, `LayoutError` for different placements.
    """
    return language_tuple(broadcast_all([to_operand(input, _builder), to_operand(other, _builder)], _builder))


@builtin
def broadcast_to(x: tensor, *shape: Any, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The tile with its extents of 1 grown to `shape` (integers or one tuple); the layout stays.

    Errors: `ValueError` for another rank and for extents other than 1 that differ.
    """
    x, tile = tile_argument(x, "broadcast_to")
    wanted = extents_argument(shape)
    if len(wanted) != len(tile.shape):
        raise ValueError(f"rank mismatch: cannot broadcast {list(tile.shape)} to {wanted}")
    for axis, (extent, goal) in enumerate(zip(tile.shape, wanted, strict=True)):
        if extent not in (1, goal):
            raise ValueError(
                f"cannot broadcast {list(tile.shape)} to {wanted}: the extent {goal} of dimension {axis} must match "
                f"the existing size {extent}, which is not 1"
            )
    return grow(x, (*wanted,), _builder)


def extents_argument(shape: Sequence[Any]) -> list[int]:
    """Integers given one by one or as one tuple."""
    first = shape[0] if len(shape) == 1 else None
    return list(shape_of(first if isinstance(unwrap(first), list | tuple) else shape))


@builtin
def permute(
    input: tensor,  # noqa: A002 - the name that programs pass
    *dims: Any,
    _builder: KernelBuilder = HIDDEN,
) -> tensor:
    """The tile with its dimensions reordered: dimension `i` of the result is `dims[i]` of `input`; no element moves.

    Errors: `ValueError` where `dims` (integers or one tuple) is no permutation of the dimensions.
    """
    x, tile = tile_argument(input, "permute")
    order = extents_argument(dims)
    if sorted(order) != list(range(len(tile.shape))):
        raise ValueError(f"permute's dims {order} must be a permutation of the {len(tile.shape)} dimensions")
    layout = permute_layout(tile.layout, order, tile.shape)
    result = distributed_type(tile.element_ty, (*(tile.shape[axis] for axis in order),), layout)
    return _builder.emit("permute", [x], result, order=order)


@builtin
def trans(x: tensor, *dims: Any, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`permute(x, *dims)`; without `dims` the last two dimensions change places.

    Errors: `ValueError` for fewer than two dimensions, or no permutation.
    """
    x, tile = tile_argument(x, "trans")
    rank = len(tile.shape)
    if not dims:
        if rank < 2:
            raise ValueError(f"trans needs two dimensions to swap, not a tile of shape {list(tile.shape)}")
        dims = (*range(rank - 2), rank - 1, rank - 2)
    return permute(x, *dims, _builder=_builder)


@builtin
def set_auto_layout(
    value: tensor, layout: DistributedLayout | constexpr, *, _builder: KernelBuilder = HIDDEN
) -> tensor:
    """The tile, whose layout is to be inferred, with the statement that it is `layout`; nothing is converted.

    Errors: `ValueError` for a tile whose layout is not an AutoLayout, for what is no layout and for an AutoLayout.
    """
    x, tile = tile_argument(value, "set_auto_layout")
    if not isinstance(tile.layout, AutoLayout):
        raise ValueError(f"input must have auto layout, not {tile.layout}; convert_layout changes a known layout")
    wanted = _unwrap_if_constexpr(layout)
    if not isinstance(wanted, DistributedLayout) or isinstance(wanted, AutoLayout):
        raise ValueError(f"must set to a distributed layout, not {wanted!r}")
    return set_layout(x, wanted, _builder)


@builtin
def convert_layout(
    value: tensor,
    layout: DistributedLayout | constexpr,
    assert_trivial: bool | constexpr = False,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> tensor:
    """The same tile held as `layout` says. `assert_trivial=True` insists that no element leaves its thread.

    Errors: `ValueError` for a scalar or what is no layout, `AssertionError` for another rank; `TypeError` with both
    maps where the conversion was to be trivial and is not.
    """
    x, tile = tile_argument(value, "convert_layout")
    target = distributed_type(tile.element_ty, tile.shape, require_layout(layout, "convert_layout"))
    if _unwrap_if_constexpr(assert_trivial) and not keeps_threads(tile.linear, target.linear):
        raise TypeError(
            f"layout conversion from {tile.layout} to {target.layout} is not trivial. It moves elements between "
            f"threads, which it does without assert_trivial=True.\n"
            f"from:\n{tile.linear}\nto:\n{target.linear}"
        )
    if tile.layout == target.layout:
        return x
    return _builder.emit("convert_layout", [x], target)


def keeps_threads(source: LinearLayout, target: LinearLayout) -> bool:
    """Whether two maps differ at most by a renaming of registers, the same for all threads."""
    if any(source.flat_bases(name) != target.flat_bases(name) for name in ("lane", "warp", "block")):
        return False
    return f2.reduced(source.flat_bases("register")) == f2.reduced(target.flat_bases("register"))
