"""Places shared allocations in the block's arena: buffers that are never live together share space."""

from __future__ import annotations

from dataclasses import dataclass

from glueball.errors import OutOfResources
from glueball.targets import Target
from glueball.tile.ir import Operation, Region, TileFunction


@dataclass(slots=True)
class Lifetime:
    """When an allocation is used, in program order: from `first` to `last`, both included."""

    allocation: Operation
    first: int
    last: int


def lifetimes(function: TileFunction) -> list[Lifetime]:
    """The span of every allocation. One made outside a loop and used inside lives through the whole loop."""
    spans: dict[str, Lifetime] = {}
    depth_of: dict[str, int] = {}
    clock = 0

    def visit(region: Region, loops: tuple[list[str], ...]) -> None:
        nonlocal clock
        for operation in region.operations:
            clock += 1
            if operation.opcode == "allocate_shared":
                name = operation.attributes["name"]
                spans[name] = Lifetime(operation, clock, clock)
                depth_of[name] = len(loops)
            elif (name := operation.attributes.get("allocation")) is not None:
                spans[name].last = clock
                for used in loops[depth_of[name] :]:
                    used.append(name)
            looping = operation.opcode in ("for", "while")
            used_inside: list[str] = []
            for inner in operation.regions:
                visit(inner, (*loops, used_inside) if looping else loops)
            for name in used_inside:
                spans[name].last = clock

    visit(function.body, ())
    return list(spans.values())


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
