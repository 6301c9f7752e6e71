"""Where a kernel's accesses go, read off its tile IR: every pointer tile as a base and a stride per dimension.

The walk follows integers, addresses and masks through the tile IR, for many programs of a launch at once, and knows
nothing of the thread IR. What it cannot follow (indices that were loaded, values carried from one turn of a loop to
the next) it leaves out, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from glueball.explain.affine import (
    UNBOUNDED,
    ZERO,
    Affine,
    Array,
    Mask,
    Number,
    compare,
    evaluate,
    known,
    unknown,
)
from glueball.tile.ir import Operation, Region, TileFunction, Value
from glueball.tile.operations import TILE_OPERATIONS, TileArray
from glueball.tile.operations.definition import Machine, numpy_type
from glueball.tile.types import TileType, distributed_type, dtype, pointer_type

Known: TypeAlias = Affine | Mask | None
Grid: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Programs:
    """Some of the programs of a launch: their place in the grid, one array per axis; `grid` where it is known."""

    ids: tuple[Array, Array, Array]
    grid: Grid | None

    @property
    def count(self) -> int:
        """How many."""
        return max(axis.size for axis in self.ids)


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop around an operation: its number, and the turns that each program takes, `None` where not known."""

    number: int
    trips: Array | None


@dataclass(frozen=True, slots=True)
class Visit:
    """An operation of interest and what is known where it stands.

    `chosen` is 1 for the programs that take the branches around it and 0 for others, `None` where not known.
    """

    operation: Operation
    chosen: Array | None
    loops: tuple[Loop, ...]
    address: Affine | None = None
    mask: Mask | None = None


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk over a function found: `visits` in program order, and the tiles that are plain index arithmetic."""

    visits: tuple[Visit, ...]
    indices: frozenset[Value]


def walk(
    function: TileFunction, arguments: Mapping[str, int | None], programs: Programs, opcodes: Sequence[str]
) -> Walk:
    """Follows a function after its passes and gives what is known at each operation of the `opcodes`.

    `arguments` has the value of every integer argument and the address of every pointer, `None` where not known.
    """
    walker = _Walker(programs, frozenset(opcodes))
    for parameter, facts in zip(function.arguments, function.facts, strict=True):
        walker.bind_argument(parameter, arguments.get(parameter.name), facts.divisibility)
    walker.region(function.body, np.ones(1, np.int64), ())
    indices = frozenset(value for value, found in walker.known.items() if found is not None)
    return Walk(tuple(walker.visits), indices)


class _Walker:
    def __init__(self, programs: Programs, opcodes: frozenset[str]) -> None:
        self.programs = programs
        self.opcodes = opcodes
        self.known: dict[Value, Known] = {}
        self.visits: list[Visit] = []
        self.loops = 0

    def bind_argument(self, parameter: Value, value: int | None, divisibility: int) -> None:
        values = None if value is None else np.asarray(value, np.int64)
        pointer = isinstance(parameter.type, pointer_type)
        if pointer or _is_integer(parameter.type):
            self.known[parameter] = Affine(
                Number(values, None, divisibility), argument=parameter.name if pointer else None
            )

    def region(self, region: Region, chosen: Array | None, loops: tuple[Loop, ...]) -> None:
        for operation in region.operations:
            operands = [self.known.get(operand) for operand in operation.operands]
            if operation.opcode in self.opcodes:
                self.visits.append(_visit(operation, operands, chosen, loops))
            if operation.regions:
                self.structured(operation, operands, chosen, loops)
            elif len(operation.results) == 1:
                self.known[operation.result] = self.result(operation, operands)

    def structured(
        self, operation: Operation, operands: list[Known], chosen: Array | None, loops: tuple[Loop, ...]
    ) -> None:
        if operation.opcode == "if":
            taken = _truth(operands[0])
            for region, condition in zip(operation.regions, (taken, None if taken is None else 1 - taken), strict=True):
                self.region(region, None if chosen is None or condition is None else chosen * condition, loops)
            return
        self.loops += 1
        trips = None
        if operation.opcode == "for" and all(isinstance(operand, Affine) for operand in operands[:3]):
            lower, upper, step = cast("list[Affine]", operands[:3])
            trips = _trips(lower, upper, step)
            base = Number(lower.base.values, None, min(lower.base.divisibility, step.base.divisibility))
            steps = (*lower.steps, (self.loops, step.base)) if step.is_uniform else None
            if steps is not None:
                self.known[operation.regions[0].arguments[0]] = Affine(base, (), steps)
        for region in operation.regions:
            self.region(region, chosen, (*loops, Loop(self.loops, trips)))

    def result(self, operation: Operation, operands: list[Known]) -> Known:
        opcode, kind = operation.opcode, operation.result.type
        if opcode in _SOURCES:
            return self.source(operation)
        if not operands or any(operand is None for operand in operands):
            return None
        if opcode in _RULES:
            return _RULES[opcode](operation, operands)
        if isinstance(kind, distributed_type) or not (_is_integer(kind) or isinstance(kind, pointer_type)):
            return None
        return _scalar(operation, operands)

    def source(self, operation: Operation) -> Known:
        """Values that come out of nothing."""
        attributes = operation.attributes
        match operation.opcode:
            case "constant":
                return Affine(known(int(attributes["value"]))) if _is_integer(operation.result.type) else None
            case "make_range":
                return Affine(known(attributes["start"]), (known(1),))
            case "program_id":
                return Affine(Number(self.programs.ids[attributes["axis"]]))
        grid = self.programs.grid
        return Affine(unknown() if grid is None else Number(np.asarray(grid[attributes["axis"]], np.int64)))


def _visit(operation: Operation, operands: list[Known], chosen: Array | None, loops: tuple[Loop, ...]) -> Visit:
    if operation.opcode not in ("load", "store"):
        return Visit(operation, chosen, loops)
    address = operands[0] if isinstance(operands[0], Affine) else None
    masks = operation.operands[1:2] if operation.opcode == "load" else operation.operands[2:3]
    if not masks:
        return Visit(operation, chosen, loops, address)
    shape = operation.operands[0].type.shape
    found = operands[1 if operation.opcode == "load" else 2]
    if not shape:
        found = Mask(())
    return Visit(operation, chosen, loops, address, found if isinstance(found, Mask) else Mask((1,) * len(shape)))


_SOURCES = frozenset({"constant", "make_range", "program_id", "num_programs"})


def _rank(value_type: TileType) -> int:
    return len(value_type.shape)


def _add(_: Operation, operands: list[Known]) -> Known:
    left, right = operands
    return left.plus(right) if isinstance(left, Affine) and isinstance(right, Affine) else None


def _subtract(_: Operation, operands: list[Known]) -> Known:
    left, right = operands
    return left.minus(right) if isinstance(left, Affine) and isinstance(right, Affine) else None


def _multiply(_: Operation, operands: list[Known]) -> Known:
    left, right = operands
    if not isinstance(left, Affine) or not isinstance(right, Affine):
        return None
    if right.is_uniform:
        return left.times(right.base)
    return right.times(left.base) if left.is_uniform else None


def _shift_left(operation: Operation, operands: list[Known]) -> Known:
    left, right = operands
    if isinstance(left, Affine) and isinstance(right, Affine) and right.is_uniform and right.base.constant is not None:
        return left.times(known(1 << right.base.constant))
    return None if _rank(operation.result.type) else _scalar(operation, operands)


def _pointer_add(operation: Operation, operands: list[Known]) -> Known:
    pointer, offset = operands
    element = operation.result.type.scalar
    if not isinstance(pointer, Affine) or not isinstance(offset, Affine) or not isinstance(element, pointer_type):
        return None
    return pointer.plus(offset.times(known(element.element_ty.itemsize)))


def _splat(operation: Operation, operands: list[Known]) -> Known:
    (operand,) = operands
    rank = _rank(operation.result.type)
    if isinstance(operand, Affine):
        if _is_boolean(operation.result.type):
            return Mask((UNBOUNDED,) * rank)
        return Affine(operand.base, (ZERO,) * rank, operand.steps, operand.argument)
    return None


def _expand_dims(operation: Operation, operands: list[Known]) -> Known:
    (operand,) = operands
    axis = operation.attributes["axis"]
    if isinstance(operand, Mask):
        return Mask((*operand.runs[:axis], UNBOUNDED, *operand.runs[axis:]))
    if isinstance(operand, Affine):
        strides = (*operand.strides[:axis], ZERO, *operand.strides[axis:])
        return Affine(operand.base, strides, operand.steps, operand.argument)
    return None


def _broadcast(operation: Operation, operands: list[Known]) -> Known:
    (operand,) = operands
    source, result = operation.operands[0].type.shape, operation.result.type.shape
    grown = [before != after for before, after in zip(source, result, strict=True)]
    if isinstance(operand, Mask):
        return Mask(tuple(UNBOUNDED if new else run for new, run in zip(grown, operand.runs, strict=True)))
    if isinstance(operand, Affine):
        strides = tuple(ZERO if new else stride for new, stride in zip(grown, operand.strides, strict=True))
        return Affine(operand.base, strides, operand.steps, operand.argument)
    return None


def _keep(_: Operation, operands: list[Known]) -> Known:
    return operands[0]


def _cast(operation: Operation, operands: list[Known]) -> Known:
    """Integers and pointers keep their value: an index that a narrower type cannot hold is a fault of the kernel."""
    kind = operation.result.type.scalar
    return operands[0] if isinstance(kind, pointer_type) or (kind.is_int() and not kind.is_bool()) else None


def _compare(operation: Operation, operands: list[Known]) -> Known:
    left, right = operands
    if not isinstance(left, Affine) or not isinstance(right, Affine):
        return None
    if _rank(operation.result.type):
        return compare(operation.attributes["predicate"], left, right)
    return _scalar(operation, operands)


def _logic(operation: Operation, operands: list[Known]) -> Known:
    left, right = operands
    if isinstance(left, Mask) and isinstance(right, Mask):
        return left.meet(right)
    return None if _rank(operation.result.type) else _scalar(operation, operands)


_RULES: dict[str, Callable[[Operation, list[Known]], Known]] = {
    "add": _add,
    "sub": _subtract,
    "mul": _multiply,
    "shl": _shift_left,
    "pointer_add": _pointer_add,
    "splat": _splat,
    "expand_dims": _expand_dims,
    "broadcast": _broadcast,
    "convert_layout": _keep,
    "hint": _keep,
    "permute_registers": _keep,
    "shuffle": _keep,
    "cast": _cast,
    "compare": _compare,
    "and": _logic,
    "or": _logic,
    "xor": _logic,
}


def _scalar(operation: Operation, operands: list[Known]) -> Known:
    """Any other operation on scalars does what its row in the table of tile operations says, for all programs."""
    numbers = [operand.base for operand in operands if isinstance(operand, Affine) and operand.is_uniform]
    if len(numbers) < len(operands):
        return None
    kinds = [numpy_type(operand.type) for operand in operation.operands]
    definition = TILE_OPERATIONS[operation.opcode]
    if not definition.pure:
        return None

    def reference(*values: Array) -> Array:
        arrays = [TileArray(np.asarray(value).astype(kind)) for value, kind in zip(values, kinds, strict=True)]
        with np.errstate(all="ignore"):
            return definition.reference(cast("Machine", None), operation, arrays)[0].values

    kept = operation.opcode in ("minimum", "maximum")
    divisibility = min(number.divisibility for number in numbers) if kept else 1
    result = evaluate(reference, tuple(numbers), divisibility)
    return Affine(result if result.constant is None else known(result.constant))


def _trips(lower: Affine, upper: Affine, step: Affine) -> Array | None:
    """How often each program runs a loop's body."""
    bounds = [bound.base.values for bound in (lower, upper, step) if bound.is_uniform]
    if len(bounds) < 3 or any(values is None or not values.all() for values in bounds[2:]):
        return None
    first, end, by = cast("list[Any]", bounds)
    if first is None or end is None:
        return None
    return np.asarray(np.maximum(0, -((first - end) // by)))


def _truth(condition: Known) -> Array | None:
    if not isinstance(condition, Affine) or not condition.is_uniform or condition.base.values is None:
        return None
    return np.asarray(condition.base.values != 0).astype(np.int64)


def _is_integer(value_type: TileType) -> bool:
    return isinstance(value_type, dtype) and value_type.is_int()


def _is_boolean(value_type: TileType) -> bool:
    element = value_type.scalar
    return isinstance(element, dtype) and element.is_bool()
