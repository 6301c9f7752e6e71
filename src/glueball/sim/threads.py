"""The threads of one partition of a group of blocks, `[cta, warp, lane]`: which are active, and what they compute."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from glueball import knobs
from glueball.errors import (
    DeadlockError,
    DeviceAssertionError,
    SimulationError,
    UninitializedReadError,
)
from glueball.location import SourceLocation
from glueball.sim.masks import NOBODY, Array, Booleans, Mask, Nobody, narrow
from glueball.sim.poison import CHECKED
from glueball.thread.ir import Attributes

if TYPE_CHECKING:
    from glueball.sim.group import BlockGroup
    from glueball.sim.overflows import Overflows


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread of a launch; in a cluster `cta` is the rank of its block."""

    program: tuple[int, int, int]
    warp: int
    lane: int
    cta: int | None = None

    def details(self) -> dict[str, Any]:
        """As the details of an error."""
        found = {"program": self.program, "warp": self.warp, "lane": self.lane}
        return found if self.cta is None else {**found, "cta": self.cta}

    def __str__(self) -> str:
        cta = "" if self.cta is None else f", CTA {self.cta}"
        return f"program {self.program}{cta}, warp {self.warp}, lane {self.lane}"


class Threads:
    """The threads of a partition: `warps` warps from `first_warp` of each of the group's blocks.

    `agent` is the partition's number among all of those that know of one another (see `clocks`).

    `active` is the mask of the region being executed, `active_warps` how many warps it has, `at` the index of the
    current instruction. `poison` carries what goes with the values of a shared access. `ignored` marks threads whose
    operands of checked arithmetic are undefined, `overflow` those in which it wrapped.
    """

    def __init__(self, group: BlockGroup, partition: int, first_warp: int, warps: int) -> None:
        self.group = group
        self.launch = group.launch
        self.function = self.launch.function
        self.instructions = self.launch.instructions
        self.partition = partition
        self.agent = group.first_agent + partition
        self.first_warp = first_warp
        self.first = group.first
        self.ctas = group.ctas
        self.warps = warps
        self.lanes = self.function.target.lanes
        self.active: Mask = None
        self.active_warps = self.ctas * warps
        self.at = 0
        self.poison: Sequence[Mask] = ()
        self.ignored: Mask = None
        self.overflow: Mask = None
        self.overflows: Overflows = self.launch.sanitizer.overflows(self)
        self.clock = 0

    @property
    def name(self) -> str:
        """The partition and its blocks, for people."""
        return f"{self.group.partition_name(self.partition)} of {self.group.name}"

    @property
    def by(self) -> str:
        """What is said of who did something, where there are several partitions or CTAs: nothing or " by ..."."""
        several = self.launch.partitions > 1 or self.group.cluster is not None
        return f" by {self.name}" if several else ""

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """Faults that these threads meet name their partition and CTA, where there are several."""
        try:
            yield
        except SimulationError as error:
            if self.by and self.name not in error.error_message:
                error.error_message = f"{error.error_message} ({self.name})"
            raise

    @property
    def location(self) -> SourceLocation:
        """Where the current instruction stands in the author's source."""
        return self.instructions[self.at].location

    def thread_at(self, index: int, shape: tuple[int, ...]) -> Thread:
        """The thread at a flat index of an array broadcastable to `[cta, warp, lane]`."""
        cta, warp, lane = (int(part) for part in np.unravel_index(index, shape))
        block, ctas = self.first + cta, self.function.num_ctas
        x, y, _ = self.launch.grid
        program = (block % x // ctas, block // x % y, block // (x * y))
        return Thread(program, self.first_warp + warp, lane, block % ctas if ctas > 1 else None)

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
        self.overflows.check(origins, np.unravel_index(place, bad.shape), role, thread)
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
        """Signed arithmetic whose result is undefined where it wraps; `overflow` tells where it does."""
        return self.overflows.compute(function, left, right)

    def remainder_of_run(self, left: Any, right: Any) -> Any:
        """The remainder of the first index of a run, undefined where the remainders of the others do not follow it."""
        return self.overflows.remainder_of_run(left, right)

    def promised(self, holds: Any, sentence: str) -> None:
        """Reports a promise of the author that does not hold in an active thread."""
        broken = np.logical_not(holds)
        if self.active is not None:
            broken = broken & self.active
        if broken.any():
            broken = np.broadcast_to(broken, np.broadcast_shapes((1, 1, 1), broken.shape))
            thread = self.thread_at(int(broken.argmax()), broken.shape)
            raise SimulationError(f"{sentence} ({thread})", self.location, **thread.details())

    # Reports

    def print_lines(self, attributes: Attributes, operands: Sequence[Any]) -> None:
        """Prints a line for each active thread: its program, coordinates and value, and, if asked for, the thread.

        `poison` is that of the value.
        """
        shape = self.shape
        (poison,), self.poison = self.poison or (None,), ()
        undefined = np.broadcast_to(False if poison is None else poison, shape).reshape(-1)
        with_lanes = knobs.PRINT_LANES.read()
        spread = [np.broadcast_to(np.asarray(operand), shape).reshape(-1) for operand in operands]
        active = np.flatnonzero(np.broadcast_to(self.active_array(), shape))
        layout = attributes["layout"]
        for thread in active.tolist():
            numbers = [operand[thread] for operand in spread]
            value = numbers.pop() if layout.kind else None
            line = layout.line(numbers[:3], numbers[3:], None if undefined[thread] else value)
            place = self.thread_at(thread, shape)
            holder = f" [warp {place.warp}, lane {place.lane}, register {attributes['register']}]"
            print(line + holder if with_lanes else line)

    def fail(self, message: str) -> NoReturn:
        """An assertion that failed, in the first active thread."""
        shape = self.shape
        thread = self.thread_at(int(np.broadcast_to(self.active_array(), shape).argmax()), shape)
        raise DeviceAssertionError(f"{message or 'an assertion failed'} ({thread})", self.location, **thread.details())

    def nanoseconds(self) -> Any:
        """A clock that goes on by a microsecond whenever it is read."""
        self.clock += 1000
        return np.int64(self.clock)

    def deadlock(self, text: str) -> NoReturn:
        """Reports that threads wait for something that nobody will do."""
        raise DeadlockError(text, self.location)

    # Threads together

    @property
    def shape(self) -> tuple[int, int, int]:
        """Blocks, warps in each, lanes in each warp."""
        return self.ctas, self.warps, self.lanes

    def whole_warps(self, mask: Any) -> Any:
        """The predicate of an instruction that all lanes of a warp must execute together, or none of them."""
        predicate = self.predicate(mask)
        if predicate is None or predicate is NOBODY:
            return predicate
        active = np.broadcast_to(predicate, np.broadcast_shapes(self.shape, predicate.shape))
        torn = active.any(axis=2) & ~active.all(axis=2)
        if torn.any():
            cta, warp = (int(part) for part in np.argwhere(torn)[0])
            lane = int(active[cta, warp].argmin())
            thread = self.thread_at((cta * self.warps + warp) * self.lanes + lane, self.shape)
            self.deadlock(f"a warp moves matrices without all of its lanes, the first missing {thread}")
        return predicate

    def shuffle(self, value: Any, lane: Any) -> Any:
        """Each lane's value replaced by that of another lane of its warp (modulo the lanes in a warp)."""
        source = np.asarray(lane) & (self.lanes - 1)
        if self.active is not None:
            active = np.broadcast_to(self.active, self.shape)
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

    def whole_blocks(self, what: str) -> Mask:
        """The blocks whose threads take part, `[cta]`; `None` for all. A deadlock where only some of a block's do."""
        if self.active is None:
            return None
        arrived = np.broadcast_to(self.active, self.shape).reshape(self.ctas, -1)
        ctas = arrived.any(axis=1)
        split = ctas & ~arrived.all(axis=1)
        if split.any():
            missing = arrived[int(split.argmax())]
            thread = self.thread_at(int(split.argmax()) * missing.size + int(missing.argmin()), self.shape)
            self.deadlock(f"{what} waits for threads that never reach it, the first of them {thread}")
        return None if ctas.all() else np.asarray(ctas)

    def elect(self) -> Booleans:
        """The lowest active lane of each warp."""
        lanes = np.arange(self.lanes).reshape(1, 1, -1)
        if self.active is None:
            return np.asarray(lanes == 0)
        active = np.broadcast_to(self.active, (*self.active.shape[:2], self.lanes))
        return np.asarray(lanes == active.argmax(axis=2)[..., None])

    def threads_in_block(self, predicate: Mask) -> Booleans:
        """Threads of a mask by their number in the block: `[1 or cta, thread]`."""
        mask = np.ones((1, 1, 1), bool) if predicate is None else predicate
        found = np.zeros((mask.shape[0], self.group.threads), bool)
        first = self.first_warp * self.lanes
        mine = np.broadcast_to(mask, (mask.shape[0], self.warps, self.lanes)).reshape(mask.shape[0], -1)
        found[:, first : first + mine.shape[1]] = mine
        return found
