"""Places shared allocations in the block's arena: buffers that are never live together share space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from glueball.errors import OutOfResources
from glueball.targets import Target
from glueball.tile.buffers import Places, views_of
from glueball.tile.ir import Operation, Region, TileFunction, Value


@dataclass(slots=True)
class Lifetime:
    """When an allocation is used, in program order: from `first` to `last`, both included."""

    allocation: Operation
    first: int
    last: int


def lifetimes(function: TileFunction) -> list[Lifetime]:
    """The span of every allocation, from where it is made to its last use, through any view.

    One made outside a loop and used inside lives through the whole loop, as does one that a loop passes on to its next
    turn.
    """
    walk = _Walk(views_of(function))
    walk.visit(function.body, ())
    return list(walk.spans.values())


@dataclass(slots=True)
class _Loop:
    """A loop being walked: when it began, and the allocations that live through all of it."""

    start: int
    used: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Walk:
    views: Mapping[Value, Places]
    spans: dict[str, Lifetime] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    clock: int = 0

    def visit(self, region: Region, loops: tuple[_Loop, ...]) -> None:
        for operation in region.operations:
            self.clock += 1
            if operation.opcode == "allocate_shared":
                name = operation.attributes["name"]
                self.spans[name] = Lifetime(operation, self.clock, self.clock)
                self.depths[name] = len(loops)
            for name in self._used(operation):
                self.spans[name].last = self.clock
                for loop in loops[self.depths[name] :]:
                    loop.used.append(name)
            if operation.opcode in ("for", "while"):
                self._visit_loop(operation, loops)
            else:
                for inner in operation.regions:
                    self.visit(inner, loops)

    def _visit_loop(self, operation: Operation, loops: tuple[_Loop, ...]) -> None:
        loop = _Loop(self.clock)
        for inner in operation.regions:
            self.visit(inner, (*loops, loop))
            for value in inner.operations[-1].operands if inner.operations else ():
                loop.used += [place.allocation for place in self.views.get(value, ())]
        for name in loop.used:
            self.spans[name].first = min(self.spans[name].first, loop.start)
            self.spans[name].last = self.clock

    def _used(self, operation: Operation) -> list[str]:
        """The allocations that an operation uses."""
        if (name := operation.attributes.get("allocation")) is not None:
            return [name]
        return [place.allocation for value in operation.operands for place in self.views.get(value, ())]


def place_shared_memory(function: TileFunction, target: Target) -> None:
    """Gives every `allocate_shared` its `offset` (bytes) and the function its `shared_bytes`.

    First fit in order of size. `OutOfResources` lists every allocation with its line when the target has too little.
    """
    placed: list[tuple[int, int, Lifetime]] = []
    for lifetime in sorted(lifetimes(function), key=lambda item: -item.allocation.attributes["bytes"]):
        attributes = lifetime.allocation.attributes
        alive = sorted(
            (start, end)
            for start, end, other in placed
            if other.first <= lifetime.last and lifetime.first <= other.last
        )
        offset = 0
        for start, end in alive:
            if offset + attributes["bytes"] <= start:
                break
            offset = max(offset, _aligned(end, attributes["alignment"]))
        attributes["offset"] = offset
        placed.append((offset, offset + attributes["bytes"], lifetime))
    function.shared_bytes = max((end for _, end, _ in placed), default=0)
    if function.shared_bytes > target.shared_bytes:
        lines = "\n".join(
            f"  {lifetime.allocation.attributes['bytes']} bytes at {lifetime.allocation.location}"
            for _, _, lifetime in placed
        )
        raise OutOfResources(function.shared_bytes, target.shared_bytes, "shared memory", lines)


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
