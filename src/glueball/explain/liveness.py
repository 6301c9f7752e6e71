"""How many registers of a thread hold tile data at once."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from glueball.tile.ir import Region, TileFunction, Value
from glueball.tile.types import distributed_type, dtype

REGISTER_BITS = 32


@dataclass(slots=True)
class Lifetimes:
    """When values are made and used last, in steps of program order."""

    clock: int = 0
    born: dict[Value, int] = field(default_factory=dict)
    last: dict[Value, int] = field(default_factory=dict)

    def visit(self, region: Region) -> None:
        """Adds a region. What a loop uses and did not make itself is needed until the loop ends."""
        for argument in region.arguments:
            self.born[argument] = self.last[argument] = self.clock
        for operation in region.operations:
            self.clock += 1
            for operand in operation.operands:
                self.last[operand] = self.clock
            start = self.clock
            for inner in operation.regions:
                self.visit(inner)
            if operation.opcode in ("for", "while"):
                for value, used in self.last.items():
                    if used > start and self.born.get(value, start) <= start:
                        self.last[value] = self.clock
            for result in operation.results:
                self.born[result] = self.last[result] = self.clock


def tile_registers(function: TileFunction, indices: AbstractSet[Value]) -> int:
    """The most 32-bit registers that a thread needs at once for tiles.

    `indices` are tiles that are plain index arithmetic: they, masks, and scalars repeated to tiles cost next to
    nothing, since threads recompute them from a few scalars. A value that dies where another is made leaves room.
    """
    lifetimes = Lifetimes()
    lifetimes.visit(function.body)
    changes: dict[int, int] = {}
    for value, start in lifetimes.born.items():
        count = 0 if value in indices else _registers(value)
        if count:
            changes[start] = changes.get(start, 0) + count
            end = max(lifetimes.last[value], start + 1)
            changes[end] = changes.get(end, 0) - count
    most = now = 0
    for step in sorted(changes):
        now += changes[step]
        most = max(most, now)
    return most


def _registers(value: Value) -> int:
    kind = value.type
    repeated = value.operation is not None and value.operation.opcode == "splat"
    if repeated or not isinstance(kind, distributed_type):
        return 0
    element = kind.element_ty
    if isinstance(element, dtype) and element.is_bool():
        return 0
    bits = kind.linear.size("register") * element.primitive_bitwidth
    return -(-bits // REGISTER_BITS)
