"""Where a kernel's accesses go, read off its tile IR: every pointer tile as a base and a stride per dimension.

The walk follows integers, addresses and masks through the tile IR, for many programs of a launch at once, and knows
nothing of the thread IR. It goes through the body of a loop once, all turns together. What it cannot follow (indices
that were loaded, values carried from one turn of a loop to the next) it leaves out, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
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
from glueball.tile.passes.contiguity import Runs, runs_of
from glueball.tile.types import TileType, distributed_type, dtype, pointer_type, shared_memory_descriptor_type


@dataclass(frozen=True, slots=True)
class Buffers:
    """A view of shared memory: its allocation, and the buffers of it that were chosen one after the other."""

    allocation: str
    chosen: tuple[Affine | None, ...] = ()


Known: TypeAlias = Affine | Mask | Buffers | None
Grid: TypeAlias = tuple[int, int, int]
ACCESSES = {
    "load": (0, 1), "store": (0, 2), "async_copy": (1, 2), "atomic_change": (0, 2), "atomic_compare_exchange": (0, 3),
    "atomic_load": (0, 1), "atomic_store": (0, 2), "atomic_poll": (0, None),
}  # fmt: skip
"""Operations that access what a tile of pointers points to: which operands are the pointers and the mask, if any."""


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

    `chosen` is 1 for the programs that take the branches around it and 0 for others, `None` where not known. Of an
    access, `address` and `mask` are what is known of its pointers and its mask.
    """

    operation: Operation
    chosen: Array | None
    loops: tuple[Loop, ...]
    operands: tuple[Known, ...] = ()
    address: Affine | None = None
    mask: Mask | None = None

    def executions(self, programs: int) -> Array | None:
        """How often each of so many programs comes here; `None` where that is not known."""
        if self.chosen is None:
            return None
        count = np.broadcast_to(self.chosen, (programs,))
        for loop in self.loops:
            if loop.trips is None:
                return None
            count = count * loop.trips
        return count

    def numbers(self, operands: slice) -> list[Array] | None:
        """The values of scalar operands, one for each program or one for all; `None` where one is not known."""
        found = []
        for operand in self.operands[operands]:
            if not isinstance(operand, Affine) or not operand.is_uniform or operand.base.values is None:
                return None
            found.append(operand.base.values)
        return found


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk over a function found.

    `visits` are in program order, those of a loop that was walked turn by turn for every turn; `indices` are the tiles
    that are plain index arithmetic.
    """

    visits: tuple[Visit, ...]
    indices: frozenset[Value]


class Walker:
    """Follows a function after its passes for some programs; what is known at each operation of the `opcodes`."""

    def __init__(self, programs: Programs, opcodes: Set[str]) -> None:
        self.programs = programs
        self.opcodes = opcodes
        self.known: dict[Value, Known] = {}
        self.visits: list[Visit] = []
        self.loops = 0
        self.runs: Mapping[Value, Runs] = {}

    def function(self, function: TileFunction, arguments: Mapping[str, Any]) -> Walk:
        """Walks through a function; `arguments` has the value of every integer and the address of every pointer."""
        self.runs = runs_of(function)
        for parameter, facts in zip(function.arguments, function.facts, strict=True):
            self.bind_argument(parameter, arguments.get(parameter.name), facts.divisibility)
        self.region(function.body, np.ones(1, np.int64), ())
        indices = frozenset(value for value, found in self.known.items() if isinstance(found, Affine | Mask))
        return Walk(tuple(self.visits), indices)

    def bind_argument(self, parameter: Value, value: Any, divisibility: int) -> None:
        """What is known of an argument."""
        values = None if value is None else np.asarray(value, np.int64)
        pointer = isinstance(parameter.type, pointer_type)
        if pointer or _is_integer(parameter.type):
            self.known[parameter] = Affine(
                Number(values, None, divisibility), argument=parameter.name if pointer else None
            )

    def region(self, region: Region, chosen: Array | None, loops: tuple[Loop, ...]) -> None:
        """Walks through a region."""
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
        """Walks through the regions of an operation, those of a loop once."""
        if operation.opcode == "if":
            taken = truth(operands[0])
            for region, condition in zip(operation.regions, (taken, None if taken is None else 1 - taken), strict=True):
                self.region(region, None if chosen is None or condition is None else chosen * condition, loops)
            return
        if operation.opcode == "warp_specialize":
            for region in operation.regions:
                self.region(region, chosen, loops)
            return
        self.loops += 1
        trips = None
        if operation.opcode == "for" and all(isinstance(operand, Affine) for operand in operands[:3]):
            lower, upper, step = cast("list[Affine]", operands[:3])
            trips = trips_of(lower, upper, step)
            base = Number(lower.base.values, None, min(lower.base.divisibility, step.base.divisibility))
            steps = (*lower.steps, (self.loops, step.base)) if step.is_uniform else None
            if steps is not None:
                self.known[operation.regions[0].arguments[0]] = Affine(base, (), steps)
        for region in operation.regions:
            self.region(region, chosen, (*loops, Loop(self.loops, trips)))

    def result(self, operation: Operation, operands: list[Known]) -> Known:
        """What is known of an operation's result."""
        opcode, kind = operation.opcode, operation.result.type
        if isinstance(kind, shared_memory_descriptor_type):
            return _view(operation, operands)
        if opcode in _SOURCES:
            return self.source(operation)
        if not operands or any(operand is None for operand in operands):
            return None
        if opcode in _RULES:
            return _RULES[opcode](operation, operands)
        if opcode == "rem" and _rank(kind):
            return _remainder(operation, operands, self.runs[operation.result])
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
    if operation.opcode not in ACCESSES:
        return Visit(operation, chosen, loops, tuple(operands))
    place, mask = ACCESSES[operation.opcode]
    pointers = operands[place]
    address = pointers if isinstance(pointers, Affine) else None
    if mask is None or len(operation.operands) <= mask:
        return Visit(operation, chosen, loops, tuple(operands), address)
    found, rank = operands[mask], len(operation.operands[place].type.shape)
    if isinstance(found, Affine):
        found = Mask((UNBOUNDED,) * rank, (found,))
    runs = found if isinstance(found, Mask) else Mask((1,) * rank)
    return Visit(operation, chosen, loops, tuple(operands), address, runs)


def _view(operation: Operation, operands: list[Known]) -> Buffers | None:
    """The buffers that a view looks at."""
    if operation.opcode == "allocate_shared":
        return Buffers(operation.attributes["name"])
    source = operands[0] if operands else None
    if not isinstance(source, Buffers):
        return None
    if operation.opcode == "view_index":
        index = operands[1] if isinstance(operands[1], Affine) else None
        return Buffers(source.allocation, (*source.chosen, index))
    return source


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


def _remainder(operation: Operation, operands: list[Known], runs: Runs) -> Known:
    """Indices that no program's tile wraps around with stay a base and strides, the base a remainder."""
    left, right = operands
    if not isinstance(left, Affine) or not isinstance(right, Affine) or left.steps or not right.is_uniform:
        return None
    longest = max(runs.contiguity)
    divisibility = min(runs.divisibility, longest) if longest > 1 or left.is_uniform else 1
    first, divisor = left.base.values, right.base.values
    if first is None or divisor is None:
        return Affine(unknown(divisibility), left.strides)
    span = 0
    for stride, extent in zip(left.strides, operation.result.type.shape, strict=True):
        if stride.constant is None or stride.constant < 0:
            return None
        span += stride.constant * (extent - 1)
    if np.any((first < 0) | (divisor <= 0)) or np.any(first // divisor != (first + span) // divisor):
        return None
    return Affine(Number(first % divisor, None, divisibility), left.strides)


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
        spread = Affine(operand.base, (ZERO,) * rank, operand.steps, operand.argument)
        return Mask((UNBOUNDED,) * rank, (spread,)) if _is_boolean(operation.result.type) else spread
    return None


def _expand_dims(operation: Operation, operands: list[Known]) -> Known:
    axis = operation.attributes["axis"]

    def expanded(value: Affine) -> Affine:
        strides = (*value.strides[:axis], ZERO, *value.strides[axis:])
        return Affine(value.base, strides, value.steps, value.argument)

    def longer(runs: tuple[int, ...]) -> tuple[int, ...]:
        return (*runs[:axis], UNBOUNDED, *runs[axis:])

    return _reshaped(operands[0], expanded, longer)


def _broadcast(operation: Operation, operands: list[Known]) -> Known:
    source, result = operation.operands[0].type.shape, operation.result.type.shape
    grown = [before != after for before, after in zip(source, result, strict=True)]

    def spread(value: Affine) -> Affine:
        strides = tuple(ZERO if new else stride for new, stride in zip(grown, value.strides, strict=True))
        return Affine(value.base, strides, value.steps, value.argument)

    def longer(runs: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(UNBOUNDED if new else run for new, run in zip(grown, runs, strict=True))

    return _reshaped(operands[0], spread, longer)


def _reshaped(
    value: Known, change: Callable[[Affine], Affine], runs: Callable[[tuple[int, ...]], tuple[int, ...]]
) -> Known:
    """A tile with other dimensions: what becomes of numbers, and of the runs of a mask."""
    if isinstance(value, Mask):
        margins = None if value.margins is None else tuple(map(change, value.margins))
        return Mask(runs(value.runs), margins)
    return change(value) if isinstance(value, Affine) else None


def _keep(_: Operation, operands: list[Known]) -> Known:
    return operands[0]


def _cast(operation: Operation, operands: list[Known]) -> Known:
    """Integers and pointers keep their value: an index that a narrower type cannot hold is a fault of the kernel."""
    kind = operation.result.type.scalar
    return operands[0] if isinstance(kind, pointer_type) or (kind.is_int() and not kind.is_bool()) else None


def _bitcast(operation: Operation, operands: list[Known]) -> Known:
    """Pointers to another type keep their address."""
    if isinstance(operation.result.type.scalar, pointer_type):
        return operands[0]
    return None if _rank(operation.result.type) else _scalar(operation, operands)


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
        return left.both(right) if operation.opcode == "and" else left.meet(right)
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
    "bitcast": _bitcast,
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


def trips_of(lower: Affine, upper: Affine, step: Affine) -> Array | None:
    """How often each program runs a loop's body."""
    bounds = [bound.base.values for bound in (lower, upper, step) if bound.is_uniform]
    if len(bounds) < 3 or any(values is None or not values.all() for values in bounds[2:]):
        return None
    first, end, by = cast("list[Any]", bounds)
    if first is None or end is None:
        return None
    return np.asarray(np.maximum(0, -((first - end) // by)))


def truth(condition: Known) -> Array | None:
    """1 for the programs in which a scalar is true, 0 for others; `None` where that is not known."""
    if not isinstance(condition, Affine) or not condition.is_uniform or condition.base.values is None:
        return None
    return np.asarray(condition.base.values != 0).astype(np.int64)


def _is_integer(value_type: TileType) -> bool:
    return isinstance(value_type, dtype) and value_type.is_int()


def _is_boolean(value_type: TileType) -> bool:
    element = value_type.scalar
    return isinstance(element, dtype) and element.is_bool()
