import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glueball.errors import LayoutError
from glueball.layouts import (
    BlockedLayout,
    DistributedLinearLayout,
    SliceLayout,
    coalesced_layout,
    expand_dims_layout,
    global_access,
    permute_layout,
    to_distributed_linear,
)
from tests.layouts.plan_machine import holdings
from tests.layouts.strategies import blocked_layouts, explicit, linear_maps, shapes

P = BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])


@dataclass
class Constant:
    """A compile-time wrapper."""

    value: Any


def strip_of(layout, shape):
    """What a blocked layout means, thread by thread: register r of a thread, as coordinates wrapped into the shape."""
    result = {}
    extents = [
        s * t * w for s, t, w in zip(layout.size_per_thread, layout.threads_per_warp, layout.warps_per_cta, strict=True)
    ]
    for warp in range(layout.warps):
        for lane in range(layout.lanes):
            held = []
            corner, rest_lane, rest_warp = [0] * layout.rank, lane, warp
            for axis in layout.order:
                rest_lane, in_warp = divmod(rest_lane, layout.threads_per_warp[axis])
                rest_warp, in_cta = divmod(rest_warp, layout.warps_per_cta[axis])
                corner[axis] = (in_cta * layout.threads_per_warp[axis] + in_warp) * layout.size_per_thread[axis]
            ranges = [
                [
                    (corner[axis] + repeat * extents[axis] + inner) % shape[axis]
                    for repeat in range(max(1, shape[axis] // extents[axis]))
                    for inner in range(layout.size_per_thread[axis])
                ]
                for axis in range(layout.rank)
            ]
            held = {
                tuple(int(value) for value in point)
                for point in np.stack(np.meshgrid(*ranges), -1).reshape(-1, layout.rank)
            }
            result[warp, lane] = held
    return result


@st.composite
def blocked_and_shape(draw):
    layout = draw(blocked_layouts())
    return layout, draw(shapes(layout.rank, maximum_bits=10))


@settings(max_examples=40, deadline=None)
@given(blocked_and_shape())
def test_blocked_layouts_tile_the_tensor(drawn):
    layout, shape = drawn
    linear = layout.linear(shape)
    for (warp, lane), expected in strip_of(layout, shape).items():
        found = [linear.apply(register=register, lane=lane, warp=warp) for register in range(linear.size("register"))]
        assert set(found) == expected
        assert len(found) == len(expected)


@settings(max_examples=40, deadline=None)
@given(blocked_and_shape(), st.data())
def test_a_slice_holds_what_its_parent_holds(drawn, data):
    layout, shape = drawn
    if layout.rank == 1:
        return
    axis = data.draw(st.integers(0, layout.rank - 1))
    rest = shape[:axis] + shape[axis + 1 :]
    linear = SliceLayout(axis, layout).linear(rest)
    parent = layout.linear((*shape[:axis], 1, *shape[axis + 1 :]))
    for warp in range(layout.warps):
        for lane in range(layout.lanes):
            own = {linear.apply(register=r, lane=lane, warp=warp) for r in range(linear.size("register"))}
            points = (parent.apply(register=r, lane=lane, warp=warp) for r in range(parent.size("register")))
            assert own == {point[:axis] + point[axis + 1 :] for point in points}
    assert all(linear.flat_bases("register"))


@settings(max_examples=40, deadline=None)
@given(blocked_and_shape())
def test_the_explicit_spelling_has_the_same_map(drawn):
    layout, shape = drawn
    spelled = to_distributed_linear(layout, shape)
    assert spelled.linear(shape) == layout.linear(shape)
    assert spelled != layout
    assert (spelled.lanes, spelled.warps, spelled.ctas) == (layout.lanes, layout.warps, layout.ctas)


def test_spellings_compare_equal():
    wrapped = BlockedLayout(
        Constant([Constant(1), 4]), (4, Constant(8)), [np.int64(4), 1], Constant((1, 0)), Constant(Constant([]))
    )
    assert wrapped == P
    assert hash(wrapped) == hash(P)
    assert SliceLayout(Constant(1), Constant(P)) == SliceLayout(1, P)
    linear = DistributedLinearLayout([(0, 1)], ((1, 0),), [], Constant([]), (2, 2))
    assert linear == DistributedLinearLayout([[0, 1]], [[1, 0]], (), (), [2, 2])
    assert BlockedLayout([1, 4], [4, 8], [4, 1], [0, 1]) != P
    assert eval(repr(SliceLayout(0, P))) == SliceLayout(0, P)


def test_types_and_names():
    assert P.type == BlockedLayout((1, 4), (4, 8), (4, 1), (1, 0)).type
    assert P.type != SliceLayout(0, P).type
    assert P.mangle() == "B1_4_4_8_4_1_1_0_B"
    assert BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[1, 0], [0, 1]]).mangle() == "B1_4_4_8_4_1_1_0_1_0~0_1B"
    assert SliceLayout(0, P).mangle() == f"SL0_{P.mangle()}SL"
    one = DistributedLinearLayout([[1]], [[2]], [], [], [4])
    other = DistributedLinearLayout([], [[1], [2]], [], [], [4])
    assert one.mangle().startswith("DLL")
    assert one.mangle() != other.mangle()
    assert (P.rank, P.lanes, P.warps, P.ctas) == (2, 32, 4, 1)
    assert SliceLayout(0, BlockedLayout([1, 1], [4, 8], [2, 2], [1, 0], [[1, 0], [0, 1]])).cga_layout == ((0,), (1,))


@pytest.mark.parametrize(
    ("layout", "shape", "error", "message"),
    [
        (lambda: BlockedLayout([1], [32, 1], [4], [0]), [4], AssertionError, "must have 1 entries"),
        (lambda: BlockedLayout([1], [32], [4], [0], [[1, 0]]), [4], AssertionError, "must have 1 coordinates"),
        (lambda: BlockedLayout([1, 1], [1, 32], [4, 1], [1, 1]), [4, 4], RuntimeError, "order must be a permutation"),
        (lambda: BlockedLayout([3], [32], [4], [0]), [4], RuntimeError, "must be a power of two"),
        (lambda: BlockedLayout([1], [32], [4], [0], [[2]]), [1024], ValueError, "expected to be surjective"),
        (lambda: BlockedLayout([1.5], [32], [4], [0]), [4], LayoutError, "must be an integer, not 1.5"),
        (lambda: BlockedLayout(1, [32], [4], [0]), [4], LayoutError, "must be a list"),
        (lambda: P, [4], ValueError, "has rank 1, its layout 2"),
        (lambda: P, [12, 4], ValueError, "must be a power of two"),
        (lambda: SliceLayout(2, P), [4], RuntimeError, "must be less than the parent rank"),
        (lambda: SliceLayout(0, "P"), [4], LayoutError, "parent of a SliceLayout"),
        (lambda: DistributedLinearLayout([[1]], [], [], [], [2, 2]), [2, 2], AssertionError, "must have 2 coordinates"),
        (lambda: DistributedLinearLayout([[1]], [], [], [], [4]), [4], ValueError, "expected to be surjective"),
        (lambda: DistributedLinearLayout([[4]], [], [], [], [4]), [4], ValueError, "outside the shape"),
    ],
)
def test_mistakes(layout, shape, error, message):
    with pytest.raises(error, match=message) as caught:
        layout().linear(shape)
    assert isinstance(caught.value, LayoutError)


def test_expand_dims_of_a_slice_is_its_parent():
    assert expand_dims_layout(SliceLayout(1, P), 1, [64]) is P
    assert expand_dims_layout(SliceLayout(0, P), 0, [64]) is P


@settings(max_examples=40, deadline=None)
@given(shapes(2, maximum_bits=8).flatmap(linear_maps), st.integers(0, 2))
def test_expand_dims_of_any_layout_that_is_a_slice(layout, axis):
    own = explicit(layout)
    if 0 in layout.flat_bases("register"):
        with pytest.raises(LayoutError, match="needs a SliceLayout"):
            expand_dims_layout(own, axis, layout.shape)
        return
    parent = expand_dims_layout(own, axis, layout.shape)
    assert SliceLayout(axis, parent).linear(layout.shape) == layout
    shape = (*layout.shape[:axis], 1, *layout.shape[axis:])
    assert np.array_equal(holdings(parent.linear(shape)), holdings(layout))


def test_permuting():
    assert permute_layout(P, [1, 0], [64, 64]) == BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])
    with pytest.raises(LayoutError, match="not a permutation"):
        permute_layout(P, [0, 0], [64, 64])


@settings(max_examples=40, deadline=None)
@given(blocked_and_shape(), st.data())
def test_permuting_moves_the_coordinates_only(drawn, data):
    layout, shape = drawn
    order = data.draw(st.permutations(range(layout.rank)))
    expected = layout.linear(shape).bases
    for operand in (layout, to_distributed_linear(layout, shape)):
        permuted = permute_layout(operand, order, shape)
        assert type(permuted) is type(operand)
        found = permuted.linear([shape[axis] for axis in order]).bases
        for name, bases in expected.items():
            assert found[name] == [[basis[axis] for axis in order] for basis in bases]


@pytest.mark.parametrize(
    ("shape", "strides", "options", "expected"),
    [
        ([2048], [1], {}, BlockedLayout([1], [32], [4], [0])),
        ([2048], [1], {"vector": 8}, BlockedLayout([8], [32], [4], [0])),
        ([2048], [1], {"vector": "widest"}, BlockedLayout([4], [32], [4], [0])),
        ([64], [1], {"vector": "widest"}, BlockedLayout([2], [32], [4], [0])),
        ([2048], [2], {"vector": "widest"}, BlockedLayout([1], [32], [4], [0])),
        ([1, 2048], [4096, 1], {}, BlockedLayout([1, 1], [1, 32], [1, 4], [1, 0])),
        ([2048, 1], [1, 4096], {}, BlockedLayout([1, 1], [32, 1], [4, 1], [0, 1])),
        ([2048, 1], [4096, 1], {}, BlockedLayout([1, 1], [32, 1], [4, 1], [0, 1])),
        ([128, 128], [1, -4096], {"lanes": 64}, BlockedLayout([1, 1], [64, 1], [1, 4], [0, 1])),
        ([128, 16], [0, -3], {}, BlockedLayout([1, 1], [2, 16], [4, 1], [1, 0])),
        ([4, 8, 2], [16, 2, 1], {}, BlockedLayout([1, 1, 1], [2, 8, 2], [2, 1, 2], [2, 1, 0])),
    ],
)
def test_layouts_from_strides(shape, strides, options, expected):
    assert coalesced_layout(shape, strides, 32, 4, **options) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([4], [1, 2], 32, 4), "same rank"),
        (([3], [1], 32, 4), "power of two"),
        (([4], [1], 32, 3), "num_warps is 3"),
    ],
)
def test_layouts_from_strides_check_their_input(arguments, message):
    with pytest.raises(LayoutError, match=message):
        coalesced_layout(*arguments)


@given(shapes(2, maximum_bits=12), st.booleans())
def test_layouts_from_strides_touch_no_sector_twice(shape, transposed):
    pitch = 4096
    strides = [1, pitch] if transposed else [pitch, 1]
    layout = coalesced_layout(shape, strides, 32, 4)
    assert (layout.lanes, layout.warps) == (32, 4)
    found = global_access(layout.linear(shape), strides, 32, store=True)
    fast = shape[0] if transposed else shape[1]
    assert found.sectors == math.prod(shape) // fast * max(1, fast // 8)
