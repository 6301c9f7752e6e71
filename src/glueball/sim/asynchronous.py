"""Asynchronous copies in flight: data arrives when a wait guarantees it, or earlier where the schedule is random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glueball.errors import OverwriteInFlightError
from glueball.sim.commit_groups import CommitGroups, Share
from glueball.sim.masks import NOBODY, Array, Booleans, Mask, narrow
from glueball.sim.memory import WORDS, Part
from glueball.thread.ir import Attributes

if TYPE_CHECKING:
    from glueball.sim.machine import Machine
    from glueball.sim.mbarriers import Word


@dataclass(slots=True)
class Copy:
    """One copy instruction: what its lanes read, empty where none does, and where they write it."""

    instruction: int
    number: int
    width: int
    allocation: str
    addresses: Array
    parts: list[Part]
    offsets: Array
    arrived: bool = False


Arrival = Share[Copy]
"""A copy that is complete for some threads."""


class Copies:
    """The copies of one partition that are in flight."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.groups: CommitGroups[Copy] = CommitGroups()
        self._issued = 0

    def issue(self, attributes: Attributes, source: Any, offset: Any, mask: Any) -> None:
        """Starts a copy of `bytes` bytes from global `source`, or of zeros where a mask does not hold."""
        machine, width, active = self.machine, attributes["bytes"], self.machine.active
        addresses = np.asarray(source) + attributes.get("source_offset", 0)
        placement = machine.shared.place(attributes, offset, active, width, "written")
        read = active if mask is None else narrow(active, mask)
        parts = []
        if read is not NOBODY:
            parts = machine.memory.access(machine, addresses, read, 0, width, "read")
        machine.shared.begin(placement, width)
        self._issued += 1
        copy = Copy(machine.at, self._issued, width, placement.allocation, addresses, parts, placement.offsets)
        threads = machine.active_array()
        self.groups.add(copy, threads)
        if machine.arrives_early():
            self._transfer(copy, threads)
            copy.arrived = True

    def commit(self) -> None:
        """The active threads' open copies become their next group."""
        self.groups.commit(self.machine.active_array())

    def wait(self, pending: int) -> None:
        """Completes, for each active thread, all groups but its latest `pending` ones."""
        for share in self.groups.wait(self.machine.active_array(), pending, self.machine.location):
            complete = self.machine.instructions[share.work.instruction].record.complete
            assert complete is not None
            complete(self.machine, share)

    def complete(self, arrival: Arrival) -> None:
        """The data of a copy is there and its bytes may be used by the threads told."""
        copy, machine = arrival.work, self.machine
        placement = self._place(copy, arrival.threads)
        machine.shared.shadow.finish(machine.shared.touch(placement, copy.width, copy.instruction))

    def arrive_after(self, word: Word, rows: Array, threads: Booleans) -> CopyArrival:
        """An arrival of each of some threads, `rows` counting them, once their copies so far are done."""
        return CopyArrival(self, self.machine.at, word, rows, threads, self._issued)

    def deliver(self, word: Word, threads: Booleans, last: int) -> None:
        """The copies of some threads up to the `last` are done for whoever waits for the mbarrier's phase."""
        shadow, shared = self.machine.group.shadow, self.machine.shared
        for share in [*self.groups.shares()]:
            mine = share.threads & threads
            if share.work.number <= last and mine.any():
                placement = self._place(share.work, mine)
                touch = shared.touch(placement, share.work.width, share.work.instruction)
                rows = placement.rows if shadow.rows > 1 else np.zeros(1, np.int64)
                shadow.finish_for(touch, word.agent, shadow.clocks.time[rows, word.agent])
                share.threads = share.threads & ~mine
        self.groups.open = [share for share in self.groups.open if share.threads.any()]

    def check_sources(self, address: Array, predicate: Mask, width: int) -> None:
        """A store must not overwrite what a copy in flight has yet to read."""
        for share in self.groups.shares():
            copy = share.work
            for part in copy.parts:
                read = share.threads if part.predicate is None else share.threads & part.predicate
                if _meet(np.sort(_selected(copy.addresses, read)), copy.width, _selected(address, predicate), width):
                    self._fault(copy)

    def _fault(self, copy: Copy) -> None:
        line = self.machine.instructions[copy.instruction].location
        raise OverwriteInFlightError(
            f"a store overwrites the source of the asynchronous copy started at {line} before the wait",
            self.machine.location,
            other=line,
        )

    def _place(self, copy: Copy, threads: Booleans) -> Any:
        """Where threads of a copy write, after they have."""
        if not copy.arrived:
            self._transfer(copy, threads)
        return self.machine.shared.select(copy.allocation, copy.offsets, None if threads.all() else threads)

    def _transfer(self, copy: Copy, threads: Booleans) -> None:
        shared = self.machine.shared
        words = np.zeros(shared.shape, WORDS[copy.width])
        for part in copy.parts:
            found = part.window.words.take(part.index)
            words = np.where(True if part.predicate is None else part.predicate, found, words)
        placement = shared.select(copy.allocation, copy.offsets, None if threads.all() else threads)
        shared.write(placement, copy.width, np.broadcast_to(words, shared.shape))


@dataclass(slots=True)
class CopyArrival:
    """Threads that arrive at an mbarrier once their copies up to the `last` are done; `rows` counts them."""

    copies: Copies
    instruction: int
    word: Word
    rows: Array
    threads: Booleans
    last: int

    def land(self) -> bool:
        """The copies are done."""
        machine = self.copies.machine
        self.word.check(machine, self.instruction, self.rows > 0)
        self.copies.deliver(self.word, self.threads, self.last)
        self.word.arrive(machine, self.instruction, self.rows)
        return True


def _meet(starts: Array, width: int, stored: Array, stored_width: int) -> bool:
    """Whether accesses of a width, sorted, and stores of another one have bytes in common."""
    hit = np.searchsorted(starts, stored - width + 1) < np.searchsorted(starts, stored + stored_width)
    return bool(hit.any())


def _selected(values: Array, mask: Mask) -> Array:
    """The values of the threads told, flat."""
    if mask is None:
        return values.reshape(-1)
    shape = np.broadcast_shapes(values.shape, mask.shape)
    return np.asarray(np.broadcast_to(values, shape)[np.broadcast_to(mask, shape)])
