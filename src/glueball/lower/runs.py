"""Runs of elements that go up by ones, as registers of one thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glueball.lower.context import Context
from glueball.lower.shape import register_images
from glueball.lower.terms import Registers, materialize, normalized, register_types
from glueball.thread.ir import Value
from glueball.tile.ir import Value as TileValue
from glueball.tile.types import distributed_type, element_of, pointer_type

Place = tuple[int, int]
"""A register as another one, by its number, and what is added to it."""


@dataclass(frozen=True, slots=True)
class Runs:
    """For each register of a tile, the one of its run that it is expressed by and how far it lies behind it.

    Those that others are expressed by lie at multiples of `alignment` in their runs.
    """

    places: tuple[Place, ...]
    alignment: int


def run_step(kind: distributed_type) -> int:
    """How far consecutive values of a run are apart: one, for addresses one element."""
    element = element_of(kind)
    return element.element_ty.itemsize if isinstance(element, pointer_type) else 1


def runs_along(kind: distributed_type, axis: int, length: int) -> Runs:
    """Runs of `length` elements, a power of two, along a dimension.

    A register's part of a coordinate tells its place in a run only where the thread's part does not reach into it.
    """
    below = 1
    for extent in kind.shape[axis + 1 :]:
        below *= extent
    linear, reached = kind.linear, 0
    for name in ("lane", "warp", "block"):
        for image in linear.flat_bases(name):
            reached |= (image // below) % kind.shape[axis]
    own = (length - 1) & ~reached
    images = register_images(linear)
    holders: dict[int, int] = {}
    for register, image in enumerate(images):
        holders.setdefault(image, register)
    places = []
    for register, image in enumerate(images):
        place = (image // below) & own
        first = holders.get(image - place * below)
        places.append((register, 0) if first is None else (first, place))
    leaders = {leader for leader, _ in places}
    alignment = length
    for leader in leaders:
        rest = (images[leader] // below) & (length - 1)
        alignment = min(alignment, rest & -rest or length)
    if within := reached & (length - 1):
        alignment = min(alignment, within & -within)
    return Runs(tuple(places), alignment)


@dataclass(frozen=True, slots=True)
class Leaders:
    """Those registers of a tile, by number, that all others follow from by a constant; multiples of `divisor`."""

    registers: tuple[int, ...]
    places: tuple[Place, ...]
    divisor: int
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, context: Context, value: TileValue) -> Leaders:
        """Those of a tile or scalar, by what is known of it wherever it stands."""
        kinds = register_types(value.type)
        places, divisor = [(register, 0) for register in range(len(kinds))], 1
        runs = context.runs.get(value)
        if runs is not None:
            divisor = runs.divisibility
            for axis, length in enumerate(runs.contiguity):
                assert isinstance(value.type, distributed_type)
                if length > 1:
                    step = run_step(value.type)
                    along = runs_along(value.type, axis, length)
                    places = _followed(places, along.places, step)
                    divisor = min(divisor, along.alignment * step)
        leaders = sorted({leader for leader, _ in places})
        numbers = {leader: number for number, leader in enumerate(leaders)}
        return cls(
            tuple(leaders),
            tuple((numbers[leader], offset) for leader, offset in places),
            divisor,
            tuple(kinds[leader] for leader in leaders),
        )

    def chosen(self, context: Context, terms: Registers) -> list[Value]:
        """The leaders of a tile's registers."""
        return [materialize(context.builder, terms[leader]) for leader in self.registers]

    def all(self, context: Context, leaders: Sequence[Value]) -> Registers:
        """All registers of the tile."""
        for leader in leaders:
            leader.divisibility = max(leader.divisibility, self.divisor)
        return tuple(normalized(context.builder, leaders[number], offset) for number, offset in self.places)


def _followed(places: list[Place], along: Sequence[Place], step: int) -> list[Place]:
    """Places with respect to the first registers of runs along one more dimension."""
    return [(along[leader][0], offset + along[leader][1] * step) for leader, offset in places]
