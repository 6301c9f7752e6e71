import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.conversion_pairs import random_pairs
from glueball.errors import LayoutError
from glueball.layouts import (
    HARDWARE,
    BlockedLayout,
    LinearLayout,
    Nothing,
    RegisterPermutation,
    SharedRoundTrip,
    Shuffles,
    SliceLayout,
    plan_conversion,
)
from tests.layouts.plan_machine import count_wavefronts, holdings, run
from tests.layouts.strategies import cluster_conversions, conversions

PLENTY = 1 << 22


def plan(source, destination, shape, element_bits=32, **options):
    options = {"shared_bytes": PLENTY} | options
    return plan_conversion(source.linear(shape), destination.linear(shape), element_bits, **options)


def check(found, source, destination):
    assert np.array_equal(run(found, source), holdings(destination))
    if isinstance(found, SharedRoundTrip):
        for access in (found.write, found.read):
            assert access.vector * found.element_bytes <= 16
            for total, ideal in count_wavefronts(found, access, 32):
                assert total == access.wavefronts
                assert total == ideal or found.rounds > 1


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(conversions(), st.sampled_from([8, 16, 32, 64]))
def test_every_plan_puts_every_element_in_its_place(pair, element_bits):
    source, destination = pair
    check(plan_conversion(source, destination, element_bits, shared_bytes=PLENTY), source, destination)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(conversions(), st.sampled_from([8, 16, 32, 64]))
def test_shared_memory_is_avoided_where_there_is_none(pair, element_bits):
    source, destination = pair
    try:
        found = plan_conversion(source, destination, element_bits, shared_bytes=0)
    except LayoutError as error:
        assert "0 are available" in str(error)
    else:
        assert found.shared_bytes == 0
        check(found, source, destination)


def test_equal_layouts_need_nothing():
    layout = BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    found = plan(layout, layout, [64, 64])
    assert isinstance(found, Nothing)
    assert found.is_trivial


def test_renamed_registers_are_free():
    source = BlockedLayout([2, 2], [8, 4], [2, 2], [1, 0]).linear([64, 64])
    bases = source.bases
    shuffled = LinearLayout.from_bases(bases | {"register": bases["register"][::-1]}, source.shape)
    found = plan_conversion(source, shuffled, 32, shared_bytes=PLENTY)
    assert isinstance(found, RegisterPermutation)
    assert found.is_trivial
    assert found.issue_slots == 0
    check(found, source, shuffled)


def test_copies_in_registers_are_free():
    source = BlockedLayout([1], [32], [4], [0]).linear([512])
    bases = source.bases
    copied = LinearLayout.from_bases(bases | {"register": [[256], [0], [128]]}, source.shape)
    for one, other in ((source, copied), (copied, source)):
        found = plan_conversion(one, other, 32, shared_bytes=PLENTY)
        assert isinstance(found, RegisterPermutation)
        check(found, one, other)


def test_swap_of_a_register_and_a_lane_bit_keeps_half_the_values_at_home():
    lanes = [[2], [4], [8], [16], [32]]
    source = LinearLayout.from_bases({"register": [[1]], "lane": lanes, "warp": [], "block": []}, [64])
    destination = LinearLayout.from_bases({"register": [[2]], "lane": [[1], *lanes[1:]], "warp": [], "block": []}, [64])
    found = plan_conversion(source, destination, 32, shared_bytes=PLENTY)
    assert isinstance(found, Shuffles)
    assert found.shuffles == 1
    assert [step.is_move for step in found.moves.rounds] == [True, False]
    assert not found.is_trivial
    assert plan_conversion(source, destination, 64, shared_bytes=PLENTY).shuffles == 2
    check(found, source, destination)


def test_values_that_every_thread_holds_are_selected_not_shuffled():
    source = LinearLayout.from_bases({"register": [[1], [2]], "lane": [[0]] * 5, "warp": [[0], [0]], "block": []}, [4])
    destination = LinearLayout.from_bases(
        {"register": [], "lane": [[0], [1], [0], [0], [0]], "warp": [[0], [2]], "block": []}, [4]
    )
    found = plan_conversion(source, destination, 32, shared_bytes=PLENTY)
    assert isinstance(found, Shuffles)
    assert (found.shuffles, found.selects) == (0, 3)
    check(found, source, destination)


def test_narrow_values_share_a_shuffle():
    source = LinearLayout.from_bases(
        {"register": [[32], [64]], "lane": [[1], [2], [4], [8], [16]], "warp": [], "block": []}, [128]
    )
    rotated = LinearLayout.from_bases(
        {"register": [[32], [64]], "lane": [[2], [4], [8], [16], [1]], "warp": [], "block": []}, [128]
    )
    counts = []
    for bits in (8, 16, 32, 64):
        found = plan_conversion(source, rotated, bits, shared_bytes=PLENTY)
        check(found, source, rotated)
        counts.append(found.shuffles)
    assert counts == [1, 2, 4, 8]


@pytest.mark.parametrize("element_bits", [8, 16, 32, 64])
def test_opposite_layouts_meet_in_shared_memory_without_conflicts(element_bits):
    rows = BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    columns = BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    found = plan(rows, columns, [128, 128], element_bits)
    assert isinstance(found, SharedRoundTrip)
    element_bytes = element_bits // 8
    assert found.shared_bytes == 128 * 128 * element_bytes
    assert found.write_vector == found.read_vector == 16 // element_bytes
    # 128 elements of each of 32 lanes, 128 bytes a wavefront: nothing is lost to conflicts.
    assert found.wavefronts_write == found.wavefronts_read == 128 * 32 * element_bytes // 128


def test_one_sided_vectors():
    rows = BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    columns = BlockedLayout([4, 1], [32, 1], [1, 4], [0, 1])
    found = plan(rows, columns, [128, 128])
    assert {found.write_vector, found.read_vector} == {1, 4}
    assert found.wavefronts_write == found.wavefronts_read == 128


def test_replicated_elements_are_written_once():
    parent = BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    found = plan(SliceLayout(1, parent), SliceLayout(0, parent), [64])
    assert isinstance(found, SharedRoundTrip)
    assert found.write.idle_lanes == 0b00111
    assert found.write.idle_warps == 0
    assert found.shared_bytes == 256
    check(found, SliceLayout(1, parent).linear([64]), SliceLayout(0, parent).linear([64]))


def test_ctas_convert_their_own_parts():
    source = BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0], [[1, 0]])
    destination = BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1], [[1, 0]])
    found = plan(source, destination, [64, 64])
    assert isinstance(found, SharedRoundTrip)
    assert found.shared_bytes == 32 * 64 * 4
    check(found, source.linear([64, 64]), destination.linear([64, 64]))
    assert not found.read.crosses_ctas


def test_ctas_read_what_others_have_written():
    source = BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0], [[1, 0]])
    destination = BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1], [[0, 1]])
    found = plan(source, destination, [64, 64])
    assert isinstance(found, SharedRoundTrip)
    assert (found.write.crosses_ctas, found.read.crosses_ctas) == (False, True)
    assert found.shared_bytes == 32 * 64 * 4
    assert "of shared memory of all CTAs" in found.describe()
    check(found, source.linear([64, 64]), destination.linear([64, 64]))


def test_copies_in_every_cta_are_read_there():
    copies = BlockedLayout([1], [32], [4], [0], [[0]])
    parts = BlockedLayout([1], [32], [4], [0], [[1]])
    spread = plan(parts, copies, [256])
    assert spread.read.crosses_ctas
    check(spread, parts.linear([256]), copies.linear([256]))
    own = plan(copies, parts, [256])
    assert own.shared_bytes == 0 or not own.read.crosses_ctas
    check(own, copies.linear([256]), parts.linear([256]))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cluster_conversions(), st.sampled_from([8, 16, 32, 64]), st.integers(0, 4))
def test_every_plan_for_clusters_puts_every_element_in_its_place(pair, element_bits, halvings):
    source, destination = pair
    budget = max(element_bits // 8, (source.elements * element_bits // 8) >> halvings)
    matrices = {"matrix_loads": True, "matrix_stores": True}
    found = plan_conversion(source, destination, element_bits, shared_bytes=budget, **matrices)
    assert found.shared_bytes <= budget
    assert np.array_equal(run(found, source), holdings(destination))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(conversions(), st.sampled_from([8, 16, 32, 64]), st.integers(0, 6))
def test_matrices_and_rounds_put_every_element_in_its_place(pair, element_bits, halvings):
    source, destination = pair
    budget = max(element_bits // 8, (source.elements * element_bits // 8) >> halvings)
    matrices = {"matrix_loads": True, "matrix_stores": True}
    found = plan_conversion(source, destination, element_bits, shared_bytes=budget, **matrices)
    assert found.shared_bytes <= budget
    check(found, source, destination)


@pytest.mark.parametrize("halvings", [1, 2, 3, 4])
def test_a_tile_that_does_not_fit_goes_piece_by_piece(halvings):
    rows = BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    columns = BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    found = plan(rows, columns, [128, 128], shared_bytes=65536 >> halvings)
    assert found.shared_bytes == 65536 >> halvings
    assert found.rounds == 1 << halvings
    # As many wavefronts as in one round; every thread takes part in all rounds.
    assert found.wavefronts_write == found.wavefronts_read == 128
    assert f"in {found.rounds} rounds" in found.describe()
    # With less room, the vectors of one side only stay whole.
    assert sorted((found.write_vector, found.read_vector)) == {3: [2, 4], 4: [1, 4]}.get(halvings, [4, 4])
    for access in (found.write, found.read):
        parts = [list(access.in_round(number)) for number in range(found.rounds)]
        assert {len(part) for part in parts} == {len(access.groups) // found.rounds}
        assert all(condition is None for part in parts for _, condition in part)
    check(found, rows.linear([128, 128]), columns.linear([128, 128]))


def test_a_budget_that_is_no_power_of_two_is_rounded_down():
    rows = BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    columns = BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    found = plan(rows, columns, [128, 128], shared_bytes=49152)
    assert (found.shared_bytes, found.rounds) == (32768, 2)
    rounds = found.round_of_elements()
    assert rounds.shape == (128, 128)
    assert np.bincount(rounds.ravel()).tolist() == [8192, 8192]


def test_no_room_for_one_element_is_an_error_with_the_numbers():
    rows = BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    columns = BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    with pytest.raises(LayoutError, match=r"at least 4 bytes of shared memory, and 3 are available"):
        plan(rows, columns, [128, 128], shared_bytes=3)


def fragment(rows, columns, warps=2):
    """The layout in which a warp's matrix instruction holds 16-bit elements, rows of 8 a quarter of a warp."""
    names = {"register": [[0, 1], [8, 0], [0, 8]], "lane": [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]}
    more = [[16 << bit, 0] for bit in range((rows // 16 >> warps).bit_length() - 1)]
    more += [[0, 16 << bit] for bit in range((columns // 16).bit_length() - 1)]
    warp = [[rows >> bit + 1, 0] for bit in range(warps)]
    bases = {**names, "register": names["register"] + more, "warp": warp, "block": []}
    return LinearLayout.from_bases(bases, (rows, columns))


@pytest.mark.parametrize("direction", ["read", "write"])
@pytest.mark.parametrize("along", ["rows", "columns"])
def test_fragments_are_moved_as_matrices(along, direction):
    blocked = {
        "rows": BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]),
        "columns": BlockedLayout([8, 1], [8, 4], [1, 4], [0, 1]),
    }[along].linear([64, 64])
    pair = (blocked, fragment(64, 64)) if direction == "read" else (fragment(64, 64), blocked)
    without = plan_conversion(*pair, 16, shared_bytes=PLENTY)
    found = plan_conversion(*pair, 16, shared_bytes=PLENTY, matrix_loads=True, matrix_stores=True)
    (moved,) = (access for access in (found.write, found.read) if access.matrices)
    assert moved.matrices == 4
    assert moved.transposed == (along == "columns")
    # 32 elements a thread, 8 at a time, four wavefronts each.
    for access in (found.write, found.read):
        assert access.vector == 8
        assert len(access.groups) == 4
        assert access.wavefronts == 16
    assert found.issue_slots < without.issue_slots
    assert "matrix" in found.describe()
    check(found, *pair)


@pytest.mark.parametrize(
    ("element_bits", "writer", "reader"),
    [
        (32, ([0, 1], [2, 3, 4, 5, 6], [7, 8]), ([7, 8], [0, 1, 2, 3, 4], [5, 6])),
        (8, ([0, 1, 2, 3], [4, 5, 6, 7, 8], [9, 10]), ([0, 1, 9, 10], [2, 3, 4, 5, 6], [7, 8])),
    ],
)
def test_matrices_of_wider_and_narrower_elements(element_bits, writer, reader):
    """A row of 16 bytes is with four lanes of the reader, and with one of the writer."""
    pair = []
    for bits in (writer, reader):
        bases = {name: [1 << bit for bit in places] for name, places in zip(HARDWARE, (*bits, []), strict=True)}
        pair.append(LinearLayout.from_flat_bases(bases, (1 << sum(map(len, bits)),)))
    found = plan_conversion(*pair, element_bits, shared_bytes=PLENTY, matrix_loads=True)
    assert found.read.matrices == 4
    assert not found.read.transposed
    check(found, *pair)


def test_matrices_need_warps_of_32_lanes():
    bases = fragment(64, 64).bases
    halves = {"lane": [*bases["lane"], bases["warp"][1]], "warp": bases["warp"][:1]}
    wide = LinearLayout.from_bases(bases | halves, (64, 64))
    blocked = BlockedLayout([1, 8], [8, 8], [2, 1], [1, 0]).linear([64, 64])
    found = plan_conversion(blocked, wide, 16, shared_bytes=PLENTY, matrix_loads=True, matrix_stores=True)
    assert not found.read.matrices
    assert not found.write.matrices


def test_values_that_one_lane_holds_for_many_are_fetched_in_variants():
    source = LinearLayout.from_flat_bases({"register": [3], "lane": [3, 2, 0, 2, 3], "warp": [], "block": []}, [4])
    destination = LinearLayout.from_flat_bases({"register": [1, 2], "lane": [0] * 5, "warp": [], "block": []}, [4])
    found = plan_conversion(source, destination, 32, shared_bytes=PLENTY)
    assert isinstance(found, Shuffles)
    check(found, source, destination)


def test_shuffles_are_nearly_always_as_few_as_they_can_be():
    """Each lane must receive at least what it does not hold; a round brings it one register."""
    compared = optimal = 0
    for pair in random_pairs(3, 250, lanes=(32,)):
        found = plan_conversion(pair.source, pair.destination, 32, shared_bytes=0) if pair.warps == 1 else None
        if not isinstance(found, Shuffles):
            continue
        held, wanted = holdings(pair.source)[0, 0], holdings(pair.destination)[0, 0]
        least = max(len(set(want.tolist()) - set(have.tolist())) for have, want in zip(held, wanted, strict=True))
        assert found.shuffles >= least
        compared += 1
        optimal += found.shuffles == least
    assert compared > 30
    assert optimal / compared > 0.9


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (BlockedLayout([1], [64], [4], [0]), "lanes in a warp"),
        (BlockedLayout([1], [32], [8], [0]), "8 warps"),
        (BlockedLayout([1], [32], [4], [0], [[1]]), "2 CTAs"),
    ],
)
def test_layouts_of_different_machines_do_not_convert(other, message):
    with pytest.raises(LayoutError, match=message):
        plan(BlockedLayout([1], [32], [4], [0]), other, [1024])


def test_shapes_must_agree():
    layout = BlockedLayout([1], [32], [4], [0])
    with pytest.raises(LayoutError, match="cannot convert a tensor"):
        plan_conversion(layout.linear([128]), layout.linear([256]), 32, shared_bytes=PLENTY)


def test_plans_describe_themselves():
    rows = BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    columns = BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    text = plan(rows, columns, [128, 128]).describe()
    assert text == (
        "through 65536 bytes of shared memory: 32 writes of 16 bytes a thread in 128 wavefronts a warp, "
        "32 reads of 16 bytes a thread in 128 wavefronts a warp"
    )
