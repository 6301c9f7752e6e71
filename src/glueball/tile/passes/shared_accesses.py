"""What operations do to shared memory, for the pass that puts barriers between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from glueball.layouts import f2
from glueball.targets import Target
from glueball.tile.buffers import Place, Places, bytes_of
from glueball.tile.cluster_accesses import reads_other_ctas
from glueball.tile.ir import Operation, TileFunction, Value
from glueball.tile.operations import TILE_OPERATIONS
from glueball.tile.operations.mbarriers import BARRIER_OPERATIONS
from glueball.tile.shared_moves import matrix_moves
from glueball.tile.shared_views import Descriptor, paddings, tile_offsets
from glueball.tile.types import distributed_type, shared_memory_descriptor_type


@dataclass(frozen=True, slots=True)
class Pattern:
    """Which thread touches which element of a view at a known place: the offsets that its index bits add.

    `threads` has the bits of lane, warp and CTA with their numbers, without those of threads that do nothing; `unit`
    tells what an offset means.
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
    """Bytes of shared memory, as a mask, that an operation may read or write; its pattern where one is known.

    `counts` says that it changes or tests the counts of an mbarrier, which such accesses do at once. One that `waits`
    is over for a thread when it has seen the phase, which it must before the next one is over too; `used` says that
    the threads have started a matrix product since. A `remote` one is in the memory of other CTAs, at the same
    bytes; one that `initialises` makes an mbarrier.
    """

    bytes: int
    reads: bool
    writes: bool
    pattern: Pattern | None = None
    counts: bool = False
    waits: bool = False
    used: bool = False
    remote: bool = False
    initialises: bool = False

    def conflicts(self, earlier: Access) -> bool:
        """Whether a barrier must stand between an earlier access and this one."""
        if not (self.writes or earlier.writes) or not self.bytes & earlier.bytes:
            return False
        if self.counts and earlier.counts:
            return earlier.waits and not self.waits
        alone = self.pattern is not None and earlier.pattern is not None and self.pattern.same_threads(earlier.pattern)
        return not alone


WORDS_BY_POSITION = {"bulk_load": 2}
VIEWS_BY_POSITION = {"bulk_load": (1,), "bulk_store": (1,), "warpgroup_mma": (0, 1), "async_store": (2,)}
STORING = ("view_store", "async_copy")


def allocated_spans(function: TileFunction) -> dict[str, tuple[int, int]]:
    """Offset and bytes of every allocation."""
    return {
        operation.attributes["name"]: (operation.attributes["offset"], operation.attributes["bytes"])
        for operation in function.body.walk()
        if operation.opcode == "allocate_shared"
    }


@dataclass(slots=True)
class SharedAccesses:
    """The accesses of a function's operations, given where allocations (`spans`, in bytes) and views lie."""

    spans: dict[str, tuple[int, int]]
    views: Mapping[Value, Places]
    target: Target
    known: dict[tuple[Place, Descriptor], int] = field(default_factory=dict)
    found: dict[Operation, Access | None] = field(default_factory=dict)

    def access(self, operation: Operation) -> Access | None:
        """What an operation does to the view that it is about, or to an allocation; None for nothing."""
        if operation not in self.found:
            self.found[operation] = self._access(operation)
        return self.found[operation]

    def _access(self, operation: Operation) -> Access | None:
        effects = TILE_OPERATIONS[operation.opcode].effects
        if not effects.reads_shared and not effects.writes_shared:
            return None
        if (name := operation.attributes.get("allocation")) is not None:
            start, size = self.spans[name]
            touched = ((1 << size) - 1) << start
            remote = reads_other_ctas(operation)
            return Access(touched, effects.reads_shared, effects.writes_shared, remote=remote)
        positions = VIEWS_BY_POSITION.get(operation.opcode, (0,))
        views = [operation.operands[position] for position in positions]
        views = [view for view in views if isinstance(view.type, shared_memory_descriptor_type)]
        touched = 0
        for view in views:
            touched |= self.touched(view)
        if operation.opcode == "async_store":
            return Access(touched, reads=True, writes=True, counts=True)
        found = Access(touched, effects.reads_shared, effects.writes_shared, self._pattern(operation, views[0]))
        if operation.opcode in BARRIER_OPERATIONS:
            counts = operation.opcode not in ("mbarrier_init", "mbarrier_invalidate")
            initialises = operation.opcode == "mbarrier_init"
            return replace(found, counts=counts, waits=operation.opcode == "mbarrier_wait", initialises=initialises)
        return replace(found, remote=reads_other_ctas(operation))

    def word(self, operation: Operation) -> Access | None:
        """What an asynchronous unit will do to the mbarrier that it signals; None where it signals none."""
        position = WORDS_BY_POSITION.get(operation.opcode)
        if position is None:
            return None
        return Access(self.touched(operation.operands[position]), reads=True, writes=True, counts=True)

    def touched(self, view: Value) -> int:
        """The bytes of a view, wherever it may be."""
        kind = view.type
        assert isinstance(kind, shared_memory_descriptor_type)
        touched = 0
        for place in self.views[view]:
            touched |= self._bytes(place, kind)
        return touched

    def _bytes(self, place: Place, kind: Descriptor) -> int:
        if (place, kind) not in self.known:
            self.known[place, kind] = bytes_of(place, kind, self.spans[place.allocation][0])
        return self.known[place, kind]

    def _pattern(self, operation: Operation, view: Value) -> Pattern | None:
        """The pattern of a load or store of a whole view of which the place is known."""
        places, kind = self.views[view], view.type
        assert isinstance(kind, shared_memory_descriptor_type)
        if operation.opcode not in ("view_load", *STORING) or len(places) != 1 or kind.is_buffered:
            return None
        (place,) = places
        if place.base is None or reads_other_ctas(operation):
            return None
        storing = operation.opcode in STORING
        tile = operation.operands[1].type if storing else operation.result.type
        assert isinstance(tile, distributed_type)
        unit = (place.allocation, place.base, place.mixed, kind.element_ty.itemsize, paddings(kind.layout))
        offsets, moves = tile_offsets(tile.linear, kind), None
        if operation.opcode != "async_copy":
            moves = matrix_moves(tile.linear, kind, self.target, store=storing)
        lanes = offsets.flat_bases("lane")
        idle = tile.linear.free_variables() if storing else {"lane": 0, "warp": 0}
        idle["block"] = 0
        registers = offsets.flat_bases("register")
        if moves is not None:
            lanes, registers = moves.lanes[: moves.address_bits], moves.within_lanes(offsets)
        threads, first = [], 0
        for name, bases in (("lane", lanes), *((name, offsets.flat_bases(name)) for name in ("warp", "block"))):
            threads += [(basis, first + bit) for bit, basis in enumerate(bases) if not idle[name] >> bit & 1]
            first += offsets.bits(name)
        return Pattern(unit, tuple(threads), registers)
