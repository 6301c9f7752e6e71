"""Conversions whose result is their source again: of equally cheap plans, that which leaves registers in place."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glueball.layouts import BlockedLayout, SharedRoundTrip, plan_conversion
from glueball.layouts.in_place import moved
from tests.layouts.plan_machine import holdings, run
from tests.layouts.strategies import conversions

EXTENT = 128
MATRICES = {"matrix_loads": True, "matrix_stores": True}


def opposite(vector, warps):
    """Rows read by whole warps, and the same layout transposed."""
    along = min(32, EXTENT // vector)
    rows = BlockedLayout([1, vector], [32 // along, along], [warps, 1], [1, 0])
    columns = BlockedLayout([vector, 1], [along, 32 // along], [1, warps], [0, 1])
    return tuple(layout.linear([EXTENT, EXTENT]) for layout in (rows, columns))


def moves(plan):
    return moved(plan.write.groups, plan.read.groups, plan.element_bytes)


@pytest.mark.parametrize(
    ("element_bits", "vector", "warps"), [(32, 4, 4), (32, 4, 8), (16, 1, 4), (16, 8, 4), (16, 8, 8)]
)
def test_a_transposed_tile_stays_in_its_registers(element_bits, vector, warps):
    pair = opposite(vector, warps)
    found = plan_conversion(*pair, element_bits, shared_bytes=1 << 17, in_place=True, **MATRICES)
    assert moves(found) == (0, 0)
    assert np.array_equal(run(found, pair[0]), holdings(pair[1]))


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("element_bits", [16, 32])
def test_single_elements_move_less_than_without_asking(element_bits, warps):
    pair = opposite(1, warps)
    asked, unasked = (
        plan_conversion(*pair, element_bits, shared_bytes=1 << 17, in_place=asked, **MATRICES)
        for asked in (True, False)
    )
    assert moves(asked) < moves(unasked)
    assert asked.issue_slots == unasked.issue_slots
    assert np.array_equal(run(asked, pair[0]), holdings(pair[1]))


def test_matrices_share_addresses():
    """Of matrices that go together, rows differ where addresses would otherwise have to be computed for each access."""
    found = plan_conversion(*opposite(4, 4), 32, shared_bytes=1 << 17, in_place=True, **MATRICES)
    assert found.read.matrices == 4
    # Rows 4 to 6 of the tile are the only registers of a writer that meet a lane's bits, column 4 that of a reader.
    assert (found.write.addresses, found.read.addresses) == (8, 2)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(conversions(), st.sampled_from([8, 16, 32, 64]), st.integers(0, 3))
def test_asking_never_costs_anything(pair, element_bits, halvings):
    source, destination = pair
    budget = max(element_bits // 8, (source.elements * element_bits // 8) >> halvings)
    asked, unasked = (
        plan_conversion(source, destination, element_bits, shared_bytes=budget, in_place=asked, **MATRICES)
        for asked in (True, False)
    )
    assert np.array_equal(run(asked, source), holdings(destination))
    assert asked.issue_slots <= unasked.issue_slots
    if isinstance(asked, SharedRoundTrip) and isinstance(unasked, SharedRoundTrip):
        assert asked.issue_slots < unasked.issue_slots or moves(asked) <= moves(unasked)


def test_moves_are_counted_by_words():
    together = [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert moved(together, together, 4) == (0, 0)
    assert moved(together, [(4, 5, 6, 7), (0, 1, 2, 3)], 4) == (0, 0)
    assert moved(together, [(0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,)], 4) == (0, 0)
    assert moved(together, [(1, 0, 2, 3), (4, 5, 6, 7)], 4) == (1, 2)
    # Two elements of 16 bits share a word: exchanged within it, or between words.
    assert moved(together, [(1, 0, 2, 3), (4, 5, 6, 7)], 2) == (1, 1)
    assert moved(together, [(0, 2, 1, 3), (4, 5, 6, 7)], 2) == (1, 2)
