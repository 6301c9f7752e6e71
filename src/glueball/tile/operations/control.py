"""Structured control flow, and the barrier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glueball.errors import SimulationError
from glueball.tile.ir import Operation, Region, Value
from glueball.tile.operations.definition import Effects, Machine, OperationDefinition, TileArray, fault, initialized
from glueball.tile.operations.rules import expect_condition, expect_counts, expect_index, expect_same_types
from glueball.tile.types import TileType


def _types(values: Sequence[Value]) -> list[TileType]:
    return [value.type for value in values]


def _yielded(region: Region) -> list[TileType]:
    """Types of what a region gives its parent: none where it does not end in `yield`."""
    if region.operations and region.operations[-1].opcode == "yield":
        return _types(region.operations[-1].operands)
    return []


def _check_if(operation: Operation) -> None:
    expect_counts(operation, 1, len(operation.results))
    expect_condition(operation, operation.operands[0])
    results = _types(operation.results)
    for name, region in zip(("then", "else"), operation.regions, strict=True):
        if region.arguments:
            raise fault(operation, f"has regions without arguments, but `{name}` has {len(region.arguments)}")
        expect_same_types(operation, f"what `{name}` yields and the results", _yielded(region), results)


def _check_for(operation: Operation) -> None:
    if len(operation.operands) < 3:
        raise fault(operation, f"takes lower bound, upper bound and step first, not {len(operation.operands)} operands")
    (body,) = operation.regions
    if not body.arguments:
        raise fault(operation, "has a region whose first argument is the induction value")
    bounds, initial = operation.operands[:3], _types(operation.operands[3:])
    induction = body.arguments[0]
    for role, value in zip(
        ("lower bound", "upper bound", "step", "induction value"), (*bounds, induction), strict=True
    ):
        expect_index(operation, value, role)
        if value.type != induction.type:
            raise fault(operation, f"has bounds and step of its induction type {induction.type}, not {value.type}")
    step = bounds[2].operation
    if step is not None and step.opcode == "constant" and step.attributes.get("value") == 0:
        raise fault(operation, "cannot step by zero")
    carried = _types(body.arguments[1:])
    expect_same_types(operation, "the initial and the loop-carried values", initial, carried)
    expect_same_types(operation, "what the body yields and the loop-carried values", _yielded(body), carried)
    expect_same_types(operation, "the loop-carried values and the results", carried, _types(operation.results))


def _check_while(operation: Operation) -> None:
    condition, body = operation.regions
    initial = _types(operation.operands)
    if not condition.operations or condition.operations[-1].opcode != "yield":
        raise fault(operation, "has a condition region that ends in `yield`")
    decision = condition.operations[-1].operands
    if not decision:
        raise fault(operation, "has a condition region that yields the condition first")
    expect_condition(operation, decision[0])
    for what, types in (
        ("the condition's arguments", _types(condition.arguments)),
        ("what the condition passes on", _types(decision[1:])),
        ("the body's arguments", _types(body.arguments)),
        ("what the body yields", _yielded(body)),
        ("the results", _types(operation.results)),
    ):
        expect_same_types(operation, f"the initial values and {what}", initial, types)


def _check_nothing(operation: Operation) -> None:
    expect_counts(operation, 0, 0)


def _check_yield(operation: Operation) -> None:
    expect_counts(operation, len(operation.operands), 0)


def _if(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    chosen = bool(initialized(machine, operation, operands[0], "condition"))
    return machine.run(operation.regions[0 if chosen else 1])


def _for(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    roles = ("lower bound", "upper bound", "step")
    bounds = [initialized(machine, operation, *pair) for pair in zip(operands[:3], roles, strict=True)]
    lower, upper, step = (int(bound) for bound in bounds)
    if step == 0:
        raise SimulationError("`for` cannot step by zero", operation.location, program=machine.program)
    carried = list(operands[3:])
    for index in range(lower, upper, step):
        induction = TileArray(np.asarray(index, bounds[0].dtype))
        carried = machine.run(operation.regions[0], [induction, *carried])
    return carried


def _while(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    condition, body = operation.regions
    decision, *carried = machine.run(condition, operands)
    while initialized(machine, operation, decision, "condition"):
        decision, *carried = machine.run(condition, machine.run(body, carried))
    return carried


def _nothing(_: Machine, __: Operation, ___: Sequence[TileArray]) -> Sequence[TileArray]:
    """Ends of regions and barriers compute nothing: programs run alone, one whole tile at a time."""
    return []


CONTROL_OPERATIONS = (
    OperationDefinition(
        "if", "Runs `then` or `else`; the results are what it yields.", _check_if, _if, pure=False, regions=2
    ),
    OperationDefinition(
        "for",
        "Runs the body for each value from the lower bound to the upper, carrying values from one turn to the next.",
        _check_for,
        _for,
        pure=False,
        regions=1,
    ),
    OperationDefinition(
        "while",
        "Runs the body as long as the condition region yields true.",
        _check_while,
        _while,
        pure=False,
        regions=2,
    ),
    OperationDefinition(
        "yield", "Ends a region and gives its parent values.", _check_yield, _nothing, pure=False, terminator=True
    ),
    OperationDefinition("return", "Ends the kernel.", _check_nothing, _nothing, pure=False, terminator=True),
    OperationDefinition(
        "barrier",
        "All threads of the block wait for one another and see each other's writes to shared memory.",
        _check_nothing,
        _nothing,
        effects=Effects(synchronises=True),
        pure=False,
    ),
)
