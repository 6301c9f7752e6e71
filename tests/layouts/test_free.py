"""Shape operations that cost nothing: every thread's registers hold after them what they held before."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glueball.errors import LayoutError
from glueball.layouts import (
    AMDMFMALayout,
    BlockedLayout,
    DistributedLinearLayout,
    DotOperandLayout,
    NVMMADistributedLayout,
    SliceLayout,
    broadcast_layout,
    expand_dims_layout,
    fp4_to_fp_layout,
    join_layout,
    permute_layout,
    reshape_layout,
    split_layout,
)
from tests.layouts.plan_machine import holdings
from tests.layouts.strategies import blocked_layouts, explicit, linear_maps, shapes, split_bits

P = BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
FRAGMENTS = [
    NVMMADistributedLayout([2, 0], [2, 2], [16, 8]),
    NVMMADistributedLayout([3, 0], [4, 1], [16, 32, 16]),
    DotOperandLayout(0, NVMMADistributedLayout([2, 0], [2, 2], [16, 8]), 2),
    DotOperandLayout(1, BlockedLayout([1, 2], [8, 4], [2, 2], [1, 0]), 0),
]


@st.composite
def tensors(draw, rank=None, last=None):
    """A layout of any class, and a shape."""
    rank = draw(st.integers(1, 3)) if rank is None else rank
    shape = draw(shapes(rank, maximum_bits=9))
    if last is not None:
        shape = (*shape[:-1], last)
    kinds = ["blocked", "slice", "linear"] + (["fragment"] if rank == 2 else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "blocked":
        return draw(blocked_layouts(rank)), shape
    if kind == "slice":
        return SliceLayout(draw(st.integers(0, rank)), draw(blocked_layouts(rank + 1))), shape
    if kind == "fragment":
        return draw(st.sampled_from(FRAGMENTS)), shape
    return explicit(draw(linear_maps(shape))), shape


def held(layout, shape, tensor=None):
    """What each register of each thread holds, [block, warp, lane, register], where `tensor` says what elements are."""
    elements = np.arange(int(np.prod(shape))) if tensor is None else tensor.ravel()
    return elements[holdings(layout.linear(shape))]


@settings(max_examples=60, deadline=None)
@given(tensors(), st.data())
def test_permuting(drawn, data):
    layout, shape = drawn
    order = data.draw(st.permutations(range(len(shape))))
    permuted = np.arange(int(np.prod(shape))).reshape(shape).transpose(order)
    assert np.array_equal(held(permute_layout(layout, order, shape), permuted.shape, permuted), held(layout, shape))


@settings(max_examples=100, deadline=None)
@given(tensors(), st.data())
def test_reshaping(drawn, data):
    layout, shape = drawn
    bits = int(np.prod(shape)).bit_length() - 1
    new_shape = tuple(split_bits(data.draw, bits, data.draw(st.integers(1, 4))))
    result = reshape_layout(layout, shape, new_shape)
    assert np.array_equal(held(result, new_shape), held(layout, shape))
    if isinstance(result, BlockedLayout):
        assert isinstance(layout, BlockedLayout)


@settings(max_examples=60, deadline=None)
@given(tensors())
def test_joining_and_splitting(drawn):
    layout, shape = drawn
    joined = join_layout(layout, shape)
    pair = held(joined, (*shape, 2))
    alone = held(layout, shape)
    assert np.array_equal(pair[..., 0::2], 2 * alone)
    assert np.array_equal(pair[..., 1::2], 2 * alone + 1)
    half = split_layout(joined, (*shape, 2))
    assert np.array_equal(held(half, shape), alone)
    assert half.linear(shape) == layout.linear(shape)


@settings(max_examples=60, deadline=None)
@given(tensors(last=2))
def test_splitting_any_layout_that_holds_both_halves(drawn):
    layout, shape = drawn
    whole = held(layout, shape)
    # Two registers of a thread are a pair where they differ in the last coordinate and in nothing else.
    try:
        half = split_layout(layout, shape)
    except LayoutError as error:
        assert "at least 2 elements per thread" in str(error)
        columns = layout.linear(shape)
        inside = [basis & 1 for basis in columns.flat_bases("register")]
        outside = [basis & 1 for name in ("lane", "warp") for basis in columns.flat_bases(name)]
        assert inside.count(1) != 1 or any(outside) or 1 not in columns.flat_bases("register")
        return
    (bit,) = [bit for bit, basis in enumerate(layout.linear(shape).flat_bases("register")) if basis & 1]
    low = [register for register in range(whole.shape[-1]) if not register >> bit & 1]
    assert np.array_equal(2 * held(half, shape[:-1]), whole[..., low])
    assert np.array_equal(2 * held(half, shape[:-1]) + 1, whole[..., [register | 1 << bit for register in low]])


@settings(max_examples=60, deadline=None)
@given(tensors(), st.data())
def test_inserting_a_dimension(drawn, data):
    layout, shape = drawn
    axis = data.draw(st.integers(0, len(shape)))
    try:
        parent = expand_dims_layout(layout, axis, shape)
    except LayoutError:
        assert 0 in layout.linear(shape).flat_bases("register")
        return
    new_shape = (*shape[:axis], 1, *shape[axis:])
    found = held(parent, new_shape)
    # A parent may hold copies in registers that its slice does not have.
    kept = [r for r in range(found.shape[-1]) if not any(_copies(parent.linear(new_shape), r))]
    assert np.array_equal(found[..., kept], held(layout, shape))


def _copies(linear, register):
    return (basis == 0 and register >> bit & 1 for bit, basis in enumerate(linear.flat_bases("register")))


@settings(max_examples=60, deadline=None)
@given(tensors(), st.data())
def test_broadcasting(drawn, data):
    layout, new_shape = drawn
    grown = data.draw(st.sets(st.integers(0, len(new_shape) - 1)))
    shape = tuple(1 if axis in grown else extent for axis, extent in enumerate(new_shape))
    assert broadcast_layout(layout, shape, new_shape) is layout
    elements = np.broadcast_to(np.arange(int(np.prod(shape))).reshape(shape), new_shape)
    before, after = held(layout, shape), held(layout, new_shape, elements)
    for thread in np.ndindex(before.shape[:3]):
        assert set(after[thread]) <= set(before[thread])


@settings(max_examples=60, deadline=None)
@given(tensors(), st.data())
def test_unpacking_pairs(drawn, data):
    layout, shape = drawn
    axis = data.draw(st.integers(0, len(shape) - 1))
    result = fp4_to_fp_layout(layout, shape, axis)
    doubled = [extent * (2 if index == axis else 1) for index, extent in enumerate(shape)]
    packed = np.repeat(np.arange(int(np.prod(shape))).reshape(shape), 2, axis)
    found, source = held(result, doubled, packed), held(layout, shape)
    assert np.array_equal(found[..., 0::2], source)
    assert np.array_equal(found[..., 1::2], source)


def test_spellings():
    assert permute_layout(P, [1, 0], [64, 64]) == BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])
    assert reshape_layout(P, [64, 32], [16, 4, 32]) == BlockedLayout([1, 1, 4], [1, 4, 8], [4, 1, 1], [2, 1, 0])
    assert reshape_layout(P, [64, 32], [2048]) == BlockedLayout([4], [32], [4], [0])
    assert reshape_layout(P, [64, 32], [64, 32]) is P
    columns = BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    assert isinstance(reshape_layout(columns, [128, 1], [128]), DistributedLinearLayout)
    assert reshape_layout(BlockedLayout([1], [32], [4], [0]), [64], [2, 32]) == BlockedLayout(
        [1, 1], [1, 32], [4, 1], [1, 0]
    )
    line = BlockedLayout([2], [32], [4], [0])
    assert join_layout(line, [256]) == BlockedLayout([2, 2], [32, 1], [4, 1], [1, 0])
    assert split_layout(join_layout(line, [256]), [256, 2]) == SliceLayout(1, join_layout(line, [256]))
    assert fp4_to_fp_layout(P, [64, 32], 1) == BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    assert isinstance(fp4_to_fp_layout(P, [64, 32], 0), DistributedLinearLayout)
    assert expand_dims_layout(SliceLayout(1, P), 1, [64]) is P


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (lambda: split_layout(P, [64, 4]), "last dimension of extent 2"),
        (
            lambda: split_layout(BlockedLayout([1, 1], [16, 2], [4, 1], [1, 0]), [64, 2]),
            "at least 2 elements per thread",
        ),
        (lambda: reshape_layout(P, [64, 32], [64, 64]), "cannot read a tensor"),
        (lambda: broadcast_layout(P, [64, 1], [32, 32]), "cannot broadcast"),
        (lambda: broadcast_layout(P, [64, 1], [64]), "cannot broadcast"),
        (lambda: fp4_to_fp_layout(P, [64, 32], 2), "axis 2 is out of range"),
        (lambda: permute_layout(P, [0, 0], [64, 32]), "not a permutation"),
        (lambda: expand_dims_layout(P, 3, [64, 32]), "cannot insert a dimension at 3"),
        (
            lambda: broadcast_layout(AMDMFMALayout(4, [16, 16, 32], True, [1, 2], 32, [1, 1]), [16, 2], [16, 4]),
            "cannot broadcast",
        ),
    ],
)
def test_mistakes(operation, message):
    with pytest.raises(LayoutError, match=message):
        operation()
