"""Rules of operand and result types that many operations share."""

from __future__ import annotations

from collections.abc import Callable

from glueball.tile.ir import Operation, Value
from glueball.tile.operations.definition import Check, fault
from glueball.tile.types import (
    ScalarType,
    TileType,
    distributed_type,
    dtype,
    pointer_type,
    shared_memory_descriptor_type,
)

ElementRule = Callable[[ScalarType], bool]


def is_integer(element: ScalarType) -> bool:
    """Whether values are integers, booleans included."""
    return isinstance(element, dtype) and element.is_int()


def is_boolean(element: ScalarType) -> bool:
    """Whether values are booleans."""
    return isinstance(element, dtype) and element.is_bool()


def is_float(element: ScalarType) -> bool:
    """Whether values are floats that have arithmetic: `fp8e4b15` can only be moved."""
    return isinstance(element, dtype) and element.is_floating() and element.name != "fp8e4b15"


def is_number(element: ScalarType) -> bool:
    """Whether values are integers or floats that have arithmetic."""
    return is_integer(element) or is_float(element)


def is_index(value_type: TileType) -> bool:
    """Whether this is a scalar integer wider than a boolean."""
    return isinstance(value_type, dtype) and value_type.is_int() and not value_type.is_bool()


def alike(left: TileType, right: TileType) -> bool:
    """Whether both are scalars, tiles of one shape that place every element in the same slots, or views of one type."""
    if isinstance(left, shared_memory_descriptor_type) or isinstance(right, shared_memory_descriptor_type):
        return left == right
    if isinstance(left, distributed_type) and isinstance(right, distributed_type):
        return left.same_placement(right)
    return not isinstance(left, distributed_type) and not isinstance(right, distributed_type)


def same_type(left: TileType, right: TileType) -> bool:
    """Whether both are alike and of one element type."""
    return left.scalar == right.scalar and alike(left, right)


def expect_counts(operation: Operation, operands: int, results: int, most_operands: int | None = None) -> None:
    """Check how many operands and results an operation has."""
    count = len(operation.operands)
    if not operands <= count <= (operands if most_operands is None else most_operands):
        wanted = f"{operands}" if most_operands is None else f"{operands} to {most_operands}"
        raise fault(operation, f"takes {wanted} operands, not {count}")
    if len(operation.results) != results:
        raise fault(operation, f"has {results} results, not {len(operation.results)}")


def expect_alike(operation: Operation, *values: Value) -> None:
    """Check that all values have one shape and one placement."""
    for value in values[1:]:
        if not alike(values[0].type, value.type):
            raise fault(
                operation, f"needs operands and results of one shape and layout, not {values[0].type} and {value.type}"
            )


def expect_same_types(operation: Operation, what: str, left: list[TileType], right: list[TileType]) -> None:
    """Check two lists of types against each other, such as the values that a region yields and the results."""
    if len(left) != len(right):
        raise fault(operation, f"{what} differ in number: {len(left)} and {len(right)}")
    for position, (first, second) in enumerate(zip(left, right, strict=True)):
        if not same_type(first, second):
            raise fault(operation, f"{what} differ in type at position {position}: {first} and {second}")


def expect_index(operation: Operation, value: Value, role: str) -> None:
    """Check that a value is a scalar integer."""
    if not is_index(value.type):
        raise fault(operation, f"needs a scalar integer as {role}, not {value.type}")


def expect_condition(operation: Operation, value: Value) -> None:
    """Check that a value is a scalar boolean."""
    if not isinstance(value.type, dtype) or not is_boolean(value.type):
        raise fault(operation, f"needs a scalar int1 as condition, not {value.type}")


def elementwise(operands: int, rule: ElementRule, what: str) -> Check:
    """Operands and result of one type, whose elements obey a rule that `what` puts in words."""

    def check(operation: Operation) -> None:
        expect_counts(operation, operands, 1)
        for value in operation.operands:
            if not rule(value.type.scalar):
                raise fault(operation, f"needs {what}, not {value.type.scalar}")
        first = operation.operands[0]
        for value in (*operation.operands[1:], operation.result):
            if value.type.scalar != first.type.scalar:
                raise fault(
                    operation, f"needs operands and result of one type, not {first.type.scalar} and {value.type.scalar}"
                )
        expect_alike(operation, *operation.operands, operation.result)

    return check


def pointee(operation: Operation, value: Value) -> dtype:
    """The element type that a pointer or tile of pointers points to."""
    element = value.type.scalar
    if not isinstance(element, pointer_type):
        raise fault(operation, f"needs a pointer or tile of pointers, not {value.type}")
    return element.element_ty
