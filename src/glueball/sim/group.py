"""A group of blocks that run together: what their partitions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from glueball.location import SourceLocation
from glueball.sim.machine import Machine
from glueball.sim.masks import Array
from glueball.sim.mbarriers import Words
from glueball.sim.partitions import Join

if TYPE_CHECKING:
    from glueball.sim.cluster import Cluster
    from glueball.sim.launch import Launch

ARENA_GRANULE = 16


class BlockGroup:
    """The blocks `first` to `first + ctas` of a launch.

    Their shared memory `[cta, byte]` and its shadow, mbarriers, and asynchronous work in flight. `threads` are those of
    a block, workers included; `partitions` are the workers that run. `rows` is how many rows there are of what the
    blocks have each: 1, standing for all of them while they do the same, or one for each. In a `cluster` a block is a
    group by itself, of its `rank`; `ended` tells that it is no more.
    """

    def __init__(self, launch: Launch, first: int, ctas: int, cluster: Cluster | None = None) -> None:
        self.launch = launch
        self.first = first
        self.ctas = ctas
        self.cluster = cluster
        self.rank = first % launch.function.num_ctas
        self.first_agent = self.rank * launch.partitions
        self.ended = False
        self.lanes = launch.function.target.lanes
        self.threads = launch.warps * self.lanes
        size = -(-launch.shared_bytes // ARENA_GRANULE) * ARENA_GRANULE
        self.arena: Array = np.zeros((ctas, size), np.uint8)
        self.rows = 1
        sanitizer = launch.sanitizer
        self.clocks = sanitizer.clocks(launch.partitions) if cluster is None else cluster.clocks
        self.shadow = sanitizer.shadow(launch, ctas, size, self.clocks)
        self.transfers = sanitizer.transfers(self)
        self.words = Words(self)
        self.machines: list[Machine] = []
        self.partitions: Join | None = None
        self.main = self.machine(0, 0, launch.function.num_warps)

    @property
    def threads_at_work(self) -> int:
        """The threads that a barrier of the whole block waits for."""
        return sum(machine.warps for machine in self.machines) * self.lanes

    @property
    def ended_partitions(self) -> list[str]:
        """Names of partitions that have ended, others having not."""
        join = self.partitions
        if join is None:
            return []
        default = [0] if join.reached else []
        return [self.partition_name(each) for each in (*default, *(worker.partition for worker in join.ended))]

    @property
    def ended_ctas(self) -> list[str]:
        """Names of CTAs of the cluster that have ended."""
        return [] if self.cluster is None else [group.name for group in self.cluster.groups if group.ended]

    @property
    def name(self) -> str:
        """The blocks, for people."""
        if self.cluster is not None:
            return f"CTA {self.rank} of {self.cluster.name}"
        return f"block {self.first}" if self.ctas == 1 else f"blocks {self.first} to {self.first + self.ctas - 1}"

    def partition_name(self, partition: int) -> str:
        """A partition, for people."""
        if self.launch.partitions == 1:
            return "the kernel"
        return f"worker {partition}" if partition else "the default partition"

    def agent_name(self, agent: int) -> str:
        """A partition of this group, or of another CTA of its cluster, for people; by its number among all of those."""
        rank, partition = divmod(agent, self.launch.partitions)
        if self.cluster is None:
            return self.partition_name(partition)
        cta = self.cluster.groups[rank].name
        return cta if self.launch.partitions == 1 else f"{self.partition_name(partition)} of {cta}"

    def machine(self, partition: int, first_warp: int, warps: int) -> Machine:
        """The threads of a partition."""
        machine = Machine(self, partition, first_warp, warps)
        self.machines.append(machine)
        return machine

    def expand(self) -> None:
        """Gives each block its own row of the shadow, the clocks and the mbarriers."""
        if self.rows < self.ctas:
            self.rows = self.ctas
            self.shadow.expand()
            self.clocks.expand(self.ctas)
            self.words.expand(self.ctas)

    def rows_of(self, ctas: Array) -> Array:
        """The rows that stand for blocks; one for all while they do the same."""
        return ctas if self.rows > 1 else np.zeros(1, np.int64)

    def missed_wait(self, instruction: int) -> tuple[str, SourceLocation] | None:
        """A wait for groups, and why it did not cover asynchronous work of an instruction that is still in flight."""
        found = (
            missed
            for machine in self.machines
            for groups in (machine.copies.groups, machine.bulk.groups, machine.products.groups)
            if (missed := groups.missed_wait(instruction))
        )
        return next(found, None)

    def finish(self) -> None:
        """Reports what must not be left over when the blocks end."""
        self.transfers.finish()
        for machine in self.machines:
            machine.products.finish()
        self.words.finish()
        if self.cluster is not None:
            self.cluster.leave(self)
