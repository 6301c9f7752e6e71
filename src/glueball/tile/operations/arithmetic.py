"""Elementwise operations: arithmetic, comparison, selection, conversion, pointer arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glueball import numerics
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Array, Machine, OperationDefinition, TileArray, fault, numpy_type
from glueball.tile.operations.references import applying, on_numbers
from glueball.tile.operations.rules import (
    elementwise,
    expect_alike,
    expect_counts,
    is_boolean,
    is_integer,
    is_number,
)
from glueball.tile.types import ScalarType, dtype, float32, pointer_type

PREDICATES: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def _check_compare(operation: Operation) -> None:
    expect_counts(operation, 2, 1)
    left, right = operation.operands
    if not is_number(left.type.scalar) or left.type.scalar != right.type.scalar:
        raise fault(operation, f"needs two numbers of one type, not {left.type.scalar} and {right.type.scalar}")
    if operation.attributes["predicate"] not in PREDICATES:
        raise fault(operation, f"has no predicate {operation.attributes['predicate']!r}")
    if not is_boolean(operation.result.type.scalar):
        raise fault(operation, f"gives int1, not {operation.result.type.scalar}")
    expect_alike(operation, left, right, operation.result)


def _compare(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    predicate = PREDICATES[operation.attributes["predicate"]]
    return applying(lambda x, y: predicate(numerics.widen(x), numerics.widen(y)))(machine, operation, operands)


def _check_select(operation: Operation) -> None:
    expect_counts(operation, 3, 1)
    condition, chosen, otherwise = operation.operands
    if not is_boolean(condition.type.scalar):
        raise fault(operation, f"needs int1 as condition, not {condition.type.scalar}")
    for value in (otherwise, operation.result):
        if value.type.scalar != chosen.type.scalar:
            raise fault(
                operation, f"chooses between values of one type, not {chosen.type.scalar} and {value.type.scalar}"
            )
    expect_alike(operation, *operation.operands, operation.result)


def _select(_: Machine, __: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    condition, chosen, otherwise = operands
    poison = condition.poison
    if chosen.poison is not None or otherwise.poison is not None:
        nothing = np.zeros(condition.values.shape, np.bool_)
        arms = [nothing if arm.poison is None else arm.poison for arm in (chosen, otherwise)]
        picked = np.where(condition.values, *arms)
        poison = picked if poison is None else poison | picked
    return [TileArray(np.where(condition.values, chosen.values, otherwise.values), poison)]


def _convertible(source: ScalarType, target: ScalarType) -> bool:
    if isinstance(source, pointer_type) or isinstance(target, pointer_type):
        return source.name in ("int64", "uint64") or target.name in ("int64", "uint64")
    if source.name == "fp8e4b15" or target.name == "fp8e4b15":
        return source.is_floating() and target.is_floating()
    mixed = source.is_int() != target.is_int()
    return not target.is_bool() and not (mixed and (source.is_fp8() or target.is_fp8()))


def _check_cast(operation: Operation) -> None:
    expect_counts(operation, 1, 1)
    source, target = operation.operands[0].type.scalar, operation.result.type.scalar
    if source == target or not _convertible(source, target):
        raise fault(operation, f"does not convert {source} to {target}")
    rounding = operation.attributes.get("rounding", "nearest")
    if rounding not in ("nearest", "zero"):
        raise fault(operation, f"rounds to `nearest` or `zero`, not {rounding!r}")
    if rounding == "zero" and not (
        source.is_floating() and target.is_floating() and source.primitive_bitwidth > target.primitive_bitwidth
    ):
        raise fault(operation, f"from {source} to {target} narrows no float, so it has no rounding")
    expect_alike(operation, operation.operands[0], operation.result)


def _convert(source: ScalarType, target: ScalarType, values: Array, rounding: str) -> Array:
    kind = numpy_type(target)
    if not isinstance(source, dtype) or not isinstance(target, dtype):
        return values.astype(kind)
    if source.name == "fp8e4b15":
        return _convert(float32, target, numerics.decode_e4m3b15(values), rounding)
    if target.name == "fp8e4b15":
        return numerics.encode_e4m3b15(values, rounding)
    if source.is_floating():
        if target.is_floating():
            return numerics.round_float(values, kind, rounding)
        return numerics.float_to_integer(values, kind)
    return numerics.integer_to_float(values, kind) if target.is_floating() else values.astype(kind)


def _cast(_: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    source, target = operation.operands[0].type.scalar, operation.result.type.scalar
    (operand,) = operands
    rounding = operation.attributes.get("rounding", "nearest")
    return [TileArray(_convert(source, target, operand.values, rounding), operand.poison)]


def _check_bitcast(operation: Operation) -> None:
    expect_counts(operation, 1, 1)
    source, target = operation.operands[0].type.scalar, operation.result.type.scalar
    if source.primitive_bitwidth != target.primitive_bitwidth:
        raise fault(operation, f"needs equal widths, not {source} and {target}")
    expect_alike(operation, operation.operands[0], operation.result)


def _bitcast(_: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    (operand,) = operands
    return [TileArray(operand.values.view(numpy_type(operation.result.type)), operand.poison)]


def _check_pointer_add(operation: Operation) -> None:
    expect_counts(operation, 2, 1)
    pointer, offset = operation.operands
    if not isinstance(pointer.type.scalar, pointer_type) or operation.result.type.scalar != pointer.type.scalar:
        raise fault(operation, f"moves a pointer, not {pointer.type.scalar} to {operation.result.type.scalar}")
    if not is_integer(offset.type.scalar) or is_boolean(offset.type.scalar):
        raise fault(operation, f"needs integer offsets, not {offset.type.scalar}")
    expect_alike(operation, pointer, offset, operation.result)


def _pointer_add(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    element = operation.result.type.scalar
    assert isinstance(element, pointer_type)
    itemsize = element.element_ty.itemsize
    move = applying(lambda address, offset: address + offset.astype(np.int64) * itemsize)
    return move(machine, operation, operands)


INDEX_MARK = frozenset({"index"})
"""Set by a pass on signed arithmetic that becomes a pointer's offset, which must not wrap."""


def _binary(
    name: str, meaning: str, on_integers: Any, on_floats: Any = None, *, choosing: bool = False
) -> OperationDefinition:
    return OperationDefinition(
        name,
        meaning,
        elementwise(2, is_number, "integers or floats"),
        on_numbers(on_integers, on_floats, choosing=choosing),
        optional_attributes=INDEX_MARK,
    )


def _integer(name: str, meaning: str, function: Any) -> OperationDefinition:
    return OperationDefinition(name, meaning, elementwise(2, is_integer, "integers"), on_numbers(function))


def _deciding(name: str, meaning: str, function: Any, undefined: Callable[..., Any]) -> OperationDefinition:
    """An operation on which one operand may decide, whatever the other: `undefined` tells where none does."""
    values = on_numbers(function)

    def reference(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
        (result,) = values(machine, operation, operands)
        left, right = operands
        return [TileArray(result.values, undefined(left.values, left.poison, right.values, right.poison))]

    return OperationDefinition(name, meaning, elementwise(2, is_integer, "integers"), reference)


ARITHMETIC_OPERATIONS = (
    _binary("add", "The sum; integers wrap.", operator.add),
    _binary("sub", "The difference; integers wrap.", operator.sub),
    _binary("mul", "The product; integers wrap.", operator.mul),
    _binary(
        "div",
        "The quotient: of integers truncated, of floats correctly rounded.",
        numerics.divide,
        numerics.divide_float,
    ),
    _binary(
        "rem", "What truncated division leaves, with the sign of `x`.", numerics.remainder, numerics.remainder_float
    ),
    _deciding("and", "The bits set in both.", operator.and_, numerics.and_undefined),
    _deciding("or", "The bits set in either.", operator.or_, numerics.or_undefined),
    _integer("xor", "The bits set in one alone.", operator.xor),
    _integer("shl", "`x` times two to the power of the amount, wrapping.", numerics.shift_left),
    _integer("shr", "`x` shifted right; signed types copy the sign.", numerics.shift_right),
    _binary(
        "minimum",
        "The lesser; of a NaN and a number, the number.",
        np.minimum,
        numerics.minimum_number,
        choosing=True,
    ),
    _binary(
        "maximum",
        "The greater; of a NaN and a number, the number.",
        np.maximum,
        numerics.maximum_number,
        choosing=True,
    ),
    OperationDefinition(
        "negate",
        "`-x`; integers wrap.",
        elementwise(1, is_number, "integers or floats"),
        on_numbers(np.negative, choosing=True),
    ),
    OperationDefinition(
        "compare",
        "Whether `predicate` holds; a NaN is unequal to everything and neither less nor greater.",
        _check_compare,
        _compare,
        attributes=frozenset({"predicate"}),
    ),
    OperationDefinition(
        "select", "The second operand where the condition is true, else the third.", _check_select, _select
    ),
    OperationDefinition(
        "cast",
        "The same number in another type, rounded as `rounding` says; pointers and 64-bit integers are one another.",
        _check_cast,
        _cast,
        optional_attributes=INDEX_MARK | {"rounding"},
    ),
    OperationDefinition("bitcast", "The same bits in another type of the same width.", _check_bitcast, _bitcast),
    OperationDefinition("pointer_add", "The pointer moved by an offset in elements.", _check_pointer_add, _pointer_add),
)
