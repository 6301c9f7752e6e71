"""Inserts a barrier where two shared accesses of different threads may touch the same bytes, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from glueball.layouts import f2
from glueball.targets import Target
from glueball.tile.buffers import Place, Places, bytes_of, views_of
from glueball.tile.ir import Operation, Region, TileFunction, Value
from glueball.tile.operations import TILE_OPERATIONS
from glueball.tile.shared_views import Descriptor, paddings, tile_offsets
from glueball.tile.types import distributed_type, shared_memory_descriptor_type


@dataclass(frozen=True, slots=True)
class Pattern:
    """Which thread touches which element of a view at a known place: the offsets that its index bits add.

    `threads` has the bits of lane and warp with their numbers, without those of threads that do nothing; `unit` tells
    what an offset means.
    """

    unit: object
    threads: tuple[tuple[int, int], ...]
    registers: tuple[int, ...]

    def same_threads(self, other: Pattern) -> bool:
        """Whether every element is touched by one and the same thread in both accesses."""
        if self.unit != other.unit:
            return False
        columns: list[int] = []
        numbers: list[int] = []
        for pattern in (self, other):
            columns += [basis for basis, _ in pattern.threads] + [*pattern.registers]
            numbers += [1 << number for _, number in pattern.threads] + [0] * len(pattern.registers)
        return all(f2.apply(numbers, combination) == 0 for combination in f2.kernel(columns))


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes of shared memory, as a mask, that an operation may read or write; its pattern where one is known."""

    bytes: int
    reads: bool
    writes: bool
    pattern: Pattern | None = None

    def conflicts(self, earlier: Access) -> bool:
        """Whether a barrier must stand between an earlier access and this one."""
        if not (self.writes or earlier.writes) or not self.bytes & earlier.bytes:
            return False
        alone = self.pattern is not None and earlier.pattern is not None and self.pattern.same_threads(earlier.pattern)
        return not alone


Pending = frozenset[Access]
"""Accesses since the last barrier, on some path."""

NOTHING: Pending = frozenset()


@dataclass(slots=True)
class _Shared:
    """Where allocations and views lie."""

    spans: dict[str, tuple[int, int]]
    views: Mapping[Value, Places]
    known: dict[tuple[Place, Descriptor], int] = field(default_factory=dict)

    def access(self, operation: Operation) -> Access | None:
        """What an operation does to shared memory; None for nothing."""
        effects = TILE_OPERATIONS[operation.opcode].effects
        if not effects.reads_shared and not effects.writes_shared:
            return None
        if (name := operation.attributes.get("allocation")) is not None:
            start, size = self.spans[name]
            return Access(((1 << size) - 1) << start, effects.reads_shared, effects.writes_shared)
        view = operation.operands[0]
        assert isinstance(view.type, shared_memory_descriptor_type)
        whole = view.type
        touched = 0
        for place in self.views[view]:
            touched |= self._bytes(place, whole)
        return Access(touched, effects.reads_shared, effects.writes_shared, self._pattern(operation, view))

    def _bytes(self, place: Place, kind: Descriptor) -> int:
        if (place, kind) not in self.known:
            self.known[place, kind] = bytes_of(place, kind, self.spans[place.allocation][0])
        return self.known[place, kind]

    def _pattern(self, operation: Operation, view: Value) -> Pattern | None:
        """The pattern of a load or store of a whole view of which the place is known."""
        places, kind = self.views[view], view.type
        assert isinstance(kind, shared_memory_descriptor_type)
        if operation.opcode not in ("view_load", "view_store") or len(places) != 1 or kind.is_buffered:
            return None
        (place,) = places
        if place.base is None:
            return None
        storing = operation.opcode == "view_store"
        tile = operation.operands[1].type if storing else operation.result.type
        assert isinstance(tile, distributed_type)
        unit = (place.allocation, place.base, place.mixed, kind.element_ty.itemsize, paddings(kind.layout))
        offsets = tile_offsets(tile.linear, kind)
        idle = tile.linear.free_variables() if storing else {"lane": 0, "warp": 0}
        threads = []
        for name, first in (("lane", 0), ("warp", offsets.bits("lane"))):
            for bit, basis in enumerate(offsets.flat_bases(name)):
                if not idle[name] >> bit & 1:
                    threads.append((basis, first + bit))
        return Pattern(unit, tuple(threads), offsets.flat_bases("register"))


def insert_barriers(function: TileFunction, _: Target) -> None:
    """Adds `barrier` operations, each at the location of the access it protects."""
    spans = {
        operation.attributes["name"]: (operation.attributes["offset"], operation.attributes["bytes"])
        for operation in function.body.walk()
        if operation.opcode == "allocate_shared"
    }
    if spans:
        _visit(function.body, NOTHING, _Shared(spans, views_of(function)))


def _visit(region: Region, pending: Pending, shared: _Shared) -> Pending:
    """Walks a region with what is pending at its start; gives what is pending at its end."""
    result: list[Operation] = []
    for operation in region.operations:
        access = shared.access(operation)
        if operation.opcode == "barrier":
            pending = NOTHING
        elif access is not None:
            if any(access.conflicts(earlier) for earlier in pending):
                result.append(Operation("barrier", (), (), location=operation.location))
                pending = NOTHING
            pending |= {access}
        elif operation.regions:
            pending = _visit_regions(operation, pending, shared)
        result.append(operation)
    region.operations[:] = result
    return pending


def _visit_regions(operation: Operation, pending: Pending, shared: _Shared) -> Pending:
    if operation.opcode == "if":
        first, second = (_visit(region, pending, shared) for region in operation.regions)
        return first | second
    *condition, body = operation.regions
    while True:
        at_exit = pending
        for region in condition:
            at_exit = _visit(region, at_exit, shared)
        grown = pending | _visit(body, at_exit, shared)
        if grown == pending:
            return at_exit
        pending = grown
