"""Runs of elements that go up by ones, as registers of one thread."""

from __future__ import annotations

from dataclasses import dataclass

from glueball.lower.shape import register_images
from glueball.tile.types import distributed_type, element_of, pointer_type


@dataclass(frozen=True, slots=True)
class Runs:
    """For each register of a tile, the one of its run that it is expressed by and how far it lies behind it.

    Those that others are expressed by lie at multiples of `alignment` in their runs.
    """

    places: tuple[tuple[int, int], ...]
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
