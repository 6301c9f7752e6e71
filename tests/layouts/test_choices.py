"""Layouts that the library chooses, and its sentence about two of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glueball.errors import LayoutError
from glueball.layouts import (
    BlockedLayout,
    SharedMemory,
    SwizzledSharedLayout,
    bank_conflicts,
    conflict_free_shared_layout,
    explain_difference,
    matrix_layouts,
    tile_access,
    to_distributed_linear,
)
from glueball.targets import TARGETS
from tests.layouts.strategies import blocked_layouts, split_bits

P = BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
C = BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize(("shape", "warps"), [((128, 128, 64), 4), ((256, 128, 128), 8), ((128, 64, 32), 4)])
def test_matrix_layouts_suit_their_target(target, bits, shape, warps):
    found = matrix_layouts(target, shape, bits, warps)
    rows, columns, depth = shape
    accumulator = found.accumulator.linear([rows, columns])
    assert (found.accumulator.lanes, found.accumulator.warps) == (target.lanes, warps)
    # Nothing of the result is held twice.
    assert accumulator.is_injective()
    tiles = ((found.operand_a, found.shared_a, (rows, depth)), (found.operand_b, found.shared_b, (depth, columns)))
    for operand, shared, extents in tiles:
        assert shared.linear(extents).is_injective()
        if operand is not None:
            assert operand.parent == found.accumulator
            assert bank_conflicts(operand, shared, extents, bits, memory=SharedMemory.of(target)) == 0
    if found.tensor_memory is not None:
        assert found.tensor_memory.linear([rows, columns]).is_injective()
    assert (found.operand_a is None) == (target.generation in (90, 100))


@pytest.mark.parametrize(
    ("name", "shape", "bits", "warps", "message"),
    [
        ("sm_80", (64, 64), 16, 4, r"is \(M, N, K\)"),
        ("sm_80", (64, 48, 64), 16, 4, "N is 48"),
        ("sm_80", (64, 64, 64), 64, 4, "8, 16 or 32 bits, not 64"),
        ("sm_90a", (64, 64, 64), 16, 2, "multiple of 4 warps"),
        ("sm_90a", (32, 64, 64), 16, 4, "at least 64 x 8"),
        ("sm_90a", (64, 64, 8), 16, 4, "rows of at least 32 bytes"),
        ("sm_100a", (64, 64, 64), 16, 4, "at least 128 rows"),
    ],
)
def test_products_that_a_target_does_not_have(name, shape, bits, warps, message):
    with pytest.raises(LayoutError, match=message):
        matrix_layouts(TARGETS[name], shape, bits, warps)


@st.composite
def pairs(draw):
    """A writer and a reader of one tensor, for one machine."""
    lane_bits, warp_bits = draw(st.sampled_from([5, 6])), draw(st.integers(0, 2))
    writer, reader = (draw(blocked_layouts(2, lane_bits, warp_bits)) for _ in range(2))
    return writer, reader, tuple(split_bits(draw, draw(st.integers(1, 11)), 2))


def linear_swizzles(shape):
    """The swizzles that authors write, to compare with."""
    for order in ([1, 0], [0, 1]):
        for vec in (1, 2, 4, 8):
            for phases in (1, 8, 32):
                yield SwizzledSharedLayout(vec, 1, phases, order)


@settings(max_examples=25, deadline=None)
@given(pairs(), st.sampled_from([8, 16, 32]))
def test_no_swizzle_beats_the_chosen_layout(drawn, bits):
    writer, reader, shape = drawn

    def cost(shared):
        written = tile_access(writer, shared, shape, bits, store=True, memory=SharedMemory(writer.lanes))
        return (
            written.wavefronts + tile_access(reader, shared, shape, bits, memory=SharedMemory(writer.lanes)).wavefronts
        )

    chosen = conflict_free_shared_layout(writer, reader, shape, bits)
    assert chosen.linear(shape).is_injective()
    full = writer.linear(shape).is_injective() and reader.linear(shape).is_injective()
    if full:
        assert cost(chosen) <= min(map(cost, linear_swizzles(shape)))


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("name", ["sm_90a", "gfx942", "gfx950"])
def test_transposing_without_conflicts(name, bits):
    memory = SharedMemory.of(TARGETS[name])
    width, down = 128 // bits, memory.lanes // 8
    writer = BlockedLayout([1, width], [down, 8], [4, 1], [1, 0])
    reader = BlockedLayout([width, 1], [8, down], [1, 4], [0, 1])
    chosen = conflict_free_shared_layout(writer, reader, [128, 128], bits, memory=memory)
    for layout, store in ((writer, True), (reader, False)):
        found = tile_access(layout, chosen, (128, 128), bits, memory=memory, store=store)
        assert found.conflicts == 0


def test_what_does_not_meet_in_shared_memory():
    with pytest.raises(LayoutError, match="the writer has 4 warps and the reader 2"):
        conflict_free_shared_layout(P, BlockedLayout([1, 4], [4, 8], [2, 1], [1, 0]), [64, 64], 32)
    halves = [BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [basis]) for basis in ([1, 0], [0, 1])]
    with pytest.raises(LayoutError, match="different parts of the tensor"):
        conflict_free_shared_layout(*halves, [64, 64], 32)


def test_sentences_about_two_layouts():
    assert explain_difference(P, C, [32, 32]) == (
        "register 1 holds (0, 1) in the first and (1, 0) in the second, which are the bases of bit 0 of the register "
        "index; (0, 1) lies in lane 8 there"
    )
    tall = BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
    assert explain_difference(P, tall, [16, 32]) == (
        "the first has only 4 registers, so register 4, which holds (0, 16) in the other one, does not exist there"
    )
    assert explain_difference(tall, P, [16, 32]).startswith("the second has only 4 registers, so register 4")
    assert explain_difference(P, P, [32, 32]).startswith("they are the same layout")
    explicit = to_distributed_linear(P, [32, 32])
    assert explain_difference(P, explicit, [32, 32]).startswith("they are two spellings of the same map")
    swizzled, plain = SwizzledSharedLayout(8, 1, 8, [1, 0]), SwizzledSharedLayout(1, 1, 1, [1, 0])
    sentence = explain_difference(swizzled, plain, [32, 64])
    assert sentence.startswith("offset 64 holds (1, 8) in the first and (1, 0) in the second")
    assert sentence.endswith("(1, 8) lies in offset 72 there")
    with pytest.raises(LayoutError, match="does not compare"):
        explain_difference(P, plain, [32, 64])


@settings(max_examples=40, deadline=None)
@given(pairs())
def test_the_sentence_names_a_true_difference(drawn):
    first, second, shape = drawn
    sentence = explain_difference(first, second, shape)
    one, two = first.linear(shape), second.linear(shape)
    assert sentence.startswith("they are ") == (one == two)
    if " in the first and " in sentence:
        noun, index = sentence.split()[:2]
        name = {"CTA": "block"}.get(noun, noun)
        held = [str(layout.apply(**{name: int(index)})) for layout in (one, two)]
        assert held[0] != held[1]
        assert f"holds {held[0]} in the first and {held[1]} in the second" in sentence
