"""Operations that make values out of nothing: constants, ranges, and where in the grid the program stands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glueball import numerics
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Array, Machine, OperationDefinition, TileArray, fault, numpy_type
from glueball.tile.operations.rules import expect_counts
from glueball.tile.types import distributed_type, dtype, int32


def _check_constant(operation: Operation) -> None:
    expect_counts(operation, 0, 1)
    kind, value = operation.result.type, operation.attributes["value"]
    if not isinstance(kind, dtype):
        raise fault(operation, f"gives a scalar that is no pointer, not {kind}")
    if kind.is_bool():
        fits = isinstance(value, bool)
    elif kind.is_int():
        fits = type(value) is int and kind.get_int_min_value() <= value <= kind.get_int_max_value()
    else:
        fits = type(value) in (int, float)
    if not fits:
        raise fault(operation, f"cannot give {value!r} as {kind}")


def _check_range(operation: Operation) -> None:
    expect_counts(operation, 0, 1)
    start, end, kind = operation.attributes["start"], operation.attributes["end"], operation.result.type
    if not isinstance(kind, distributed_type) or kind.element_ty != int32 or kind.shape != (end - start,):
        raise fault(operation, f"from {start} to {end} gives a 1-D int32 tile of {end - start} elements, not {kind}")
    if not int32.get_int_min_value() <= start < end <= int32.get_int_max_value() + 1:
        raise fault(operation, f"from {start} to {end} does not fit int32")


def _check_axis(operation: Operation) -> None:
    expect_counts(operation, 0, 1)
    if operation.attributes["axis"] not in (0, 1, 2):
        raise fault(operation, f"has axes 0, 1 and 2, not {operation.attributes['axis']!r}")
    if operation.result.type != int32:
        raise fault(operation, f"gives an int32, not {operation.result.type}")


def _constant(_: Machine, operation: Operation, __: Sequence[TileArray]) -> Sequence[TileArray]:
    value, kind = operation.attributes["value"], operation.result.type.scalar
    if isinstance(kind, dtype) and kind.is_floating() and kind.primitive_bitwidth < 32:
        return [TileArray(float_constant(value, kind))]
    return [TileArray(np.asarray(value).astype(numpy_type(kind)))]


def float_constant(value: float, kind: dtype) -> Array:
    """A number as a float narrower than 32 bits, rounded as a cast rounds."""
    wide = np.asarray(value, np.float64)
    return numerics.encode_e4m3b15(wide) if kind.name == "fp8e4b15" else numerics.round_float(wide, kind.numpy)


def _range(_: Machine, operation: Operation, __: Sequence[TileArray]) -> Sequence[TileArray]:
    return [TileArray(np.arange(operation.attributes["start"], operation.attributes["end"], dtype=np.int32))]


def _program_id(machine: Machine, operation: Operation, _: Sequence[TileArray]) -> Sequence[TileArray]:
    return [TileArray(np.asarray(machine.program[operation.attributes["axis"]], np.int32))]


def _num_programs(machine: Machine, operation: Operation, _: Sequence[TileArray]) -> Sequence[TileArray]:
    return [TileArray(np.asarray(machine.grid[operation.attributes["axis"]], np.int32))]


SCALAR_OPERATIONS = (
    OperationDefinition("constant", "The scalar `value`.", _check_constant, _constant, attributes=frozenset({"value"})),
    OperationDefinition(
        "make_range",
        "The integers from `start` up to but not including `end`.",
        _check_range,
        _range,
        attributes=frozenset({"start", "end"}),
    ),
    OperationDefinition(
        "program_id",
        "Which program this is along `axis` of the grid.",
        _check_axis,
        _program_id,
        attributes=frozenset({"axis"}),
    ),
    OperationDefinition(
        "num_programs",
        "How many programs the grid has along `axis`.",
        _check_axis,
        _num_programs,
        attributes=frozenset({"axis"}),
    ),
)
