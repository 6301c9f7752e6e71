"""Promises of the author about values, which lowering turns into wider accesses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glueball.errors import SimulationError
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Array, Machine, OperationDefinition, TileArray, fault
from glueball.tile.operations.rules import expect_condition, expect_counts, is_integer, same_type
from glueball.tile.types import distributed_type, pointer_type

PROMISES = ("contiguity", "constancy", "divisibility")


def _check_assume(operation: Operation) -> None:
    expect_counts(operation, 1, 0)
    expect_condition(operation, operation.operands[0])


def _assume(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    (condition,) = operands
    if condition.poison is None and not condition.values.all():
        raise SimulationError(
            f"`assume` promises what does not hold (program {machine.program})", operation.location,
            program=machine.program,
        )  # fmt: skip
    return []


def _check_hint(operation: Operation) -> None:
    expect_counts(operation, 1, 1)
    (operand,) = operation.operands
    if not same_type(operand.type, operation.result.type):
        raise fault(operation, f"gives what it takes, not {operation.result.type} for {operand.type}")
    if not isinstance(operand.type.scalar, pointer_type) and not is_integer(operand.type.scalar):
        raise fault(operation, f"speaks of integers and pointers, not {operand.type.scalar}")
    rank = max(1, len(operand.type.shape))
    for name in PROMISES:
        promise = operation.attributes.get(name)
        if promise is not None and (len(promise) != rank or any(type(n) is not int or n < 1 for n in promise)):
            raise fault(operation, f"needs {rank} positive integers as {name}, not {promise!r}")


def _hint(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    (operand,) = operands
    kind = operation.result.type
    kept = np.ones(operand.values.shape, bool) if operand.poison is None else ~operand.poison
    wrong = _broken(operation, operand.values) if isinstance(kind, distributed_type) else _scalar(operation, operand)
    for name, where in wrong.items():
        if (where & kept).any():
            index = [int(coordinate) for coordinate in np.argwhere(where & kept)[0]]
            raise SimulationError(
                f"the promised {name} {list(operation.attributes[name])} does not hold at element {index} "
                f"(program {machine.program})",
                operation.location,
                program=machine.program,
            )
    return [operand]


def _scalar(operation: Operation, operand: TileArray) -> dict[str, Array]:
    divisor = (operation.attributes.get("divisibility") or (1,))[0]
    return {"divisibility": np.asarray(operand.values % divisor != 0)}


def _broken(operation: Operation, values: Array) -> dict[str, Array]:
    """Per promise, the elements at which it is broken. What `divisibility` says holds for the first of each run."""
    attributes, element = operation.attributes, operation.result.type.scalar
    wrong: dict[str, Array] = {name: np.zeros(values.shape, bool) for name in PROMISES}
    step = element.element_ty.itemsize if isinstance(element, pointer_type) else 1
    for name, distance in (("contiguity", step), ("constancy", 0)):
        for axis, length in enumerate(attributes.get(name) or ()):
            place = np.arange(values.shape[axis])
            first = np.take(values, place - place % length, axis)
            expected = _along(place % length * distance, axis, values.ndim).astype(values.dtype)
            wrong[name] |= (values - first) != expected
    contiguity, divisibility = attributes.get("contiguity"), attributes.get("divisibility")
    if contiguity is not None and divisibility is not None:
        for axis, (length, divisor) in enumerate(zip(contiguity, divisibility, strict=True)):
            if length > 1:
                starts = _along(np.arange(values.shape[axis]) % length == 0, axis, values.ndim)
                wrong["divisibility"] |= starts & (values % divisor != 0)
    return wrong


def _along(values: Array, axis: int, rank: int) -> Array:
    """A row of values laid along one of several dimensions."""
    return values.reshape([-1 if other == axis else 1 for other in range(rank)])


HINT_OPERATIONS = (
    OperationDefinition(
        "assume", "Promises that a scalar condition holds.", _check_assume, _assume, pure=False
    ),
    OperationDefinition(
        "hint",
        "The value, of which the author promises, for each dimension: that it runs on by ones for `contiguity` "
        "elements, or is equal for `constancy` elements, from each multiple of that; and that a scalar, or the first "
        "element of each such run, is a multiple of `divisibility`.",
        _check_hint,
        _hint,
        optional_attributes=frozenset(PROMISES),
    ),
)  # fmt: skip
