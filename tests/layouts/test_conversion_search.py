"""No linear tile without conflicts is better than the planned one: compared with all of them, on few banks."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from glueball.layouts import LinearLayout, f2, memory
from glueball.layouts.memory import access_wavefronts
from glueball.layouts.plans import WAVEFRONT_SLOTS
from glueball.layouts.round_trips import Request, plan_round_trip

BITS = 4
BANKS = 4
"""So few that a tile of 16 elements has several rows of banks to conflict in."""
MERGING = 8
"""Banks, and lanes of a warp, of the memory that serves two phases of a load at once where their lanes read alike."""


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


def random_map(generator: np.random.Generator, lane_bits: int) -> LinearLayout:
    """A map of lane bits, one warp bit and registers onto 16 elements, replicating here and there."""
    while True:
        count = lane_bits + 1 + int(generator.integers(1, 4))
        columns = [int(column) for column in generator.integers(0, 1 << BITS, count)]
        if f2.rank(columns) == BITS:
            lanes, (warp, *registers) = columns[:lane_bits], columns[lane_bits:]
            bases = {"register": registers, "lane": lanes, "warp": (warp,), "block": ()}
            return LinearLayout.from_flat_bases(bases, (1 << BITS,))


def alike(layout: LinearLayout) -> LinearLayout:
    """The map with a lane bit that moves nothing, one of the two that make a load's phases be served at once."""
    bases = {name: list(layout.flat_bases(name)) for name in layout.inputs}
    bases["register"].append(bases["lane"][1])
    bases["lane"][1] = 0
    return LinearLayout.from_flat_bases(bases, layout.shape)


def slots(layout: LinearLayout, tile: tuple[int, ...], element_bits: int, banks: int, *, store: bool) -> float:
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
        wavefronts = access_wavefronts(where, element_bits, vector, banks=banks, store=store)
        accesses = (1 << registers.rank) // vector
        together = banks * 32 // max(32, vector * element_bits)
        if banks == MERGING and not store and vector * element_bits > 32 and 0 in columns["lane"][:2]:
            together *= 2
        if wavefronts == accesses * len({lane // together for lane in active}):
            best = min(best, WAVEFRONT_SLOTS * wavefronts + accesses)
        if vector not in registers or threads & vector:
            break
    return best


def best_of_all(source: LinearLayout, destination: LinearLayout, element_bits: int, banks: int) -> float:
    """Issue slots of the accesses with the best of all tiles that both sides access without conflicts."""
    return min(
        slots(source, tile, element_bits, banks, store=True)
        + slots(destination, tile, element_bits, banks, store=False)
        for tile in every_basis()
    )


def compare(seed: int, banks: int = BANKS) -> None:
    generator = np.random.default_rng(seed)
    element_bits = int(generator.choice([16, 32, 64]))
    source, destination = (random_map(generator, banks.bit_length() - 1) for _ in range(2))
    if banks == MERGING:
        destination = alike(destination)
    plan = plan_round_trip(Request(source, destination, element_bits // 8, banks), 1 << 20)
    sides = (plan.write, plan.read)
    planned = sum(WAVEFRONT_SLOTS * side.wavefronts + side.instructions for side in sides)
    assert planned == best_of_all(source, destination, element_bits, banks), (source, destination, element_bits)


@pytest.mark.parametrize("seed", range(4))
def test_no_linear_tile_is_better(seed: int) -> None:
    compare(seed)


@pytest.mark.parametrize("seed", range(4, 8))
def test_no_linear_tile_is_better_where_phases_merge(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MERGING_LANES", MERGING)
    compare(seed, MERGING)


@pytest.mark.deep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(100, 160))
def test_no_linear_tile_is_better_deep(seed: int) -> None:
    compare(seed)


@pytest.mark.deep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(100, 160))
def test_no_linear_tile_is_better_where_phases_merge_deep(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MERGING_LANES", MERGING)
    compare(seed, MERGING)
