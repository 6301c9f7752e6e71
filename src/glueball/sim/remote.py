"""What threads do in the shared memory of other CTAs of their cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glueball.errors import RemoteMemoryError
from glueball.location import SourceLocation
from glueball.sim.footprints import Footprint, accessed
from glueball.sim.masks import NOBODY, Array, Booleans, Mask, narrow
from glueball.sim.memory import packed
from glueball.sim.shadow import Touch
from glueball.sim.shared import Placement, SharedMemory
from glueball.thread.ir import Attributes
from glueball.thread.memory import access_bytes

if TYPE_CHECKING:
    from glueball.sim.group import BlockGroup
    from glueball.sim.machine import Machine
    from glueball.sim.mbarriers import Word


def elsewhere(machine: Machine, rank: Any, mask: Any) -> Iterator[tuple[BlockGroup, Any]]:
    """The CTAs that the active threads where a mask holds reach by a rank, and which of the threads reach each."""
    cluster, active = machine.group.cluster, _active(machine, mask)
    if active is None:
        return
    if cluster is None:
        raise RemoteMemoryError(f"{machine.name} is no part of a cluster", machine.location, cta=None)
    ranks = np.asarray(rank)
    for number in np.unique(np.broadcast_to(ranks, machine.shape)[active]).tolist():
        chosen = np.asarray(ranks == number)
        yield cluster.group_of(machine, number), chosen if mask is True or mask is None else chosen & np.asarray(mask)


def _active(machine: Machine, mask: Any) -> Booleans | None:
    """Which of the threads, `[cta, warp, lane]`, are active where a mask holds; `None` where nobody is."""
    predicate = machine.predicate(None if mask is True or mask is None else mask)
    return None if predicate is NOBODY else np.broadcast_to(True if predicate is None else predicate, machine.shape)


def _count_requests(machine: Machine, mask: Any) -> None:
    """Counts a request for every warp with an active lane, to however many CTAs its lanes go."""
    active = _active(machine, mask)
    if active is not None:
        counts = machine.launch.report.instructions[machine.at].counts
        counts.requests += int(np.count_nonzero(active.any(axis=2)))


def remote_load(
    machine: Machine, attributes: Attributes, offset: Any, rank: Any, mask: Any
) -> tuple[list[Any], list[Mask]]:
    """Values and poison, one array per element; zeros where the mask does not hold."""
    values: list[Any] = [np.zeros((), np.int8)] * attributes["count"]
    poison: list[Mask] = [None] * attributes["count"]
    _count_requests(machine, mask)
    for number, (group, chosen) in enumerate(elsewhere(machine, rank, mask)):
        found, undefined = SharedMemory(machine, group, requests=False).load(attributes, offset, _mask(machine, chosen))
        for index, (value, bad) in enumerate(zip(found, undefined, strict=True)):
            values[index] = np.where(chosen, value, values[index]) if number else value
            if bad is not None:
                earlier = poison[index]
                poison[index] = bad & chosen if earlier is None else earlier | bad & chosen
    return values, poison


def _mask(machine: Machine, chosen: Any) -> Mask:
    predicate = narrow(machine.active, chosen)
    assert predicate is not NOBODY
    return predicate


@dataclass(slots=True, eq=False)
class Parcel:
    """What threads have sent to the memory of a CTA, where `word` counts the bytes."""

    machine: Machine
    instruction: int
    shared: SharedMemory
    placement: Placement
    touch: Touch
    width: int
    words: Array
    word: Word

    @property
    def location(self) -> SourceLocation:
        """Where it was sent."""
        return self.machine.instructions[self.instruction].location

    def footprint(self) -> Footprint:
        """It touches no global memory."""
        return accessed(np.zeros(0, np.int64), self.width)

    def land(self) -> bool:
        """The bytes are there, and the mbarrier is told."""
        group, row = self.word.group, np.ones(1, bool)
        self.word.check(self.machine, self.instruction, row)
        self.shared.write(self.placement, self.width, self.words)
        group.shadow.land(self.touch.entries, self.word.agent, np.zeros(1, np.int64), self.instruction)
        group.transfers.landed(self)
        self.word.receive(self.machine, self.instruction, row, self.width * len(self.placement.lanes))
        return True


def store_async(machine: Machine, attributes: Attributes, offset: Any, rank: Any, barrier: Any, mask: Any,
                values: Sequence[Any]) -> None:  # fmt: skip
    """Sends what threads hold to the CTAs of a rank."""
    width = access_bytes(attributes)
    words = np.broadcast_to(packed(values, attributes["type"], (1, 1, 1)), machine.shape)
    place = {"allocation": attributes["barrier_allocation"], "offset": attributes["barrier_offset"]}
    _count_requests(machine, mask)
    for group, chosen in elsewhere(machine, rank, mask):
        shared, barriers = SharedMemory(machine, group), machine.barriers_of(group)
        for reach in barriers.uses(place, barrier, chosen, "used"):
            barriers.publish(reach, chosen)
            placement = shared.place(attributes, offset, _mask(machine, chosen), width, "written").part(reach.accesses)
            touch = shared.touch(placement, width, machine.at)
            agents = np.full(len(placement.lanes), reach.word.agent)
            group.shadow.begin_load(touch, agents, shared.faults(placement, "written"), fenced=False)
            machine.count_shared(placement.offsets, placement.predicate, width, False)
            parcel = Parcel(machine, machine.at, shared, placement, touch, width, words, reach.word)
            group.transfers.load([parcel])
            machine.launch.scheduler.later(parcel)


def receiving(machine: Machine, receivers: Any, predicate: Mask) -> list[BlockGroup]:
    """The CTAs that a bulk copy goes to, a bit for each in a number that all its lanes agree on."""
    numbers = np.broadcast_to(np.asarray(receivers), machine.shape)
    chosen = np.unique(numbers if predicate is None else numbers[np.broadcast_to(predicate, machine.shape)])
    cluster = machine.group.cluster
    if cluster is None or len(chosen) != 1 or chosen[0] <= 0:
        raise RemoteMemoryError(f"{machine.name} copies to no CTA, or lanes to others", machine.location, cta=None)
    bits = int(chosen[0])
    return [cluster.group_of(machine, rank) for rank in range(bits.bit_length()) if bits >> rank & 1]
