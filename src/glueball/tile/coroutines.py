"""Partitions of the reference executor: they take turns, and give way only where they wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

Result = TypeVar("Result")


class TakingTurns:
    """Functions of which one runs at a time; another one goes on where that one waits or ends.

    Each has a thread, so that it may wait from anywhere inside; a baton makes sure that no two ever run.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._conditions: list[Callable[[], bool] | None] = []
        self._turn = 0
        self._stuck = False
        self._error: BaseException | None = None

    def run(self, functions: Sequence[Callable[[], Result]]) -> list[Result]:
        """Runs all to their ends; what they give. What one raises ends all of them, and is raised here."""
        results: list[Result | None] = [None] * len(functions)
        self._conditions = [lambda: True for _ in functions]

        def body(number: int) -> None:
            try:
                self._await_turn(number)
                results[number] = functions[number]()
            except BaseException as error:
                self._error = self._error or error
            self._conditions[number] = None
            self._pass_on(number)

        threads = [threading.Thread(target=body, args=(number,), daemon=True) for number in range(len(functions))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._error is not None:
            raise self._error
        return results  # type: ignore[return-value] # every function has ended

    def wait_until(self, condition: Callable[[], bool]) -> bool:
        """Called by the one whose turn it is: False where all wait for what nobody will do."""
        if condition():
            return True
        number = self._turn
        self._conditions[number] = condition
        self._pass_on(number)
        self._await_turn(number)
        self._conditions[number] = lambda: True
        return condition()

    def _pass_on(self, number: int) -> None:
        """The next one that can go on gets its turn; where all wait in vain, each in turn to say so."""
        with self._changed:
            count = len(self._conditions)
            others = [(number + step) % count for step in range(1, count + 1)]
            waiting = [other for other in others if self._conditions[other] is not None]
            ready = [other for other in waiting if self._ready(other)]
            self._turn = next(iter(ready or waiting), -1)
            self._changed.notify_all()

    def _ready(self, number: int) -> bool:
        condition = self._conditions[number]
        return condition is not None and condition()

    def _await_turn(self, number: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._turn == number)
        if self._error is not None:
            raise Stopped


class Stopped(BaseException):
    """Another partition has raised an error; nothing else is of interest."""
