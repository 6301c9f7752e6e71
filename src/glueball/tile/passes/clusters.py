"""Makes the CTAs of a cluster wait for one another where one uses what lies in the shared memory of another.

A tile that is stored to a view goes to the CTAs first in whose memory its elements lie, so that all stores are to a
CTA's own memory. A cluster barrier stands between accesses of one byte by threads of different CTAs, after mbarriers
are initialised that other CTAs use, and at the end, so that no CTA ends while another may still use its memory. What
asynchronous units do in the memory of other CTAs is for the author to order, by mbarriers: where there is nothing else,
the barrier at the end is relaxed, and does not wait until a CTA's stores to global memory have arrived.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from glueball.layouts import DistributedLinearLayout, LinearLayout, f2
from glueball.targets import Target
from glueball.tile.buffers import views_of
from glueball.tile.cluster_accesses import all_words_elsewhere, arrives_elsewhere
from glueball.tile.ir import Operation, Region, TileFunction, Value
from glueball.tile.operations import TILE_OPERATIONS
from glueball.tile.passes.rewriting import Sequel, rewrite
from glueball.tile.passes.shared_accesses import Access, SharedAccesses, allocated_spans
from glueball.tile.shared_views import Descriptor, cta_of, leaves_cta, part_shape, parts_of_ctas, tile_offsets
from glueball.tile.types import distributed_type, shared_memory_descriptor_type

Accesses = frozenset[Access]
CONTROL = ("if", "for", "while")


def localise_stores(function: TileFunction, _: Target) -> None:
    """Brings every tile that is stored to a view to the CTAs in whose memory its elements go."""
    if function.num_ctas > 1:
        rewrite(function, {"view_store": _store})


def _store(operation: Operation, sequel: Sequel) -> Sequence[Value]:
    view, value = operation.operands
    kind, tile = view.type, value.type
    assert isinstance(kind, shared_memory_descriptor_type) and isinstance(tile, distributed_type)
    if leaves_cta(tile.linear, kind) or not _fills_parts(tile.linear, kind):
        value = sequel.convert(value, _at_home(tile, kind))
    return sequel.add("view_store", (view, value), ())


def _fills_parts(linear: LinearLayout, kind: Descriptor) -> bool:
    """Whether every CTA holds all elements of a view that lie in its memory."""
    offsets = tile_offsets(linear, kind)
    held = f2.rank(basis for name in ("register", "lane", "warp") for basis in offsets.flat_bases(name))
    return 1 << held == math.prod(part_shape(kind))


def _at_home(tile: distributed_type, kind: Descriptor) -> distributed_type:
    """The type of the tile with each element in the CTA, and only there, in whose memory a view has it."""
    linear, parts = tile.linear, parts_of_ctas(kind)

    def moved(name: str) -> list[int]:
        return [basis ^ f2.apply(parts, cta_of(linear.unflatten(basis), kind)) for basis in linear.flat_bases(name)]

    lanes, warps = moved("lane"), moved("warp")
    registers = f2.independent((*moved("register"), *moved("block")), (*lanes, *warps))
    bases = {"register": registers, "lane": lanes, "warp": warps, "block": parts}
    layout = DistributedLinearLayout.from_linear(LinearLayout.from_flat_bases(bases, linear.shape))
    return distributed_type(tile.element_ty, tile.shape, layout)


@dataclass(frozen=True, slots=True)
class State:
    """What is known at a point, on some path to it.

    `apart` are the accesses since the last cluster barrier of bytes that some CTA reads in the memory of others.
    `started` says that all CTAs are known to have started, `initialised` that mbarriers which other CTAs use may not be
    known to them yet.
    """

    apart: Accesses = frozenset()
    started: bool = False
    initialised: bool = False

    def joined(self, other: State) -> State:
        """What holds where two paths meet."""
        started = self.started and other.started
        return State(self.apart | other.apart, started, self.initialised or other.initialised)


def insert_cluster_barriers(function: TileFunction, target: Target) -> None:
    """Adds `cluster_barrier` and `mbarrier_init_fence` operations."""
    if function.num_ctas == 1:
        return
    views = views_of(function)
    shared = SharedAccesses(allocated_spans(function), views, target)
    accesses = [access for each in function.body.walk() if (access := shared.access(each)) is not None]
    exposed = words = 0
    for access in accesses:
        exposed |= access.bytes if access.remote else 0
    for view in all_words_elsewhere(function):
        words |= shared.touched(view)
    waits = bool(exposed) or any(arrives_elsewhere(each, function.num_ctas) for each in function.body.walk())
    _Walk(shared, exposed, words, waits).region(function.body, State())


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk through a function that inserts as it goes: what is there stays, so that a loop is walked until it holds.

    `exposed` are the bytes that CTAs read in the memory of others, `words` those of mbarriers that they use there;
    `waits` says that what threads do there must have happened before a CTA ends.
    """

    shared: SharedAccesses
    exposed: int
    words: int
    waits: bool

    def region(self, region: Region, state: State) -> State:
        """Through a region; the state at its end."""
        operations: list[Operation] = []
        for operation in region.operations:
            needed, state = self.before(operation, state, operations)
            operations += [*needed, operation]
            state = self.through(operation, state)
        region.operations[:] = operations
        return state

    def before(self, operation: Operation, state: State, earlier: Sequence[Operation]) -> tuple[list[Operation], State]:
        """What must come before an operation, and the state after that."""
        last = earlier[-1].opcode if earlier else ""
        fence = Operation("mbarrier_init_fence", (), (), location=operation.location)
        if operation.opcode == "cluster_barrier":
            return [fence] if state.initialised and last != fence.opcode else [], State(state.apart, state.started)
        if operation.opcode == "return":
            ended = earlier and last == "cluster_barrier" and not (self.waits and earlier[-1].attributes["relaxed"])
            return [] if ended else [cluster_barrier(operation, relaxed=not self.waits)], state
        needed = []
        if state.initialised and self.uses_shared_memory(operation):
            needed = [fence, cluster_barrier(operation, relaxed=True)]
            state = State(state.apart, started=True)
        access = None if operation.opcode in CONTROL else self.shared.access(operation)
        if access is not None and self.meets_others(access, state):
            needed = [*needed[:1], cluster_barrier(operation)]
            state = State(started=True)
        return needed, state

    def uses_shared_memory(self, operation: Operation) -> bool:
        """Whether an operation, or one inside, does anything to shared memory but make room for it or mbarriers."""
        if operation.opcode in ("mbarrier_init", "allocate_shared"):
            return False
        effects = TILE_OPERATIONS[operation.opcode].effects
        if effects.reads_shared or effects.writes_shared or operation.opcode == "warp_specialize":
            return True
        return any(self.uses_shared_memory(inner) for region in operation.regions for inner in region.operations)

    def meets_others(self, access: Access, state: State) -> bool:
        """Whether threads of other CTAs may be at the same bytes, one of them to write."""
        if access.remote and not state.started:
            return True
        return any(
            (access.remote or earlier.remote)
            and (access.writes or earlier.writes)
            and bool(access.bytes & earlier.bytes)
            for earlier in state.apart
        )

    def through(self, operation: Operation, state: State) -> State:
        """The state after an operation."""
        match operation.opcode:
            case "cluster_barrier":
                return State(state.apart if operation.attributes["relaxed"] else frozenset(), started=True)
            case "if":
                ends = [self.region(region, state) for region in operation.regions]
                return ends[0].joined(ends[1])
            case "for" | "while":
                return self.loop(operation, state)
            case "warp_specialize":
                ends = [self.region(region, state) for region in operation.regions]
                for end in ends[1:]:
                    ends[0] = ends[0].joined(end)
                return ends[0]
            case "mbarrier_init":
                inside = self.words & self.shared.touched(operation.operands[0])
                return State(state.apart, state.started, state.initialised or bool(inside))
        access = self.shared.access(operation)
        if access is None or not access.bytes & self.exposed:
            return state
        return State(state.apart | {access}, state.started, state.initialised)

    def loop(self, operation: Operation, state: State) -> State:
        """Through a loop, however often it runs."""
        *condition, body = operation.regions
        while True:
            at_exit = state
            for region in condition:
                at_exit = self.region(region, at_exit)
            grown = state.joined(self.region(body, at_exit))
            if grown == state:
                return at_exit
            state = grown


def cluster_barrier(operation: Operation, *, relaxed: bool = False) -> Operation:
    """A cluster barrier at the location of an operation."""
    return Operation("cluster_barrier", (), (), {"relaxed": relaxed}, location=operation.location)
