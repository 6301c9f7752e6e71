"""What crosses a region's edge: of registers that are known to differ by a constant, only one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from glueball.lower.context import Context
from glueball.lower.runs import run_step, runs_along
from glueball.lower.terms import Registers, materialize, normalized, register_types
from glueball.thread.ir import Value
from glueball.tile.ir import Value as TileValue
from glueball.tile.types import distributed_type

Place = tuple[int, int]
"""A register as one that is carried, by its number, and what is added to it."""


@dataclass(frozen=True, slots=True)
class CarriedTile:
    """The registers of a tile that are carried, multiples of `divisor`, and how all of them follow from those."""

    leaders: tuple[int, ...]
    places: tuple[Place, ...]
    divisor: int
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, context: Context, value: TileValue) -> CarriedTile:
        """What is carried of a tile or scalar, by what is known of it in every round."""
        kinds = register_types(value.type)
        places, divisor = [(register, 0) for register in range(len(kinds))], 1
        runs = context.runs.get(value)
        if runs is not None:
            divisor = runs.divisibility
            for axis, length in enumerate(runs.contiguity):
                assert isinstance(value.type, distributed_type)
                if length > 1:
                    step = run_step(value.type)
                    along = runs_along(value.type, axis, length)
                    places = _followed(places, along.places, step)
                    divisor = min(divisor, along.alignment * step)
        leaders = sorted({leader for leader, _ in places})
        numbers = {leader: number for number, leader in enumerate(leaders)}
        return cls(
            tuple(leaders),
            tuple((numbers[leader], offset) for leader, offset in places),
            divisor,
            tuple(kinds[leader] for leader in leaders),
        )

    def registers(self, context: Context, terms: Registers) -> list[Value]:
        """The registers to carry, of a tile's."""
        return [materialize(context.builder, terms[leader]) for leader in self.leaders]

    def terms(self, context: Context, registers: Sequence[Value]) -> Registers:
        """All registers of the tile, from those that were carried."""
        for register in registers:
            register.divisibility = max(register.divisibility, self.divisor)
        return tuple(normalized(context.builder, registers[number], offset) for number, offset in self.places)


def _followed(places: list[Place], along: Sequence[Place], step: int) -> list[Place]:
    """Places with respect to the first registers of runs along one more dimension."""
    return [(along[leader][0], offset + along[leader][1] * step) for leader, offset in places]


class Edge:
    """Where tiles cross the edge of a region, register by register."""

    def __init__(self, context: Context, values: Iterable[TileValue]) -> None:
        self.context = context
        self.tiles = [CarriedTile.of(context, value) for value in values]
        self.kinds = [kind for tile in self.tiles for kind in tile.kinds]

    def registers(self, values: Sequence[TileValue]) -> list[Value]:
        """The registers that carry tiles over the edge."""
        pairs = zip(self.tiles, values, strict=True)
        return [
            register for tile, value in pairs for register in tile.registers(self.context, self.context.terms(value))
        ]

    def bind(self, values: Sequence[TileValue], registers: Sequence[Value]) -> None:
        """Records what the tiles became beyond it."""
        position = 0
        for tile, value in zip(self.tiles, values, strict=True):
            carried = registers[position : position + len(tile.leaders)]
            self.context.bind(value, tile.terms(self.context, carried))
            position += len(carried)
