"""The algebra of linear maps, each operation against its definition on whole index spaces."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glueball import tools
from glueball.errors import LayoutError
from glueball.layouts import LinearLayout
from tests.layouts.strategies import split_bits


@st.composite
def maps(draw, inputs=("a", "b"), outputs=("x", "y"), maximum_bits=5):
    """Any map at all between small spaces, with dimensions of any size."""
    shape = split_bits(draw, draw(st.integers(0, maximum_bits)), len(outputs))
    size = math.prod(shape)
    bases = {name: draw(st.lists(st.integers(0, size - 1), max_size=3)) for name in inputs}
    return LinearLayout.from_flat_bases(bases, shape, outputs)


def values(layout):
    """Coordinates of every index, by index values in the order of the inputs."""
    ranges = [range(layout.size(name)) for name in layout.inputs]
    return {index: layout.apply(**dict(zip(layout.inputs, index, strict=True))) for index in itertools.product(*ranges)}


def test_maps_of_one_dimension():
    assert values(LinearLayout.identity_1d(8, "i", "o")) == {(i,): (i,) for i in range(8)}
    assert values(LinearLayout.strided_1d(4, 2, "i", "o")) == {(i,): (2 * i,) for i in range(4)}
    assert LinearLayout.strided_1d(4, 2, "i", "o").shape == (8,)
    zeros = LinearLayout.zeros_1d(4, "i", "o", 2)
    assert values(zeros) == {(i,): (0,) for i in range(4)}
    assert zeros.shape == (2,)
    assert not zeros.is_surjective()
    for wrong in ((3, "i", "o"), (0, "i", "o")):
        with pytest.raises(LayoutError, match="must be a power of two"):
            LinearLayout.identity_1d(*wrong)


@settings(max_examples=60, deadline=None)
@given(maps(), maps(("b", "c"), ("y", "z"), maximum_bits=4))
def test_direct_sum(low, high):
    total = low.concat(high)
    assert total.inputs == ("a", "b", "c")
    assert total.outputs == ("x", "y", "z")
    for index, point in values(total).items():
        a, b, c = index
        b_low, b_high = b % low.size("b"), b // low.size("b")
        x, y = low.apply(a=a, b=b_low)
        y_high, z = high.apply(b=b_high, c=c)
        assert point == (x, y + low.shape[1] * y_high, z)


@settings(max_examples=60, deadline=None)
@given(maps(), maps())
def test_left_division_undoes_the_direct_sum(low, high):
    total = low.concat(high)
    assert total.divide_left(low) == high
    assert total.divide_left(LinearLayout.identity_1d(1, "a", "x")) == total


@settings(max_examples=100, deadline=None)
@given(maps(), st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"]), st.sampled_from([1, 2, 4]))
def test_left_division_by_a_vector_is_contiguity(layout, name, output, size):
    quotient = layout.divide_left(LinearLayout.identity_1d(size, name, output))
    axis = layout.outputs.index(output)
    if layout.size(name) < size or layout.shape[axis] < size:
        assert quotient is None
        return
    position = layout.inputs.index(name)

    def continues(index, point):
        """Whether this index lies as far into its vector as its coordinate does, and vectors start at multiples."""
        inside = index[position] % size
        start = tuple(value - inside if place == position else value for place, value in enumerate(index))
        first = layout.apply(**dict(zip(layout.inputs, start, strict=True)))
        expected = tuple(value + inside if place == axis else value for place, value in enumerate(first))
        return point == expected and first[axis] % size == 0

    contiguous = all(continues(index, point) for index, point in values(layout).items())
    assert (quotient is not None) == contiguous
    if quotient is not None:
        assert quotient.size(name) * size == layout.size(name)


def test_left_division_by_other_dimensions():
    layout = LinearLayout.identity_1d(4, "a", "x")
    assert layout.divide_left(LinearLayout.identity_1d(2, "b", "x")) is None
    assert layout.divide_left(LinearLayout.identity_1d(2, "a", "y")) is None
    assert layout.divide_left(LinearLayout.zeros_1d(2, "a", "x")) is None


@settings(max_examples=60, deadline=None)
@given(maps(), st.data())
def test_reshaping_the_outputs(layout, data):
    bits = layout.elements.bit_length() - 1
    shape = split_bits(data.draw, bits, 3)
    reshaped = layout.reshape(shape)
    for index, point in values(layout).items():
        other = reshaped.apply(**dict(zip(layout.inputs, index, strict=True)))
        assert reshaped.flatten(other) == layout.flatten(point)
    assert reshaped.reshape(layout.shape, layout.outputs) == layout
    assert layout.flatten_outputs().shape == (layout.elements,)
    with pytest.raises(LayoutError, match="cannot read a tensor"):
        layout.reshape([*shape, 2])


@settings(max_examples=60, deadline=None)
@given(maps(), st.data())
def test_reshaping_the_inputs(layout, data):
    total = layout.bits("a") + layout.bits("b")
    first = data.draw(st.integers(0, total))
    reshaped = layout.reshape_inputs({"p": first, "q": total - first})
    for p in range(1 << first):
        for q in range(1 << (total - first)):
            index = p + (q << first)
            assert reshaped.apply(p=p, q=q) == layout.apply(a=index % layout.size("a"), b=index // layout.size("a"))
    assert layout.flatten_inputs() == layout.reshape_inputs({"index": total})
    with pytest.raises(LayoutError, match="cannot divide"):
        layout.reshape_inputs({"p": total + 1})


@settings(max_examples=60, deadline=None)
@given(maps(outputs=("x", "y", "z")), st.permutations([0, 1, 2]))
def test_transposing(layout, order):
    swapped = layout.transpose(order)
    assert swapped.outputs == tuple(layout.outputs[axis] for axis in order)
    for index, point in values(layout).items():
        assert swapped.apply(**dict(zip(layout.inputs, index, strict=True))) == tuple(point[axis] for axis in order)
    exchanged = layout.transpose_inputs(["b", "a"])
    assert exchanged.inputs == ("b", "a")
    assert {(a, b): point for (b, a), point in values(exchanged).items()} == values(layout)
    for wrong in (lambda: layout.transpose([0, 0, 1]), lambda: layout.transpose_inputs(["a", "a"])):
        with pytest.raises(LayoutError, match="not a permutation"):
            wrong()


@settings(max_examples=60, deadline=None)
@given(maps(("a", "b", "c")), st.sets(st.sampled_from("abc")), st.sets(st.sampled_from("xy")))
def test_parts(layout, inputs, outputs):
    names, kept = sorted(inputs), sorted(outputs)
    part = layout.slice(names, kept)
    for index, point in values(part).items():
        whole = dict(zip(layout.outputs, layout.apply(**dict(zip(names, index, strict=True))), strict=True))
        assert point == tuple(whole[name] for name in kept)
    assert layout.slice() == layout
    with pytest.raises(LayoutError, match="no dimension 'd'"):
        layout.slice(["d"])


@settings(max_examples=60, deadline=None)
@given(maps(), st.lists(st.integers(0, 4), min_size=2, max_size=2), st.permutations([0, 1]))
def test_fitting_to_a_shape(layout, bits, order):
    shape = tuple(1 << count for count in bits)
    fitted = layout.resize(shape, name="a", order=order)
    assert fitted.shape == shape
    old = layout.size("a")
    for (a, b), point in values(fitted).items():
        inside = layout.apply(a=a % old, b=b)
        rest = a // old
        expected = []
        for axis in order:
            grown = max(1, shape[axis] // layout.shape[axis])
            tiles, rest = rest % grown, rest // grown
            expected.append((axis, inside[axis] % shape[axis] + tiles * layout.shape[axis]))
        assert point == tuple(value for _, value in sorted(expected))
    if layout.is_surjective():
        assert fitted.is_surjective()
    with pytest.raises(LayoutError, match="does not fit the rank"):
        layout.resize([2])


@settings(max_examples=100, deadline=None)
@given(maps(("a", "b"), ("a", "b")), st.booleans())
def test_maps_that_leave_a_dimension_alone(layout, trivial):
    if trivial:
        layout = LinearLayout.identity_1d(4, "a", "a").concat(layout.slice(["b"], ["b"]))
    square = layout.size("a") == layout.shape[0]
    expected = square and all(point[0] == a for (a, _), point in values(layout).items())
    expected = expected and all(layout.apply(a=a)[1] == 0 for a in range(layout.size("a")))
    assert layout.is_trivial_over(["a"]) == expected
    assert layout.is_trivial_over([])
    assert not layout.is_trivial_over(["c"])


def test_the_tool_has_the_names_that_programs_use():
    layout = tools.LinearLayout.from_bases([("r", [[0, 1], [1, 0]]), ("l", [[0, 2], [2, 3]])], ["x", "y"])
    assert layout.bases == [("r", [[0, 1], [1, 0]]), ("l", [[0, 2], [2, 3]])]
    assert layout.out_dims == [("x", 4), ("y", 4)]
    assert (layout.num_in_dims, layout.num_out_dims) == (2, 2)
    assert (layout.get_in_dim_names(), layout.get_out_dim_names()) == (["r", "l"], ["x", "y"])
    assert layout.apply({"r": 3, "l": 2}) == {"x": 3, "y": 2}
    assert layout.get_matrix_view() == [[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 1], [0, 0, 1, 1]]
    assert layout.is_invertible()
    assert layout.invert() == layout.pseudoinvert()
    identity = layout.compose(layout.invert())
    assert identity.apply({"r": 2, "l": 1}) == {"r": 2, "l": 1}
    assert layout.invert_and_compose(layout) == identity
    double = tools.LinearLayout.identity_1d(4, "i", "x") * tools.LinearLayout.strided_1d(2, 2, "j", "x")
    assert double.bases == [("i", [[1], [2]]), ("j", [[8]])]
    mixed = tools.LinearLayout.identity_1d(4, "i", "x") * tools.LinearLayout.zeros_1d(2, "i", "x")
    assert mixed.bases == [("i", [[1], [2], [0]])]
    assert tools.LinearLayout.from_bases({"i": [[2]]}, ["x"], [4], False).is_injective()
    assert str(double).endswith("onto [x: 16]")
    with pytest.raises(LayoutError, match="expected to be surjective"):
        tools.LinearLayout.from_bases({"i": [[2]]}, ["x"])
    with pytest.raises(LayoutError, match="an index of"):
        layout.apply({"r": 1})
    assert tools.LinearLayout.identity_1d(4, "offset", "dim0").get_shared_view(True).startswith("Block: 0:")
    lanes = tools.LinearLayout.identity_1d(4, "lane", "dim0")
    assert lanes.get_distributed_view(False) == "[T0:0, T1:0, T2:0, T3:0]\n"
