"""Bank conflicts: counts measured on the language's first implementation and on machines, and brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glueball.errors import LayoutError
from glueball.layouts import (
    AMDMFMALayout,
    BlockedLayout,
    DotOperandLayout,
    NVMMADistributedLayout,
    NVMMASharedLayout,
    PaddedSharedLayout,
    PartitionedSharedLayout,
    SharedMemory,
    SliceLayout,
    SwizzledSharedLayout,
    bank_conflicts,
    register_budget,
    tile_access,
)
from glueball.layouts.banks import shared_offsets
from glueball.layouts.facts import traffic_facts
from glueball.targets import TARGETS
from tests.layouts.shared_accesses import served_together, worst_bank
from tests.layouts.strategies import blocked_layouts, shapes

Blk = BlockedLayout
Swz = SwizzledSharedLayout
NV = NVMMASharedLayout
R32 = Blk([1, 1], [1, 32], [4, 1], [1, 0])
C32 = Blk([1, 1], [32, 1], [1, 4], [0, 1])
R4 = Blk([1, 4], [4, 8], [4, 1], [1, 0])
C4 = Blk([4, 1], [8, 4], [1, 4], [0, 1])
R8 = Blk([1, 8], [4, 8], [4, 1], [1, 0])
C8 = Blk([1, 8], [32, 1], [4, 1], [0, 1])
D = Swz(1, 1, 1, [1, 0])
MEASURED = [
    (R32, D, (32, 32), 32, 0),
    (R4, D, (32, 32), 32, 0),
    (C32, D, (32, 32), 32, 31),
    (C32, Swz(1, 1, 32, [1, 0]), (32, 32), 32, 0),
    (C4, D, (32, 32), 32, 7),
    (R32, D, (32, 32), 16, 0),
    (R32, D, (32, 32), 8, 0),
    (C32, D, (32, 32), 16, 15),
    (C32, D, (32, 64), 16, 31),
    (C32, Swz(8, 1, 8, [1, 0]), (32, 64), 16, 3),
    (C32, D, (32, 32), 64, 15),
    (R8, NV(128, 16), (64, 64), 16, 0),
    (R8, NV(0, 16), (64, 64), 16, 0),
    (C8, NV(0, 16), (128, 64), 16, 7),
    (C8, NV(128, 16), (128, 64), 16, 0),
    (C8, NV(64, 16), (128, 32), 16, 0),
    (C8, NV(32, 16), (128, 16), 16, 0),
    (NVMMADistributedLayout([3, 0], [4, 1], [16, 32, 16]), NV(128, 32), (128, 64), 32, 1),
    (NVMMADistributedLayout([2, 0], [2, 4], [16, 8]), NV(0, 16), (4, 64), 16, 3),
]


@pytest.mark.parametrize(("layout", "shared", "shape", "bits", "conflicts"), MEASURED)
def test_measured_conflicts(layout, shared, shape, bits, conflicts):
    assert bank_conflicts(layout, shared, shape, bits) == conflicts
    found = tile_access(layout, shared, shape, bits)
    assert found.wavefronts == found.least * (conflicts + 1)


ROWS = [[0, 1 << bit] for bit in range(6)]
HALF = DotOperandLayout(0, AMDMFMALayout(4, [16, 16, 32], True, [2, 2]), 8)
BYTES = [DotOperandLayout(0, AMDMFMALayout(4, [16, 16, 128], True, [2, 2]), width) for width in (16, 32)]
WALK = [[16, 0], [32, 0], [64, 0], [1, 0], [2, 0], [4, 0], [8, 0]]
LINE = PaddedSharedLayout([[512, 16]], [*ROWS, *WALK, [128, 0]], [], [256, 64])


def padded_bytes(pairs):
    return PaddedSharedLayout(pairs, [*ROWS, [0, 64], *WALK], [], [128, 128])


@pytest.mark.parametrize(
    ("layout", "shared", "shape", "bits", "passes", "naive"),
    [
        (HALF, D, (256, 64), 16, 4, 8),
        (HALF, Swz(8, 2, 8, [1, 0]), (256, 64), 16, 1, 1),
        (HALF, LINE, (256, 64), 16, 1, 2),
        (BYTES[1], padded_bytes([[1024, 16], [2048, 32]]), (128, 128), 8, 1, 2),
        (BYTES[0], padded_bytes([[1024, 32]]), (128, 128), 8, 1, 2),
    ],
)
def test_amd_serves_16_byte_reads_in_groups_of_lanes(layout, shared, shape, bits, passes, naive):
    memory = SharedMemory.of(TARGETS["gfx950"])
    assert memory == SharedMemory(64, 64, grouped_reads=True)
    assert bank_conflicts(layout, shared, shape, bits, memory=memory) + 1 == passes
    assert bank_conflicts(layout, shared, shape, bits, memory=SharedMemory(64, 64)) + 1 == naive
    assert bank_conflicts(layout, shared, shape, bits, memory=memory, store=True) + 1 == naive


@pytest.mark.parametrize("name", TARGETS)
def test_every_lane_is_served_once(name):
    memory = SharedMemory.of(TARGETS[name])
    for access_bytes in (1, 2, 4, 8, 16):
        for store in (False, True):
            phases = memory.phases(access_bytes, store=store)
            assert sorted(lane for phase in phases for lane in phase) == list(range(memory.lanes))
            assert {len(phase) for phase in phases} == {min(memory.lanes, memory.banks * 4 // max(4, access_bytes))}
    if name == "gfx950":
        assert memory.phases(16)[0] == (0, 1, 2, 3, 12, 13, 14, 15, *range(20, 28))
        assert memory.phases(16)[1] == (*range(4, 12), *range(16, 20), *range(28, 32))


@st.composite
def accesses(draw):
    lanes = draw(st.sampled_from([5, 6]))
    layout = draw(blocked_layouts(2, lanes, draw(st.integers(0, 2))))
    shape = draw(shapes(2, maximum_bits=10))
    order = draw(st.permutations([0, 1]))
    kind = draw(st.sampled_from(["swizzled", "padded", "partitioned"]))
    if kind == "padded":
        pairs = [[1 << draw(st.integers(3, 5)), 1 << draw(st.integers(0, 3))]]
        pairs += [[64 << draw(st.integers(0, 2)), 1 << draw(st.integers(0, 3))]] * draw(st.integers(0, 1))
        return layout, PaddedSharedLayout.with_identity_for(pairs, shape, order), shape
    swizzled = Swz(*(1 << draw(st.integers(0, 3)) for _ in range(3)), order)
    if kind == "partitioned" and shape[0] >= 2:
        return layout, PartitionedSharedLayout(1, 2, 0, swizzled), shape
    return layout, swizzled, shape


def brute_force(layout, shared, shape, element_bytes, memory, vector, store):
    """Wavefronts of all instructions, one by one, from the bytes that every lane touches; the least; the conflicts."""
    linear, tile = layout.linear(shape), shared.linear(shape)
    place = {tile.apply_flat(offset=offset): offset for offset in reversed(range(tile.size("offset")))}
    address = shared.address if isinstance(shared, PaddedSharedLayout) else int
    width = vector * element_bytes
    total = least = worst = 0
    for warp in range(linear.size("warp")):
        groups = {}
        for register in range(linear.size("register")):
            offsets = [
                place[linear.apply_flat(register=register, lane=lane, warp=warp)] for lane in range(linear.size("lane"))
            ]
            groups.setdefault(tuple(offset // vector for offset in offsets), set()).add(tuple(offsets))
        for units, members in groups.items():
            assert len(members) == vector
            starts = [address(unit * vector) for unit in units]
            for lane in range(len(units)):
                held = sorted(address(offsets[lane]) for offsets in members)
                assert held == list(range(starts[lane], starts[lane] + vector))
                assert starts[lane] % vector == 0
            places = [start * element_bytes for start in starts]
            alone = [list(phase) for phase in memory.phases(width, store=store)]
            together = alone if store else served_together(places, alone, memory.banks)
            total += sum(worst_bank(places, group, width, memory.banks) for group in together)
            least += len(together)
            worst = max(worst, *(worst_bank(places, group, width, memory.banks) - 1 for group in alone))
    return total, least, worst


@settings(max_examples=50, deadline=None)
@given(accesses(), st.sampled_from([8, 16, 32, 64]), st.sampled_from([32, 64]), st.booleans(), st.booleans())
def test_counts_are_those_of_brute_force(drawn, bits, banks, grouped, store):
    layout, shared, shape = drawn
    memory = SharedMemory(layout.lanes, banks, grouped and layout.lanes == 64)
    found = tile_access(layout, shared, shape, bits, memory=memory, store=store)
    expected = brute_force(layout, shared, shape, bits // 8, memory, found.vector_elements, store)
    assert (found.wavefronts, found.least, found.conflicts) == expected


def test_a_load_of_lanes_that_read_alike_takes_fewer_wavefronts():
    rows = SliceLayout(1, Blk([4, 1], [16, 2], [1, 1], [1, 0]))
    line = Swz(1, 1, 1, [0])
    read = tile_access(rows, line, (64,), 32)
    assert (read.vector_elements, read.wavefronts, read.least, read.conflicts) == (4, 2, 2, 0)
    written = tile_access(rows, line, (64,), 32, store=True)
    assert (written.wavefronts, written.least) == (4, 4)
    # Phases without conflicts of their own may have some with each other.
    apart = PaddedSharedLayout([[16, 16]], [[1 << bit] for bit in range(6)], [], [64])
    read = tile_access(rows, apart, (64,), 32)
    assert (read.vector_elements, read.wavefronts, read.least, read.conflicts) == (4, 4, 2, 0)
    assert traffic_facts(rows, apart, (64,), 32)["shared load"].endswith("bank conflicts, 2 would do without")


@settings(max_examples=50, deadline=None)
@given(accesses())
def test_offsets_are_where_elements_lie(drawn):
    layout, shared, shape = drawn
    offsets = shared_offsets(layout.linear(shape), shared, shape)
    tile, linear = shared.linear(shape), layout.linear(shape)
    register = np.arange(linear.size("register"))
    for lane in range(0, linear.size("lane"), 7):
        where = offsets.apply_flat(register=register, lane=lane)
        assert np.array_equal(tile.apply_flat(offset=where), linear.apply_flat(register=register, lane=lane))


def test_clusters_access_their_own_memory():
    split = Blk([1, 8], [4, 8], [4, 1], [1, 0], [[1, 0]])
    assert bank_conflicts(split, NV(128, 16, cga_layout=[[1, 0]]), (128, 64), 16) == 0
    with pytest.raises(LayoutError, match="memory of another CTA"):
        bank_conflicts(R8, NV(128, 16, cga_layout=[[1, 0]]), (128, 64), 16)
    with pytest.raises(LayoutError, match="made for 32 lanes, the memory for 64"):
        bank_conflicts(R8, NV(128, 16), (128, 64), 16, memory=SharedMemory(64))


@pytest.mark.parametrize(
    ("layout", "shape", "bits", "expected"),
    [
        (R4, (32, 32), 32, (8, 8, 8, 0, 1)),
        (R4, (32, 32), 16, (8, 8, 4, 0, 1)),
        (R4, (4, 32), 32, (4, 4, 4, 0, 4)),
        (SliceLayout(1, R4), (16,), 32, (1, 1, 1, 0, 8)),
        (NVMMADistributedLayout([3, 0], [4, 1], [16, 128, 16]), (64, 64), 32, (64, 32, 64, 32, 1)),
        (Blk([1], [32], [4], [0], [[0]]), (128,), 64, (1, 1, 2, 0, 2)),
    ],
)
def test_register_budgets(layout, shape, bits, expected):
    found = register_budget(layout.linear(shape), bits)
    assert (found.elements, found.distinct, found.registers, found.copy_registers, found.holders) == expected
    assert found.copies == found.elements - found.distinct
