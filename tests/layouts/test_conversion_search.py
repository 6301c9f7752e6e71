"""No linear tile without conflicts is better than the planned one: compared with all of them, on few banks."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from glueball.layouts import LinearLayout, f2
from glueball.layouts.memory import access_wavefronts
from glueball.layouts.plans import WAVEFRONT_SLOTS
from glueball.layouts.round_trips import Request, plan_round_trip

BITS = 4
BANKS = 4
"""So few that a tile of 16 elements has several rows of banks to conflict in."""


@functools.cache
def every_basis() -> list[tuple[int, ...]]:
    """Every linear tile of 16 elements."""
    found = [()]
    for _ in range(BITS):
        longer = []
        for vectors in found:
            span = f2.Echelon(vectors)
            longer += [(*vectors, vector) for vector in range(1, 1 << BITS) if vector not in span]
        found = longer
    assert len(found) == 15 * 14 * 12 * 8
    return found


def random_map(generator: np.random.Generator) -> LinearLayout:
    """A map of two lane bits, one warp bit and registers onto 16 elements, replicating here and there."""
    while True:
        columns = [int(column) for column in generator.integers(0, 1 << BITS, 3 + int(generator.integers(1, 4)))]
        if f2.rank(columns) == BITS:
            bases = {"register": columns[3:], "lane": columns[:2], "warp": columns[2:3], "block": ()}
            return LinearLayout.from_flat_bases(bases, (1 << BITS,))


def slots(layout: LinearLayout, tile: tuple[int, ...], element_bits: int, *, store: bool) -> float:
    """Issue slots of one side with the best vectors that a tile allows without conflicts; infinity where none are."""
    position = f2.Echelon(tile)
    names = ("register", "lane", "warp")
    columns = {name: [position.solve(basis) or 0 for basis in layout.flat_bases(name)] for name in names}
    where = LinearLayout.from_flat_bases(columns, layout.shape)
    free = where.free_variables() if store else {}
    registers = f2.Echelon(columns["register"])
    threads = 0
    for name in ("lane", "warp"):
        for bit, basis in enumerate(columns[name]):
            threads |= 0 if free.get(name, 0) >> bit & 1 else basis
    best = math.inf
    active = [lane for lane in range(where.size("lane")) if not lane & free.get("lane", 0)]
    for bits in range(5):
        vector = 1 << bits
        if vector * element_bits > 128:
            break
        wavefronts = access_wavefronts(where, element_bits, vector, banks=BANKS, store=store)
        accesses = (1 << registers.rank) // vector
        together = BANKS * 32 // max(32, vector * element_bits)
        if wavefronts == accesses * len({lane // together for lane in active}):
            best = min(best, WAVEFRONT_SLOTS * wavefronts + accesses)
        if vector not in registers or threads & vector:
            break
    return best


def best_of_all(source: LinearLayout, destination: LinearLayout, element_bits: int) -> float:
    """Issue slots of the accesses with the best of all tiles that both sides access without conflicts."""
    return min(
        slots(source, tile, element_bits, store=True) + slots(destination, tile, element_bits, store=False)
        for tile in every_basis()
    )


def compare(seed: int) -> None:
    generator = np.random.default_rng(seed)
    element_bits = int(generator.choice([16, 32, 64]))
    source, destination = random_map(generator), random_map(generator)
    plan = plan_round_trip(Request(source, destination, element_bits // 8, BANKS), 1 << 20)
    sides = (plan.write, plan.read)
    planned = sum(WAVEFRONT_SLOTS * side.wavefronts + side.instructions for side in sides)
    assert planned == best_of_all(source, destination, element_bits), (source, destination, element_bits)


@pytest.mark.parametrize("seed", range(4))
def test_no_linear_tile_is_better(seed: int) -> None:
    compare(seed)


@pytest.mark.deep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(100, 160))
def test_no_linear_tile_is_better_deep(seed: int) -> None:
    compare(seed)
