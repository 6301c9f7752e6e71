import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glueball.errors import LayoutError
from glueball.layouts import (
    BlockedLayout,
    LinearLayout,
    SliceLayout,
    global_access,
    shared_wavefronts,
    wavefronts,
)
from tests.layouts.plan_machine import holdings
from tests.layouts.shared_accesses import count, measured_loads
from tests.layouts.strategies import distributed_maps, shapes

ELEMENTS = 1 << 24
SIDE = 4096
ROW_FAST = BlockedLayout([1, 1], [1, 32], [1, 4], [1, 0])
COLUMN_FAST = BlockedLayout([1, 1], [32, 1], [4, 1], [0, 1])
OPPOSITE_ROWS = BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
OPPOSITE_COLUMNS = BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])


def line(vector):
    return BlockedLayout([vector], [32], [4], [0])


# Hardware counters of one H200: layout, block, strides, sectors and requests of 2^24 float32 elements.
COUNTERS = {
    "1-D, 1": (line(1), [2048], [1], 2_097_152, 524_288),
    "1-D, 2": (line(2), [2048], [1], 2_097_152, 262_144),
    "1-D, 4": (line(4), [2048], [1], 2_097_152, 131_072),
    "1-D, 8": (line(8), [2048], [1], 4_194_304, 131_072),
    "1-D, 16": (line(16), [2048], [1], 4_194_304, 131_072),
    "2-D, contiguous": (ROW_FAST, [1, 2048], [SIDE, 1], 2_097_152, 524_288),
    "2-D, transposed, wrong layout": (ROW_FAST, [1, 2048], [1, SIDE], 16_777_216, 524_288),
    "2-D, transposed, right layout": (COLUMN_FAST, [2048, 1], [1, SIDE], 2_097_152, 524_288),
    "opposite layouts, the same way": (OPPOSITE_ROWS, [128, 128], [SIDE, 1], 2_097_152, 524_288),
    "opposite layouts, across": (OPPOSITE_ROWS, [128, 128], [1, SIDE], 16_777_216, 524_288),
    "opposite layouts, converted": (OPPOSITE_COLUMNS, [128, 128], [1, SIDE], 2_097_152, 524_288),
}


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("row", COUNTERS)
def test_counts_are_those_of_the_hardware(row, store):
    layout, block, strides, sectors, requests = COUNTERS[row]
    found = global_access(layout.linear(block), strides, 32, store=store)
    programs = ELEMENTS // int(np.prod(block))
    assert (found.sectors * programs, found.requests * programs) == (sectors, requests)
    assert found.sectors_per_request == sectors / requests


def brute_force(layout, strides, element_bytes, found, base_address, store):
    """Requests, sectors and useful bytes, access by access and lane by lane."""
    where = holdings(layout)
    idle = layout.free_variables() if store else {"block": 0, "warp": 0, "lane": 0}
    stored = []
    requests = sectors = useful = 0
    for group in found.registers:
        for block, warp in np.ndindex(where.shape[:2]):
            touched = set()
            for lane in range(where.shape[2]):
                if block & idle["block"] or warp & idle["warp"] or lane & idle["lane"]:
                    continue
                elements = [int(where[block, warp, lane, register]) for register in group]
                stored += elements
                at = [
                    base_address + element_bytes * sum(s * c for s, c in zip(strides, layout.unflatten(e), strict=True))
                    for e in elements
                ]
                assert at == [at[0] + element_bytes * index for index in range(len(at))]
                assert len(at) == 1 or at[0] % (element_bytes * len(at)) == 0
                for address in at:
                    touched.update(range(address, address + element_bytes))
            if touched:
                requests += 1
                sectors += len({byte // 32 for byte in touched})
                useful += len(touched)
    assert set(stored) == set(range(layout.elements))
    assert not store or len(stored) == layout.elements
    return requests, sectors, useful


@st.composite
def accesses(draw):
    shape = draw(shapes(draw(st.integers(1, 2)), maximum_bits=8))
    layout = draw(distributed_maps(shape, 5, draw(st.integers(0, 2))))
    plain = [1] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        plain[axis] = plain[axis + 1] * shape[axis + 1]
    odd = st.lists(st.integers(-40, 40), min_size=len(shape), max_size=len(shape))
    strides = draw(st.one_of(st.just(plain), st.just(plain[::-1]), odd))
    return layout, strides


@settings(max_examples=60, deadline=None)
@given(accesses(), st.sampled_from([8, 16, 32, 64]), st.sampled_from([0, 16]), st.booleans())
def test_counts_are_those_of_brute_force(access, element_bits, base_address, store):
    layout, strides = access
    found = global_access(layout, strides, element_bits, base_address=base_address, store=store)
    expected = brute_force(layout, strides, element_bits // 8, found, base_address, store)
    assert (found.requests, found.sectors, found.useful_bytes) == expected


@pytest.mark.parametrize(
    ("options", "strides", "vector"),
    [
        ({}, [1], 4),
        ({"base_alignment": 8}, [1], 2),
        ({"base_alignment": 4}, [1], 1),
        ({"vector_bytes": 8}, [1], 2),
        ({}, [2], 1),
        ({}, [-1], 1),
    ],
)
def test_vectors_are_as_wide_as_alignment_permits(options, strides, vector):
    assert global_access(line(8).linear([2048]), strides, 32, **options).vector_elements == vector


def test_vectors_respect_the_alignment_of_rows():
    layout = BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]).linear([64, 64])
    assert [global_access(layout, [pitch, 1], 32).vector_elements for pitch in (64, 66, 65)] == [4, 2, 1]


def test_a_store_is_issued_by_one_holder_of_each_element():
    layout = SliceLayout(1, BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])).linear([16])
    assert global_access(layout, [1], 32).requests == 4
    replicated = line(1).linear([16])
    assert global_access(replicated, [1], 32).requests == 4
    assert global_access(replicated, [1], 32, store=True).requests == 1
    assert global_access(replicated, [1], 32, store=True).efficiency == 1.0


def test_stride_zero_reads_one_element():
    found = global_access(line(1).linear([128]), [0], 32)
    assert (found.sectors, found.useful_bytes) == (4, 16)


def test_strides_must_fit_the_rank():
    with pytest.raises(LayoutError, match="2 strides"):
        global_access(line(1).linear([128]), [1, 1], 32)


def swizzled(vec, per_phase, max_phase, shape):
    """A row-major tile whose rows XOR their columns."""
    rows, columns = shape
    bases = [[0, 1 << bit] for bit in range(columns.bit_length() - 1)]
    for bit in range(rows.bit_length() - 1):
        row = 1 << bit
        bases.append([row, vec * (row // per_phase % max_phase) % columns])
    return LinearLayout.from_bases({"offset": bases}, shape)


R4 = BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
C4 = BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])
R8 = BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
C8 = BlockedLayout([1, 8], [32, 1], [4, 1], [0, 1])
PLAIN = (1, 1, 1)


@pytest.mark.parametrize(
    ("layout", "pattern", "shape", "bits", "vector", "conflicts"),
    [
        (OPPOSITE_ROWS, PLAIN, [32, 32], 32, 1, 0),
        (R4, PLAIN, [32, 32], 32, 4, 0),
        (OPPOSITE_COLUMNS, PLAIN, [32, 32], 32, 1, 31),
        (OPPOSITE_COLUMNS, (1, 1, 32), [32, 32], 32, 1, 0),
        (C4, PLAIN, [32, 32], 32, 1, 7),
        (OPPOSITE_ROWS, PLAIN, [32, 32], 16, 1, 0),
        (OPPOSITE_ROWS, PLAIN, [32, 32], 8, 1, 0),
        (OPPOSITE_COLUMNS, PLAIN, [32, 32], 16, 1, 15),
        (OPPOSITE_COLUMNS, PLAIN, [32, 64], 16, 1, 31),
        (OPPOSITE_COLUMNS, (8, 1, 8), [32, 64], 16, 1, 3),
        (OPPOSITE_COLUMNS, PLAIN, [32, 32], 64, 1, 15),
        (R8, (8, 1, 8), [64, 64], 16, 8, 0),
        (R8, PLAIN, [64, 64], 16, 8, 0),
        (C8, PLAIN, [128, 64], 16, 8, 7),
        (C8, (8, 1, 8), [128, 64], 16, 8, 0),
    ],
)
def test_bank_conflicts(layout, pattern, shape, bits, vector, conflicts):
    linear = layout.linear(shape)
    total = shared_wavefronts(linear, swizzled(*pattern, shape), bits, vector)
    accesses = linear.size("register") // vector
    unavoidable = max(1, 32 * vector * bits // 8 // 128)
    assert total == accesses * unavoidable * (conflicts + 1)


def test_wavefronts_of_one_access():
    lanes = np.arange(32)
    assert wavefronts(lanes * 4, 4) == 1
    assert wavefronts(lanes * 0, 4) == 1
    assert wavefronts(lanes * 8, 4) == 2
    assert wavefronts(lanes * 128, 4) == 32
    assert wavefronts(lanes, 1) == 1
    assert wavefronts(lanes * 16, 16) == 4
    assert wavefronts(np.where(lanes < 8, lanes * 16, -1), 16) == 1
    assert wavefronts(np.arange(64) * 4, 4, banks=64) == 1


def test_wavefronts_of_loads_are_those_of_the_hardware():
    merged = 0
    for width, starts, measured in measured_loads():
        offsets = np.array(starts)
        assert wavefronts(offsets, width, load=True) == measured, (width, starts)
        assert count(starts, width, 32, load=True)[0] == measured, (width, starts)
        merged += wavefronts(offsets, width) > measured
    assert merged > 40


def test_loads_of_lanes_that_read_alike():
    lanes = np.arange(32)
    neighbours, next_but_one, further = lanes >> 1, lanes >> 2 << 1 | lanes & 1, lanes >> 3 << 2 | lanes & 3
    for unit, expected in ((8, [2, 1, 1, 2]), (16, [4, 2, 2, 4])):
        units = (lanes, neighbours, next_but_one, further)
        assert [wavefronts(each * unit, unit, load=True) for each in units] == expected
    assert wavefronts(neighbours * 8, 8) == 2
    # Only one half of a warp, lanes some of which take no part, and lanes that do not all follow one rule.
    assert wavefronts(np.where(lanes < 16, neighbours, lanes) * 16, 16, load=True) == 3
    assert wavefronts(np.where(lanes < 2, -1, neighbours * 16), 16, load=True) == 3
    assert wavefronts(np.where(lanes < 16, neighbours, next_but_one) * 8, 8, load=True) == 2
    # Phases that meet in the banks, and memory of other makes.
    assert wavefronts((neighbours & 3) * 16 + (lanes >> 3) * 128, 16, load=True) == 4
    assert wavefronts((np.arange(64) >> 1) * 8, 8, load=True) == 4
    assert wavefronts(neighbours * 8, 8, 64, load=True) == 1


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from([(32, 32), (32, 64), (64, 32)]), st.sampled_from([1, 2, 4, 8, 16]), st.booleans())
def test_wavefronts_of_any_access_are_those_of_brute_force(data, sizes, width, load):
    lanes, banks = sizes
    places = np.array(data.draw(st.lists(st.integers(0, 40), min_size=lanes, max_size=lanes))) * width
    # Lanes that read alike, all of them or those of one half of the warp, and lanes that take no part.
    other, half = data.draw(st.sampled_from([0, 1, 2, 3, 4])), data.draw(st.sampled_from([0, lanes // 2]))
    lane = np.arange(lanes)
    offsets = np.where(lane < half, places, places[lane & ~other])
    idle = data.draw(st.lists(st.integers(0, lanes - 1), max_size=2))
    offsets[idle] = -1
    starts = [None if offset < 0 else offset for offset in offsets.tolist()]
    assert wavefronts(offsets, width, banks, load=load) == count(starts, width, banks, load=load)[0]


def test_shared_access_needs_consecutive_registers():
    with pytest.raises(LayoutError, match="consecutive"):
        shared_wavefronts(OPPOSITE_COLUMNS.linear([32, 32]), swizzled(*PLAIN, [32, 32]), 32, 4)
