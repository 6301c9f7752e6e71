"""Mbarriers: words of shared memory that count arrivals and bytes, and the waits for their phases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from glueball.errors import (
    BarrierError,
    BarrierPhaseError,
    BarrierReinitializedError,
    BarrierStateError,
    BarrierUnderflowError,
    ByteCountError,
    DeadlockError,
    PendingAtExitError,
    PhaseOverrunError,
    SimulationError,
    TransactionCountError,
)
from glueball.location import SourceLocation
from glueball.sim.masks import NOBODY, Array, Booleans, Mask
from glueball.sim.remote import elsewhere
from glueball.sim.shadow import Touch
from glueball.thread.ir import Attributes
from glueball.thread.nvidia.mbarrier import GREATEST_COUNT, WORD_BYTES

if TYPE_CHECKING:
    from glueball.sim.group import BlockGroup
    from glueball.sim.machine import Machine
    from glueball.sim.shared import Placement, SharedMemory

USED_UNINITIALIZED = "Barrier used before initialization or after invalidation"
UNDERFLOW = "Barrier arrive underflow: current count or tx-count would become invalid"


class Word:
    """One mbarrier of the blocks of a group; counts are `[row]`.

    `expected` arrivals a phase, of which `pending` are missing, `bytes` announced that have not come, and those that
    `came` in this phase. `phase` counts the phases that are over. `gathering` and `passed` are the observers of
    `Clocks` that stand for what arrivals of this phase bring and what waits for the last one give; `agent` is who does
    what completes on it. `changed` is the instruction that changed it last, of the threads of `changer`.
    """

    def __init__(self, group: BlockGroup, allocation: str, place: int) -> None:
        rows = group.rows
        self.group = group
        self.allocation = allocation
        self.place = place
        self.agent = group.clocks.add_agent()
        self.gathering = group.clocks.add_observer()
        self.passed = group.clocks.add_observer()
        self.live: Booleans = np.zeros(rows, bool)
        self.expected: Array = np.zeros(rows, np.int64)
        self.pending: Array = np.zeros(rows, np.int64)
        self.bytes: Array = np.zeros(rows, np.int64)
        self.came: Array = np.zeros(rows, np.int64)
        self.phase: Array = np.zeros(rows, np.int64)
        self.initialized = self.changed = self.announced = -1
        self.changer: Machine | None = None
        self.waits: list[BarrierWait] = []

    def expand(self, ctas: int) -> None:
        """Gives each block its own counts."""
        for name in ("live", "expected", "pending", "bytes", "came", "phase"):
            setattr(self, name, np.repeat(getattr(self, name), ctas))

    @property
    def name(self) -> str:
        """The mbarrier for people: its allocation and byte in it, and in a cluster its CTA."""
        offset = self.place - self.group.launch.function.allocations[self.allocation].offset
        byte = f" (byte {offset})" if offset else ""
        return f"mbarrier `{self.allocation}`{byte}" + (f" of CTA {self.group.rank}" if self.group.cluster else "")

    def line(self, instruction: int) -> SourceLocation | None:
        """Where an instruction stands; `None` for none."""
        return self.group.launch.instructions[instruction].location if instruction >= 0 else None

    def state(self, row: int) -> str:
        """What one block's phase still needs."""
        return f"{self.pending[row]} of {self.expected[row]} arrivals and {self.bytes[row]} bytes are missing"

    def change(self, machine: Machine, instruction: int) -> None:
        """An instruction of a partition's threads changes it."""
        self.changed, self.changer = instruction, machine

    @property
    def last_change(self) -> str:
        """Where it was changed last, and by whom."""
        return f"{self.line(self.changed)}{self.changer.by if self.changer else ''}"

    def initialize(self, machine: Machine, rows: Booleans, count: int) -> None:
        """A new mbarrier in phase 0, in the rows of a mask."""
        self.live = self.live | rows
        self.expected = np.where(rows, count, self.expected)
        self.pending = np.where(rows, count, self.pending)
        self.bytes = np.where(rows, 0, self.bytes)
        self.came = np.where(rows, 0, self.came)
        self.phase = np.where(rows, 0, self.phase)
        self.initialized = machine.at
        self.change(machine, machine.at)

    def check(self, machine: Machine, instruction: int, rows: Booleans) -> None:
        """The word must be an mbarrier in the rows of a mask when an instruction uses it."""
        dead = rows & ~self.live
        if dead.any():
            self._fail(BarrierStateError, machine, instruction, f"{self.name} is none. {USED_UNINITIALIZED}")

    def unfinished(self) -> Booleans:
        """In which rows a phase has begun that is not over."""
        return np.asarray(self.live & ((self.pending != self.expected) | (self.bytes != 0)))

    def check_between_phases(self, machine: Machine, instruction: int, rows: Booleans) -> None:
        """No phase may be half over, in the rows of a mask, when the mbarrier ends."""
        left = rows & self.unfinished()
        if left.any():
            text = f"{self.name} is invalidated in the middle of a phase: {self.state(int(left.argmax()))}"
            self._fail(PendingAtExitError, machine, instruction, text)

    def announce(self, machine: Machine, instruction: int, rows: Array, size: int) -> None:
        """So many bytes more to wait for, once for each arrival that `rows` counts."""
        self.bytes = self.bytes + size * rows
        self._check_bytes(machine, instruction)

    def arrive(self, machine: Machine, instruction: int, rows: Array, count: int = 1) -> None:
        """`count` arrivals for each of those that `rows` counts."""
        short = self.pending < count * rows
        if short.any():
            row = int(short.argmax())
            text = (
                f"{count * int(rows[row])} arrivals at {self.name}, which waits for {self.pending[row]} of "
                f"{self.expected[row]} in this phase. {UNDERFLOW}"
            )
            self._fail(BarrierUnderflowError, machine, instruction, text)
        self.pending = self.pending - count * rows
        self._end(machine, instruction, rows > 0)

    def receive(self, machine: Machine, instruction: int, rows: Booleans, size: int) -> None:
        """Bytes have come, in the rows of a mask; they may come before they are announced."""
        self.bytes = self.bytes - size * rows
        self.came = self.came + size * rows
        self._check_bytes(machine, instruction)
        self._end(machine, instruction, rows)

    def _check_bytes(self, machine: Machine, instruction: int) -> None:
        over = np.abs(self.bytes) > GREATEST_COUNT
        if over.any():
            text = (
                f"{self.name} would miss {self.bytes[int(over.argmax())]} bytes, and can count {GREATEST_COUNT}. "
                f"{UNDERFLOW}"
            )
            self._fail(TransactionCountError, machine, instruction, text)

    def _end(self, machine: Machine, instruction: int, rows: Booleans) -> None:
        """Ends the phase where nothing is missing any more."""
        self.change(machine, instruction)
        over = rows & (self.pending == 0) & (self.bytes == 0)
        if not over.any():
            return
        self.group.clocks.end_phase(self.agent, self.gathering, self.passed, over)
        self.phase = self.phase + over
        self.pending = np.where(over, self.expected, self.pending)
        self.came = np.where(over, 0, self.came)
        for wait in self.waits:
            wait.check_overrun(self, machine, instruction)

    def _fail(self, error: type[SimulationError], machine: Machine, instruction: int, text: str) -> NoReturn:
        line = self.line(self.changed)
        last = f"; it was last changed at {self.last_change}" if line else ""
        raise error(f"{text}{last} ({machine.name})", self.line(instruction), other=line, allocation=self.allocation)


class Words:
    """The mbarriers of a group, by their byte in the arena."""

    def __init__(self, group: BlockGroup) -> None:
        self.group = group
        self.words: dict[int, Word] = {}
        self.fenced: list[Word] = []

    def expand(self, ctas: int) -> None:
        """Gives each block its own counts."""
        for word in self.words.values():
            word.expand(ctas)

    def fence(self) -> None:
        """Other CTAs may use the mbarriers there are, once they know of a cluster barrier."""
        self.fenced = [word for word in self.words.values() if word.live.any() and word.initialized != word.announced]

    def announce(self) -> None:
        """They know of it."""
        for word in self.fenced:
            agent = self.group.clocks.add_agent()
            self.group.clocks.announce(agent)
            self.group.shadow.announce(word.place, WORD_BYTES, agent, word.initialized)
            word.announced = word.initialized
        self.fenced = []

    def at(self, allocation: str, place: int) -> Word:
        """The word at a byte of the arena."""
        if place not in self.words:
            self.words[place] = Word(self.group, allocation, place)
        return self.words[place]

    def finish(self) -> None:
        """Reports mbarriers in the middle of a phase."""
        for word in self.words.values():
            left = word.unfinished()
            if left.any():
                raise PendingAtExitError(
                    f"{self.group.name} ended in the middle of a phase of {word.name}, initialised at "
                    f"{word.line(word.initialized)}: {word.state(int(left.argmax()))}; it was last changed at "
                    f"{word.last_change}",
                    word.line(word.changed),
                    other=word.line(word.initialized),
                    allocation=word.allocation,
                )


@dataclass(frozen=True, slots=True)
class Reach:
    """The accesses of one instruction to one mbarrier: how many threads of each row, `[row]`, and which accesses."""

    word: Word
    rows: Array
    accesses: Booleans


@dataclass(slots=True, eq=False)
class BarrierWait:
    """Threads of a partition that wait: for each mbarrier, in which rows for which phase, counted and as a parity."""

    machine: Machine
    location: SourceLocation
    targets: list[tuple[Word, Booleans, Array, Array]] = field(default_factory=list)
    threads: Mask = None

    def __call__(self) -> bool:
        """Whether all the phases are over."""
        return all(not self._missing(*target).any() for target in self.targets)

    @staticmethod
    def _missing(word: Word, rows: Booleans, _: Array, parity: Array) -> Booleans:
        return np.asarray(rows & ((word.phase & 1) == parity))

    def check_overrun(self, word: Word, machine: Machine, instruction: int) -> None:
        """A phase has ended that comes after the one that is waited for."""
        for other, rows, phase, _ in self.targets:
            if other is word and (rows & (word.phase > phase + 1)).any():
                raise PhaseOverrunError(
                    f"mbarrier phase overrun: a phase of {word.name} ends while {self.machine.name} still waits at "
                    f"{self.location} for the one before it ({machine.name})",
                    word.line(instruction),
                    other=self.location,
                    allocation=word.allocation,
                )

    def describe(self) -> str:
        """Who waits, where, for what and what is missing."""
        for target in self.targets:
            missing = self._missing(*target)
            if missing.any():
                word, row = target[0], int(missing.argmax())
                block = f"in block {self.machine.first + row} " if len(missing) > 1 else ""
                place = f"{self.machine.name} waits at {self.location} for phase {word.phase[row] & 1} of {word.name}"
                return f"{place}: {block}{word.state(row)}"
        return f"{self.machine.name} waits at {self.location}"

    def _first(self) -> tuple[Word, int]:
        """The first mbarrier whose phase is not over, and in which row."""
        missing = ((target[0], self._missing(*target)) for target in self.targets)
        return next((word, int(rows.argmax())) for word, rows in missing if rows.any())

    @property
    def suspicion(self) -> int:
        """2 where all have arrived and something has come: nobody seems to be about to send what is missing."""
        word, row = self._first()
        return 2 if word.pending[row] == 0 and word.came[row] > 0 else 1

    def deadlock(self, text: str) -> SimulationError:
        """The error if the phases never end."""
        word, row = self._first()
        group = self.machine.group
        start = "Deadlock detected while waiting on an mbarrier"
        if group.ended_partitions:
            start = "Deadlock detected after a warp-specialized thread exited"
        details: dict[str, Any] = {"other": word.line(word.changed), "allocation": word.allocation}
        details |= {"pending": int(word.pending[row]), "bytes": int(word.bytes[row])}
        text = f"{start}: {text}; {word.name} was last changed at {word.last_change}"
        if ended := [*group.ended_partitions, *group.ended_ctas]:
            text = f"{text}; {' and '.join(ended)} {'has' if len(ended) == 1 else 'have'} ended"
        if word.pending[row] == 0:
            text = f"{text}; all arrivals are there and {word.came[row]} bytes, not those that were announced"
            return ByteCountError(text, self.location, **details)
        return DeadlockError(text, self.location, **details)


class Barriers:
    """What the threads of one partition do to mbarriers, those of their own blocks or of another CTA of the cluster."""

    def __init__(self, machine: Machine, group: BlockGroup, shared: SharedMemory) -> None:
        self.machine = machine
        self.words = group.words
        self.shared = shared

    def initialize(self, attributes: Attributes, offset: Any, predicate: Any) -> None:
        """One thread makes a word an mbarrier."""
        count, machine = attributes["count"], self.machine
        if not 1 <= count <= GREATEST_COUNT:
            raise BarrierError(f"an mbarrier counts 1 to {GREATEST_COUNT} arrivals, not {count}", machine.location)
        for placement, touch, reach in self._reach(attributes, offset, predicate, "initialised"):
            word = reach.word
            if (word.live & (reach.rows > 0)).any():
                line = word.line(word.initialized)
                raise BarrierReinitializedError(
                    f"{word.name} is one since {line}: Barrier re-initialized without prior invalidation "
                    f"({machine.name})",
                    machine.location,
                    other=line,
                    allocation=word.allocation,
                )
            machine.group.shadow.record_write(touch, machine.shared.faults(placement, "initialised"))
            machine.group.shadow.set_barrier(touch, machine.at)
            word.initialize(machine, reach.rows > 0, count)

    def invalidate(self, attributes: Attributes, offset: Any, predicate: Any) -> None:
        """One thread makes an mbarrier plain memory again."""
        machine = self.machine
        for placement, touch, reach in self._reach(attributes, offset, predicate, "invalidated"):
            word, rows = reach.word, reach.rows > 0
            word.check(machine, machine.at, rows)
            word.check_between_phases(machine, machine.at, rows)
            if word.waits:
                wait = word.waits[0]
                raise BarrierStateError(
                    f"{word.name} is invalidated while {wait.machine.name} waits for it at {wait.location} "
                    f"({machine.name})",
                    machine.location,
                    other=wait.location,
                    allocation=word.allocation,
                )
            machine.group.shadow.set_barrier(touch, -1)
            machine.group.shadow.record_write(touch, machine.shared.faults(placement, "invalidated"))
            word.live = word.live & ~rows
            word.change(machine, machine.at)

    def arrive(self, attributes: Attributes, offset: Any, predicate: Any, rank: Any = None) -> None:
        """Each thread arrives `count` times, in the CTA of a rank where one is given."""
        if rank is not None:
            for group, chosen in elsewhere(self.machine, rank, predicate):
                self.machine.barriers_of(group).arrive(attributes, offset, chosen)
            return
        for reach in self.uses(attributes, offset, predicate, "used"):
            self.publish(reach, predicate)
            reach.word.arrive(self.machine, self.machine.at, reach.rows, attributes["count"])

    def expect(self, attributes: Attributes, offset: Any, predicate: Any, rank: Any = None) -> None:
        """Each thread announces `bytes` and arrives once, in the CTA of a rank where one is given."""
        if rank is not None:
            for group, chosen in elsewhere(self.machine, rank, predicate):
                self.machine.barriers_of(group).expect(attributes, offset, chosen)
            return
        size = attributes["bytes"]
        if not 0 <= size <= GREATEST_COUNT:
            text = f"an arrival announces 0 to {GREATEST_COUNT} bytes, not {size}. {UNDERFLOW}"
            raise TransactionCountError(text, self.machine.location, other=None)
        for reach in self.uses(attributes, offset, predicate, "used"):
            self.publish(reach, predicate)
            reach.word.announce(self.machine, self.machine.at, reach.rows, size)
            reach.word.arrive(self.machine, self.machine.at, reach.rows)

    def copy_arrive(self, attributes: Attributes, offset: Any) -> None:
        """Each thread arrives once its copies so far are done; `increment` makes as many arrivals more due at once."""
        machine = self.machine
        for reach in self.uses(attributes, offset, True, "used"):
            if attributes["increment"]:
                reach.word.pending = reach.word.pending + reach.rows
            threads = machine.active_array()
            machine.launch.scheduler.later(machine.copies.arrive_after(reach.word, reach.rows, threads))

    def wait(self, attributes: Attributes, offset: Any, phase: Any, predicate: Any) -> BarrierWait | None:
        """Threads wait for a phase, each for the one of its parity; `None` where none does."""
        machine = self.machine
        if np.ndim(phase) == 3 and np.shape(phase)[0] > 1:
            machine.group.expand()
        wait = BarrierWait(machine, machine.location, threads=_mask(machine, predicate))
        for reach in self.uses(attributes, offset, predicate, "waited for"):
            word, rows = reach.word, reach.rows > 0
            parity = self._parity(phase, len(rows))
            wrong = rows & (parity != 0) & (parity != 1)
            if wrong.any():
                found = int(parity[int(wrong.argmax())])
                raise BarrierPhaseError(
                    f"{word.name}, initialised at {word.line(word.initialized)}, has the phases 0 and 1, and the wait "
                    f"is for {found} ({machine.name})",
                    machine.location,
                    other=word.line(word.initialized),
                )
            last = np.where((word.phase & 1) == parity, word.phase, word.phase - 1)
            wait.targets.append((word, rows, last, parity))
            word.waits.append(wait)
        return wait if wait.targets else None

    def _parity(self, phase: Any, rows: int) -> Array:
        """The phase of each row; that of an active thread where they differ."""
        machine, phases = self.machine, np.asarray(phase)
        if phases.size == 1:
            return np.full(rows, int(phases.reshape(-1)[0]), np.int64)
        spread = np.broadcast_to(phases, machine.shape).reshape(machine.ctas, -1)
        active = np.broadcast_to(machine.active_array(), machine.shape).reshape(machine.ctas, -1)
        first: Array = spread[np.arange(machine.ctas), active.argmax(axis=1)].astype(np.int64)
        return first[:rows]

    def complete(self, wait: BarrierWait | None) -> None:
        """The phases are over: the threads know what the arrivals brought."""
        if wait is None:
            return
        machine, clocks = self.machine, self.machine.group.clocks
        everyone = wait.threads is None or bool(np.asarray(wait.threads).all())
        for word, rows, _, _ in wait.targets:
            word.waits.remove(wait)
            if everyone:
                where = np.broadcast_to(rows, machine.group.rows)
                clocks.join(machine.agent, word.passed, where)
            else:
                clocks.learn(machine.agent, word.passed, partial(machine.threads_in_block, wait.threads))

    def publish(self, reach: Reach, predicate: Any) -> None:
        """The phase takes along what the threads know that arrive or send (PTX ISA, `st.async`: release)."""
        machine = self.machine
        everyone = int(reach.rows.max()) == machine.warps * machine.lanes
        threads = partial(machine.threads_in_block, _mask(machine, predicate))
        machine.group.clocks.publish(reach.word.gathering, machine.agent, everyone, threads, reach.rows > 0)

    def uses(self, attributes: Attributes, offset: Any, predicate: Any, verb: str) -> Iterator[Reach]:
        """The mbarriers that threads use, after the checks."""
        machine = self.machine
        for placement, touch, reach in self._reach(attributes, offset, predicate, verb):
            reach.word.check(machine, machine.at, reach.rows > 0)
            self.shared.shadow.record_word(touch, self.shared.faults(placement, verb))
            yield reach

    def _reach(
        self, attributes: Attributes, offset: Any, predicate: Any, verb: str
    ) -> Iterator[tuple[Placement, Touch, Reach]]:
        """Each word that threads reach, with how many of each row do; nothing where the predicate holds nowhere."""
        machine = self.machine
        mask = machine.predicate(None if predicate is True else predicate)
        if mask is NOBODY:
            return
        shared = self.shared
        placement = shared.place(attributes, offset, mask, WORD_BYTES, verb)
        for place in np.unique(placement.places).tolist():
            accesses = placement.places == place
            part = placement if accesses.all() else placement.part(accesses)
            rows = np.bincount(part.rows, minlength=shared.group.rows)
            touch = shared.touch(part, WORD_BYTES, machine.at)
            yield part, touch, Reach(self.words.at(placement.allocation, place), rows, accesses)


def _mask(machine: Machine, predicate: Any) -> Mask:
    mask = machine.predicate(None if predicate is True else predicate)
    return None if mask is NOBODY else mask
