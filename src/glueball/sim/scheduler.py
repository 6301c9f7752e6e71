"""Which context runs next, when asynchronous work takes effect, and what a deadlock is."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from enum import Enum
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from glueball.errors import DeadlockError, SimulationError
from glueball.location import SourceLocation

SCHEDULES = ("in_order", "random", "late")
MOST_AT_ONCE = 32
"""Contexts under way at which asynchronous work takes effect before any more start: each of them takes memory."""


class Pause(Enum):
    """Why a context gives way although it could go on: `READY` at a wait that is satisfied, `POLLING` in a loop."""

    READY = "ready"
    POLLING = "polling"


@runtime_checkable
class Blocked(Protocol):
    """A condition that can say what it waits for."""

    location: SourceLocation

    @property
    def suspicion(self) -> int:
        """2 where nothing that others may still do lets it hold, 0 where they only have to end, else 1."""

    def __call__(self) -> bool:
        """Whether the context can go on."""

    def describe(self) -> str:
        """Who waits, where, for what and what is missing."""

    def deadlock(self, text: str) -> SimulationError:
        """The error if it never holds; `text` lists everything that waits."""


Wait: TypeAlias = Pause | Callable[[], bool]
"""What a context yields: a pause, or a condition that it waits for."""


class Event(Protocol):
    """Asynchronous work that takes effect when the schedule says, in one step or several."""

    def land(self) -> bool:
        """The next step takes effect; whether it was the last one."""


class Context:
    """A generator of the simulation and what it waits for. It starts when it first runs."""

    def __init__(self, name: str, start: Callable[[], Generator[Wait, None, None]]) -> None:
        self.name = name
        self._start = start
        self._generator: Generator[Wait, None, None] | None = None
        self.wait: Wait | None = Pause.READY

    @property
    def started(self) -> bool:
        """Whether it has run at all."""
        return self._generator is not None

    def ready(self) -> bool:
        """Whether it can go on."""
        return self.wait() if callable(self.wait) else True

    def advance(self) -> bool:
        """Runs to the next pause; whether there is more to run."""
        if self._generator is None:
            self._generator = self._start()
        self.wait = next(self._generator, None)
        return self.wait is not None


class Scheduler:
    """Runs contexts to their end, and lets asynchronous work take effect.

    `in_order` runs the first that can go on, as long as it can, and work takes effect at once; `late` the last, and
    work takes effect only when no context can go on; `random` any, changing at every pause, and work takes effect at
    some pause. One that polls lets all others go first.
    """

    def __init__(self, schedule: str, random: np.random.Generator) -> None:
        if schedule not in SCHEDULES:
            raise ValueError(f"unknown schedule {schedule!r}; the schedules are {', '.join(SCHEDULES)}")
        self.schedule = schedule
        self.random = random
        self._queue: list[Context] = []
        self._spawned: list[Context] = []
        self._under_way = 0
        self._events: list[Event] = []

    def spawn(self, context: Context) -> None:
        """Adds a context next to the running one."""
        self._spawned.append(context)

    def later(self, event: Event) -> None:
        """Work that takes effect at once or later, as the schedule says."""
        while self.schedule == "in_order" or (self.schedule == "random" and self.random.integers(2)):
            if event.land():
                return
        self._events.append(event)

    def forget(self, event: Event) -> None:
        """Work that has taken effect by other means."""
        if event in self._events:
            self._events.remove(event)

    def run(self, contexts: Iterable[Context], progress: Callable[[float], None] = lambda _: None) -> None:
        """Runs contexts to their end; `DeadlockError` if all that are left wait for a condition that does not hold.

        `progress` is told the share of contexts that have finished whenever one has.
        """
        self._queue = list(contexts)
        total = len(self._queue)
        while self._queue:
            if self._events and self.schedule == "random" and self.random.integers(2):
                self._land(int(self.random.integers(len(self._events))))
            place = self._next()
            if self._events and (place is None or self._only_polls(place)):
                self._land(self._latest())
                if place is None:
                    continue
            if place is None:
                raise _deadlock(self._queue)
            self._advance(place)
            total = max(total, len(self._queue))
            progress(1 - len(self._queue) / total)
        while self._events:
            self._land(self._latest())

    def _next(self) -> int | None:
        """Where in the queue a context stands that can go on, one that does not poll if there is any."""
        places: Sequence[int] = range(len(self._queue))
        if self.schedule == "late":
            places = places[::-1]
        elif self.schedule == "random":
            first = int(self.random.integers(len(places)))
            places = [*places[first:], *places[:first]]
        if self._under_way >= MOST_AT_ONCE:
            under_way = (place for place in places if self._queue[place].started and self._queue[place].ready())
            place = next(under_way, None)
            if place is not None or self._events:
                return place
        return next((place for place in places if self._queue[place].ready()), None)

    def _only_polls(self, place: int) -> bool:
        """Whether the context that is to go on polls, all others having had their turn."""
        return self.schedule == "late" and self._queue[place].wait is Pause.POLLING

    def _advance(self, place: int) -> None:
        context = self._queue[place]
        self._under_way += not context.started
        goes_on = context.advance()
        late = self.schedule == "late"
        if not goes_on:
            self._under_way -= 1
            del self._queue[place]
        elif context.wait is Pause.POLLING:
            del self._queue[place]
            self._queue.insert(0 if late else len(self._queue), context)
        if self._spawned:
            after = min(place + 1, len(self._queue))
            self._queue[after:after] = self._spawned
            self._spawned = []

    def _latest(self) -> int:
        """The event that is as far from program order as can be."""
        return int(self.random.integers(len(self._events))) if self.schedule == "random" else len(self._events) - 1

    def _land(self, place: int) -> None:
        event = self._events[place]
        if event.land():
            self.forget(event)


def run_contexts(
    contexts: Iterable[Context],
    schedule: str,
    random: np.random.Generator,
    progress: Callable[[float], None] = lambda _: None,
) -> None:
    """Runs contexts to their end by a schedule."""
    Scheduler(schedule, random).run(contexts, progress)


def _deadlock(contexts: Sequence[Context]) -> SimulationError:
    """The error where nothing can go on, at the line of one that waits for something that nobody will do."""
    waits = [context.wait for context in contexts if isinstance(context.wait, Blocked)]
    waits.sort(key=lambda wait: wait.suspicion, reverse=True)
    text = "; ".join(wait.describe() for wait in waits)
    if not waits:
        names = ", ".join(context.name for context in contexts)
        return DeadlockError(f"every context that has not finished waits: {names}")
    return waits[0].deadlock(text)
