"""Views as text, element by element, and pictures."""

import itertools
import math
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glueball.errors import LayoutError
from glueball.layouts import (
    AutoLayout,
    BlockedLayout,
    CoalescedLayout,
    LinearLayout,
    NVMMADistributedLayout,
    NVMMASharedLayout,
    PaddedSharedLayout,
    SliceLayout,
    SwizzledSharedLayout,
    TensorMemoryLayout,
    svg,
)
from glueball.layouts.display import holders
from glueball.layouts.representation import natural_shape

SPACE = {"svg": "http://www.w3.org/2000/svg"}
ROWS = BlockedLayout([1, 2], [4, 8], [2, 1], [1, 0])


@st.composite
def blocked_and_shapes(draw):
    rank = draw(st.integers(1, 4))
    power = st.sampled_from([1, 1, 2])
    sizes = st.lists(power, min_size=rank, max_size=rank)
    split = draw(st.sampled_from([None, *range(rank + 1)]))
    cga = [] if split is None else [[int(axis == split) for axis in range(rank)]]
    layout = BlockedLayout(draw(sizes), draw(sizes), draw(sizes), draw(st.permutations(range(rank))), cga)
    shape = draw(st.lists(st.sampled_from([1, 2, 4, 16][: 6 - rank]), min_size=rank, max_size=rank))
    return layout, tuple(shape)


def points(shape):
    return itertools.product(*map(range, shape))


def text_of(point, shape, separator):
    numbers = (str(value).rjust(len(str(extent - 1))) for value, extent in zip(point, shape, strict=True))
    return f"({separator.join(numbers)})"


def nested(cells, shape, separator):
    """One line per row; a line starts with as many brackets as dimensions start there."""
    lines = []
    for start in range(0, len(cells), shape[-1]):
        row = start // shape[-1]
        sizes = [math.prod(shape[axis:-1]) for axis in range(len(shape) - 1)]
        opening = "[" * (1 + sum(row % size == 0 for size in sizes))
        closing = "]" * (1 + sum((row + 1) % size == 0 for size in sizes))
        lines.append(opening.ljust(len(shape)) + separator.join(cells[start : start + shape[-1]]) + closing)
    return "\n".join(lines) + "\n"


@settings(max_examples=60, deadline=None)
@given(blocked_and_shapes())
def test_tensor_views_name_every_holder_of_every_element(pair):
    layout, shape = pair
    linear = layout.linear(shape)
    found = {point: [] for point in points(shape)}
    for block, warp, lane, register in itertools.product(
        *(range(linear.size(name)) for name in ("block", "warp", "lane", "register"))
    ):
        name = f"T{lane + linear.size('lane') * warp}:{register}"
        where = linear.apply(register=register, lane=lane, warp=warp, block=block)
        found[where].append(f"B{block}:{name}" if layout.cga_layout else name)
    width = max(len(name) for names in found.values() for name in names)
    cells = ["|".join(name.rjust(width) for name in found[point]) for point in points(shape)]
    assert layout.format_tensor_view(shape) == nested(cells, shape, ", ")


@settings(max_examples=60, deadline=None)
@given(blocked_and_shapes())
def test_hardware_views_list_what_lanes_hold(pair):
    layout, shape = pair
    linear = layout.linear(shape)
    lines = []
    for block in range(linear.size("block")):
        lines += [f"Block{block}:"] if layout.cga_layout else []
        for warp in range(linear.size("warp")):
            lines.append(f"Warp{warp}:")
            for register in range(linear.size("register")):
                held = (
                    linear.apply(register=register, lane=lane, warp=warp, block=block)
                    for lane in range(linear.size("lane"))
                )
                lines.append(", ".join(text_of(point, shape, ",") for point in held))
    assert layout.format_hardware_view(shape) == "\n".join(lines) + "\n"


@given(st.integers(1, 3), st.data())
def test_shared_views_list_what_lies_where(rank, data):
    power = st.sampled_from([1, 2, 4, 8])
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 8, 16]), min_size=rank, max_size=rank)))
    order = data.draw(st.permutations(range(rank)))
    layout = SwizzledSharedLayout(data.draw(power), data.draw(power), data.draw(power), order)
    linear = layout.linear(shape)
    stored = [linear.apply(offset=offset) for offset in range(linear.size("offset"))]
    assert layout.format_tensor_view(shape) == nested([text_of(point, shape, ":") for point in stored], shape, ",")
    lines = [f"Offset: {offset} -> {text_of(point, shape, ',')}" for offset, point in enumerate(stored)]
    assert layout.format_hardware_view(shape) == "\n".join(["Block: 0:", *lines]) + "\n"


def test_views_read_as_documented():
    replicated = BlockedLayout([1, 4], [4, 8], [1, 1], [1, 0])
    assert replicated.format_tensor_view([4, 8]).startswith("[[ T0:0| T2:0| T4:0| T6:0,  T0:1| T2:1|")
    swizzled = SwizzledSharedLayout(2, 1, 4, [1, 0]).format_tensor_view([4, 8])
    assert swizzled.splitlines()[1] == "[ (1:2),(1:3),(1:0),(1:1),(1:6),(1:7),(1:4),(1:5)]"
    offsets = BlockedLayout([1], [32], [4], [0]).format_hardware_view([128]).splitlines()
    assert offsets[:2] == ["Warp0:", ", ".join(f"({lane:3})" for lane in range(32))]
    many = SwizzledSharedLayout(1, 1, 1, [0]).format_hardware_view([4096]).splitlines()
    assert [many[1 + offset] for offset in (0, 999, 1000, 4095)] == [
        f"Offset: {offset} -> ({offset:4})" for offset in (0, 999, 1000, 4095)
    ]


def test_large_tensors_are_rendered_whole():
    layout = BlockedLayout([1, 1, 4], [4, 4, 2], [4, 1, 1], [2, 1, 0])
    lines = layout.format_tensor_view([512, 64, 8]).splitlines()
    assert len(lines) == 512 * 64
    linear = layout.linear([512, 64, 8])
    for row in (0, 63, 64, 20_000, 32_767):
        mask = holders(linear)[row * 8 + 5].tolist()
        assert len(mask) == 1
        place = linear.split(mask[0])
        assert f"T{place['lane'] + 32 * place['warp']}:{place['register']}" == lines[row].split(",")[5].strip(" ]")
    assert len(layout.format_hardware_view([512, 64, 8]).splitlines()) == 4 * (1 + 2048)


@pytest.mark.parametrize("layout", [AutoLayout(), CoalescedLayout(), PaddedSharedLayout([[2, 1]], [[1]], [], [2])])
def test_layouts_without_views_say_so(layout):
    for view in (layout.format_tensor_view, layout.format_hardware_view):
        with pytest.raises(LayoutError, match=f"{type(layout).__name__} cannot be visualized"):
            view([2])


def test_layouts_too_large_to_show_say_so():
    with pytest.raises(LayoutError, match="too large to be shown"):
        BlockedLayout([1], [1 << 20], [1 << 20], [0]).format_tensor_view([4])
    with pytest.raises(LayoutError, match="too large to be shown"):
        BlockedLayout([1], [32], [1], [0]).format_hardware_view([1 << 40])


def test_holders_need_every_element_to_be_held():
    with pytest.raises(LayoutError, match="surjective"):
        holders(LinearLayout.from_bases({"register": [[1]]}, [4]))


def cells_of(text):
    return ElementTree.fromstring(text).findall("svg:g", SPACE)


def labels_of(text):
    return [cell.find("svg:text", SPACE).text or "" for cell in cells_of(text)]


def colors_of(text):
    return [cell.find("svg:rect", SPACE).get("fill") for cell in cells_of(text)]


def test_pictures_have_a_cell_per_element():
    text = svg(ROWS, [8, 16])
    assert text == svg(ROWS, [8, 16])
    assert labels_of(text)[:3] == ["T0:0", "T0:1", "T1:0"]
    assert len(labels_of(text)) == 8 * 16
    assert len(set(colors_of(text))) == 2
    assert len(set(colors_of(svg(ROWS, [8, 16], color_by="lane")))) == 32
    replicated = cells_of(svg(ROWS, [1, 2]))
    assert replicated[0].find("svg:text", SPACE).text == "T0:0+63"
    assert replicated[0].find("svg:title", SPACE).text.count(":0") == 64
    two = BlockedLayout([1, 2], [4, 8], [2, 1], [1, 0], [[1, 0]])
    assert labels_of(svg(two, [16, 16]))[-1] == "B1:T63:1"


def test_pictures_of_higher_rank_are_tables_of_the_last_two_dimensions():
    layout = BlockedLayout([1, 1, 2], [1, 4, 8], [2, 1, 1], [2, 1, 0])
    root = ElementTree.fromstring(svg(layout, [2, 4, 16]))
    headings = [text.text for text in root.findall("svg:text", SPACE) if text.get("font-weight") == "bold"]
    assert headings == ["[0, :, :]", "[1, :, :]"]
    assert len(cells_of(svg(layout, [2, 4, 16]))) == 2 * 4 * 16


def test_pictures_of_hardware_have_a_table_per_warp():
    text = svg(ROWS, [8, 16], view="hardware")
    linear = ROWS.linear([8, 16])
    expected = [
        ",".join(map(str, linear.apply(register=register, lane=lane, warp=warp)))
        for warp in range(2)
        for register in range(2)
        for lane in range(32)
    ]
    assert labels_of(text) == expected


def test_pictures_of_shared_memory_show_offsets_and_banks():
    layout = SwizzledSharedLayout(4, 1, 4, [1, 0])
    text = svg(layout, [4, 32], element_bits=32)
    assert labels_of(text)[32:37] == ["36", "37", "38", "39", "32"]
    assert colors_of(text)[32] == colors_of(text)[4] != colors_of(text)[0]
    assert len(set(colors_of(text))) == 32
    assert labels_of(svg(layout, [4, 32], view="hardware"))[32:36] == ["1,4", "1,5", "1,6", "1,7"]
    padded = PaddedSharedLayout.with_identity_for([[8, 2]], [4, 8], [1, 0])
    assert labels_of(svg(padded, [4, 8]))[8] == "10"
    memory = labels_of(svg(padded, [4, 8], view="hardware", banks=2, element_bits=8))
    assert memory[:12] == [*(f"0,{column}" for column in range(8)), "", "", "1,0", "1,1"]


def test_pictures_refuse_what_they_cannot_draw():
    with pytest.raises(LayoutError, match="at most 4096 cells"):
        svg(ROWS, [128, 128])
    with pytest.raises(LayoutError, match="color_by"):
        svg(ROWS, [8, 8], color_by="register")
    with pytest.raises(LayoutError, match="view must be"):
        svg(ROWS, [8, 8], view="side")
    with pytest.raises(LayoutError, match="TensorMemoryLayout cannot be visualized"):
        svg(TensorMemoryLayout([64, 2], 1), [64, 2])


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0]), (32, 16)),
        (BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0], [[1, 0]]), (64, 16)),
        (SliceLayout(0, BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])), (16,)),
        (NVMMADistributedLayout([2, 0], [4, 1], [16, 8]), (64, 8)),
        (SwizzledSharedLayout(4, 1, 4, [1, 0]), (8, 16)),
        (NVMMASharedLayout(128, 16), (8, 64)),
        (NVMMASharedLayout(64, 8, transposed=True), (64, 8)),
        (PaddedSharedLayout.with_identity_for([[8, 2]], [4, 8], [1, 0]), (4, 8)),
    ],
)
def test_layouts_show_one_tile_in_a_notebook(layout, shape):
    assert natural_shape(layout) == shape
    layout.linear(shape)
    assert len(cells_of(layout._repr_svg_())) == math.prod(shape)
    html = layout._repr_html_()
    assert type(layout).__name__ in html
    assert "<svg" in html
    assert ("elements a thread" in html) != ("bytes a CTA" in html)


def test_layouts_without_a_picture_have_none_in_a_notebook():
    for layout in (AutoLayout(), TensorMemoryLayout([128, 64], 1), BlockedLayout([64, 64], [8, 4], [4, 1], [1, 0])):
        assert layout._repr_html_() is None
        assert layout._repr_svg_() is None
