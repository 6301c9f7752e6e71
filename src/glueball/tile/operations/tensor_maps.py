"""Tensor descriptors that a kernel makes itself, and the global memory in which they stand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glueball.errors import SimulationError
from glueball.tensor_map import TensorMap
from glueball.tile.bulk_boxes import boxes_of, stored_element
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Effects, Machine, OperationDefinition, TileArray, fault
from glueball.tile.operations.rules import expect_counts
from glueball.tile.types import int32, int64, pointer_type, tensor_descriptor_type

MAP_BYTES = 128
"""Bytes of a tensor map, which starts at a multiple of as many."""


def _made(operation: Operation) -> tensor_descriptor_type:
    kind = operation.result.type
    if not isinstance(kind, tensor_descriptor_type) or kind.im2col:
        raise fault(operation, f"makes a descriptor of a tiled tensor, not {kind}")
    return kind


def _check_make(operation: Operation) -> None:
    rank = _made(operation).rank
    expect_counts(operation, 1 + 2 * rank, 1, most_operands=2 + 2 * rank)
    base, *numbers = operation.operands
    if not isinstance(base.type, pointer_type) or base.type.element_ty != _made(operation).element_ty:
        raise fault(operation, f"needs a pointer to {_made(operation).element_ty} as base, not {base.type}")
    expected = [int32] * rank + [int64] * (len(numbers) - rank)
    if [number.type for number in numbers] != expected:
        raise fault(operation, "needs int32 extents, int64 strides, and the address of scratch memory as an int64")


def _make(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    """The number under which the machine knows the new tensor map."""
    kind = _made(operation)
    base, *numbers = (int(operand.values) for operand in operands)
    try:
        made = TensorMap(
            base=base,
            shape=tuple(numbers[: kind.rank]),
            strides=tuple(numbers[kind.rank : 2 * kind.rank]),
            element=stored_element(kind.element_ty),
            box=boxes_of(kind).shape,
            swizzle=kind.layout.swizzle_byte_width,
            fill=operation.attributes["fill"],
        )
    except ValueError as error:
        raise SimulationError(f"{error} (program {machine.program})", operation.location) from None
    machine.tensor_maps.append(made)
    return [TileArray(np.asarray(len(machine.tensor_maps) - 1, np.int64))]


def _check_scratch(operation: Operation) -> None:
    expect_counts(operation, 0, 1)
    if operation.result.type != int64:
        raise fault(operation, f"gives an int64, not {operation.result.type}")


def _scratch(_: Machine, __: Operation, ___: Sequence[TileArray]) -> Sequence[TileArray]:
    return [TileArray(np.asarray(0, np.int64))]


def _check_none(operation: Operation) -> None:
    expect_counts(operation, 0, 1)
    if not isinstance(operation.result.type, tensor_descriptor_type):
        raise fault(operation, f"gives a descriptor, not {operation.result.type}")


def _none(_: Machine, __: Operation, ___: Sequence[TileArray]) -> Sequence[TileArray]:
    return [TileArray(np.asarray(-1, np.int64))]


TENSOR_MAP_OPERATIONS: tuple[OperationDefinition, ...] = (
    OperationDefinition(
        "make_descriptor",
        "A descriptor of the tensor at a base, with extents and strides; built in `allocation`, kept in scratch.",
        _check_make,
        _make,
        effects=Effects(writes_shared=True),
        pure=False,
        attributes=frozenset({"fill"}),
        optional_attributes=frozenset({"allocation", "offset"}),
    ),
    OperationDefinition("descriptor_none", "A descriptor on a path on which nobody looks at it.", _check_none, _none),
    OperationDefinition(
        "global_scratch",
        "The address of the program's own `bytes` of global memory, which the launch provides.",
        _check_scratch,
        _scratch,
        attributes=frozenset({"bytes"}),
    ),
)
