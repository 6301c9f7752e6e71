"""Layouts as text and as pictures."""

from __future__ import annotations

import colorsys
from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

from glueball.errors import LayoutError
from glueball.layouts.linear import LinearLayout

CELL_WIDTH, CELL_HEIGHT, MARGIN = 56, 22, 28
MAXIMUM_CELLS = 4096


class Mapped(Protocol):
    """Anything that gives its map for a shape, as every layout does."""

    def linear(self, shape: Sequence[int]) -> LinearLayout:
        """The map for a tensor of `shape`."""


def tensor_view(layout: LinearLayout) -> str:
    """Nested brackets, one row of the last dimension per line; each cell lists its holders.

    A holder is `T<thread>:<register>`, thread = lane + lanes * warp, with `B<block>:` before it where several CTAs
    share the tensor. Holders are right-aligned to equal width and joined by `|`.
    """
    holders = [[name for name, _, _ in cell] for cell in _holders(layout)]
    width = max(len(holder) for cell in holders for holder in cell)
    cells = ["|".join(holder.rjust(width) for holder in cell) for cell in holders]
    cell_width = max(map(len, cells))
    return _brackets([cell.rjust(cell_width) for cell in cells], layout.shape) + "\n"


def hardware_view(layout: LinearLayout) -> str:
    """For each warp a header and one line per register with the coordinates that its lanes hold, lane 0 first.

    `Block<b>:` lines separate the CTAs where several share the tensor.
    """
    lines: list[str] = []
    previous = None
    for block, warp in _blocks_and_warps(layout):
        if layout.bits("block") and block != previous:
            lines.append(f"Block{block}:")
            previous = block
        lines.append(f"Warp{warp}:")
        start = layout.apply_flat(warp=warp, block=block)
        lane_offsets = layout.table("lane").tolist()
        for register in layout.table("register").tolist():
            points = (layout.unflatten(start ^ register ^ lane) for lane in lane_offsets)
            lines.append(", ".join("(" + ",".join(map(str, point)) + ")" for point in points))
    return "\n".join(lines) + "\n"


def svg(layout: Mapped, shape: Sequence[int], *, color_by: Literal["lane", "warp"] = "warp") -> str:
    """A picture of a tensor of rank 1 or 2 as SVG text: a cell per element, labelled `T<thread>:<register>`.

    Cells are coloured by their holder's lane or warp; of several holders the first one counts, the others are in the
    cell's tooltip and are counted after a `+`. Raises LayoutError for other ranks and for more than 4096 elements.
    """
    if color_by not in ("lane", "warp"):
        raise LayoutError(f"color_by must be 'lane' or 'warp', not {color_by!r}")
    if len(shape) not in (1, 2):
        raise LayoutError(f"only tensors of rank 1 and 2 can be drawn, this one has shape {list(shape)}")
    linear = layout.linear(shape)
    if linear.elements > MAXIMUM_CELLS:
        raise LayoutError(f"at most {MAXIMUM_CELLS} elements can be drawn, a tensor of {list(shape)} has more")
    columns = shape[-1]
    rows = linear.elements // columns
    width, height = columns * CELL_WIDTH + MARGIN, rows * CELL_HEIGHT + MARGIN
    colors = _colors(linear.size(color_by))
    style = 'font-family="monospace" font-size="11" text-anchor="middle"'
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>']
    lines.append(f'<rect width="{width}" height="{height}" fill="#ffffff"/>')
    lines += [
        f'<text x="{MARGIN + column * CELL_WIDTH + CELL_WIDTH // 2}" y="{MARGIN - 9}">{column}</text>'
        for column in range(columns)
    ]
    lines += [f'<text x="{MARGIN // 2}" y="{MARGIN + row * CELL_HEIGHT + 15}">{row}</text>' for row in range(rows)]
    for index, cell in enumerate(_holders(linear)):
        row, column = divmod(index, columns)
        _, lane, warp = cell[0]
        color = colors[lane if color_by == "lane" else warp]
        names = [name for name, _, _ in cell]
        lines.append(_cell(MARGIN + column * CELL_WIDTH, MARGIN + row * CELL_HEIGHT, color, names))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _cell(x: int, y: int, color: str, names: Sequence[str]) -> str:
    label = names[0] if len(names) == 1 else f"{names[0]}+{len(names) - 1}"
    return (
        f"<g><title>{', '.join(names)}</title>"
        f'<rect x="{x}" y="{y}" width="{CELL_WIDTH}" height="{CELL_HEIGHT}" fill="{color}" stroke="#ffffff"/>'
        f'<text x="{x + CELL_WIDTH // 2}" y="{y + 15}">{label}</text></g>'
    )


def _holders(layout: LinearLayout) -> list[list[tuple[str, int, int]]]:
    """For each element its holders: name, lane and warp, in the order of CTA, warp, lane, register."""
    holders: list[list[tuple[str, int, int]]] = [[] for _ in range(layout.elements)]
    lanes = layout.size("lane")
    registers = layout.table("register").tolist()
    for block, warp in _blocks_and_warps(layout):
        prefix = f"B{block}:" if layout.bits("block") else ""
        for lane in range(lanes):
            start = layout.apply_flat(lane=lane, warp=warp, block=block)
            for register, offset in enumerate(registers):
                holders[start ^ offset].append((f"{prefix}T{lane + lanes * warp}:{register}", lane, warp))
    return holders


def _colors(count: int) -> list[str]:
    """Light colours whose hues are spread evenly."""
    colors = []
    for index in range(count):
        channels = colorsys.hls_to_rgb(index / count, 0.78, 0.65)
        colors.append("#" + "".join(f"{round(channel * 255):02x}" for channel in channels))
    return colors


def _blocks_and_warps(layout: LinearLayout) -> Iterator[tuple[int, int]]:
    for block in range(layout.size("block")):
        for warp in range(layout.size("warp")):
            yield block, warp


def _brackets(cells: Sequence[str], shape: Sequence[int]) -> str:
    if len(shape) == 1:
        return "[" + ", ".join(cells) + "]"
    step = len(cells) // shape[0]
    rows = [_brackets(cells[start : start + step], shape[1:]) for start in range(0, len(cells), step)]
    return "[" + "\n".join(rows) + "]"
