"""How threads move a tile to or from scratch memory, in which its elements lie row by row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_

from glueball.layouts import LinearLayout, f2

VECTOR_BYTES = 16


def scratch_vectors(linear: LinearLayout, itemsize: int) -> Iterator[list[int]]:
    """The distinct registers of a thread in groups of neighbouring elements, as many as one access moves."""
    free = linear.free_variables()
    held = f2.Echelon(linear.flat_bases("register"))
    others = reduce(or_, (basis for name in ("lane", "warp", "block") for basis in linear.flat_bases(name)), 0)
    bits = 0
    while itemsize << (bits + 1) <= VECTOR_BYTES and 1 << bits in held and not others >> bits & 1:
        bits += 1
    groups: dict[int, dict[int, int]] = {}
    for register, image in enumerate(linear.table("register").tolist()):
        if not register & free["register"]:
            groups.setdefault(image >> bits, {})[image & ((1 << bits) - 1)] = register
    for group in groups.values():
        yield [group[index] for index in sorted(group)]


def slice_writers(linear: LinearLayout, axis: int, place: int) -> Iterator[tuple[int, int]]:
    """The distinct registers in which some thread holds an element at a place along an axis.

    Each comes with the coordinate along the axis that lane, warp and CTA give to those threads.
    """
    free = linear.free_variables()["register"]
    threads = (basis for name in ("lane", "warp", "block") for basis in linear.flat_bases(name))
    reached = f2.Echelon(linear.unflatten(basis)[axis] for basis in threads)
    for register, image in enumerate(linear.table("register").tolist()):
        wanted = place ^ linear.unflatten(image)[axis]
        if not register & free and wanted in reached:
            yield register, wanted
