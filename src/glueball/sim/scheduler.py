"""Which context runs next, and what a deadlock is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from enum import Enum
from typing import TypeAlias

import numpy as np

from glueball.errors import DeadlockError

SCHEDULES = ("in_order", "random", "late")


class Pause(Enum):
    """Why a context gives way although it could go on: `READY` at a wait that is satisfied, `POLLING` in a loop."""

    READY = "ready"
    POLLING = "polling"


Wait: TypeAlias = Pause | Callable[[], bool]
"""What a context yields: a pause, or a condition that it waits for."""


class Context:
    """A generator of the simulation and what it waits for. It starts when it first runs."""

    def __init__(self, name: str, start: Callable[[], Generator[Wait, None, None]]) -> None:
        self.name = name
        self._start = start
        self._generator: Generator[Wait, None, None] | None = None
        self.wait: Wait | None = Pause.READY

    def ready(self) -> bool:
        """Whether it can go on."""
        return self.wait() if callable(self.wait) else True

    def advance(self) -> bool:
        """Runs to the next pause; whether there is more to run."""
        if self._generator is None:
            self._generator = self._start()
        self.wait = next(self._generator, None)
        return self.wait is not None


def run_contexts(
    contexts: Iterable[Context],
    schedule: str,
    random: np.random.Generator,
    progress: Callable[[float], None] = lambda _: None,
) -> None:
    """Runs contexts to their end; `DeadlockError` if all that are left wait for a condition that does not hold.

    `progress` is told the share of contexts that have finished whenever one has.

    `in_order` runs the first that can go on, as long as it can; `late` the last; `random` any, changing at every
    pause. One that polls lets all others go first.
    """
    queue = deque(contexts)
    total = len(queue)
    while queue:
        if schedule == "random":
            queue.rotate(int(random.integers(len(queue))))
        late = schedule == "late"
        context = queue.pop() if late else queue.popleft()
        if not context.ready():
            if not any(other.ready() for other in queue):
                names = ", ".join(each.name for each in (context, *queue))
                raise DeadlockError(f"every context that has not finished waits: {names}")
            (queue.appendleft if late else queue.append)(context)
        elif context.advance():
            stays = context.wait is not Pause.POLLING
            (queue.append if late == stays else queue.appendleft)(context)
        else:
            progress(1 - len(queue) / total)
