"""Vector clocks: how much of what others did each partition of a block is ordered after.

Agents do things at times: a partition, whose time goes on at barriers, and each mbarrier, whose time is the number of
the phase in which an asynchronous operation completes. Observers know, for each agent, the latest time all of which is
over for them: partitions, and the two clocks of an mbarrier (what arrivals of the current phase bring, what a wait for
the last one gives). While all blocks of a group do the same, one row stands for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from glueball.sim.masks import Array, Booleans, Mask

TIME_SHIFT = 32
NEVER = (1 << 31) - 1
"""The time of what has not happened yet."""


class Clocks:
    """`time` of every agent now, `[row, agent]`, and what is `known`, `[observer, row, agent]`; -1 for nothing.

    The first agents and observers are the partitions, in a cluster those of one CTA after the other. A partition knows
    a time of its own once a barrier has ordered what its threads did then. `owners` are the partitions whose work an
    agent does, -1 where it may be that of several.
    """

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.time: Array = np.zeros((1, partitions), np.int64)
        self.known: Array = np.full((partitions, 1, partitions), -1, np.int64)
        self.owners = list(range(partitions))
        self._some: dict[int, tuple[Booleans, int]] = {}

    @property
    def rows(self) -> int:
        """How many rows there are: 1 or one for each block."""
        return int(self.time.shape[0])

    def expand(self, ctas: int) -> None:
        """Gives each block its own row."""
        self.time = np.repeat(self.time, ctas, axis=0)
        self.known = np.repeat(self.known, ctas, axis=1)
        self._some = {
            partition: (np.repeat(threads, ctas, axis=0), observer)
            for partition, (threads, observer) in self._some.items()
        }

    def add_agent(self, owner: int = -1) -> int:
        """A new agent, of which nobody knows anything, that does the work of a partition or of several."""
        self.owners.append(owner)
        self.time = np.pad(self.time, ((0, 0), (0, 1)))
        self.known = np.pad(self.known, ((0, 0), (0, 0), (0, 1)), constant_values=-1)
        return int(self.time.shape[1]) - 1

    def add_observer(self) -> int:
        """A new observer, which knows nothing."""
        self.known = np.pad(self.known, ((0, 1), (0, 0), (0, 0)), constant_values=-1)
        return int(self.known.shape[0]) - 1

    def floors(self, partition: int, rows: Array, threads: Array) -> Array:
        """Shifted times from which on threads of a partition are not ordered after an agent: `[1 or access, agent]`.

        `rows` and `threads` (in the block) are `[access]`.
        """
        known = self.known[partition]
        some = self._some.get(partition)
        if some is not None:
            members, observer = some
            row = rows if self.rows > 1 else np.zeros_like(rows)
            known = np.where(members[row, threads][:, None], self.known[observer][row], known[row])
        elif self.rows > 1:
            known = known[rows]
        return np.asarray((known + 1) << TIME_SHIFT)

    def all_floors(self, partition: int) -> Array:
        """The same for all threads of a partition together: `[row, agent]`."""
        return np.asarray((self.known[partition] + 1) << TIME_SHIFT)

    def widest_floors(self) -> Array:
        """The same for what any thread of any partition knows."""
        observers = [*range(self.partitions), *(observer for _, observer in self._some.values())]
        return np.asarray((self.known[observers].max(axis=0) + 1) << TIME_SHIFT)

    def stamps(self, partition: int, rows: Array) -> Array:
        """Shifted times of a partition: `[1 or access, 1]`."""
        time = self.time[:, partition] if self.rows == 1 else self.time[rows, partition]
        return np.asarray(time[:, None] << TIME_SHIFT)

    def join(self, observer: int, source: int, rows: Mask = None) -> None:
        """An observer learns what another one knows, in the rows of a mask."""
        where = slice(None) if rows is None else rows
        self.known[observer, where] = np.maximum(self.known[observer, where], self.known[source, where])

    def learn(self, partition: int, source: int, arriving: Callable[[], Booleans]) -> None:
        """Threads of a partition learn what an observer knows, the others at the next barrier.

        `arriving` gives the threads, `[1 or row, thread]`.
        """
        threads = arriving()
        threads = np.broadcast_to(threads, (self.rows, threads.shape[1]))
        if partition in self._some:
            members, observer = self._some[partition]
            threads = members | threads
        else:
            observer = self.add_observer()
            self.join(observer, partition)
        self._some[partition] = threads, observer
        self.join(observer, source, np.asarray(threads.any(axis=1)))

    def barrier(self, partition: int, rows: Mask = None) -> None:
        """All threads of a partition arrive, in the rows of a mask: what they did before is ordered from now on."""
        where = slice(None) if rows is None else rows
        if partition in self._some:
            members, observer = self._some.pop(partition)
            self.join(partition, observer, rows)
            if rows is not None and not rows.all():
                self._some[partition] = members & ~rows[:, None], observer
        self.known[partition, where, partition] = self.time[where, partition]
        self.time[where, partition] += 1

    def publish(
        self, observer: int, partition: int, everyone: bool, threads: Callable[[], Booleans], rows: Mask
    ) -> None:
        """An observer learns what threads of a partition know when they arrive somewhere, in the rows of a mask.

        Where `everyone` in the partition arrives, that includes all that they did before. `threads` gives those that
        arrive, `[1 or row, thread]`, of which one stands for all.
        """
        where = slice(None) if rows is None else rows
        self.join(observer, partition, rows)
        if partition in self._some:
            members, some = self._some[partition]
            arriving = threads()
            row = 0 if rows is None else int(rows.argmax())
            if members[row, int(arriving[row if arriving.shape[0] > 1 else 0].argmax())]:
                self.join(observer, some, rows)
        if everyone:
            self.known[observer, where, partition] = self.time[where, partition]
            self.time[where, partition] += 1

    def end_phase(self, agent: int, gathering: int, passed: int, rows: Booleans) -> None:
        """The phase of an mbarrier ends, in the rows of a mask: waits for it give what its arrivals brought."""
        self.join(passed, gathering, rows)
        self.known[passed, rows, agent] = self.time[rows, agent]
        self.time[rows, agent] += 1

    def finish(self, partition: int, agent: int, rows: Array, time: int) -> None:
        """What an agent has done until a time is over, and a partition knows."""
        self.time[rows, agent] = time
        self.known[partition, rows, agent] = time
        if partition in self._some:
            self.known[self._some[partition][1], rows, agent] = time

    def times(self, agent: int, rows: Array) -> Array:
        """An agent's time in some rows."""
        return np.asarray(self.time[rows, agent])

    def meet(self, partitions: Sequence[int], *, led: bool = False) -> None:
        """Partitions wait for one another: each learns what any of them knows.

        Where they are `led`, one thread arrives for each: what the others did since the last barrier, it does not tell.
        """
        told = self.known[partitions]
        for partition in partitions:
            self.barrier(partition)
        known = self.known[partitions]
        self.known[partitions] = np.maximum(known, (told if led else known).max(axis=0))

    def announce(self, agent: int) -> None:
        """All partitions learn of what an agent has done at time 0."""
        self.known[: self.partitions, :, agent] = 0

    def start(self, parent: int, worker: int, rows: Mask = None) -> None:
        """A worker starts after all that its parent did; the parent is at a barrier of its own."""
        where = slice(None) if rows is None else rows
        self.join(worker, parent, rows)
        self.known[worker, where, worker] = self.time[where, worker]
        self.time[where, worker] += 1

    def end(self, parent: int, worker: int, rows: Mask = None) -> None:
        """A worker has ended, and its parent goes on after all that it did."""
        self.barrier(worker, rows)
        self.join(parent, worker, rows)
