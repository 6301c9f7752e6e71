"""Operations that rename or move elements: no element changes its value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from glueball.layouts import SliceLayout, permute_layout
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Array, Machine, OperationDefinition, Reference, TileArray, fault
from glueball.tile.operations.rules import expect_counts
from glueball.tile.types import distributed_type


def moving(function: Callable[[Operation, Array], Array]) -> Reference:
    """A reference that moves elements, and their poison with them."""

    def reference(_: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
        (operand,) = operands
        poison = None if operand.poison is None else function(operation, operand.poison)
        return [TileArray(function(operation, operand.values), poison)]

    return reference


def tile_types(operation: Operation) -> tuple[distributed_type, distributed_type]:
    """Operand and result type of an operation from one tile to another of the same element type."""
    expect_counts(operation, 1, 1)
    source, result = operation.operands[0].type, operation.result.type
    if not isinstance(source, distributed_type) or not isinstance(result, distributed_type):
        raise fault(operation, f"goes from tile to tile, not from {source} to {result}")
    if source.element_ty != result.element_ty:
        raise fault(operation, f"keeps the element type, not from {source.element_ty} to {result.element_ty}")
    return source, result


def _check_splat(operation: Operation) -> None:
    expect_counts(operation, 1, 1)
    source, result = operation.operands[0].type, operation.result.type
    if isinstance(source, distributed_type) or not isinstance(result, distributed_type):
        raise fault(operation, f"goes from scalar to tile, not from {source} to {result}")
    if source != result.element_ty:
        raise fault(operation, f"keeps the element type, not from {source} to {result.element_ty}")


def _check_expand_dims(operation: Operation) -> None:
    source, result = tile_types(operation)
    axis = operation.attributes["axis"]
    if not 0 <= axis < len(result.shape) or result.shape != (*source.shape[:axis], 1, *source.shape[axis:]):
        raise fault(operation, f"inserts one extent of 1 at axis {axis}, not {source.shape} to {result.shape}")
    if SliceLayout(axis, result.layout).linear(source.shape) != source.linear:
        raise fault(operation, f"needs {source.layout} to be the slice along axis {axis} of {result.layout}")


def _check_broadcast(operation: Operation) -> None:
    source, result = tile_types(operation)
    grows = len(source.shape) == len(result.shape) and all(
        extent in (1, wanted) for extent, wanted in zip(source.shape, result.shape, strict=True)
    )
    if not grows:
        raise fault(operation, f"grows extents of 1 only, not {source.shape} to {result.shape}")
    if source.layout != result.layout:
        raise fault(operation, f"keeps the layout, not from {source.layout} to {result.layout}")


def _check_permute(operation: Operation) -> None:
    source, result = tile_types(operation)
    order = operation.attributes["order"]
    if sorted(order) != list(range(len(source.shape))):
        raise fault(operation, f"has an order that permutes {len(source.shape)} dimensions, not {list(order)}")
    if result.shape != tuple(source.shape[axis] for axis in order):
        raise fault(operation, f"reorders the shape by {list(order)}, not {source.shape} to {result.shape}")
    if permute_layout(source.layout, order, source.shape).linear(result.shape) != result.linear:
        raise fault(operation, f"reorders the layout by {list(order)}, not {source.layout} to {result.layout}")


def check_conversion(operation: Operation) -> None:
    """The rule of every operation that puts a tile into another layout."""
    source, result = tile_types(operation)
    if source.shape != result.shape:
        raise fault(operation, f"keeps the shape, not from {source.shape} to {result.shape}")


def grow(operation: Operation, values: Array) -> Array:
    """The operand repeated to the shape of the result."""
    return np.broadcast_to(values, operation.result.type.shape)


def expand(operation: Operation, values: Array) -> Array:
    """The operand with one more dimension."""
    return np.expand_dims(values, operation.attributes["axis"])


def reorder(operation: Operation, values: Array) -> Array:
    """The operand with its dimensions in another order."""
    return np.transpose(values, operation.attributes["order"])


def keep(_: Operation, values: Array) -> Array:
    """The operand itself: where elements live is not the business of whole arrays."""
    return values


SHAPE_OPERATIONS = (
    OperationDefinition("splat", "A tile whose every element is the scalar.", _check_splat, moving(grow)),
    OperationDefinition(
        "expand_dims",
        "The tile with one more dimension, of extent 1, at `axis`; no element moves between threads.",
        _check_expand_dims,
        moving(expand),
        attributes=frozenset({"axis"}),
    ),
    OperationDefinition("broadcast", "The tile repeated along dimensions of extent 1.", _check_broadcast, moving(grow)),
    OperationDefinition(
        "permute",
        "The tile with its dimensions in another order: dimension `i` is the operand's `order[i]`; nothing moves.",
        _check_permute,
        moving(reorder),
        attributes=frozenset({"order"}),
    ),
    OperationDefinition("convert_layout", "The same tile in another layout.", check_conversion, moving(keep)),
    OperationDefinition(
        "set_auto_layout",
        "The tile, whose layout is found out to be that of the result.",
        check_conversion,
        moving(keep),
    ),
)
