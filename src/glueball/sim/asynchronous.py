"""Asynchronous copies in flight: data arrives when a wait guarantees it, or earlier where the schedule is random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glueball.errors import OverwriteInFlightError
from glueball.sim.commit_groups import CommitGroups, Share
from glueball.sim.footprints import Footprint, accessed, selected
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
    touched: Footprint | None = None

    def reads(self, part: Part, threads: Booleans) -> Footprint:
        """What some threads read in a region."""
        read = threads if part.predicate is None else threads & part.predicate
        return accessed(selected(self.addresses, read), self.width).in_order()

    def source(self) -> Footprint:
        """What all its threads read, and perhaps more."""
        if self.touched is None:
            self.touched = accessed(self.addresses.reshape(-1), self.width).in_order()
        return self.touched


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
                rows = placement.rows if shared.group.rows > 1 else np.zeros(1, np.int64)
                shadow.finish_for(touch, word.agent, rows)
                self.machine.group.transfers.start(share.work.instruction, self.machine)
                share.threads = share.threads & ~mine
        self.groups.open = [share for share in self.groups.open if share.threads.any()]

    def check_sources(self, address: Array, predicate: Mask, offset: int, width: int) -> None:
        """A store must not overwrite what a copy in flight has yet to read."""
        shares = [*self.groups.shares()]
        if not shares:
            return
        written = accessed(selected(address, predicate) + offset, width)
        for share in shares:
            copy = share.work
            if any(
                copy.reads(part, share.threads).meets(written) for part in copy.parts if copy.source().meets(written)
            ):
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
