"""What happened to each piece of shared memory, when and by whom, and whether it holds anything at all.

The shadow keeps one entry for every `granule` bytes, the narrowest access of the kernel: accesses are aligned, so that
is as exact as one for each byte. An entry is `time << 32 | thread << 20 | instruction`, -1 where there was none, and
`time` is that of the agent who did it (see `clocks`): time goes on at barriers, so older entries need no clearing. The
last write and, for each partition, the last read are kept. While all blocks of a group do the same, one row stands for
all of them; `expand` gives every block its own. Undefined values have rows of their own: blocks that differ in nothing
else still share the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from glueball.sim.clocks import NEVER, TIME_SHIFT, Clocks
from glueball.sim.masks import Array, Booleans, Mask

if TYPE_CHECKING:
    from glueball.sim.launch import Launch
    from glueball.sim.shared import Placement

THREAD_SHIFT = 20
THREAD_BITS = (1 << (TIME_SHIFT - THREAD_SHIFT)) - 1
MANY_THREADS = THREAD_BITS << THREAD_SHIFT
INSTRUCTION_BITS = (1 << THREAD_SHIFT) - 1


@dataclass(frozen=True, slots=True)
class Touch:
    """Accesses of one instruction: `entries` `[access, granule]` in the flat shadow, and what they leave there.

    `floors` are the shifted times, `[1 or access, agent]`, from which on an entry is not ordered before the access.
    """

    partition: int
    entries: Array
    floors: Array
    mine: Array

    def by_others(self, found: Array, agents: Array | int) -> Booleans:
        """Which of the entries, of one agent or of one each, another thread left, with no order between."""
        if isinstance(agents, int):
            floors = self.floors[:, agents : agents + 1]
        elif self.floors.shape[0] == 1:
            floors = self.floors[0].take(agents)
        else:
            floors = np.take_along_axis(self.floors, agents, axis=1)
        return np.asarray((found >= floors) & (((found ^ self.mine) & MANY_THREADS) != 0))


NO_PARTITION = -1
Fault = Callable[[str, int, int, int], None]
"""Reports a kind of fault, the index of the access, the other instruction's index (-1 for none) and its partition."""


class Shadow:
    """The shadow of the shared memory, `size` bytes each, of a group of blocks."""

    def __init__(self, launch: Launch, ctas: int, size: int, clocks: Clocks) -> None:
        self.ctas = ctas
        self.granule = launch.granule
        self.width = size // launch.granule
        self.clocks = clocks
        self.partitions = launch.partitions
        self.atomic = launch.atomic
        shape = (1, self.width)
        self.written: Array = np.full(shape, -1, np.int64)
        self.writers: Array | None = None
        self.reads: dict[int, Array] = {0: np.full(shape, -1, np.int64)}
        self.in_flight: Array | None = None
        self.sources: Array | None = None
        self.source_of: Array | None = None
        self.barriers: Array | None = None
        self.unfenced: Booleans | None = np.zeros(shape, bool) if launch.proxies else None
        self.poison: Booleans | None = None

    def expand(self) -> None:
        """Gives each block its own row."""
        self.written = self._repeated(self.written)
        self.reads = {partition: self._repeated(read) for partition, read in self.reads.items()}
        for name in ("writers", "in_flight", "sources", "source_of", "barriers", "unfenced"):
            if (array := getattr(self, name)) is not None:
                setattr(self, name, self._repeated(array))
        self._expand_poison()

    def _expand_poison(self) -> None:
        if self.poison is not None and self.poison.shape[0] < self.ctas:
            self.poison = self._repeated(self.poison)

    def _repeated(self, array: Array) -> Array:
        return np.repeat(array, self.ctas, axis=0)

    def touch(self, placement: Placement, width: int, instruction: int, partition: int) -> Touch:
        """Accesses of `width` bytes by threads of a partition."""
        rows, threads = placement.rows, placement.threads
        mine = self.clocks.stamps(partition, rows) | (threads << THREAD_SHIFT)[:, None] | instruction
        floors = self.clocks.floors(partition, rows, threads)
        return Touch(partition, self.entries(rows, placement.places, width), floors, mine)

    def entries(self, rows: Array, places: Array, width: int) -> Array:
        """The entries of `width` bytes at each of some places: `[access, granule]`."""
        first = rows * self.width + places // self.granule
        return np.asarray(first[:, None] + np.arange(width // self.granule))

    # Accesses of threads

    def record_read(self, touch: Touch, fault: Fault) -> None:
        """Checks and records reads."""
        self._check_barriers(touch, fault)
        self.record_word(touch, fault)

    def record_word(self, touch: Touch, fault: Fault) -> None:
        """Checks and records reads that may be of an mbarrier."""
        self._check_in_flight(touch, fault)
        written = self.written.reshape(-1).take(touch.entries)
        _report(written < 0, None, "uninitialized", fault)
        self._check_written(touch, written, fault)
        self._leave_read(touch)

    def _leave_read(self, touch: Touch) -> None:
        flat = self._reads_of(touch.partition)
        leaves = np.where(
            touch.by_others(flat.take(touch.entries), touch.partition), touch.mine | MANY_THREADS, touch.mine
        )
        flat[touch.entries] = leaves
        clash = ((flat.take(touch.entries) ^ leaves) & MANY_THREADS) != 0
        if clash.any():
            flat[touch.entries[clash]] = leaves[clash] | MANY_THREADS

    def record_write(self, touch: Touch, fault: Fault) -> bool:
        """Checks and records writes; whether two of them are to the same bytes."""
        self._check_barriers(touch, fault)
        self._check_in_flight(touch, fault)
        self._check_sources(touch, fault)
        flat = self.written.reshape(-1)
        self._check_written(touch, flat.take(touch.entries), fault)
        self._check_reads(touch, fault)
        flat[touch.entries] = touch.mine
        self._leave_writer(touch)
        return bool((((flat.take(touch.entries) ^ touch.mine) & MANY_THREADS) != 0).any())

    def record_atomic(self, touch: Touch, fault: Fault) -> None:
        """Checks and records atomic changes, which do not clash with one another."""
        self._check_barriers(touch, fault)
        self._check_in_flight(touch, fault)
        self._check_sources(touch, fault)
        flat = self.written.reshape(-1)
        written = flat.take(touch.entries)
        _report(written < 0, None, "uninitialized", fault)
        self._check_written(touch, written, fault, ~self.atomic[np.where(written < 0, 0, written & INSTRUCTION_BITS)])
        self._check_reads(touch, fault)
        flat[touch.entries] = touch.mine | MANY_THREADS
        self._leave_writer(touch)

    def _leave_writer(self, touch: Touch) -> None:
        if self.writers is not None or touch.partition:
            self._writers()[touch.entries] = touch.partition
        if self.unfenced is not None:
            self.unfenced.reshape(-1)[touch.entries] = True

    # Asynchronous copies of threads

    def begin(self, touch: Touch, instruction: int) -> None:
        """Marks bytes that an asynchronous write, already recorded, is on its way to."""
        if self.in_flight is None:
            self.in_flight = np.full(self.written.shape, -1, np.int32)
        self.in_flight.reshape(-1)[touch.entries] = instruction

    def finish(self, touch: Touch) -> None:
        """The asynchronous write is done, as if its thread had written now."""
        assert self.in_flight is not None
        self.in_flight.reshape(-1)[touch.entries] = -1
        self.written.reshape(-1)[touch.entries] = touch.mine
        self._leave_writer(touch)

    def finish_for(self, touch: Touch, agent: int, rows: Array) -> None:
        """The asynchronous write is done for whoever knows what time it is for an agent in the rows of the accesses."""
        self.finish(touch)
        self.land(touch.entries, agent, rows, int(touch.mine.flat[0]) & INSTRUCTION_BITS)

    # Operations of the asynchronous proxy

    def begin_load(self, touch: Touch, agents: Array, fault: Fault, *, fenced: bool = True) -> None:
        """Checks and records writes that each end at some time of an agent; `agents` is `[access]`.

        They go through the asynchronous proxy unless they need not be `fenced`.
        """
        self._check_barriers(touch, fault)
        self._check_in_flight(touch, fault)
        self._check_sources(touch, fault)
        self._check_written(touch, self.written.reshape(-1).take(touch.entries), fault)
        self._check_reads(touch, fault)
        if fenced:
            self._check_fences(touch, fault)
        instruction = int(touch.mine.flat[0]) & INSTRUCTION_BITS
        self._land(touch.entries, agents[:, None], np.full(touch.entries.shape[0], NEVER), instruction)
        self.set_poison(touch, None)

    def land(self, entries: Array, agent: int, rows: Array, instruction: int) -> None:
        """The write is done at the times that it is for an agent in the rows of the accesses, `[1 or access]`."""
        self._land(entries, agent, self.clocks.times(agent, rows), instruction)

    def _land(self, entries: Array, agent: Array | int, times: Array, instruction: int) -> None:
        """The write is done at times of an agent, `[1 or access]`."""
        stamps = np.asarray(times, np.int64)[:, None] << TIME_SHIFT
        self.written.reshape(-1)[entries] = stamps | MANY_THREADS | instruction
        self._writers()[entries] = agent

    def begin_source(self, touch: Touch, fault: Fault) -> None:
        """Checks a read that goes on until `finish_source`."""
        self._check_barriers(touch, fault)
        self._check_in_flight(touch, fault)
        written = self.written.reshape(-1).take(touch.entries)
        self._check_written(touch, written, fault)
        self._check_fences(touch, fault)
        if self.sources is None or self.source_of is None:
            self.sources = np.zeros(self.written.shape, np.int16)
            self.source_of = np.full(self.written.shape, -1, np.int32)
        self.sources.reshape(-1)[touch.entries] += 1
        self.source_of.reshape(-1)[touch.entries] = int(touch.mine.flat[0]) & INSTRUCTION_BITS

    def finish_source(self, touch: Touch) -> None:
        """The read is done, as if its thread had read now."""
        assert self.sources is not None
        self.sources.reshape(-1)[touch.entries] -= 1
        self._leave_read(touch)

    def finish_source_for(self, touch: Touch, agent: int, time: int) -> None:
        """The read is done for whoever knows an agent's time."""
        assert self.sources is not None
        self.sources.reshape(-1)[touch.entries] -= 1
        instruction = int(touch.mine.flat[0]) & INSTRUCTION_BITS
        self._reads_of(agent)[touch.entries] = time << TIME_SHIFT | MANY_THREADS | instruction

    def fence(self, partition: int, threads: Mask) -> None:
        """Threads, `[1 or row, thread in the block]` or all of a partition, order their stores for the other proxy.

        So do they order asynchronous copies that they know the completion of.
        """
        if self.unfenced is None:
            return
        floors = self.clocks.all_floors(partition)
        places = np.flatnonzero(self.unfenced)
        entries, rows = self.written.reshape(-1)[places], places // self.width
        agents = np.zeros(places.shape, int) if self.writers is None else self.writers.reshape(-1)[places]
        mine = agents == partition
        if threads is not None:
            number = entries >> THREAD_SHIFT & THREAD_BITS
            row = rows if threads.shape[0] > 1 else 0
            known = np.concatenate([threads, np.zeros((threads.shape[0], THREAD_BITS + 1), bool)], axis=1)
            mine &= known[row, number]
        landed = (agents >= self.clocks.partitions) & (entries < floors[rows, agents])
        self.unfenced.reshape(-1)[places[mine | landed]] = False

    # Mbarriers and undefined values

    def set_barrier(self, touch: Touch, instruction: int) -> None:
        """Marks bytes that are an mbarrier since an instruction; -1 that they are no more."""
        if self.barriers is None:
            self.barriers = np.full(self.written.shape, -1, np.int32)
        self.barriers.reshape(-1)[touch.entries] = instruction

    def set_poison(self, touch: Touch, poison: Mask) -> None:
        """Remembers which of the granules written, `[row, access, granule]`, hold undefined values.

        There is one row, or one for each block where a row of the shadow stands for all of them.
        """
        if poison is None and self.poison is None:
            return
        if self.poison is None:
            self.poison = np.zeros(self.written.shape, bool)
        if poison is not None and poison.shape[0] > 1:
            self._expand_poison()
        self._poison_rows()[:, touch.entries] = False if poison is None else poison

    def _poison_rows(self) -> Booleans:
        """Undefined values by row and entry; all of them in one row where the shadow has one for each block."""
        assert self.poison is not None
        return self.poison.reshape(-1, self.written.size)

    def get_poison(self, touch: Touch) -> Mask:
        """Which granules hold undefined values, `[row, access, granule]`; `None` for none."""
        if self.poison is None:
            return None
        found = self._poison_rows()[:, touch.entries]
        return found if found.any() else None

    def poison_at(self, ctas: Array, places: Array) -> Mask:
        """Which bytes of some blocks, `places` of each in the arena, hold undefined values; `None` for none."""
        if self.poison is None:
            return None
        rows = ctas if self.poison.shape[0] > 1 else np.zeros(1, np.int64)
        found = self.poison[rows.reshape(-1, *(1,) * (places.ndim - 1)), places // self.granule]
        return found if found.any() else None

    def undefined(self, entries: Array) -> Mask:
        """Which entries, `[row, granule]`, hold no defined value; `None` for none."""
        bad = self.written.reshape(-1).take(entries) < 0
        if self.poison is not None:
            found = self._poison_rows()[:, entries]
            bad = bad | found.reshape(-1, entries.shape[1])
        return bad if bad.any() else None

    # What is left when blocks end

    def unknown_load(self) -> int | None:
        """The entry of an asynchronous write that has ended without anybody knowing."""
        if self.writers is None:
            return None
        loaded = self.writers >= self.clocks.partitions
        floors = self.clocks.widest_floors()
        unknown = loaded & (self.written >= np.take_along_axis(floors, np.where(loaded, self.writers, 0), axis=1))
        return int(self.written.reshape(-1)[int(unknown.argmax())]) if unknown.any() else None

    def unknown_reads(self, partition: int) -> Iterator[tuple[int, int]]:
        """Partitions of other CTAs with reads that a partition does not know of, and the instructions of those."""
        floors = self.clocks.all_floors(partition)[0]
        for agent, read in self.reads.items():
            late = read[read >= floors[agent]]
            foreign = agent < self.clocks.partitions and agent // self.partitions != partition // self.partitions
            if foreign and late.size:
                yield from ((agent, number) for number in np.unique(late & INSTRUCTION_BITS).tolist())

    # Checks

    def _writers(self) -> Array:
        if self.writers is None:
            self.writers = np.zeros(self.written.shape, np.int64)
        return self.writers.reshape(-1)

    def _reads_of(self, partition: int) -> Array:
        if partition not in self.reads:
            self.reads[partition] = np.full(self.written.shape, -1, np.int64)
        return self.reads[partition].reshape(-1)

    def _check_written(self, touch: Touch, written: Array, fault: Fault, among: Mask = None) -> None:
        agents = 0 if self.writers is None else self.writers.reshape(-1).take(touch.entries)
        others = touch.by_others(written, agents)
        if among is not None:
            others &= among
        if others.any():
            place = np.unravel_index(int(others.argmax()), others.shape)
            agent = agents if isinstance(agents, int) else int(agents[place])
            kind = "loaded" if agent >= self.clocks.partitions else "written"
            _report(others, written, kind, fault, self.clocks.owners[agent])

    def _check_reads(self, touch: Touch, fault: Fault) -> None:
        for agent in self.reads:
            read = self._reads_of(agent).take(touch.entries)
            _report(touch.by_others(read, agent), read, "read", fault, self.clocks.owners[agent])

    def announce(self, place: int, size: int, agent: int, instruction: int) -> None:
        """Bytes that were written become those of an agent at its time 0."""
        entries = self.entries(np.zeros(1, np.int64), np.full(1, place), size)
        self._land(entries, agent, np.zeros(1, np.int64), instruction)

    def _check_barriers(self, touch: Touch, fault: Fault) -> None:
        if self.barriers is not None:
            found = self.barriers.reshape(-1).take(touch.entries)
            _report(found >= 0, found, "barrier", fault)

    def _check_in_flight(self, touch: Touch, fault: Fault) -> None:
        if self.in_flight is not None:
            found = self.in_flight.reshape(-1).take(touch.entries)
            _report(found >= 0, found, "in flight", fault)

    def _check_sources(self, touch: Touch, fault: Fault) -> None:
        if self.sources is not None and self.source_of is not None:
            busy = self.sources.reshape(-1).take(touch.entries) > 0
            _report(busy, self.source_of.reshape(-1).take(touch.entries), "source", fault)

    def _check_fences(self, touch: Touch, fault: Fault) -> None:
        if self.unfenced is not None:
            unfenced = self.unfenced.reshape(-1).take(touch.entries)
            _report(unfenced, self.written.reshape(-1).take(touch.entries), "unfenced", fault)


def _report(bad: Booleans, found: Array | None, kind: str, fault: Fault, partition: int = NO_PARTITION) -> None:
    if bad.any():
        access, granule = np.unravel_index(int(bad.argmax()), bad.shape)
        other = -1 if found is None else int(found[access, granule]) & INSTRUCTION_BITS
        fault(kind, int(access), other, partition)
