"""What the instructions' `issue` functions see: the threads of one context, `[cta, warp, lane]`, and their memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from glueball.errors import (
    DeadlockError,
    DeviceAssertionError,
    IntegerOverflowError,
    SimulationError,
    UninitializedReadError,
)
from glueball.location import SourceLocation
from glueball.sim.asynchronous import Arrival, Copies
from glueball.sim.counters import Report, count_global, count_shared
from glueball.sim.masks import NOBODY, Array, Booleans, Mask, Nobody, narrow
from glueball.sim.matrix_moves import load_matrix, store_matrix
from glueball.sim.memory import GlobalMemory
from glueball.sim.poison import CHECKED
from glueball.sim.shared import SharedMemory
from glueball.thread.conversion import NUMPY
from glueball.thread.ir import BITS, Attributes, Function, Instruction


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread of a launch."""

    program: tuple[int, int, int]
    warp: int
    lane: int

    def details(self) -> dict[str, Any]:
        """As the details of an error."""
        return {"program": self.program, "warp": self.warp, "lane": self.lane}

    def __str__(self) -> str:
        return f"program {self.program}, warp {self.warp}, lane {self.lane}"


@dataclass(frozen=True, slots=True)
class Overflow:
    """Threads in which an instruction wrapped, and its operands there, all broadcastable to `[cta, warp, lane]`."""

    threads: Booleans
    left: Array
    right: Array

    def threads_hold(self, index: tuple[Any, ...]) -> bool:
        """Whether a thread is among them."""
        return bool(_element(self.threads, index))

    def first(self) -> tuple[Any, ...]:
        """The first of the threads."""
        return np.unravel_index(int(self.threads.argmax()), self.threads.shape)

    def at(self, index: tuple[Any, ...]) -> tuple[int, int]:
        """The operands in a thread."""
        return int(_element(self.left, index)), int(_element(self.right, index))

    def over(self, earlier: Overflow) -> Overflow:
        """This one, and the earlier one where this one has no thread."""
        left, right = (
            np.where(self.threads, new, old) for new, old in ((self.left, earlier.left), (self.right, earlier.right))
        )
        return Overflow(np.asarray(self.threads | earlier.threads), left, right)


@dataclass(frozen=True, slots=True)
class Launch:
    """What all contexts of a launch share. `granule`: bytes of shared memory that its shadow treats as one."""

    function: Function
    instructions: Sequence[Instruction]
    region_counts: list[int]
    grid: tuple[int, int, int]
    memory: GlobalMemory
    report: Report
    shared_bytes: int
    granule: int
    random: np.random.Generator | None


class Machine:
    """The state of one context: the blocks `first` to `first + ctas` of a launch.

    `active` is the mask of the region being executed, `active_warps` how many warps it has, `at` the index of the
    current instruction. `poison` carries what goes with the values of a shared access. `ignored` marks threads whose
    operands of checked arithmetic are undefined, `overflow` those in which it wrapped; `overflows` keeps, for each such
    instruction, where it did and of which operands.
    """

    def __init__(self, launch: Launch, first: int, ctas: int) -> None:
        self.function = launch.function
        self.instructions = launch.instructions
        self.launch = launch
        self.memory = launch.memory
        self.first = first
        self.ctas = ctas
        self.warps = launch.function.num_warps
        self.lanes = launch.function.target.lanes
        self.active: Mask = None
        self.active_warps = ctas * self.warps
        self.at = 0
        self.poison: Sequence[Mask] = ()
        self.ignored: Mask = None
        self.overflow: Mask = None
        self.overflows: dict[int, Overflow] = {}
        self.clock = 0
        self.shared = SharedMemory(self, launch.shared_bytes, launch.granule)
        self.copies = Copies(self)

    @property
    def location(self) -> SourceLocation:
        """Where the current instruction stands in the author's source."""
        return self.instructions[self.at].location

    def thread_at(self, index: int, shape: tuple[int, ...]) -> Thread:
        """The thread at a flat index of an array broadcastable to `[cta, warp, lane]`."""
        cta, warp, lane = (int(part) for part in np.unravel_index(index, shape))
        program = self.first + cta
        x, y, _ = self.launch.grid
        return Thread((program % x, program // x % y, program // (x * y)), warp, lane)

    # Regions

    def enter(self, mask: Mask, region: int) -> None:
        """Starts a region for the threads of a mask."""
        self.active = mask
        if mask is None:
            self.active_warps = self.ctas * self.warps
        else:
            warps = mask.any(axis=2)
            self.active_warps = int(np.count_nonzero(np.broadcast_to(warps, (self.ctas, self.warps))))
        self.launch.region_counts[region] += self.active_warps

    def loop(self, lower: Any, upper: Any, step: Any, negative: bool) -> tuple[Any, Any, Any]:
        """Counter, end and step of a `for`: Python integers where equal for all threads, else 64-bit arrays."""
        wrong = np.greater_equal(step, 0) if negative else np.less_equal(step, 0)
        if np.any(wrong if self.active is None else wrong & self.active):
            direction = "negative" if negative else "positive"
            raise SimulationError(f"the loop never ends: its step is not {direction}", self.location)
        bounds = [np.asarray(bound) for bound in (lower, upper, step)]
        if all(bound.size == 1 for bound in bounds):
            return tuple(int(bound.item()) for bound in bounds)  # type: ignore[return-value]
        return tuple(bound.astype(np.int64) for bound in bounds)  # type: ignore[return-value]

    def forbid(self, poison: Booleans, origins: Sequence[int], role: str, mask: Any = None) -> None:
        """Reports an undefined value that an active thread, of those in `mask`, uses in a role that must not be."""
        bad = poison if mask is None else poison & mask
        if self.active is not None:
            bad = bad & self.active
        if not bad.any():
            return
        bad = np.broadcast_to(bad, np.broadcast_shapes((1, 1, 1), bad.shape))
        place = int(bad.argmax())
        thread = self.thread_at(place, bad.shape)
        self._check_overflow(origins, np.unravel_index(place, bad.shape), role, thread)
        sources = [self.instructions[origin] for origin in origins]
        loads = [source.location for source in sources if source.record.name not in CHECKED]
        lines = " or ".join(str(line) for line in dict.fromkeys(loads))
        raise UninitializedReadError(
            f"{role} is undefined: it comes from a load at {lines} that was masked off without `other` ({thread}); "
            f"give the load an `other`, or mask this as well",
            self.location,
            loads=loads,
            **thread.details(),
        )

    def _check_overflow(self, origins: Sequence[int], index: tuple[Any, ...], role: str, thread: Thread) -> None:
        """Reports the overflow that a thread's undefined value comes from, if it comes from one.

        Where the value has moved between threads and no load can have left it undefined, another thread overflowed.
        """
        wrapped = {origin: self.overflows[origin] for origin in origins if origin in self.overflows}
        values = {origin: found.at(index) for origin, found in wrapped.items() if found.threads_hold(index)}
        if not values and all(self.instructions[origin].record.name in CHECKED for origin in origins):
            values = {origin: found.at(found.first()) for origin, found in wrapped.items()}
        if not values:
            return
        origin, (left, right) = next(iter(values.items()))
        instruction, here = self.instructions[origin], self.location
        place = instruction.location
        verb = "sum" if instruction.record.name == "add_no_wrap" else "product"
        bits = BITS[instruction.results[0].type]
        used = "" if (here.file, here.line) == (place.file, place.line) else f" at {here}"
        advice = "" if bits == 64 else "; compute it in 64 bits, for example with `.to(gl.int64)` on an operand"
        raise IntegerOverflowError(
            f"the {verb} of {left} and {right} does not fit {bits} bits, and {role}{used} depends on it "
            f"({thread}){advice}",
            place,
            values=(left, right),
            used=here,
            **thread.details(),
        )

    def predicate(self, mask: Any) -> Mask | Nobody:
        """The active threads for which a memory instruction's mask holds."""
        return self.active if mask is None else narrow(self.active, mask)

    def active_array(self) -> Booleans:
        """The active threads as booleans, broadcastable to `[cta, warp, lane]`."""
        return np.ones((1, 1, 1), bool) if self.active is None else self.active

    # Coordinates

    def program_id(self, axis: int) -> Any:
        """Index of the block along an axis."""
        x, y, _ = self.launch.grid
        if self.launch.grid[axis] == 1:
            return np.int32(0)
        programs = np.arange(self.first, self.first + self.ctas, dtype=np.int64)
        along = (programs % x, programs // x % y, programs // (x * y))[axis]
        return along.astype(np.int32).reshape(-1, 1, 1)

    def num_programs(self, axis: int) -> Any:
        """Extent of the grid along an axis."""
        return np.int32(self.launch.grid[axis])

    def lane_id(self) -> Array:
        """Index of the lane in its warp."""
        return np.arange(self.lanes, dtype=np.int32).reshape(1, 1, -1)

    def warp_id(self) -> Array:
        """Index of the warp in its block."""
        return np.arange(self.warps, dtype=np.int32).reshape(1, -1, 1)

    # Arithmetic

    def checked(self, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        """Signed arithmetic whose result is undefined where it wraps; leaves the threads where it does in `overflow`.

        That is a fault once an active thread uses the result, not before: lanes that are masked off later may wrap.
        """
        self.overflow = None
        result = function(left, right)
        ends = np.iinfo(result.dtype)
        corners = [function(a, b) for a in _range(left) for b in _range(right)]
        if min(corners) < ends.min or max(corners) > ends.max:
            self._find_overflow(function, left, right, result)
        return result

    def _find_overflow(self, function: Callable[[Any, Any], Any], left: Any, right: Any, result: Any) -> None:
        wide = np.dtype(object) if result.dtype.itemsize == 8 else np.dtype(np.int64)
        exact = function(np.asarray(left).astype(wide), np.asarray(right).astype(wide))
        wrong = np.asarray(exact != np.asarray(result).astype(wide), bool)
        for mask in (self.active, None if self.ignored is None else ~self.ignored):
            wrong = wrong if mask is None else wrong & mask
        if wrong.any():
            self.overflow = wrong
            wrong = np.broadcast_to(wrong, np.broadcast_shapes((1, 1, 1), wrong.shape))
            found = Overflow(wrong, np.asarray(left), np.asarray(right))
            earlier = self.overflows.get(self.at)
            self.overflows[self.at] = found if earlier is None else found.over(earlier)

    def promised(self, holds: Any, sentence: str) -> None:
        """Reports a promise of the author that does not hold in an active thread."""
        broken = np.logical_not(holds)
        if self.active is not None:
            broken = broken & self.active
        if broken.any():
            broken = np.broadcast_to(broken, np.broadcast_shapes((1, 1, 1), broken.shape))
            thread = self.thread_at(int(broken.argmax()), broken.shape)
            raise SimulationError(f"{sentence} ({thread})", self.location, **thread.details())

    # Memory

    def global_load(self, attributes: Attributes, address: Any, *rest: Any) -> Any:
        """A vector load; `rest` is the mask, if masked, and the replacements, if replaced."""
        mask, replacements = _split(attributes, rest)
        predicate = self.predicate(mask)
        if predicate is NOBODY:
            return self._nothing(attributes, replacements)
        values = self.memory.load(self, attributes, address, predicate)
        return _replaced(values, mask, replacements)

    def global_store(self, attributes: Attributes, address: Any, *rest: Any) -> None:
        """A vector store; `rest` is the mask, if masked, and the values."""
        mask, values = _split(attributes, rest)
        predicate = self.predicate(mask)
        if predicate is not NOBODY:
            self.memory.store(self, attributes, address, predicate, values)

    def shared_load(self, attributes: Attributes, offset: Any, *rest: Any) -> Any:
        """A vector load from an allocation; leaves the poison of the bytes in `poison`."""
        mask, replacements = _split(attributes, rest)
        predicate = self.predicate(mask)
        if predicate is NOBODY:
            self.poison = (None,) * attributes["count"]
            return self._nothing(attributes, replacements)
        values, self.poison = self.shared.load(attributes, offset, predicate)
        return _replaced(values, mask, replacements)

    def shared_store(self, attributes: Attributes, offset: Any, *rest: Any) -> None:
        """A vector store to an allocation; `poison` is that of the values, empty for none."""
        mask, values = _split(attributes, rest)
        predicate = self.predicate(mask)
        if predicate is not NOBODY:
            self.shared.store(attributes, offset, predicate, values, self.poison or (None,) * len(values))
        self.poison = ()

    def load_matrix(self, attributes: Attributes, offset: Any) -> Any:
        """Matrices from an allocation; leaves the poison of the elements in `poison`."""
        values, self.poison = load_matrix(self.shared, attributes, offset, self._whole_warps(None))
        return values[0] if len(values) == 1 else values

    def store_matrix(self, attributes: Attributes, offset: Any, *rest: Any) -> None:
        """Matrices to an allocation; `poison` is that of the values, empty for none."""
        mask, values = _split(attributes, rest)
        predicate = self._whole_warps(mask)
        if predicate is not NOBODY:
            poison = self.poison or (None,) * len(values)
            store_matrix(self.shared, attributes, offset, predicate, values, poison)
        self.poison = ()

    def _whole_warps(self, mask: Any) -> Any:
        """The predicate of an instruction that all lanes of a warp must execute together, or none of them."""
        predicate = self.predicate(mask)
        if predicate is None or predicate is NOBODY:
            return predicate
        active = np.broadcast_to(predicate, np.broadcast_shapes(self._shape(), predicate.shape))
        torn = active.any(axis=2) & ~active.all(axis=2)
        if torn.any():
            cta, warp = (int(part) for part in np.argwhere(torn)[0])
            lane = int(active[cta, warp].argmin())
            thread = self.thread_at((cta * self.warps + warp) * self.lanes + lane, self._shape())
            self._deadlock(f"a warp moves matrices without all of its lanes, the first missing {thread}")
        return predicate

    def atomic(self, attributes: Attributes, address: Any, *rest: Any) -> Any:
        """Changes memory element by element, in the order of blocks, warps and lanes; what was there, if asked for."""
        mask, operands = _split(attributes, rest)
        predicate = self.predicate(mask)
        if predicate is NOBODY:
            return self._nothing(attributes, ())
        return self.memory.change(self, attributes, address, predicate, operands)

    def print_lines(self, attributes: Attributes, operands: Sequence[Any]) -> None:
        """Prints a line for each active thread: its program, coordinates and value."""
        shape = (self.ctas, self.warps, self.lanes)
        spread = [np.broadcast_to(np.asarray(operand), shape).reshape(-1) for operand in operands]
        active = np.flatnonzero(np.broadcast_to(self.active_array(), shape))
        layout = attributes["layout"]
        for thread in active.tolist():
            numbers = [operand[thread] for operand in spread]
            value = numbers.pop() if layout.kind else None
            print(layout.line(numbers[:3], numbers[3:], value))

    def fail(self, message: str) -> NoReturn:
        """An assertion that failed, in the first active thread."""
        shape = (self.ctas, self.warps, self.lanes)
        thread = self.thread_at(int(np.broadcast_to(self.active_array(), shape).argmax()), shape)
        raise DeviceAssertionError(f"{message or 'an assertion failed'} ({thread})", self.location, **thread.details())

    def nanoseconds(self) -> Any:
        """A clock that goes on by a microsecond whenever it is read."""
        self.clock += 1000
        return np.int64(self.clock)

    def shared_add(self, attributes: Attributes, offset: Any, *rest: Any) -> None:
        """Adds to integers of an allocation, lane by lane; additions of one instruction never race."""
        mask, (value,) = _split(attributes, rest)
        predicate = self.predicate(mask)
        if predicate is not NOBODY:
            self.shared.add(attributes, offset, predicate, np.asarray(value))

    def shared_atomic(self, attributes: Attributes, offset: Any, *rest: Any) -> Any:
        """Changes elements of an allocation, in the order of warps and lanes; what was there, if asked for."""
        mask, (value,) = _split(attributes, rest)
        predicate = self.predicate(mask)
        if predicate is NOBODY:
            return self._nothing(attributes, ())
        return self.shared.change(attributes, offset, predicate, np.asarray(value))

    def _nothing(self, attributes: Attributes, replacements: Sequence[Any]) -> Any:
        zero = np.zeros((), NUMPY[attributes["type"]])
        values = tuple(replacements) or (zero,) * attributes["count"]
        return values[0] if len(values) == 1 else values

    def copy_async(self, attributes: Attributes, source: Any, offset: Any, *mask: Any) -> None:
        """Starts a copy from global to shared memory."""
        predicate = self.predicate(mask[0] if mask else None)
        if predicate is not NOBODY:
            self.copies.issue(attributes, source, offset, predicate)

    def complete_copy(self, pending: Arrival) -> None:
        """A copy is complete for some of its threads."""
        self.copies.complete(pending)

    def commit_group(self) -> None:
        """The open copies become a group."""
        self.copies.commit()

    def wait_group(self, pending: int) -> None:
        """Waits until at most `pending` groups are in flight."""
        self.copies.wait(pending)

    def arrives_early(self) -> bool:
        """Whether the schedule lets an asynchronous copy arrive at once."""
        return self.launch.random is not None and bool(self.launch.random.integers(2))

    def count_global(self, addresses: Array, predicate: Mask, width: int) -> None:
        """Counts an access of the current instruction."""
        counts = count_global(addresses, predicate, width, self.ctas, self.warps)
        self.launch.report.instructions[self.at].counts.add(counts)

    def count_shared(self, offsets: Array, predicate: Mask, width: int, new_request: bool) -> None:
        """Counts an access of the current instruction to shared memory; a copy's request is its global one."""
        counts = count_shared(offsets, predicate, width, self.function.target.shared_banks, self.ctas)
        if not new_request:
            counts.requests = 0
        self.launch.report.instructions[self.at].counts.add(counts)

    # Threads together

    def barrier(self) -> None:
        """All threads of each active block arrive: what they did before is ordered before what they do after."""
        if self.active is None:
            self.shared.shadow.barrier(None)
            return
        arrived = np.broadcast_to(self.active, (self.ctas, self.warps, self.lanes)).reshape(self.ctas, -1)
        ctas = arrived.any(axis=1)
        split = ctas & ~arrived.all(axis=1)
        if split.any():
            missing = arrived[int(split.argmax())]
            thread = self.thread_at(int(split.argmax()) * missing.size + int(missing.argmin()), self._shape())
            self._deadlock(f"a barrier waits for threads that never reach it, the first of them {thread}")
        self.shared.shadow.barrier(np.asarray(ctas))

    def _shape(self) -> tuple[int, int, int]:
        return (self.ctas, self.warps, self.lanes)

    def _deadlock(self, text: str) -> NoReturn:
        raise DeadlockError(text, self.location)

    def shuffle(self, value: Any, lane: Any) -> Any:
        """Each lane's value replaced by that of another lane of its warp (modulo the lanes in a warp)."""
        source = np.asarray(lane) & (self.lanes - 1)
        if self.active is not None:
            active = np.broadcast_to(self.active, self._shape())
            wrong = active & ~self._exchanged(active, source)
            if wrong.any():
                thread = self.thread_at(int(wrong.argmax()), wrong.shape)
                raise UninitializedReadError(
                    f"a shuffle reads the register of a lane that does not take part ({thread})",
                    self.location,
                    **thread.details(),
                )
        return self._exchanged(np.asarray(value), source)

    def _exchanged(self, value: Array, source: Array) -> Array:
        if value.ndim < 3 or value.shape[2] == 1:
            return value
        if source.ndim < 3 or source.shape[:2] == (1, 1):
            return value.take(source.reshape(-1), axis=2)
        shape = np.broadcast_shapes(value.shape[:2], source.shape[:2])
        value = np.broadcast_to(value, (*shape, self.lanes))
        return np.take_along_axis(value, np.broadcast_to(source, (*shape, source.shape[2])), axis=2)


def _split(attributes: Attributes, rest: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """Mask (`None` if not masked) and the operands after it."""
    return (rest[0], rest[1:]) if attributes.get("masked") else (None, rest)


def _replaced(values: Sequence[Any], mask: Any, replacements: Sequence[Any]) -> Any:
    if replacements and not np.all(mask):
        values = [np.where(mask, value, other) for value, other in zip(values, replacements, strict=True)]
    return values[0] if len(values) == 1 else tuple(values)


def _element(array: Array, index: tuple[Any, ...]) -> Any:
    """An element of an array that is broadcast to an index of more or longer dimensions."""
    shape = (1,) * (len(index) - array.ndim) + array.shape
    return array.reshape(shape)[tuple(0 if extent == 1 else i for i, extent in zip(index, shape, strict=True))]


def _range(operand: Any) -> tuple[int, int]:
    operand = np.asarray(operand)
    return int(operand.min()), int(operand.max())
