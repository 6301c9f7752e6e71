"""Layouts as text.

Text is put together as arrays of characters, one row of an array per line, so that tensors of a million elements take
milliseconds a view. Lines of different length are padded with NUL characters, which are removed at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from glueball.errors import LayoutError
from glueball.layouts import f2
from glueball.layouts.linear import IndexArray, LinearLayout

Characters: TypeAlias = NDArray[np.uint8]

MAXIMUM_BITS = 24
NEWLINE = ord("\n")


def holders(layout: LinearLayout) -> IndexArray:
    """For each element, by flat index, all hardware indices that hold it in ascending order: shape [elements, copies].

    A hardware index has the bits of the first input dimension lowest. Raises LayoutError where an element is held
    nowhere, or where there are more than 2^24 hardware indices.
    """
    _check_size(layout)
    span = f2.Echelon(layout.all_columns())
    solutions = [span.solve(1 << bit) for bit in range(layout.elements.bit_length() - 1)]
    found = [mask for mask in solutions if mask is not None]
    if len(found) < len(solutions):
        raise LayoutError(f"a layout is expected to be surjective, this one leaves out elements:\n{layout}")
    # No solution has a free bit, and each kernel vector has one of its own as its highest: the sums come out sorted.
    size = 1 << len(layout.all_columns())
    where = LinearLayout.from_flat_bases({"element": found, "copy": span.kernel}, (size,))
    return where.table("element")[:, None] ^ where.table("copy")


def tensor_view(layout: LinearLayout) -> str:
    """Nested brackets, one row of the last dimension per line; each cell lists its holders.

    A holder is `T<thread>:<register>`, thread = lane + lanes * warp, with `B<block>:` before it where several CTAs
    share the tensor. Holders are right-aligned to equal width and joined by `|`.
    """
    index = holders(layout)
    names = _holder_names(layout)
    cells = np.full((*index.shape, names.shape[1] + 1), ord("|"), np.uint8)
    cells[:, :, :-1] = names[index]
    cells[:, -1, -1] = 0
    return _text(_bracketed(cells.reshape(layout.elements, -1), layout.shape, ", "))


def hardware_view(layout: LinearLayout) -> str:
    """For each warp a header and one line per register with the coordinates that its lanes hold, lane 0 first.

    `Block<b>:` lines separate the CTAs where several share the tensor.
    """
    _check_size(layout)
    points = _point_names(layout, "(", ",", ")")
    registers, lanes = layout.table("register"), layout.table("lane")
    parts = []
    for block, block_start in enumerate(layout.table("block").tolist()):
        if layout.bits("block"):
            parts.append(f"Block{block}:\n")
        for warp, warp_start in enumerate(layout.table("warp").tolist()):
            index = np.bitwise_xor.outer(registers, lanes) ^ (block_start ^ warp_start)
            parts.append(f"Warp{warp}:\n")
            parts.append(_text(_lines(points[index], ", ", "\n")))
    return "".join(parts)


def shared_tensor_view(layout: LinearLayout) -> str:
    """The memory in rows as long as the tensor's, CTA after CTA; each cell is `(r:c)`, the element that lies there."""
    _check_size(layout)
    index = np.bitwise_xor.outer(layout.table("block"), layout.table("offset")).ravel()
    return _text(_bracketed(_point_names(layout, "(", ":", ")")[index], layout.shape, ","))


def shared_hardware_view(layout: LinearLayout) -> str:
    """For each CTA a header and one line per offset with the coordinates of the element that lies there."""
    _check_size(layout)
    points = _point_names(layout, "(", ",", ")")
    offsets = _between("Offset: ", _numbers(layout.size("offset")), " -> ")
    parts = []
    for block, start in enumerate(layout.table("block").tolist()):
        parts.append(f"Block: {block}:\n")
        lines = np.concatenate([offsets, points[layout.table("offset") ^ start]], axis=1)
        parts.append(_text(np.pad(lines, ((0, 0), (0, 1)), constant_values=NEWLINE)))
    return "".join(parts)


def _check_size(layout: LinearLayout) -> None:
    if len(layout.all_columns()) > MAXIMUM_BITS or layout.elements > 1 << MAXIMUM_BITS:
        raise LayoutError(f"a tensor of {list(layout.shape)} in {' x '.join(_sizes(layout))} is too large to be shown")


def _sizes(layout: LinearLayout) -> Iterable[str]:
    return (f"2^{layout.bits(name)} {name}s" for name in layout.inputs)


def _characters(words: Iterable[str]) -> Characters:
    """Words as the rows of an array, padded with NUL."""
    array = np.array([word.encode() for word in words])
    return array.view(np.uint8).reshape(len(array), -1)


def _numbers(count: int) -> Characters:
    """The numbers from 0 as the rows of an array, padded with NUL."""
    if count <= 1000:
        return _characters(map(str, range(count)))
    high = np.repeat(_numbers(-(-count // 1000)), 1000, axis=0)
    low = np.tile(_characters(f"{number:03}" for number in range(1000)), (len(high) // 1000, 1))
    high[:1000], low[:1000] = 0, _numbers(1000)
    return np.concatenate([high, low], axis=1)[:count]


def _between(before: str, words: Characters, after: str) -> Characters:
    """Every row with the same text before and after it."""
    parts = [np.broadcast_to(_characters([text]), (len(words), len(text))) for text in (before, after)]
    return np.concatenate([parts[0], words, parts[1]], axis=1)


def _text(lines: Characters) -> str:
    return lines.tobytes().translate(None, b"\0").decode("ascii")


def _holder_names(layout: LinearLayout) -> Characters:
    """The name of every hardware index, right-aligned to equal width."""
    registers = layout.size("register")
    threads = [
        (f"B{block}:" if layout.bits("block") else "") + f"T{thread}:"
        for block in range(layout.size("block"))
        for thread in range(layout.size("warp") * layout.size("lane"))
    ]
    widest = max(map(len, threads))
    width = widest + len(str(registers - 1))
    names = np.empty((len(threads), registers, width), np.uint8)
    for digits in range(1, len(str(registers - 1)) + 1):
        first, end = 10 ** (digits - 1) if digits > 1 else 0, min(10**digits, registers)
        names[:, first:end, : width - digits] = _characters(name.rjust(width - digits) for name in threads)[:, None]
        names[:, first:end, width - digits :] = _characters(map(str, range(first, end)))
    return names.reshape(-1, width)


def _point_names(layout: LinearLayout, opening: str, separator: str, closing: str) -> Characters:
    """The coordinates of every flat index, each number as wide as the largest one of its dimension."""
    rank = len(layout.shape)
    parts = []
    for axis, extent in enumerate(layout.shape):
        width = len(str(extent - 1))
        before = opening if axis == 0 else separator
        after = closing if axis == rank - 1 else ""
        words = _characters(before + str(value).rjust(width) + after for value in range(extent))
        along = words.reshape(*(extent if index == axis else 1 for index in range(rank)), -1)
        parts.append(np.broadcast_to(along, (*layout.shape, along.shape[-1])))
    if not parts:
        return _characters([opening + closing])
    return np.concatenate(parts, axis=-1).reshape(layout.elements, -1)


def _lines(cells: Characters, separator: str, end: str) -> Characters:
    """Lines of separated cells, from an array [lines, cells, characters]."""
    count, columns, width = cells.shape
    lines = np.empty((count, columns, width + len(separator)), np.uint8)
    lines[:, :, :width] = cells
    lines[:, :, width:] = np.frombuffer(separator.encode(), np.uint8)
    lines[:, -1, width:] = np.frombuffer(end.ljust(len(separator), "\0").encode(), np.uint8)
    return lines.reshape(count, -1)


def _bracketed(cells: Characters, shape: Sequence[int], separator: str) -> Characters:
    """Rows of the last dimension, one a line. Brackets open where a dimension starts anew and line up in columns."""
    columns = shape[-1] if shape else 1
    lines = _lines(cells.reshape(-1, columns, cells.shape[-1]), separator, "")
    index = np.arange(len(lines))
    opened, closed = np.ones_like(index), np.ones_like(index)
    group = 1
    for extent in reversed(shape[1:-1]):
        group *= extent
        opened += index % group == 0
        closed += (index + 1) % group == 0
    if len(shape) > 1:
        opened[0] += 1
        closed[-1] += 1
    most = max(1, len(shape))
    before = _characters(("[" * count).ljust(most) for count in range(most + 1))[opened]
    after = _characters("]" * count + "\n" for count in range(most + 1))[closed]
    return np.concatenate([before, lines, after], axis=1)
