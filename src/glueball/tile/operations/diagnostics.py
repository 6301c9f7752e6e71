"""Lines that a kernel prints while it runs, and assertions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glueball.errors import DeviceAssertionError
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Machine, OperationDefinition, TileArray, fault, initialized
from glueball.tile.operations.rules import expect_alike, expect_counts, is_boolean
from glueball.tile.print_format import PrintFormat


def _check_print(operation: Operation) -> None:
    expect_counts(operation, 0, 0, most_operands=1)


def _check_assert(operation: Operation) -> None:
    expect_counts(operation, 1, 0, most_operands=2)
    for value in operation.operands:
        if not is_boolean(value.type.scalar):
            raise fault(operation, f"takes int1, not {value.type.scalar}")
    expect_alike(operation, *operation.operands)


def _print(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    layout: PrintFormat = operation.attributes["format"]
    if not operands:
        print(layout.line(machine.program, (), None))
    for operand in operands:
        values = initialized(machine, operation, operand, "value")
        for index in np.ndindex(values.shape):
            print(layout.line(machine.program, index, values[index]))
    return []


def _assert(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    failed = ~initialized(machine, operation, operands[0], "condition")
    if len(operands) > 1:
        failed = failed & initialized(machine, operation, operands[1], "mask")
    if failed.any():
        index = tuple(int(place) for place in np.argwhere(failed)[0])
        raise DeviceAssertionError(
            f"{operation.attributes['message'] or 'an assertion failed'} (program {machine.program}"
            + (f", element {list(index)})" if index else ")"),
            operation.location,
            program=machine.program,
            index=index,
        )
    return []


DIAGNOSTIC_OPERATIONS = (
    OperationDefinition(
        "print", "Prints a line for each element, or one line.", _check_print, _print, pure=False,
        attributes=frozenset({"format"}),
    ),
    OperationDefinition(
        "assert", "Stops the kernel where the first is false and the second, if there, is true.", _check_assert,
        _assert, pure=False, attributes=frozenset({"message"}),
    ),
)  # fmt: skip
