"""Places shared allocations in the block's arena: buffers that are never live together share space."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from glueball.errors import OutOfResources
from glueball.targets import Target
from glueball.tile.buffers import Places, views_of
from glueball.tile.cluster_accesses import reads_other_ctas, views_elsewhere
from glueball.tile.ir import Operation, Region, TileFunction, Value

SMALL_BYTES = 1024


@dataclass(slots=True)
class Lifetime:
    """When an allocation is used, in program order: from `first` to `last`, both included."""

    allocation: Operation
    first: int
    last: int


def lifetimes(function: TileFunction, *, apart: bool = True) -> list[Lifetime]:
    """The span of every allocation, from where it is made to its last use, through any view.

    One made outside a loop and used inside lives through the whole loop, as does one that a loop passes on to its next
    turn. With `apart`, small scratch memory lives from start to end.
    """
    views = views_of(function)
    walk = _Walk(views)
    walk.visit(function.body, ())
    for name in (*_of_other_ctas(function, views), *(_small_scratch(function) if apart else ())):
        walk.spans[name].first, walk.spans[name].last = 0, walk.clock
    return list(walk.spans.values())


def _small_scratch(function: TileFunction) -> Iterator[str]:
    """Small allocations by which threads exchange registers, `SMALL_BYTES` in all: they share space with nothing.

    Before the next one is written, nobody has to wait until all have read the last.
    """
    sizes: dict[str, int] = {}
    left = SMALL_BYTES
    for operation in function.body.walk():
        if operation.opcode == "allocate_shared":
            sizes[operation.attributes["name"]] = operation.attributes["bytes"]
        elif operation.opcode == "shared_store":
            name: str = operation.attributes["allocation"]
            size = sizes.pop(name, SMALL_BYTES)
            if size < SMALL_BYTES and size <= left:
                left -= size
                yield name


def _of_other_ctas(function: TileFunction, views: Mapping[Value, Places]) -> Iterator[str]:
    """Allocations that live from start to end, since other CTAs use them without waiting for this one to make them.

    Small ones that they read live as long too: with memory of their own they need not be waited for twice.
    """
    if function.num_ctas == 1:
        return
    sizes = {
        each.attributes["name"]: each.attributes["bytes"]
        for each in function.body.walk()
        if each.opcode == "allocate_shared"
    }
    for operation in function.body.walk():
        for view in views_elsewhere(operation, function.num_ctas):
            yield from (place.allocation for place in views[view])
        scratch: str = operation.attributes.get("allocation", "")
        if scratch in sizes and sizes[scratch] <= SMALL_BYTES and reads_other_ctas(operation):
            yield scratch


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
            elif operation.opcode == "warp_specialize":
                self._visit_partitions(operation, loops)
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

    def _visit_partitions(self, operation: Operation, loops: tuple[_Loop, ...]) -> None:
        """Regions run side by side: what one of them uses lives as long as all of them."""
        whole = _Loop(self.clock)
        before = set(self.spans)
        for inner in operation.regions:
            self.visit(inner, (*loops, whole))
        self.clock += 1
        for name in (*whole.used, *(set(self.spans) - before)):
            self.spans[name].first = min(self.spans[name].first, whole.start)
            self.spans[name].last = self.clock

    def _used(self, operation: Operation) -> list[str]:
        """The allocations that an operation uses."""
        if (name := operation.attributes.get("allocation")) is not None:
            return [name]
        return [place.allocation for value in operation.operands for place in self.views.get(value, ())]


def place_shared_memory(function: TileFunction, target: Target) -> None:
    """Gives every `allocate_shared` its `offset` (bytes) and the function its `shared_bytes`.

    First fit in order of size; small scratch memory is apart from all else where there is room for that.
    `OutOfResources` lists every allocation with its line when the target has too little.
    """
    for apart in (True, False):
        spans = sorted(lifetimes(function, apart=apart), key=lambda item: -item.allocation.attributes["bytes"])
        function.shared_bytes = _place(spans)
        if function.shared_bytes <= target.shared_bytes:
            return
    lines = "\n".join(f"  {span.allocation.attributes['bytes']} bytes at {span.allocation.location}" for span in spans)
    raise OutOfResources(function.shared_bytes, target.shared_bytes, "shared memory", lines)


def _place(spans: Sequence[Lifetime]) -> int:
    """Gives allocations their offsets, in this order; the bytes that all of them take."""
    placed: list[tuple[int, int, Lifetime]] = []
    for span in spans:
        attributes = span.allocation.attributes
        alive = sorted(
            (start, end) for start, end, other in placed if other.first <= span.last and span.first <= other.last
        )
        offset = 0
        for start, end in alive:
            if offset + attributes["bytes"] <= start:
                break
            offset = max(offset, _aligned(end, attributes["alignment"]))
        attributes["offset"] = offset
        placed.append((offset, offset + attributes["bytes"], span))
    return max((end for _, end, _ in placed), default=0)


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
