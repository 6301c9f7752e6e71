"""Copies from global to shared memory that threads start and wait for in groups (PTX ISA, `cp.async`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glueball.tile.ir import Operation
from glueball.tile.operations.definition import (
    Access,
    Effects,
    Machine,
    OperationDefinition,
    TileArray,
    fault,
    initialized,
    numpy_type,
)
from glueball.tile.operations.rules import expect_alike, expect_counts, is_boolean
from glueball.tile.operations.shared_memory import view_type
from glueball.tile.types import distributed_type, pointer_type


def _check_copy(operation: Operation) -> None:
    expect_counts(operation, 2, 0, most_operands=3)
    kind, pointers = view_type(operation, operation.operands[0]), operation.operands[1].type
    if not isinstance(pointers, distributed_type) or not isinstance(pointers.element_ty, pointer_type):
        raise fault(operation, f"needs a tile of pointers, not {pointers}")
    if pointers.shape != kind.shape or pointers.element_ty.element_ty.itemsize != kind.element_ty.itemsize:
        raise fault(operation, f"copies a tile of the view's shape and element width: {kind} from {pointers}")
    for mask in operation.operands[2:]:
        if not is_boolean(mask.type.scalar):
            raise fault(operation, f"needs a mask of int1, not {mask.type.scalar}")
        expect_alike(operation, operation.operands[1], mask)


def _copy(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    """What the mask leaves out becomes zero."""
    view, pointers, *masks = operands
    kind = view_type(operation, operation.operands[0])
    element = numpy_type(kind.element_ty)
    mask = None if not masks else initialized(machine, operation, masks[0], "mask")
    addresses = initialized(machine, operation, pointers, "address", mask)
    active = np.ones(addresses.shape, bool) if mask is None else mask
    values = np.zeros(addresses.shape, element)
    values[active] = machine.memory.load(
        Access("async_copy", operation.location, machine.program), addresses[active], element
    )
    machine.arena.store(operation, view.values, values, None)
    return []


def _nothing(_: Machine, __: Operation, ___: Sequence[TileArray]) -> Sequence[TileArray]:
    return []


def _check_bare(operation: Operation) -> None:
    expect_counts(operation, 0, 0)


ASYNCHRONOUS_OPERATIONS: tuple[OperationDefinition, ...] = (
    OperationDefinition(
        "async_copy",
        "A view gets what pointers point to, and zero where the mask is false, once the copy was waited for.",
        _check_copy,
        _copy,
        effects=Effects(reads_global=True, writes_shared=True),
        pure=False,
        attributes=frozenset({"cache_modifier", "cache_policy", "prefetch"}),
    ),
    OperationDefinition(
        "async_copy_commit", "Each thread's copies so far become its next group.", _check_bare, _nothing, pure=False
    ),
    OperationDefinition(
        "async_copy_wait",
        "All of each thread's groups but the latest `pending` are done.",
        _check_bare,
        _nothing,
        pure=False,
        attributes=frozenset({"pending"}),
    ),
)
