"""`glueball layout`: a layout as text, its costs in sentences, a picture, a page."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.text import Text

from glueball.errors import LayoutError
from glueball.layouts import (
    DistributedLayout,
    Layout,
    PaddedSharedLayout,
    SharedLayout,
    SharedMemory,
    explain_difference,
    svg,
)
from glueball.layouts.facts import (
    Facts,
    conversion_facts,
    dense_strides,
    plan_on,
    register_facts,
    shared_facts,
    traffic_facts,
)
from glueball.layouts.parse import parse_aliases, parse_layout
from glueball.targets import DEFAULT_TARGET, Target

COLORS = ("blue", "magenta", "yellow", "green", "cyan", "red", "bright_blue", "bright_magenta")
COLORED_CHARACTERS = 1 << 20
"""Longer text is printed plain: nobody reads it in a terminal, and styling it takes seconds."""
DEFAULT_WIDTH = 32
MOST_ELEMENTS = 1 << 22
MOST_THREADS = 1 << 14
HOLDER = re.compile(r"(?:B\d+:)?T(\d+):\d+")
STORED = re.compile(r"\( *(\d+)[:)][^)]*\)?")
WARP = re.compile(r"Warp(\d+):")
TENSOR_TYPE = re.compile(r"tensor<((?:\d+x)+)([a-z]+\w*)>")
ELEMENT_WIDTH = re.compile(r"(?:bf|[fiu]|si|ui)(\d+)")


LinesOf = Callable[[str, Layout], Iterator[Text]]


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked about a layout. `memory` is an order, "row", "col" or comma-separated strides."""

    layout: Layout
    shape: tuple[int, ...]
    width: int
    memory: str
    convert_to: Layout | None
    target: Target | None

    @property
    def strides(self) -> list[int]:
        """The distance in elements between neighbours along each dimension."""
        if self.memory not in ("row", "col"):
            return _integers(self.memory, "--memory", "row, col or strides such as 1,32")
        return dense_strides(self.shape, "row" if self.memory == "row" else "column")

    @property
    def machine(self) -> Target:
        """The target whose banks and shared memory count."""
        return self.target or DEFAULT_TARGET

    def check(self) -> None:
        """Raise LayoutError where a layout is made for other lanes than an explicitly given target has."""
        for layout in (self.layout, self.convert_to):
            if self.target and isinstance(layout, DistributedLayout) and layout.lanes != self.target.lanes:
                raise LayoutError(
                    f"{self.target.name} has warps of {self.target.lanes} lanes, but this layout is made for "
                    f"{layout.lanes}: {layout}"
                )
        if math.prod(self.shape) > MOST_ELEMENTS:
            raise LayoutError(f"{math.prod(self.shape)} elements are too many to show; the most is {MOST_ELEMENTS}")
        for layout in (self.layout, self.convert_to):
            if isinstance(layout, DistributedLayout):
                threads = math.prod(map(layout.linear(self.shape).size, ("lane", "warp", "block")))
                if threads > MOST_THREADS:
                    raise LayoutError(f"{threads} threads are too many to show; the most is {MOST_THREADS}")
        if len(self.strides) != len(self.shape):
            raise LayoutError(f"{len(self.strides)} strides given for a tensor of rank {len(self.shape)}")

    def facts(self) -> Facts:
        """What the layout costs, and how it goes with the other one."""
        facts: Facts = {}
        tiles = [one for one in (self.layout, self.convert_to) if isinstance(one, SharedLayout)]
        sides = [one for one in (self.layout, self.convert_to) if isinstance(one, DistributedLayout)]
        linear = [side.linear(self.shape) for side in sides]
        if isinstance(self.layout, DistributedLayout):
            facts |= register_facts(linear[0], self.width, self.strides)
        for tile in tiles[:1]:
            facts |= shared_facts(tile, self.shape, self.width)
        if len(linear) == 2:
            facts |= conversion_facts(plan_on(self.machine, linear[0], linear[1], self.width))
        elif tiles and sides:
            memory = SharedMemory.of(self.target) if self.target else None
            facts |= traffic_facts(sides[0], tiles[0], self.shape, self.width, memory)
        if len(sides) == 2 or len(tiles) == 2:
            facts["difference"] = explain_difference(self.layout, self.convert_to or self.layout, self.shape)
        return facts

    def svg(self, view: str) -> str:
        """The picture."""
        shown: Literal["tensor", "hardware"] = "hardware" if view == "hardware" else "tensor"
        return svg(self.layout, self.shape, view=shown, element_bits=self.width, banks=self.machine.shared_banks)

    def page(self, view: str) -> str:
        """The HTML page."""
        from glueball.explain.layout_page import layout_page

        return layout_page(
            self.layout,
            self.shape,
            element_bits=self.width,
            strides=self.strides,
            convert_to=self.convert_to,
            target=self.machine,
            view="hardware" if view == "hardware" else "tensor",
        )


def read_question(
    layout: str, shape: str, width: int | None, memory: str, convert_to: str | None, target: Target | None
) -> Question:
    """The question that the command's options ask. Raises LayoutError where one of them says nothing."""
    found = parse_layout(layout)
    extents = _integers(shape, "--shape", "extents such as 32x16")
    other = None if convert_to is None else parse_layout(convert_to)
    bits = width or next((own for own in map(_own_width, (found, other)) if own), DEFAULT_WIDTH)
    question = Question(found, tuple(extents), bits, memory, other, target)
    question.check()
    return question


def print_layout(question: Question, view: str, console: Console) -> None:
    """Print the views asked for, then the facts."""
    facts = question.facts()
    for text, lines_of in _views(question.layout, question.shape, view):
        if console.is_terminal and len(text) <= COLORED_CHARACTERS:
            for line in lines_of(text, question.layout):
                console.print(line, soft_wrap=True)
        else:
            console.file.write(text)
        console.file.write("\n")
    indent = max(map(len, facts), default=0) + 2
    for name, sentence in facts.items():
        line = Text(name.ljust(indent), style="dim") if console.is_terminal else Text(name.ljust(indent))
        console.print(line.append(sentence, style="default"), soft_wrap=True, highlight=False)


def attribute_text(layout: str | None, tensor: str, source: Path | None, names: str | None, hardware: bool) -> str:
    """What the compiler's own layout printer writes about an attribute, the aliases of a file, or both.

    Raises LayoutError for a malformed tensor type, layout or file, and for an alias that the file does not define.
    """
    shape = _tensor_shape(tensor)
    parts = []
    if source is not None:
        try:
            aliases = parse_aliases(source.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise LayoutError(f"{source} cannot be read: {error}") from error
        chosen = [f"#{name.strip().lstrip('#')}" for name in names.split(",")] if names else list(aliases)
        for name in chosen:
            if name not in aliases:
                raise LayoutError(f"{source} defines no layout {name}, only {', '.join(aliases) or 'nothing'}")
            spelling, found = aliases[name]
            view = _view(found, shape, hardware)
            parts.append(f"Print layout attribute: {name} = {spelling}\n{view}\n")
    if layout is not None:
        found = parse_layout(layout)
        view = _view(found, shape, hardware)
        parts.append(f"Print layout attribute: {layout}\n{view}")
    return "".join(parts)


def _views(layout: Layout, shape: Sequence[int], view: str) -> Iterator[tuple[str, LinesOf]]:
    if isinstance(layout, PaddedSharedLayout):
        # It has no text of its own; the pictures show it, and the facts hold.
        return
    shared = isinstance(layout, SharedLayout)
    if view in ("tensor", "both"):
        yield _view(layout, shape, False), _by_row if shared else _by_holder
    if view in ("hardware", "both"):
        yield _view(layout, shape, True), _by_row if shared else _by_warp


def _view(layout: Layout, shape: Sequence[int], hardware: bool) -> str:
    if not isinstance(layout, DistributedLayout | SharedLayout):
        raise LayoutError(f"{type(layout).__name__} cannot be visualized")
    return layout.format_hardware_view(shape) if hardware else layout.format_tensor_view(shape)


def _by_holder(text: str, layout: Layout) -> Iterator[Text]:
    """Lines whose cells have the colour of the warp that holds them."""
    lanes = layout.lanes if isinstance(layout, DistributedLayout) else 1
    for line in text.splitlines():
        styled = Text(line)
        for match in HOLDER.finditer(line):
            styled.stylize(_color(int(match[1]) // lanes), *match.span())
        yield styled


def _by_warp(text: str, _: Layout) -> Iterator[Text]:
    """Lines in the colour of the warp that they are about."""
    style = "default"
    for line in text.splitlines():
        match = WARP.fullmatch(line)
        if match:
            style = _color(int(match[1]))
        yield Text(line, style=f"{style} bold" if match else style)


def _by_row(text: str, _: Layout) -> Iterator[Text]:
    """Lines whose cells have the colour of the tensor's row."""
    for line in text.splitlines():
        styled = Text(line)
        for match in STORED.finditer(line):
            styled.stylize(_color(int(match[1])), *match.span())
        yield styled


def _color(index: int) -> str:
    return COLORS[index % len(COLORS)]


def _own_width(layout: Layout | None) -> int | None:
    return getattr(layout, "element_bitwidth", None) if isinstance(layout, SharedLayout) else None


def _integers(text: str, option: str, wanted: str) -> list[int]:
    parts = re.split(r"\s*[x,]\s*", text.strip().lower())
    if not all(re.fullmatch(r"-?\d{1,15}", part) for part in parts):
        raise LayoutError(f"{option} should be {wanted}, not {text!r}")
    return list(map(int, parts))


def _tensor_shape(text: str) -> tuple[int, ...]:
    match = TENSOR_TYPE.fullmatch(text.replace(" ", ""))
    if match is None or ELEMENT_WIDTH.match(match[2]) is None:
        raise LayoutError(f"{text!r} is no tensor type such as tensor<128x256xf16>")
    return tuple(map(int, match[1].rstrip("x").split("x")))
