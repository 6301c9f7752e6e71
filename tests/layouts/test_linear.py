import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glueball.errors import LayoutError
from glueball.layouts import BlockedLayout, LinearLayout, f2
from tests.layouts.plan_machine import holdings
from tests.layouts.strategies import distributed_maps, shapes

vectors = st.lists(st.integers(0, 63), max_size=8)


def span(columns):
    return {f2.apply(columns, mask) for mask in range(1 << len(columns))}


@st.composite
def maps(draw):
    return draw(distributed_maps(draw(shapes(draw(st.integers(1, 3)), maximum_bits=9)), 5, draw(st.integers(0, 2))))


@given(vectors, vectors)
def test_spans(first, second):
    assert 1 << f2.rank(first) == len(span(first))
    assert span(f2.independent(first)) == span(first)
    assert span(f2.reduced(first)) == span(first)
    assert (f2.reduced(first) == f2.reduced(second)) == (span(first) == span(second))
    common = f2.intersection(first, second)
    assert span(common) == span(first) & span(second)
    assert f2.rank(common) == len(common)
    kernel = f2.kernel(first)
    assert span(kernel) == {mask for mask in range(1 << len(first)) if f2.apply(first, mask) == 0}


@given(vectors, st.integers(0, 63))
def test_solving(columns, vector):
    solution = f2.Echelon(columns).solve(vector)
    assert (solution is not None) == (vector in span(columns))
    if solution is not None:
        assert f2.apply(columns, solution) == vector


@settings(deadline=None)
@given(maps())
def test_application_is_the_same_one_by_one_and_in_arrays(layout):
    register, lane = np.meshgrid(np.arange(layout.size("register")), np.arange(layout.size("lane")), indexing="ij")
    flat = layout.apply_flat(register=register, lane=lane, warp=layout.size("warp") - 1)
    for index in np.ndindex(flat.shape):
        expected = layout.apply(register=index[0], lane=index[1], warp=layout.size("warp") - 1)
        assert layout.unflatten(int(flat[index])) == expected
        assert layout.flatten(expected) == flat[index]


@settings(deadline=None)
@given(maps())
def test_free_bits_zero_is_one_holder_of_each_element(layout):
    where = holdings(layout)
    free = layout.free_variables()
    kept = [
        [index for index in range(layout.size(name)) if not index & free[name]]
        for name in ("block", "warp", "lane", "register")
    ]
    assert sorted(where[np.ix_(*kept)].ravel().tolist()) == list(range(layout.elements))


@settings(deadline=None)
@given(maps())
def test_right_inverse(layout):
    inverse = layout.pseudo_inverse()
    identity = layout.compose(inverse)
    assert [
        identity.apply_flat(**dict(zip(layout.outputs, layout.unflatten(e), strict=True)))
        for e in range(layout.elements)
    ] == list(range(layout.elements))
    if layout.is_injective():
        assert layout.inverse() == inverse
        assert inverse.inverse() == layout
        assert layout.kernel() == []
    else:
        assert all(layout.apply_flat(**vector) == 0 and any(vector.values()) for vector in layout.kernel())
        with pytest.raises(LayoutError, match="has no inverse"):
            layout.inverse()


def test_reading_a_layout():
    layout = LinearLayout.from_bases({"register": [[0, 1]], "lane": [[2, 1], [1, 0]]}, [4, 2])
    assert layout.shape == (4, 2)
    assert layout.outputs == ("dim0", "dim1")
    assert layout.bases["lane"] == [[2, 1], [1, 0]]
    assert layout.flat_bases("lane") == (5, 2)
    assert (layout.size("lane"), layout.bits("lane"), layout.size("warp")) == (4, 2, 1)
    assert layout.apply(register=1, lane=3) == (3, 0)
    assert layout.rank() == 3
    assert layout.is_injective()
    assert layout.is_surjective()
    assert layout.image() == [(0, 1), (1, 0), (2, 0)]
    assert str(layout) == "register  (0,1)\nlane      (2,1) (1,0)\nonto [dim0: 4, dim1: 2]"
    assert hash(layout) == hash(LinearLayout.from_bases({"register": [(0, 1)], "lane": [(2, 1), (1, 0)]}, (4, 2)))


def test_composition():
    outer = LinearLayout.from_bases({"row": [[1], [2]], "column": [[4]]}, [8])
    inner = LinearLayout.from_bases({"lane": [[0, 1], [3, 0]]}, [4, 2], ["row", "column"])
    assert outer.compose(inner).bases == {"lane": [[4], [3]]}
    with pytest.raises(LayoutError, match="cannot compose"):
        outer.compose(LinearLayout.from_bases({"lane": [[4]]}, [8], ["row"]))


def test_the_first_difference_names_the_index():
    first = BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]).linear([16, 32])
    second = BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0]).linear([16, 32])
    assert first.first_difference(first) is None
    assert first.first_difference(second) == ({"register": 4}, None, (0, 16))
    third = BlockedLayout([1, 4], [4, 8], [1, 4], [1, 0]).linear([4, 128])
    fourth = BlockedLayout([1, 4], [8, 4], [1, 4], [1, 0]).linear([4, 128])
    assert third.first_difference(fourth) == ({"register": 4}, None, (0, 64))
    lanes = LinearLayout.from_bases({"lane": [[2], [1]]}, [4])
    assert lanes.first_difference(LinearLayout.from_bases({"lane": [[1], [2]]}, [4])) == ({"lane": 1}, (2,), (1,))
    with pytest.raises(LayoutError, match="do not compare"):
        first.first_difference(third)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearLayout.from_bases({"lane": [[1]]}, [3]), "power of two"),
        (lambda: LinearLayout.from_bases({"lane": [[1, 0]]}, [4]), "must have 1 coordinates"),
        (lambda: LinearLayout.from_bases({"lane": [[4]]}, [4]), "outside the shape"),
        (lambda: LinearLayout.from_flat_bases({"lane": [8]}, [4, 2]), "outside the shape"),
        (lambda: LinearLayout.from_bases({"lane": [[1]]}, [4], ["a", "b"]), "2 output names"),
        (lambda: LinearLayout.from_bases({"lane": [[1]]}, [2]).apply(warp=1), "no input dimension 'warp'"),
        (lambda: LinearLayout.from_bases({"lane": [[1]]}, [2]).apply(lane=2), r"outside 0\.\.1"),
        (lambda: LinearLayout.from_bases({"lane": [[1]]}, [4]).pseudo_inverse(), "surjective"),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(LayoutError, match=message):
        make()
