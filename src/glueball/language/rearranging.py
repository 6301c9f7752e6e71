"""Operations that give tiles other shapes, join them and take them apart; no element leaves its thread."""

from __future__ import annotations

import math
from typing import Any

from glueball.language.broadcasting import as_type, broadcast_all, promoted_type, to_operand
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.shape import extents_argument, insert_dimension, tile_argument
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.layouts import join_layout, reshape_layout, slice_layout, split_layout
from glueball.tile.types import distributed_type, int32


def flattened(x: tensor, builder: KernelBuilder) -> tensor:
    """A tile's elements in one row."""
    tile = x.type
    assert isinstance(tile, distributed_type)
    return _reshaped(x, (tile.numel,), builder)


def _reshaped(x: tensor, shape: tuple[int, ...], builder: KernelBuilder) -> tensor:
    tile = x.type
    assert isinstance(tile, distributed_type)
    if tile.shape == shape:
        return x
    layout = reshape_layout(tile.layout, tile.shape, shape)
    return builder.emit("reshape", [x], distributed_type(tile.element_ty, shape, layout))


@builtin
def reshape(
    input: tensor,  # noqa: A002 - the name that kernel authors write
    *shape: Any,
    can_reorder: Any = False,
    _builder: KernelBuilder = HIDDEN,
) -> tensor:
    """The elements, row by row, as a tile of another `shape` (integers or one tuple); no element leaves its thread.

    A BlockedLayout stays one where one has the map, any other layout becomes a DistributedLinearLayout. An empty shape
    gives the only element as a scalar.
    Errors: `ValueError` for a scalar, another number of elements, and `can_reorder=True`.
    """
    _keep_order(can_reorder)
    x, tile = tile_argument(input, "reshape")
    wanted = (*extents_argument(shape),)
    if math.prod(wanted) != tile.numel:
        raise ValueError(
            f"reshape() cannot change total number of elements in tensor: {list(tile.shape)} has {tile.numel}, "
            f"{list(wanted)} has {math.prod(wanted)}"
        )
    return _reshaped(x, wanted, _builder) if wanted else _only_element(x, _builder)


def _keep_order(can_reorder: Any) -> None:
    if _unwrap_if_constexpr(can_reorder):
        raise ValueError("can_reorder is not supported in gluon: reshape keeps the order of the elements")


def _only_element(x: tensor, builder: KernelBuilder) -> tensor:
    return builder.emit("to_scalar", [x], x.dtype)


@builtin
def ravel(x: tensor, can_reorder: Any = False, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The elements, row by row, as a tile of one dimension.

    Errors: `ValueError` for a scalar, and for `can_reorder=True`.
    """
    _keep_order(can_reorder)
    x, _ = tile_argument(x, "ravel")
    return flattened(x, _builder)


@builtin
def item(x: tensor, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The only element of a tile, as a scalar.

    Errors: `AssertionError` for a tile of several elements; `ValueError` for a scalar.
    """
    x, tile = tile_argument(x, "item")
    assert tile.numel == 1, f"item() needs a single-element tensor, not one of shape {list(tile.shape)}"
    return _only_element(x, _builder)


@builtin
def join(a: Any, b: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """Two tiles side by side along a new last dimension of extent 2, the fastest one; they broadcast before.

    Errors: `ValueError` for scalars and for shapes that do not broadcast, `LayoutError` for different placements.
    """
    if not any(isinstance(value, tensor) and isinstance(value.type, distributed_type) for value in (a, b)):
        raise ValueError("Cannot join scalars in gluon")
    plain = [_unwrap_if_constexpr(value) for value in (a, b)]
    if all(isinstance(value, tensor) and value.dtype == plain[0].dtype for value in plain):
        operands = [to_operand(value, _builder) for value in plain]
    else:
        element = promoted_type(*plain)
        operands = [as_type(value, element, _builder) for value in plain]
    first, second = broadcast_all(operands, _builder)
    tile = first.type
    assert isinstance(tile, distributed_type)
    layout = join_layout(tile.layout, tile.shape)
    return _builder.emit("join", [first, second], distributed_type(tile.element_ty, (*tile.shape, 2), layout))


@builtin
def split(a: tensor, *, _builder: KernelBuilder = HIDDEN) -> language_tuple:
    """The two halves along the last dimension, whose extent is 2: tiles in SliceLayout(last, P), or scalars.

    Errors: `ValueError` for a scalar and where the last extent is not 2; `LayoutError` where a thread does not hold
    both halves, and for one dimension whose layout is no slice.
    """
    x, tile = tile_argument(a, "split")
    if tile.shape[-1] != 2:
        raise ValueError(f"split needs a last dimension of extent 2, not the shape {list(tile.shape)}")
    alone = len(tile.shape) == 1
    if alone:
        x, tile = tile_argument(insert_dimension(x, 0, _builder), "split")
    shape = tile.shape[:-1]
    half = distributed_type(tile.element_ty, shape, split_layout(tile.layout, tile.shape))
    operation = _builder.create("split", [x.handle], [half, half])
    halves = [tensor(result) for result in operation.results]
    return language_tuple([_only_element(each, _builder) for each in halves] if alone else halves)


def coordinate_tile(tile: distributed_type, axis: int, builder: KernelBuilder) -> tensor:
    """Each element's coordinate along an axis, as an int32 tile placed as a given one."""
    layout = tile.layout
    others = [other for other in range(len(tile.shape)) if other != axis]
    for other in reversed(others):
        layout = slice_layout(other, layout)
    extent = tile.shape[axis]
    line = distributed_type(int32, (extent,), layout)
    found = builder.emit("make_range", [], line, start=0, end=extent)
    for other in others:
        found = insert_dimension(found, other, builder)
    return found if found.type.shape == tile.shape else builder.emit("broadcast", [found], tile.with_element_ty(int32))
