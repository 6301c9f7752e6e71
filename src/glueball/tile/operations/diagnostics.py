"""What a kernel prints while it runs, where it stops for its author to look, and assertions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glueball.errors import DeviceAssertionError
from glueball.tile.debugger import Scope, shown, stop
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Machine, OperationDefinition, TileArray, fault, initialized, numpy_type
from glueball.tile.operations.rules import expect_alike, expect_counts, is_boolean
from glueball.tile.print_format import PrintFormat
from glueball.tile.types import shared_memory_descriptor_type


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
    values = shown(operands[0]) if operands else None
    placement = getattr(operation.operands[0].type, "layout", None) if operands else None
    print(layout.block(machine.program, operation.location, placement, values))
    return []


def _check_breakpoint(operation: Operation) -> None:
    expect_counts(operation, len(operation.operands), 0)


def _breakpoint(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    values = [
        machine.arena.peek(operand.values, numpy_type(value.type))
        if isinstance(value.type, shared_memory_descriptor_type)
        else shown(operand)
        for value, operand in zip(operation.operands, operands, strict=True)
    ]
    scope: Scope = operation.attributes["scope"]
    stop(operation.location, machine.program, machine.grid, scope.fill(values))
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
        "breakpoint", "Stops in Python's debugger, where the author's names stand for the operands.",
        _check_breakpoint, _breakpoint, pure=False, attributes=frozenset({"scope"}),
    ),
    OperationDefinition(
        "assert", "Stops the kernel where the first is false and the second, if there, is true.", _check_assert,
        _assert, pure=False, attributes=frozenset({"message"}),
    ),
)  # fmt: skip
