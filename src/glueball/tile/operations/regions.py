"""Regions of scalars applied to whole arrays: what `reduce`, `associative_scan` and `map_elementwise` compute with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from glueball.tile.ir import Operation, Region
from glueball.tile.operations.definition import Array, Machine, TileArray, fault, numpy_type
from glueball.tile.types import ScalarType, distributed_type

Combine = Callable[[Sequence[TileArray], Sequence[TileArray]], list[TileArray]]

CONTROL = ("if", "for", "while")
COMMUTATIVE = ("add", "mul", "and", "or", "xor", "minimum", "maximum")


def expect_scalars(operation: Operation, arguments: Sequence[ScalarType], yielded: Sequence[ScalarType]) -> None:
    """Check that the only region takes and yields scalars of the given types."""
    (region,) = operation.regions
    found = [argument.type for argument in region.arguments]
    if found != list(arguments):
        raise fault(operation, f"has a region that takes {_listed(arguments)}, not {_listed(found)}")
    last = region.operations[-1] if region.operations else None
    given = [value.type for value in last.operands] if last is not None and last.opcode == "yield" else []
    if given != list(yielded):
        raise fault(operation, f"has a region that gives {_listed(yielded)}, not {_listed(given)}")


def _listed(types: Sequence[object]) -> str:
    return f"({', '.join(map(str, types))})"


def is_commutative(region: Region) -> bool:
    """Whether exchanging the two halves of the arguments is known to leave the results as they are, bit by bit.

    That is so where every result is one commutative operation on an argument and its counterpart.
    """
    count = len(region.arguments) // 2
    *operations, end = region.operations
    made = {operation.result: operation for operation in operations if len(operation.results) == 1}
    for position, value in enumerate(end.operands):
        operation = made.get(value)
        if operation is None or operation.opcode not in COMMUTATIVE:
            return False
        if set(operation.operands) != {region.arguments[position], region.arguments[count + position]}:
            return False
    return True


def has_control_flow(region: Region) -> bool:
    """Whether what a region does depends on the values of its arguments."""
    return any(operation.opcode in CONTROL for operation in region.walk())


def apply_region(machine: Machine, region: Region, operands: Sequence[TileArray]) -> list[TileArray]:
    """A region of scalars applied to arrays of one shape, element by element."""
    shape = operands[0].values.shape
    if not has_control_flow(region):
        return [_of_shape(result, shape) for result in machine.run(region, operands)]
    types = [numpy_type(value.type) for value in region.operations[-1].operands]
    values = [np.zeros(shape, kind) for kind in types]
    poison = [np.zeros(shape, np.bool_) for _ in types]
    for index in np.ndindex(shape):
        for position, result in enumerate(machine.run(region, [_element(operand, index) for operand in operands])):
            values[position][index] = result.values
            poison[position][index] = False if result.poison is None else result.poison
    return [TileArray(*pair) if pair[1].any() else TileArray(pair[0]) for pair in zip(values, poison, strict=True)]


def _of_shape(array: TileArray, shape: tuple[int, ...]) -> TileArray:
    return moved(array, lambda values: np.broadcast_to(values, shape))


def _element(array: TileArray, index: tuple[int, ...]) -> TileArray:
    return moved(array, lambda values: np.asarray(values[index]))


def moved(array: TileArray, function: Callable[[Array], Array]) -> TileArray:
    """A function that moves elements, applied to values and poison alike."""
    return TileArray(function(array.values), None if array.poison is None else function(array.poison))


def joined(arrays: Sequence[TileArray], function: Callable[[Sequence[Array]], Array]) -> TileArray:
    """A function that puts arrays together, applied to values and poison alike."""
    values = function([array.values for array in arrays])
    if all(array.poison is None for array in arrays):
        return TileArray(values)
    nothing = [np.zeros(array.values.shape, np.bool_) if array.poison is None else array.poison for array in arrays]
    return TileArray(values, function(nothing))


def element_types(operation: Operation) -> list[ScalarType]:
    """Element types of the operands."""
    return [operand.type.scalar for operand in operation.operands]


def alike_tiles(operation: Operation) -> distributed_type:
    """The type of the first operand, once all are tiles of one shape and placement."""
    first = operation.operands[0].type if operation.operands else None
    if not isinstance(first, distributed_type):
        raise fault(operation, f"takes tiles, not {first}")
    for operand in operation.operands[1:]:
        if not isinstance(operand.type, distributed_type) or not first.same_placement(operand.type):
            raise fault(operation, f"needs tiles of one shape and layout, not {first} and {operand.type}")
    return first
