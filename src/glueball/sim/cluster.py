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
        meeting = self._meetings.setdefault(machine.partition, Meeting(self.groups))
        meeting.arrived.append(machine)
        meeting.relaxed |= relaxed
        if len(meeting.arrived) == len(self.groups):
            del self._meetings[machine.partition]
            self._finish(meeting)
        return Attendance(meeting, machine, machine.location)

    def _finish(self, meeting: Meeting) -> None:
        """All have come: what they did before is ordered before what they do, unless the barrier is relaxed.

        In a kernel with workers one thread of each partition arrives for it, after a barrier of its own.
        """
        meeting.over = self.started = True
        if not meeting.relaxed:
            self.clocks.meet([machine.agent for machine in meeting.arrived], led=self.launch.partitions > 1)
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
            raise RemoteMemoryError(
                f"{group.name} may end before {group.agent_name(agent)} has read its shared memory at "
                f"{instruction.location}: a cluster barrier must come between",
                instruction.location,
                cta=agent // self.launch.partitions,
            )


@dataclass(slots=True)
class Meeting:
    """A cluster barrier that a partition of each of some CTAs comes to."""

    groups: list[BlockGroup]
    arrived: list[Machine] = field(default_factory=list)
    relaxed: bool = False
    over: bool = False

    @property
    def missing(self) -> list[BlockGroup]:
        """The CTAs that have not come."""
        present = [machine.group for machine in self.arrived]
        return [group for group in self.groups if group not in present]


@dataclass(slots=True, eq=False)
class Attendance:
    """One partition that waits at a cluster barrier."""

    meeting: Meeting
    machine: Machine
    location: SourceLocation

    @property
    def suspicion(self) -> int:
        """2 where one that has not come has ended."""
        return 2 if any(group.ended for group in self.meeting.missing) else 1

    def __call__(self) -> bool:
        """Whether all have come."""
        return self.meeting.over

    def describe(self) -> str:
        """Who waits, where and for whom."""
        missing = self.meeting.missing
        ctas = ", ".join(f"CTA {group.rank}{', which has ended' if group.ended else ''}" for group in missing)
        return f"{self.machine.name} waits at {self.location} at a cluster barrier for {ctas}"

    def deadlock(self, text: str) -> SimulationError:
        """The error if they never come."""
        return DeadlockError(f"Deadlock detected while waiting at a cluster barrier: {text}", self.location)
