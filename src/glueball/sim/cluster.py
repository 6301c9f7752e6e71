"""Clusters: CTAs, each a group of one block, that wait for one another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from glueball.errors import DeadlockError, RemoteMemoryError, SimulationError
from glueball.location import SourceLocation
from glueball.sim.group import BlockGroup
from glueball.thread.ir import Completion

if TYPE_CHECKING:
    from glueball.sim.launch import Launch
    from glueball.sim.machine import Machine


class Cluster:
    """The blocks from `first` on that run a program together. Their clocks are one: all know of one another.

    `started` says that all are known to have started, which a first cluster barrier tells them.
    """

    def __init__(self, launch: Launch, first: int) -> None:
        count = launch.function.num_ctas
        self.launch = launch
        self.first = first
        self.clocks = launch.sanitizer.clocks(launch.partitions * count)
        self.groups = [BlockGroup(launch, first + rank, 1, self) for rank in range(count)]
        self.started = False
        self._meetings: dict[int, Meeting] = {}

    @property
    def name(self) -> str:
        """The cluster for people."""
        return f"cluster {self.first // len(self.groups)}"

    def group_of(self, machine: Machine, rank: int) -> BlockGroup:
        """The CTA of a rank, whose shared memory a partition of another one reaches into."""
        if not 0 <= rank < len(self.groups):
            raise RemoteMemoryError(
                f"{machine.name} reaches into the shared memory of CTA {rank}, and its cluster has {len(self.groups)}",
                machine.location,
                cta=rank,
            )
        group = self.groups[rank]
        if group is not machine.group and (group.ended or not self.started):
            state = "has ended" if group.ended else "may not have started yet"
            raise RemoteMemoryError(
                f"{machine.name} reaches into the shared memory of {group.name}, which {state}: a cluster barrier must "
                f"come {'after' if group.ended else 'before'} it",
                machine.location,
                cta=rank,
            )
        return group

    def meet(self, machine: Machine, relaxed: bool) -> Attendance:
        """A partition arrives at a cluster barrier."""
        meeting = self._meetings.setdefault(machine.partition, Meeting(len(self.groups)))
        meeting.arrived.append(machine)
        meeting.relaxed |= relaxed
        if len(meeting.arrived) == len(self.groups):
            del self._meetings[machine.partition]
            self._finish(meeting)
        return Attendance(meeting, machine, machine.location)

    def _finish(self, meeting: Meeting) -> None:
        """All have come: what they did before is ordered before what they do, unless the barrier is relaxed."""
        meeting.over = self.started = True
        if not meeting.relaxed:
            self.clocks.meet([machine.agent for machine in meeting.arrived])
        for group in self.groups:
            group.words.announce()

    def leave(self, group: BlockGroup) -> None:
        """A CTA ends, which no other one may do anything in the memory of any more.

        What other CTAs have sent there has arrived: that nothing is in flight has been checked before.
        """
        group.ended = True
        for agent, number in group.shadow.unknown_reads(group.first_agent):
            instruction = self.launch.instructions[number]
            if instruction.record.completion is Completion.MBARRIER:
                continue
            rank = agent // self.launch.partitions
            raise RemoteMemoryError(
                f"{group.name} may end before {self.groups[rank].name} has read its shared memory at "
                f"{instruction.location}: a cluster barrier must come between",
                instruction.location,
                cta=rank,
            )


@dataclass(slots=True)
class Meeting:
    """A cluster barrier that partitions of so many CTAs come to."""

    wanted: int
    arrived: list[Machine] = field(default_factory=list)
    relaxed: bool = False
    over: bool = False

    @property
    def missing(self) -> str:
        """The CTAs that have not come."""
        present = {machine.group.rank for machine in self.arrived}
        return ", ".join(str(rank) for rank in range(self.wanted) if rank not in present)


@dataclass(slots=True, eq=False)
class Attendance:
    """One partition that waits at a cluster barrier."""

    meeting: Meeting
    machine: Machine
    location: SourceLocation

    def __call__(self) -> bool:
        """Whether all have come."""
        return self.meeting.over

    def describe(self) -> str:
        """Who waits, where and for whom."""
        text = f"{self.machine.name} waits at {self.location} at a cluster barrier"
        return f"{text} for CTA {self.meeting.missing}"

    def deadlock(self, text: str) -> SimulationError:
        """The error if they never come."""
        return DeadlockError(f"Deadlock detected while waiting at a cluster barrier: {text}", self.location)
