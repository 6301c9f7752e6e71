"""Workers that run next to a kernel's own warps, from the instruction that starts them until all have ended."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glueball.errors import DeadlockError, SimulationError
from glueball.sim.masks import Mask
from glueball.sim.scheduler import Context, Wait
from glueball.thread.ir import Attributes

if TYPE_CHECKING:
    from glueball.sim.machine import Machine

Body = Callable[..., Generator[Wait, None, None]]


class Join:
    """The end of a `partitions` instruction: the default partition, in the blocks of a mask, waits for all workers."""

    suspicion = 0

    def __init__(self, parent: Machine, ctas: Mask) -> None:
        self.parent = parent
        self.ctas = ctas
        self.location = parent.location
        self.running: list[Machine] = []
        self.ended: list[Machine] = []
        self.reached = False

    def reach(self) -> Join:
        """The default partition is there."""
        self.reached = True
        return self

    def __call__(self) -> bool:
        """Whether all workers have ended."""
        return not self.running

    def describe(self) -> str:
        """Who waits, where and for whom."""
        names = ", ".join(self.parent.group.partition_name(worker.partition) for worker in self.running)
        return f"{self.parent.name} waits at {self.location} for the end of {names}"

    def deadlock(self, text: str) -> SimulationError:
        """The error if they never end."""
        return DeadlockError(f"Deadlock detected after a warp-specialized thread exited: {text}", self.location)

    def finish(self) -> None:
        """What the workers did is ordered before what follows."""
        group = self.parent.group
        self.parent.whole_blocks("the end of a partition")
        for worker in self.ended:
            worker.products.finish()
            group.clocks.end(group.first_agent, worker.agent, self.ctas)
            group.machines.remove(worker)
        group.clocks.barrier(group.first_agent, self.ctas)
        group.partitions = None


def start_workers(parent: Machine, attributes: Attributes, bodies: Sequence[tuple[Body, Sequence[Any]]]) -> Join:
    """Starts a context for each worker; they do what they do after all that the block did before."""
    group = parent.group
    if group.partitions is not None:
        raise SimulationError("partitions start inside partitions", parent.location)
    ctas = parent.whole_blocks("the start of partitions")
    if ctas is not None:
        group.expand()
    join = group.partitions = Join(parent, ctas)
    group.clocks.barrier(group.first_agent, ctas)
    for number, (body, captures) in enumerate(bodies, 1):
        worker = group.machine(number, attributes["first_warp"][number], attributes["warps"][number])
        worker.at = parent.at
        worker.active = None if ctas is None else ctas.reshape(-1, 1, 1)
        group.clocks.start(group.first_agent, worker.agent, ctas)
        join.running.append(worker)
        copied = [_copied(parent, value) for value in captures]
        context = Context(worker.name, _starting(join, worker, body, copied))
        parent.launch.scheduler.spawn(context)
    return join


def _starting(
    join: Join, worker: Machine, body: Body, captures: Sequence[Any]
) -> Callable[[], Generator[Wait, None, None]]:
    def start() -> Generator[Wait, None, None]:
        with worker.naming():
            yield from body(worker, *captures)
        join.running.remove(worker)
        join.ended.append(worker)

    return start


def _copied(parent: Machine, value: Any) -> Any:
    """A captured value, which all threads of a block must agree on, for other threads."""
    array = np.asarray(value)
    if array.ndim < 3 or array.shape[1:] == (1, 1):
        return value
    first = array[:, :1, :1]
    active = np.broadcast_to(parent.active_array(), np.broadcast_shapes(parent.shape, array.shape))
    if (active & (array != first)).any():
        raise SimulationError("a worker is given a value that differs between the threads of a block", parent.location)
    return first
