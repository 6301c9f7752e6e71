"""Global memory: loads and stores of whole tiles through pointers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glueball.tile.ir import Operation
from glueball.tile.operations.definition import (
    Access,
    Array,
    Effects,
    Machine,
    OperationDefinition,
    TileArray,
    fault,
    initialized,
    numpy_type,
)
from glueball.tile.operations.rules import expect_alike, expect_counts, is_boolean, pointee
from glueball.tile.types import pointer_type

LOAD_MODIFIERS = ("", ".ca", ".cg", ".cs", ".cv")
STORE_MODIFIERS = ("", ".wb", ".cg", ".cs", ".wt")
EVICTION_POLICIES = ("", "evict_first", "evict_last")
FIRST_LEVEL_PRIORITIES = (*EVICTION_POLICIES, "evict_normal", "evict_unchanged", "no_allocate")


def _check_policies(operation: Operation, modifiers: tuple[str, ...]) -> None:
    modifier = operation.attributes.get("cache_modifier") or ""
    policy = operation.attributes.get("eviction_policy") or ""
    if modifier not in modifiers:
        raise fault(operation, f"has no cache modifier {modifier!r}; there are {', '.join(modifiers[1:])}")
    if policy not in FIRST_LEVEL_PRIORITIES:
        raise fault(operation, f"has no eviction policy {policy!r}; there are {', '.join(FIRST_LEVEL_PRIORITIES[1:])}")


def _check_load(operation: Operation) -> None:
    expect_counts(operation, 1, 1, most_operands=3)
    pointer, *rest = operation.operands
    element = pointee(operation, pointer)
    for value in (*rest[1:], operation.result):
        if value.type.scalar != element:
            raise fault(operation, f"through {pointer.type.scalar} gives {element}, not {value.type.scalar}")
    if rest and not is_boolean(rest[0].type.scalar):
        raise fault(operation, f"needs a mask of int1, not {rest[0].type.scalar}")
    expect_alike(operation, *operation.operands, operation.result)
    _check_policies(operation, LOAD_MODIFIERS)


def _check_store(operation: Operation) -> None:
    expect_counts(operation, 2, 0, most_operands=3)
    pointer, value, *mask = operation.operands
    element = pointee(operation, pointer)
    if isinstance(pointer.type.scalar, pointer_type) and pointer.type.scalar.const:
        raise fault(operation, "cannot write through a constant pointer")
    if value.type.scalar != element:
        raise fault(operation, f"through {pointer.type.scalar} takes {element}, not {value.type.scalar}")
    if mask and not is_boolean(mask[0].type.scalar):
        raise fault(operation, f"needs a mask of int1, not {mask[0].type.scalar}")
    expect_alike(operation, *operation.operands)
    _check_policies(operation, STORE_MODIFIERS)


def _active(machine: Machine, operation: Operation, operands: Sequence[TileArray], position: int) -> Array:
    """Which elements are accessed: those that the mask lets through, or all."""
    if len(operands) <= position:
        return np.ones(operands[0].values.shape, np.bool_)
    return initialized(machine, operation, operands[position], "mask")


def _load(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    active = _active(machine, operation, operands, 1)
    addresses = initialized(machine, operation, operands[0], "address", active)
    kind = numpy_type(operation.result.type)
    if len(operands) == 3:
        values, poison = np.array(operands[2].values), operands[2].poison
        poison = None if poison is None else poison & ~active
    else:
        values, poison = np.zeros(addresses.shape, kind), None if active.all() else ~active
    access = Access("load", operation.location, machine.program)
    values[active] = machine.memory.load(access, addresses[active], kind)
    return [TileArray(values, poison)]


def _store(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    active = _active(machine, operation, operands, 2)
    addresses = initialized(machine, operation, operands[0], "address", active)
    values = initialized(machine, operation, operands[1], "value", active)
    access = Access("store", operation.location, machine.program)
    machine.memory.store(access, addresses[active], values[active])
    return []


MEMORY_OPERATIONS = (
    OperationDefinition(
        "load",
        "The elements that the pointers point to; where the mask is false, `other`, or poison without it.",
        _check_load,
        _load,
        effects=Effects(reads_global=True),
        pure=False,
        optional_attributes=frozenset({"cache_modifier", "eviction_policy", "volatile", "cache_policy", "prefetch"}),
    ),
    OperationDefinition(
        "store",
        "Writes the elements to where the pointers point, except where the mask is false.",
        _check_store,
        _store,
        effects=Effects(writes_global=True),
        pure=False,
        optional_attributes=frozenset({"cache_modifier", "eviction_policy", "cache_policy"}),
    ),
)
