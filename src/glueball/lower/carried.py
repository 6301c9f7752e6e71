"""What crosses a region's edge: of registers that are known to differ by a constant, only one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glueball.lower.context import Context
from glueball.lower.runs import Leaders
from glueball.thread.ir import Value
from glueball.tile.ir import Value as TileValue


class Edge:
    """Where tiles cross the edge of a region, register by register."""

    def __init__(self, context: Context, values: Iterable[TileValue]) -> None:
        self.context = context
        self.tiles = [Leaders.of(context, value) for value in values]
        self.kinds = [kind for tile in self.tiles for kind in tile.kinds]

    def registers(self, values: Sequence[TileValue]) -> list[Value]:
        """The registers that carry tiles over the edge."""
        pairs = zip(self.tiles, values, strict=True)
        return [register for tile, value in pairs for register in tile.chosen(self.context, self.context.terms(value))]

    def bind(self, values: Sequence[TileValue], registers: Sequence[Value]) -> None:
        """Records what the tiles became beyond it."""
        position = 0
        for tile, value in zip(self.tiles, values, strict=True):
            carried = registers[position : position + len(tile.registers)]
            self.context.bind(value, tile.all(self.context, carried))
            position += len(carried)
