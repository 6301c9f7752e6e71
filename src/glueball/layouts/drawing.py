"""Layouts as SVG pictures."""

from __future__ import annotations

import colorsys
import html
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from glueball.errors import LayoutError
from glueball.layouts.base import DistributedLayout, Layout, SharedLayout
from glueball.layouts.display import holders
from glueball.layouts.linear import LinearLayout
from glueball.layouts.memory import WORD_BYTES
from glueball.layouts.padded import PaddedSharedLayout

MAXIMUM_CELLS = 4096
CELL_HEIGHT, MARGIN, GAP = 22, 10, 14
CHARACTER_WIDTH, CELL_PADDING = 6.7, 14
STYLE = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11" text-anchor="middle" fill="#1c2430"'


@dataclass(frozen=True, slots=True)
class _Cell:
    """One cell: what it says, what its tooltip says, and the group that gives its colour."""

    label: str
    tooltip: str
    group: int


@dataclass(frozen=True, slots=True)
class _Panel:
    """A table of cells, row by row, under an optional heading."""

    heading: str
    rows: Sequence[str]
    columns: Sequence[str]
    cells: Sequence[_Cell]


def svg(
    layout: Layout,
    shape: Sequence[int],
    *,
    view: Literal["tensor", "hardware"] = "tensor",
    color_by: Literal["warp", "lane"] = "warp",
    element_bits: int = 32,
    banks: int = 32,
) -> str:
    """A picture of a tensor's layout as SVG text.

    The tensor view has a cell per element, in tables of the last two dimensions. In registers its label is
    `T<thread>:<register>`, coloured by the holder's lane or warp; of several holders the first one counts, the others
    are in the cell's tooltip and are counted after a `+`. In shared memory the label is the offset in elements, padding
    included, coloured by the bank that `element_bits` put it in. The hardware view has a table per warp, of registers
    by lanes, or a table of memory whose rows are as wide as all banks; labels are coordinates.

    Raises LayoutError for more than 4096 cells, and for layouts that have no such picture.
    """
    if color_by not in ("warp", "lane"):
        raise LayoutError(f"color_by must be 'lane' or 'warp', not {color_by!r}")
    if view not in ("tensor", "hardware"):
        raise LayoutError(f"view must be 'tensor' or 'hardware', not {view!r}")
    linear = layout.linear(shape)
    cells = linear.elements if view == "tensor" else 1 << len(linear.all_columns())
    if cells > MAXIMUM_CELLS:
        raise LayoutError(f"at most {MAXIMUM_CELLS} cells can be drawn; {list(shape)} in the {view} view has {cells}")
    if isinstance(layout, DistributedLayout):
        panels = _by_element(linear, color_by) if view == "tensor" else _by_lane(linear, color_by)
        return _draw(panels, linear.size(color_by))
    if not isinstance(layout, SharedLayout) or set(linear.inputs) != {"offset", "block"}:
        raise LayoutError(f"{type(layout).__name__} cannot be visualized")
    row_elements = max(1, banks * WORD_BYTES * 8 // element_bits)
    if view == "tensor":
        return _draw(_by_offset(layout, linear, row_elements, banks), banks)
    return _draw(_by_bank(layout, linear, row_elements), linear.shape[0])


def _by_element(layout: LinearLayout, color_by: str) -> Iterator[_Panel]:
    """The tensor view of a tensor in registers."""
    cells = []
    for index in holders(layout).tolist():
        places = [layout.split(mask) for mask in index]
        names = [_holder(layout, place) for place in places]
        label = names[0] if len(names) == 1 else f"{names[0]}+{len(names) - 1}"
        cells.append(_Cell(label, ", ".join(names), places[0][color_by]))
    yield from _tables(layout.shape, cells)


def _by_lane(layout: LinearLayout, color_by: str) -> Iterator[_Panel]:
    """The hardware view of a tensor in registers."""
    registers, lanes = range(layout.size("register")), range(layout.size("lane"))
    for block in range(layout.size("block")):
        for warp in range(layout.size("warp")):
            heading = (f"CTA {block}, " if layout.bits("block") else "") + f"warp {warp}"
            cells = []
            for register in registers:
                for lane in lanes:
                    place = {"register": register, "lane": lane, "warp": warp, "block": block}
                    label = _point(layout, layout.apply_flat(**place))
                    cells.append(_Cell(label, f"{_holder(layout, place)} holds ({label})", place[color_by]))
            yield _Panel(heading, [f"r{register}" for register in registers], [f"lane {lane}" for lane in lanes], cells)


def _by_offset(layout: SharedLayout, linear: LinearLayout, row_elements: int, banks: int) -> Iterator[_Panel]:
    """The tensor view of a tensor in shared memory."""
    cells = []
    for index in holders(linear).tolist():
        place = linear.split(index[0])
        address = address_of(layout, place["offset"])
        bank = address % row_elements * banks // row_elements
        label = (f"{place['block']}:" if linear.bits("block") else "") + str(address)
        cells.append(_Cell(label, f"offset {address}, bank {bank}, row {address // row_elements}", bank))
    yield from _tables(linear.shape, cells)


def _by_bank(layout: SharedLayout, linear: LinearLayout, row_elements: int) -> Iterator[_Panel]:
    """The hardware view of a tensor in shared memory."""
    size = linear.size("offset")
    columns = min(row_elements, size)
    shift = (linear.elements // linear.shape[0]).bit_length() - 1
    for block, start in enumerate(linear.table("block").tolist()):
        stored = {address_of(layout, offset): index for offset, index in enumerate(linear.table("offset").tolist())}
        cells = []
        for address in range(-(-(max(stored) + 1) // columns) * columns):
            if address in stored:
                index = stored[address] ^ start
                cells.append(_Cell(_point(linear, index), f"offset {address}", index >> shift))
            else:
                cells.append(_Cell("", f"offset {address}: padding", -1))
        heading = f"CTA {block}" if linear.bits("block") else ""
        rows = [str(row * columns) for row in range(len(cells) // columns)]
        yield _Panel(heading, rows, [str(column) for column in range(columns)], cells)


def address_of(layout: SharedLayout, offset: int) -> int:
    """Where the element at an offset lies in shared memory, in elements from the start, padding included."""
    return int(layout.address(offset)) if isinstance(layout, PaddedSharedLayout) else offset


def _holder(layout: LinearLayout, place: dict[str, int]) -> str:
    thread = place["lane"] + layout.size("lane") * place["warp"]
    return (f"B{place['block']}:" if layout.bits("block") else "") + f"T{thread}:{place['register']}"


def _point(layout: LinearLayout, index: int) -> str:
    return ",".join(map(str, layout.unflatten(index)))


def _tables(shape: Sequence[int], cells: Sequence[_Cell]) -> Iterator[_Panel]:
    """One table per index of the leading dimensions."""
    *leading, rows, columns = (1, 1, *shape)[-max(2, len(shape)) :]
    size = rows * columns
    for table, indices in enumerate(itertools.product(*map(range, leading))):
        heading = f"[{', '.join(map(str, indices))}, :, :]" if leading else ""
        row_labels = [str(row) for row in range(rows)] if len(shape) > 1 else [""]
        part = cells[table * size : (table + 1) * size]
        yield _Panel(heading, row_labels, [str(column) for column in range(columns)], part)


def _draw(panels: Iterator[_Panel], groups: int) -> str:
    """The tables below each other."""
    tables = list(panels)
    colors = _colors(groups)
    longest = max(len(text) for panel in tables for text in (*panel.columns, *(cell.label for cell in panel.cells)))
    width = math.ceil(longest * CHARACTER_WIDTH) + CELL_PADDING
    left = MARGIN + math.ceil(max(len(row) for panel in tables for row in panel.rows) * CHARACTER_WIDTH) + 8
    lines: list[str] = []
    y = MARGIN
    for panel in tables:
        if panel.heading:
            lines.append(f'<text x="{left}" y="{y + 13}" text-anchor="start" font-weight="bold">{panel.heading}</text>')
            y += CELL_HEIGHT
        for position, label in enumerate(panel.columns):
            lines.append(_label(left + position * width + width // 2, y + 13, label))
        y += CELL_HEIGHT - 2
        for position, row in enumerate(panel.rows):
            lines.append(_label(left - 8, y + 15, row, 'text-anchor="end" '))
            first = position * len(panel.columns)
            for column, cell in enumerate(panel.cells[first : first + len(panel.columns)]):
                color = colors[cell.group] if cell.group >= 0 else "#f1f3f6"
                lines.append(_cell(left + column * width, y, width, color, cell))
            y += CELL_HEIGHT
        y += GAP
    total_width = left + max(len(panel.columns) for panel in tables) * width + MARGIN
    total_height = y - GAP + MARGIN
    size = f'width="{total_width}" height="{total_height}" viewBox="0 0 {total_width} {total_height}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {STYLE}>',
        f'<rect width="{total_width}" height="{total_height}" fill="#ffffff"/>',
    ]
    return "\n".join([*head, *lines, "</svg>"]) + "\n"


def _label(x: int, y: int, text: str, attributes: str = "") -> str:
    return f'<text x="{x}" y="{y}" {attributes}fill="#6b7686">{html.escape(text)}</text>'


def _cell(x: int, y: int, width: int, color: str, cell: _Cell) -> str:
    return (
        f"<g><title>{html.escape(cell.tooltip)}</title>"
        f'<rect x="{x}" y="{y}" width="{width}" height="{CELL_HEIGHT}" rx="3" fill="{color}" stroke="#ffffff"/>'
        f'<text x="{x + width // 2}" y="{y + 15}">{html.escape(cell.label)}</text></g>'
    )


def _colors(count: int) -> list[str]:
    """Light colours whose hues are spread evenly."""
    colors = []
    for index in range(count):
        channels = colorsys.hls_to_rgb((0.58 + index / count) % 1, 0.82, 0.62)
        colors.append("#" + "".join(f"{round(channel * 255):02x}" for channel in channels))
    return colors
