"""Matrix products of warp groups, which run while the threads go on, and the wait for them (PTX ISA, `wgmma`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glueball.layouts import DotOperandLayout, NVMMADistributedLayout
from glueball.numerics import matrix_element, matrix_product
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import (
    Effects,
    Machine,
    OperationDefinition,
    TileArray,
    fault,
    initialized,
    numpy_type,
)
from glueball.tile.operations.dot import poison_of_product
from glueball.tile.operations.rules import expect_counts, is_boolean
from glueball.tile.types import distributed_type, dtype, shared_memory_descriptor_type

STEP_BYTES = 32
"""Bytes along K of each operand that one instruction takes."""
GROUP_WARPS = 4
ROWS = 64


@dataclass(frozen=True, slots=True)
class InstructionType:
    """How instructions spell an element type, as an operand and as an accumulator.

    `accumulators` are the types in which products of it are added up, `transposes` says that neither dimension of an
    operand need be K.
    """

    operand: str = ""
    accumulator: str = ""
    accumulators: tuple[str, ...] = ()
    transposes: bool = False


INSTRUCTION_TYPES: dict[str, InstructionType] = {
    "fp16": InstructionType("f16", "f16", ("fp32", "fp16"), transposes=True),
    "bf16": InstructionType("bf16", "", ("fp32",), transposes=True),
    "fp32": InstructionType("tf32", "f32", ("fp32",)),
    "fp8e4nv": InstructionType("e4m3", "", ("fp32", "fp16")),
    "fp8e5": InstructionType("e5m2", "", ("fp32", "fp16")),
    "int8": InstructionType("s8", "", ("int32",)),
    "uint8": InstructionType("u8", "", ("int32",)),
    "int32": InstructionType("", "s32"),
}


def _shape(operation: Operation, position: int) -> tuple[int, ...]:
    kind = operation.operands[position].type
    if isinstance(kind, distributed_type | shared_memory_descriptor_type):
        return kind.shape
    raise fault(operation, f"works on tiles and views, not on {kind}")


def _check_mma(operation: Operation) -> None:
    expect_counts(operation, 3, 1, most_operands=4)
    left, right, accumulator = (operand.type for operand in operation.operands[:3])
    if not isinstance(right, shared_memory_descriptor_type):
        raise fault(operation, f"reads its second matrix from shared memory, not from {right}")
    if not isinstance(accumulator, distributed_type) or not isinstance(accumulator.layout, NVMMADistributedLayout):
        raise fault(operation, f"adds to a tile in an NVMMADistributedLayout, not to {accumulator}")
    if isinstance(left, distributed_type):
        wanted = DotOperandLayout(0, accumulator.layout, 4 // left.element_ty.itemsize)
        if left.layout != wanted:
            raise fault(operation, f"takes its first matrix in registers as {wanted}, not as {left.layout}")
    (rows, inner), (depth, columns) = _shape(operation, 0), _shape(operation, 1)
    if inner != depth or accumulator.shape != (rows, columns):
        raise fault(operation, f"multiplies M x K by K x N, not {[rows, inner]} by {[depth, columns]}")
    if accumulator.element_ty.name not in INSTRUCTION_TYPES[right.element_ty.name].accumulators:
        raise fault(operation, f"does not add products of {right.element_ty} up in {accumulator.element_ty}")
    if operation.result.type != accumulator:
        raise fault(operation, f"gives {accumulator}, not {operation.result.type}")
    for use in operation.operands[3:]:
        if not isinstance(use.type, dtype) or not is_boolean(use.type):
            raise fault(operation, f"needs an int1 scalar to say whether to add, not {use.type}")


def _matrix(machine: Machine, operation: Operation, operands: Sequence[TileArray], position: int) -> TileArray:
    """A matrix in registers or in shared memory, as the units multiply it."""
    kind, operand = operation.operands[position].type, operands[position]
    if isinstance(kind, shared_memory_descriptor_type):
        operand = TileArray(*machine.arena.load(operation, operand.values, numpy_type(kind.element_ty)))
    return TileArray(matrix_element(operand.values), operand.poison)


def _mma(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    left, right = (_matrix(machine, operation, operands, position) for position in (0, 1))
    total = operands[2]
    if len(operands) > 3 and not initialized(machine, operation, operands[3], "predicate"):
        total = TileArray(np.zeros_like(total.values))
    depth, piece = left.values.shape[1], operation.attributes["most_inexact"]
    if piece is None:
        result = matrix_product(left.values, right.values, total.values)
    else:
        result = total.values
        for start in range(0, depth, piece):
            inside = slice(start, start + piece)
            result = result + matrix_product(left.values[:, inside], right.values[inside], np.zeros_like(result))
    return [TileArray(result, poison_of_product(left, right, total))]


def _wait(_: Machine, __: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    return list(operands)


def _check_wait(operation: Operation) -> None:
    if [operand.type for operand in operation.operands] != [result.type for result in operation.results]:
        raise fault(operation, "gives what it takes")


WARPGROUP_OPERATIONS: tuple[OperationDefinition, ...] = (
    OperationDefinition(
        "warpgroup_mma",
        "The third plus the product of the first two, once it was waited for; the fourth one says whether to add. Sums "
        "of more than `most_inexact` products, if told, are made of partial ones.",
        _check_mma,
        _mma,
        effects=Effects(reads_shared=True),
        pure=False,
        attributes=frozenset({"most_inexact"}),
    ),
    OperationDefinition(
        "warpgroup_wait",
        "All products but the latest `pending` are done; tiles of them may be used from here on.",
        _check_wait,
        _wait,
        pure=False,
        attributes=frozenset({"pending"}),
    ),
)
