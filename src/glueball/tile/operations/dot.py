"""Matrix products by multiply-adds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glueball import numerics
from glueball.layouts import BlockedLayout, DotOperandLayout
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Array, Machine, OperationDefinition, TileArray, fault, numpy_type
from glueball.tile.operations.rules import expect_counts, same_type
from glueball.tile.types import distributed_type

_OF_NARROW_FLOATS = ("fp16", "fp32", "fp64")
ACCUMULATORS: dict[str, tuple[str, ...]] = {
    "int8": ("int32",),
    "uint8": ("int32",),
    **dict.fromkeys(("fp16", "fp8e5", "fp8e4nv", "fp8e5b16", "fp8e4b8"), _OF_NARROW_FLOATS),
    "bf16": ("fp32",),
    "fp32": ("fp32",),
    "fp64": ("fp64",),
}
"""Element types that have products, and the types that these may be added up in."""


def _check_dot(operation: Operation) -> None:
    expect_counts(operation, 3, 1)
    kinds = [value.type for value in (*operation.operands, operation.result)]
    left, right, accumulator, result = kinds
    if not all(isinstance(kind, distributed_type) for kind in kinds):
        raise fault(operation, f"works on tiles, not on {left}, {right} and {accumulator}")
    assert isinstance(left, distributed_type) and isinstance(right, distributed_type)
    assert isinstance(accumulator, distributed_type)
    for kind in (left, right):
        if accumulator.element_ty.name not in ACCUMULATORS.get(kind.element_ty.name, ()):
            raise fault(operation, f"does not add products of {kind.element_ty} up in {accumulator.element_ty}")
    if not same_type(accumulator, result):
        raise fault(operation, f"gives the type of its accumulator, {accumulator}, not {result}")
    rows, columns = left.shape[:-1], (*right.shape[:-2], right.shape[-1])
    inner = left.shape[-1] == right.shape[-2]
    if not inner or accumulator.shape != (*rows, columns[-1]) or rows[:-1] != columns[:-1]:
        raise fault(operation, f"multiplies M x K by K x N, not {left.shape} by {right.shape} to {accumulator.shape}")
    parent = accumulator.layout
    for index, kind in enumerate((left, right)):
        if not isinstance(parent, BlockedLayout) or kind.layout != DotOperandLayout(index, parent, 0):
            raise fault(operation, f"needs all of K in each thread, as operand {index} of {parent}, not {kind.layout}")


def _product(operation: Operation, left: Array, right: Array, total: Array) -> Array:
    """`total + left @ right`, k from 0 up, each step rounded once."""
    kind = numpy_type(operation.result.type)
    if kind.kind == "i":
        wide = [values.astype(kind) for values in (left, right)]
        return np.asarray(total + np.matmul(*wide))
    wide = [numerics.round_float(values, kind) for values in (left, right)]
    for k in range(left.shape[-1]):
        total = numerics.fused_multiply_add(wide[0][..., :, k, None], wide[1][..., None, k, :], total)
    return total


def poison_of_product(left: TileArray, right: TileArray, total: TileArray) -> Array | None:
    """Which elements of `total + left @ right` are poison: those whose row, column or addend has some."""
    poison = total.poison
    if left.poison is not None:
        rows = np.asarray(left.poison.any(-1, keepdims=True))
        poison = rows if poison is None else poison | rows
    if right.poison is not None:
        columns = np.asarray(right.poison.any(-2, keepdims=True))
        poison = columns if poison is None else poison | columns
    return None if poison is None else np.broadcast_to(poison, total.values.shape)


def _dot(_: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    left, right, total = operands
    poison = poison_of_product(left, right, total)
    return [TileArray(_product(operation, left.values, right.values, total.values), poison)]


DOT_OPERATIONS = (
    OperationDefinition(
        "dot_fma",
        "The third plus the product of the first two, one multiply-add after the other along K.",
        _check_dot,
        _dot,
    ),
)
