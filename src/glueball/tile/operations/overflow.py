"""The check that a debugged kernel makes of integer arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from glueball.errors import DeviceAssertionError
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Machine, OperationDefinition, TileArray, fault
from glueball.tile.operations.references import joined_poison
from glueball.tile.operations.rules import expect_alike, expect_counts, is_integer
from glueball.tile.types import dtype

CHECKED = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
"""The arithmetic that is checked, on integers of twice the width."""


def overflow_message(operation: Operation) -> str:
    """What the failing assertion says."""
    element = operation.operands[0].type.scalar
    return f"int{element.primitive_bitwidth} overflow detected for operation {operation.attributes['operation']}"


def _check(operation: Operation) -> None:
    expect_counts(operation, 2, 0)
    left, right = operation.operands
    element = left.type.scalar
    if not is_integer(element) or element.primitive_bitwidth >= 64 or right.type.scalar != element:
        raise fault(operation, f"takes integers of one type below 64 bits, not {element} and {right.type.scalar}")
    if operation.attributes["operation"] not in CHECKED:
        raise fault(operation, f"has no operation {operation.attributes['operation']!r}")
    expect_alike(operation, left, right)


def _check_overflow(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    element = operation.operands[0].type.scalar
    assert isinstance(element, dtype)
    left, right = (operand.values.astype(np.int64) for operand in operands)
    # A product of unsigned numbers that does not fit int64 either comes out negative.
    exact = np.asarray(CHECKED[operation.attributes["operation"]](left, right))
    failed = (exact < element.get_int_min_value()) | (exact > element.get_int_max_value())
    poison = joined_poison(operands)
    if poison is not None:
        failed = failed & ~poison
    if failed.any():
        index = tuple(int(place) for place in np.argwhere(failed)[0])
        values = int(np.broadcast_to(left, failed.shape)[index]), int(np.broadcast_to(right, failed.shape)[index])
        element_text = f", element {list(index)}" if index else ""
        raise DeviceAssertionError(
            f"{overflow_message(operation)}: {values[0]} and {values[1]} (program {machine.program}{element_text})",
            operation.location,
            program=machine.program,
            index=index,
        )
    return []


OVERFLOW_OPERATIONS = (
    OperationDefinition(
        "check_overflow",
        "Stops the kernel where `operation` on two integers does not fit their type, undefined ones apart.",
        _check,
        _check_overflow,
        pure=False,
        attributes=frozenset({"operation"}),
    ),
)
