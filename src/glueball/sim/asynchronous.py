"""Asynchronous copies in flight: data arrives when a wait guarantees it, or earlier where the schedule is random."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glueball.errors import AsynchronousAccessError
from glueball.sim.masks import Array, Booleans, Mask
from glueball.sim.memory import WORDS, Part
from glueball.thread.ir import Attributes

if TYPE_CHECKING:
    from glueball.sim.machine import Machine


@dataclass(slots=True)
class Copy:
    """One copy instruction: `remaining` threads, broadcastable to `[cta, warp, lane]`, have not waited for it yet."""

    instruction: int
    width: int
    allocation: str
    addresses: Array
    parts: list[Part]
    offsets: Array
    remaining: Booleans
    arrived: bool = False


@dataclass(slots=True)
class Group:
    """The copies that `members` committed together."""

    members: Booleans
    copies: list[Copy] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A copy that is complete for some threads."""

    copy: Copy
    threads: Booleans


class Copies:
    """The copies of one context that are in flight; each thread's groups complete in the order of their commits."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.open: list[Copy] = []
        self.groups: list[Group] = []

    def issue(self, attributes: Attributes, source: Any, offset: Any, predicate: Mask) -> None:
        """Starts a copy of `bytes` bytes from global `source` to the allocation's byte `offset`."""
        machine, width = self.machine, attributes["bytes"]
        addresses = np.asarray(source)
        placement = machine.shared.place(attributes, offset, predicate, width, "written")
        parts = machine.memory.access(machine, addresses, predicate, 0, width, "read")
        machine.shared.begin(placement, width)
        copy = Copy(
            instruction=machine.at,
            width=width,
            allocation=placement.allocation,
            addresses=addresses,
            parts=parts,
            offsets=placement.offsets,
            remaining=np.ones((1, 1, 1), bool) if predicate is None else predicate,
        )
        self.open.append(copy)
        if machine.arrives_early():
            self._transfer(copy, copy.remaining)
            copy.arrived = True

    def commit(self) -> None:
        """The active threads' open copies become their next group."""
        active = self.machine.active_array()
        group = Group(active)
        still_open = []
        for copy in self.open:
            mine, others = copy.remaining & active, copy.remaining & ~active
            if mine.any():
                group.copies.append(_of(copy, mine))
            if others.any():
                still_open.append(_of(copy, others))
        self.open = still_open
        self.groups.append(group)

    def wait(self, pending: int) -> None:
        """Completes, for each active thread, all groups but its latest `pending` ones."""
        active = self.machine.active_array()
        later = np.zeros((1, 1, 1), np.int64)
        left = []
        for group in reversed(self.groups):
            done = active & group.members & (later >= pending)
            later = later + group.members
            for copy in group.copies:
                threads = copy.remaining & done
                if threads.any():
                    complete = self.machine.instructions[copy.instruction].record.complete
                    assert complete is not None
                    complete(self.machine, Arrival(copy, threads))
            group.members = group.members & ~done
            group.copies = [copy for copy in group.copies if copy.remaining.any()]
            if group.members.any():
                left.append(group)
        self.groups = left[::-1]

    def complete(self, arrival: Arrival) -> None:
        """The data of a copy is there and its bytes may be used by the threads told."""
        copy, machine = arrival.copy, self.machine
        if not copy.arrived:
            self._transfer(copy, arrival.threads)
        placement = machine.shared.select(copy.allocation, copy.offsets, _mask(arrival.threads))
        machine.shared.shadow.finish(machine.shared.touch(placement, copy.width, copy.instruction))
        copy.remaining = copy.remaining & ~arrival.threads

    def check_sources(self, address: Array, predicate: Mask, width: int) -> None:
        """A store must not overwrite what a copy in flight has yet to read."""
        for copy in [*self.open, *(copy for group in self.groups for copy in group.copies)]:
            starts = np.sort(_selected(copy.addresses, copy.remaining))
            stored = _selected(address, predicate)
            hit = np.searchsorted(starts, stored - copy.width + 1) < np.searchsorted(starts, stored + width)
            if hit.any():
                line = self.machine.instructions[copy.instruction].location
                raise AsynchronousAccessError(
                    f"a store overwrites the source of the asynchronous copy started at {line} before the wait",
                    self.machine.location,
                    other=line,
                )

    def _transfer(self, copy: Copy, threads: Booleans) -> None:
        shared = self.machine.shared
        words = np.zeros(shared.shape, WORDS[copy.width])
        for part in copy.parts:
            found = part.window.words.take(part.index)
            words = np.where(True if part.predicate is None else part.predicate, found, words)
        placement = shared.select(copy.allocation, copy.offsets, _mask(threads))
        shared.write(placement, copy.width, np.broadcast_to(words, shared.shape))


def _of(copy: Copy, remaining: Booleans) -> Copy:
    return replace(copy, remaining=remaining)


def _mask(threads: Booleans) -> Mask:
    return None if threads.all() else threads


def _selected(values: Array, mask: Mask) -> Array:
    """The values of the threads told, flat."""
    if mask is None:
        return values.reshape(-1)
    shape = np.broadcast_shapes(values.shape, mask.shape)
    return np.asarray(np.broadcast_to(values, shape)[np.broadcast_to(mask, shape)])
