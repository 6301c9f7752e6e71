"""A row of a report together with the way in which its traffic is counted, for one program or for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, Self, TypeVar

from glueball.explain.pointers import Visit
from glueball.explain.report import AccessCost, BulkCost, ConversionCost, Row, ScratchCost, ViewCost

HOW_OFTEN_NOTE = "how often this line runs is not known"
COUNTED = (AccessCost, BulkCost, ViewCost, ScratchCost, ConversionCost)


class Countable(Protocol):
    """What can be counted."""

    def __add__(self, other: Self) -> Self: ...


T = TypeVar("T", bound=Countable)


@dataclass(frozen=True, slots=True)
class Measure(Generic[T]):
    """`count` gives what a visit adds in so many programs, `None` where not known; a row without it has no traffic."""

    row: Row
    nothing: T | None = None
    count: Callable[[Visit, int], T | None] | None = None

    def total(self, visits: Sequence[Visit], programs: int) -> T | None:
        """What all visits add."""
        total = self.nothing
        for visit in visits:
            part = None if self.count is None else self.count(visit, programs)
            total = None if part is None or total is None else total + part
        return total

    def in_all(self, totals: Sequence[T | None]) -> Row:
        """The row with the traffic of the launch, given that of its parts."""
        total = self.nothing
        for part in totals:
            total = None if part is None or total is None else total + part
        return replace(self.row, grid=total) if isinstance(self.row, COUNTED) else self.row  # type: ignore[arg-type]


def measured(measure: Measure[T], visits: Sequence[Visit]) -> Measure[T]:
    """The measure with the traffic of the first program in its row, given what that program visits."""
    assert isinstance(measure.row, COUNTED)
    return replace(measure, row=replace(measure.row, program=measure.total(visits, 1)))  # type: ignore[arg-type]


def executions_of(visits: Sequence[Visit]) -> int | None:
    """How often the first program comes to an operation; `None` where not known."""
    total = 0
    for visit in visits:
        count = visit.executions(1)
        if count is None:
            return None
        total += int(count.flat[0])
    return total


def unknown_executions(visits: Sequence[Visit]) -> tuple[str, ...]:
    """A note where it is not known how often the first program comes to an operation."""
    return () if executions_of(visits) is not None else (HOW_OFTEN_NOTE,)
