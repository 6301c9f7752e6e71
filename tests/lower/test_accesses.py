"""How wide memory accesses become, what they share, and who stores a replicated element."""

from __future__ import annotations

from collections import Counter

import pytest

from glueball.layouts import BlockedLayout, DistributedLinearLayout
from glueball.lower import lower
from glueball.targets import TARGETS
from glueball.thread.ir import Function
from glueball.tile.ir import ArgumentFacts
from glueball.tile.passes import run_passes
from glueball.tile.types import bfloat16, float32, float64, int1, int8, int32, pointer_type
from tests.tile.programs import Program

TARGET = TARGETS["sm_90a"]


def copy(element, extent, layout, facts, masked=True, target=TARGET) -> Function:
    pointer = pointer_type(element)
    program = Program("copy", {"x": pointer, "y": pointer, "n": int32})
    x, y, n = program.arguments.values()
    program.function.facts = [ArgumentFacts(value) for value in facts]
    program.function.lanes = target.lanes
    offsets = program.offsets(extent, layout)
    masks = [program.below(offsets, n)] if masked else []
    value = program.load(x, offsets, *masks)
    program.do("store", program.pointers(y, offsets), value, *masks)
    function = program.finish()
    run_passes(function, target)
    return lower(function, target)


def counts(function: Function, name: str) -> list[int]:
    return [item.attributes["count"] for item in function.body.walk() if item.record.name == name]


@pytest.mark.parametrize(
    ("element", "size", "expected"),
    [
        (int8, 16, 16),
        (int1, 16, 16),
        (bfloat16, 8, 8),
        (float32, 4, 4),
        (float64, 2, 2),
        (float32, 2, 2),
        (float32, 1, 1),
    ],
)
def test_neighbouring_registers_move_together(element, size, expected):
    function = copy(element, 32 * 4 * size, BlockedLayout([size], [32], [4], [0]), (16, 16, 16))
    assert counts(function, "global_load") == [expected]
    assert counts(function, "global_store") == [expected]


def test_lanes_that_are_shifted_down_to_their_place_keep_vectors_whole():
    layout = DistributedLinearLayout([[1], [2]], [[0], [0], [0], [4], [8]], [[16], [32]], [], [64])
    function = copy(float32, 64, layout, (16, 16, 16))
    assert counts(function, "global_load") == counts(function, "global_store") == [4]


def test_sixteen_bytes_are_the_most():
    function = copy(float32, 2048, BlockedLayout([16], [32], [4], [0]), (16, 16, 16))
    assert counts(function, "global_load") == [4] * 4


@pytest.mark.parametrize(("alignment", "expected"), [(16, [4]), (8, [2, 2]), (4, [1, 1, 1, 1]), (1, [1, 1, 1, 1])])
def test_width_follows_the_proven_alignment(alignment, expected):
    function = copy(float32, 512, BlockedLayout([4], [32], [4], [0]), (alignment, 16, 16))
    assert counts(function, "global_load") == expected
    assert counts(function, "global_store") == [4]


def test_width_follows_the_mask():
    unknown = copy(float32, 512, BlockedLayout([4], [32], [4], [0]), (16, 16, 1))
    assert counts(unknown, "global_load") == [1] * 4
    even = copy(float32, 512, BlockedLayout([4], [32], [4], [0]), (16, 16, 2))
    assert counts(even, "global_load") == [2] * 2
    unmasked = copy(float32, 512, BlockedLayout([4], [32], [4], [0]), (16, 16, 1), masked=False)
    assert counts(unmasked, "global_load") == [4]


def test_one_base_address_serves_all_registers():
    function = copy(float32, 2048, BlockedLayout([4], [32], [4], [0]), (16, 16, 16))
    loads = [item for item in function.body.walk() if item.record.name == "global_load"]
    assert len({id(load.operands[0]) for load in loads}) == 1
    assert [load.attributes["offset"] for load in loads] == [0, 2048, 4096, 6144]


def test_instructions_do_not_grow_with_elements():
    small, large = (
        Counter(i.record.name for i in copy(float32, extent, BlockedLayout([4], [32], [4], [0]), (16,) * 3).body.walk())
        for extent in (512, 4096)
    )
    assert large["global_load"] == 8 * small["global_load"]
    assert large["sign_extend"] == small["sign_extend"] == 1
    assert large["mul_no_wrap"] == small["mul_no_wrap"] == 1


def test_replicated_elements_are_stored_once():
    function = copy(float32, 16, BlockedLayout([1], [32], [4], [0]), (16, 16, 16), masked=False)
    (store,) = (item for item in function.body.walk() if item.record.name == "global_store")
    (load,) = (item for item in function.body.walk() if item.record.name == "global_load")
    assert store.attributes["masked"]
    assert not load.attributes["masked"]


def test_replicated_registers_are_loaded_once():
    function = copy(float32, 2, BlockedLayout([4], [32], [4], [0]), (16, 16, 16), masked=False)
    assert counts(function, "global_load") == [2]


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_waves_of_64_lanes(target):
    layout = BlockedLayout([4], [64], [4], [0])
    function = copy(float32, 2048, layout, (16, 16, 16), target=TARGETS[target])
    assert counts(function, "global_load") == [4] * 2
