"""Bringing operands to one element type, one shape and one placement."""

from __future__ import annotations

from typing import Any

from glueball.errors import LayoutError
from glueball.language.builder import KernelBuilder
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.conversion import convert
from glueball.language.promotion import check_literal, literal_type, promote
from glueball.language.tensor import tensor
from glueball.layouts import AutoLayout, DistributedLayout
from glueball.tile.types import distributed_type, dtype


def to_operand(value: Any, builder: KernelBuilder) -> tensor:
    """A tensor as it is; a Python number as a scalar constant of its literal type."""
    value = _unwrap_if_constexpr(value)
    if isinstance(value, tensor):
        return value
    return builder.constant(value, literal_type(value))


def promoted_type(x: Any, y: Any, *, dividing: bool = False) -> dtype:
    """The element type in which an operation on two operands, tensors or numbers, computes."""
    x_literal, y_literal = not isinstance(x, tensor), not isinstance(y, tensor)
    return promote(
        literal_type(x) if x_literal else x.dtype,
        literal_type(y) if y_literal else y.dtype,
        left_literal=x_literal,
        right_literal=y_literal,
        dividing=dividing,
    )


def as_type(value: Any, element: dtype, builder: KernelBuilder) -> tensor:
    """An operand, tensor or number, converted to an element type."""
    if isinstance(value, tensor):
        return convert(value, element, builder)
    check_literal(value, element)
    return builder.constant(value, element)


def common_shape(left: distributed_type, right: distributed_type) -> tuple[int, ...]:
    """The shape to which two tiles broadcast: equal rank, extents equal or 1; `ValueError` otherwise."""
    if len(left.shape) != len(right.shape):
        raise ValueError(
            f"Cannot broadcast, rank mismatch: {list(left.shape)} and {list(right.shape)}; "
            "insert dimensions with `x[:, None]`"
        )
    shape = []
    for axis, (first, second) in enumerate(zip(left.shape, right.shape, strict=True)):
        if first != second and 1 not in (first, second):
            raise ValueError(
                f"Cannot broadcast {list(left.shape)} and {list(right.shape)}: "
                f"incompatible dimensions at index {axis}: {first} and {second}"
            )
        shape.append(max(first, second))
    return tuple(shape)


def check_placement(left: distributed_type, right: distributed_type) -> None:
    """Check that two tiles of one shape place their elements alike; `LayoutError` with the difference otherwise."""
    if left.same_placement(right):
        return
    raise LayoutError(
        f"Layout mismatch in broadcast: {left.layout} vs {right.layout}, for shape {list(left.shape)}"
        f"{_difference(left, right)}"
    )


def type_difference(left: Any, right: Any) -> str:
    """Where two types that should be equal part, and what helps: lines that follow a sentence, or nothing."""
    if not isinstance(left, distributed_type) or not isinstance(right, distributed_type) or left.shape != right.shape:
        return ""
    return "" if left.same_placement(right) else _difference(left, right)


def _difference(left: distributed_type, right: distributed_type) -> str:
    if not left.is_placed or not right.is_placed:
        return ""
    detail, difference = "", left.linear.first_difference(right.linear)
    if difference is not None:
        index, first, second = difference
        ((kind, number),) = index.items()
        holds = [f"element {list(place)}" if place is not None else "nothing" for place in (first, second)]
        detail = f"\n{kind} {number} (all other indices 0) holds {holds[0]} in the first and {holds[1]} in the second"
    return f"{detail}\nconvert one of them: gl.convert_layout(x, layout) brings a tile into the other's layout"


def grow(value: tensor, shape: tuple[int, ...], builder: KernelBuilder) -> tensor:
    """A tile repeated along its extents of 1 to a shape it is known to fit."""
    tile = value.type
    if not isinstance(tile, distributed_type) or tile.shape == shape:
        return value
    return builder.emit("broadcast", [value], distributed_type(tile.element_ty, shape, tile.layout))


def with_shape(tile: distributed_type, shape: tuple[int, ...]) -> distributed_type:
    """The same kind of tile with another shape."""
    return tile if tile.shape == shape else distributed_type(tile.element_ty, shape, tile.layout)


def set_layout(value: tensor, layout: DistributedLayout, builder: KernelBuilder) -> tensor:
    """A tile whose layout is to be inferred, with the statement that it is the given one."""
    tile = value.type
    assert isinstance(tile, distributed_type)
    return builder.emit("set_auto_layout", [value], distributed_type(tile.element_ty, tile.shape, layout))


def _settled(values: list[tensor], tiles: list[distributed_type], builder: KernelBuilder) -> list[tensor]:
    """Operands of which those in an AutoLayout take the first other layout."""
    layout = next((tile.layout for tile in tiles if not isinstance(tile.layout, AutoLayout)), None)
    if layout is None or len({len(tile.shape) for tile in tiles}) > 1:
        return values
    return [
        set_layout(value, layout, builder)
        if isinstance(value.type, distributed_type) and isinstance(value.type.layout, AutoLayout)
        else value
        for value in values
    ]


def broadcast_all(values: list[tensor], builder: KernelBuilder) -> list[tensor]:
    """Operands brought to one shape and one placement; scalars are repeated, scalars alone stay scalars."""
    tiles = [value.type for value in values if isinstance(value.type, distributed_type)]
    if not tiles:
        return values
    values = _settled(values, tiles, builder)
    tiles = [value.type for value in values if isinstance(value.type, distributed_type)]
    first = tiles[0]
    for tile in tiles[1:]:
        if tile.shape != first.shape:
            first = with_shape(first, common_shape(first, tile))
    for tile in tiles[1:]:
        check_placement(first, with_shape(tile, first.shape))
    return [
        grow(value, first.shape, builder) if isinstance(value.type, distributed_type) else builder.splat(value, first)
        for value in values
    ]
