"""Inserts a barrier where two shared accesses of different threads may touch the same bytes, and nowhere else.

Asynchronous units take part: what threads did to bytes of shared memory is fenced, and all threads have come, before
the one thread that is chosen starts a unit that touches them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from glueball.targets import Target
from glueball.tile.buffers import views_of
from glueball.tile.ir import Operation, Region, TileFunction
from glueball.tile.operations import TILE_OPERATIONS
from glueball.tile.operations.warpgroup import GROUP_WARPS
from glueball.tile.partitions import walk_with_warps
from glueball.tile.passes.shared_accesses import Access, SharedAccesses, allocated_spans

Accesses = frozenset[Access]


@dataclass(frozen=True, slots=True)
class State:
    """What is known at a point, on some path to it.

    `pending` are the accesses since the last barrier; `copies` those of copies that threads have started and not waited
    for, `stores` the same of bulk stores, `products` of matrix products. `unfenced_reads` and `unfenced_writes` are
    bytes that threads have touched since their last proxy fence, `fenced` those fenced since the last barrier. `wrote`
    says that global memory was written since the last barrier.
    """

    pending: Accesses = frozenset()
    copies: Accesses = frozenset()
    stores: Accesses = frozenset()
    products: Accesses = frozenset()
    unfenced_reads: int = 0
    unfenced_writes: int = 0
    fenced: int = 0
    wrote: bool = False

    def joined(self, other: State) -> State:
        """What holds where two paths meet."""
        return State(
            self.pending | other.pending,
            self.copies | other.copies,
            self.stores | other.stores,
            self.products | other.products,
            self.unfenced_reads | other.unfenced_reads,
            self.unfenced_writes | other.unfenced_writes,
            self.fenced | other.fenced,
            self.wrote or other.wrote,
        )

    def after_barrier(self) -> State:
        """All threads have come."""
        return replace(self, pending=frozenset(), fenced=0, wrote=False)

    def after_relaxed_barrier(self) -> State:
        """All threads have come, but only of mbarriers that were made do all of them know."""
        return replace(self, pending=frozenset(access for access in self.pending if not access.initialises))

    def after_fence(self) -> State:
        """Every thread has ordered what it did before what asynchronous units do."""
        touched = self.unfenced_reads | self.unfenced_writes
        return replace(self, unfenced_reads=0, unfenced_writes=0, fenced=self.fenced | touched)

    def after_product(self) -> State:
        """Every thread starts a matrix product, once it has waited for what it waited for before."""
        marked = (replace(access, used=True) if access.waits else access for access in self.pending)
        return replace(self, pending=frozenset(marked))

    def after_products(self) -> State:
        """Products of the whole warp group are done.

        A thread that has not seen yet what it waits for keeps the product after that wait from being done, and only
        when that is done may anybody let the next phase come.
        """
        kept = (access for access in self.pending if not (access.waits and access.used))
        return replace(self, pending=frozenset(kept))

    def touched(self, access: Access) -> State:
        """After an access of threads."""
        if access.counts:
            return replace(self, pending=self.pending | {access})
        return replace(
            self,
            pending=self.pending | {access},
            unfenced_reads=self.unfenced_reads | (access.bytes if access.reads else 0),
            unfenced_writes=self.unfenced_writes | (access.bytes if access.writes else 0),
        )


@dataclass(slots=True)
class Insertions:
    """Operations to insert, by the operation before which (or with `after`, behind which) they go."""

    before: dict[Operation, list[Operation]] = field(default_factory=dict)
    after: dict[Operation, list[Operation]] = field(default_factory=dict)

    def add(self, other: Insertions) -> None:
        """Takes over another one's, in place of its own where both have some."""
        self.before |= other.before
        self.after |= other.after

    def barriers(self) -> int:
        """How many barriers there are."""
        groups = (*self.before.values(), *self.after.values())
        return sum(operation.opcode == "barrier" for group in groups for operation in group)


def insert_barriers(function: TileFunction, target: Target) -> None:
    """Adds `barrier` and `proxy_fence` operations, each at the location of the access it protects."""
    spans = allocated_spans(function)
    if not spans:
        return
    shared = SharedAccesses(spans, views_of(function), target)
    _, found = _Walk(shared, _overwritten(function, shared), dict(walk_with_warps(function))).region(
        function.body, State()
    )
    _insert(function.body, found)


def _overwritten(function: TileFunction, shared: SharedAccesses) -> int:
    """The bytes that bulk loads write."""
    touched = 0
    for operation in function.body.walk():
        if operation.opcode == "bulk_load" and (access := shared.access(operation)) is not None:
            touched |= access.bytes
    return touched


def _insert(region: Region, found: Insertions) -> None:
    result: list[Operation] = []
    for operation in region.operations:
        for inner in operation.regions:
            _insert(inner, found)
        result += [*found.before.get(operation, ()), operation, *found.after.get(operation, ())]
    region.operations[:] = result


def _barrier(operation: Operation) -> Operation:
    return Operation("barrier", (), (), location=operation.location)


def _fence(operation: Operation) -> Operation:
    return Operation("proxy_fence", (), (), {"cluster": False}, location=operation.location)


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk through a function: from the state at the start of something to that at its end, and what it takes."""

    shared: SharedAccesses
    overwritten: int
    warps: dict[Operation, int]

    def region(self, region: Region, state: State) -> tuple[State, Insertions]:
        """Through a region."""
        found = Insertions()
        for operation in region.operations:
            if operation.opcode == "if":
                state, more = self.branches(operation, state)
            elif operation.opcode in ("for", "while"):
                state, more = self.best_loop(operation, state)
            elif operation.opcode == "warp_specialize":
                state, more = self.partitions(operation, state)
            else:
                state, more = self.operation(operation, state)
            found.add(more)
        return state, found

    def operation(self, operation: Operation, state: State) -> tuple[State, Insertions]:
        """Through an operation that has no control flow of its own."""
        needed, state = self.before(operation, state)
        found = Insertions({operation: needed} if needed else {})
        state = self.after(operation, state)
        if operation.opcode == "make_descriptor" or (
            operation.opcode == "bulk_wait" and not operation.attributes["read_only"]
        ):
            found.after[operation] = [_barrier(operation)]
            state = state.after_barrier()
        return state, found

    def branches(self, operation: Operation, state: State) -> tuple[State, Insertions]:
        """Through an `if`."""
        found, ends = Insertions(), []
        for region in operation.regions:
            end, more = self.region(region, state)
            ends.append(end)
            found.add(more)
        return ends[0].joined(ends[1]), found

    def partitions(self, operation: Operation, state: State) -> tuple[State, Insertions]:
        """Through regions that run side by side. All threads come together before and after."""
        found, ends = Insertions(), []
        for region in operation.regions:
            end, more = self.region(region, state.after_barrier())
            ends.append(end.after_barrier())
            found.add(more)
        whole = ends[0]
        for end in ends[1:]:
            whole = whole.joined(end)
        return whole, found

    def best_loop(self, operation: Operation, state: State) -> tuple[State, Insertions]:
        """Through a loop; one barrier before it where that saves one in every round."""
        plain_end, plain = self.loop(operation, state)
        if plain.barriers() and state != state.after_barrier():
            end, found = self.loop(operation, state.after_barrier())
            if found.barriers() < plain.barriers():
                found.before[operation] = [_barrier(operation)]
                return end, found
        return plain_end, plain

    def loop(self, operation: Operation, state: State) -> tuple[State, Insertions]:
        """Through a loop, however often it runs."""
        *condition, body = operation.regions
        while True:
            found, at_exit = Insertions(), state
            for region in (*condition, body):
                end, more = self.region(region, at_exit)
                found.add(more)
                at_exit = end if region is not body else at_exit
            grown = state.joined(end)
            if grown == state:
                return at_exit, found
            state = grown

    def before(self, operation: Operation, state: State) -> tuple[list[Operation], State]:
        """What must come before an operation, and the state after that."""
        if operation.opcode == "cluster_barrier":
            touched = (state.unfenced_reads | state.unfenced_writes) & self.overwritten
            return ([_fence(operation)], state.after_fence()) if touched else ([], state)
        access = self.shared.access(operation)
        if access is None:
            return [], state
        needed = []
        by_unit = operation.opcode in ("bulk_load", "bulk_store", "warpgroup_mma")
        announces = operation.opcode in ("mbarrier_arrive", "mbarrier_expect")
        word = self.shared.word(operation)
        clash = _any_conflict(access, state.pending) or (word is not None and _any_conflict(word, state.pending))
        clash = clash or (announces and _has_something_to_release(state))
        unfenced = state.unfenced_writes
        if operation.opcode == "bulk_load" or (clash and announces):
            unfenced |= state.unfenced_reads
        if unfenced & (access.bytes if by_unit else self.overwritten if clash and announces else 0):
            needed.append(_fence(operation))
            state = state.after_fence()
        if clash or (by_unit and state.fenced & access.bytes):
            needed.append(_barrier(operation))
            state = state.after_barrier()
        return needed, state

    def after(self, operation: Operation, state: State) -> State:
        """The state after an operation."""
        waited = self.after_wait(operation, state)
        if waited is not None:
            return waited
        if TILE_OPERATIONS[operation.opcode].effects.writes_global and operation.opcode != "bulk_store":
            state = replace(state, wrote=True)
        access = self.shared.access(operation)
        if access is None or operation.opcode == "bulk_load":
            return state
        match operation.opcode:
            case "mbarrier_copy_arrive":
                fenced = _touched(state, state.copies)
                return replace(fenced, pending=state.pending | {access}, copies=frozenset())
            case "async_copy":
                return replace(state, copies=state.copies | {access})
            case "bulk_store":
                return replace(state, stores=state.stores | {access})
            case "warpgroup_mma":
                return replace(state.after_product(), products=state.products | {access})
        return state.touched(access)

    def after_wait(self, operation: Operation, state: State) -> State | None:
        """The state after an operation that orders others; None after any else.

        The threads that wait know of accesses that others do not know of before the next barrier.
        """
        last = operation.attributes.get("pending") == 0
        match operation.opcode:
            case "barrier":
                return state.after_barrier()
            case "cluster_barrier":
                return state.after_relaxed_barrier() if operation.attributes["relaxed"] else state.after_barrier()
            case "proxy_fence":
                return state.after_fence()
            case "async_copy_wait":
                waited = _touched(state, state.copies)
                return replace(waited, copies=frozenset()) if last else waited
            case "bulk_wait":
                waited = replace(_touched(state, state.stores), unfenced_reads=state.unfenced_reads)
                return replace(waited, stores=frozenset()) if last else waited
            case "warpgroup_wait":
                return self.products_waited(operation, state, last=last)
        return None

    def products_waited(self, operation: Operation, state: State, *, last: bool) -> State:
        """Of one warp group every thread knows what is done; of several each knows of its own products only."""
        waited = state.after_products()
        if self.warps[operation] > GROUP_WARPS:
            waited = replace(_touched(state, state.products), unfenced_reads=state.unfenced_reads)
        return replace(waited, products=frozenset()) if last else waited


def _touched(state: State, accesses: Accesses) -> State:
    for access in accesses:
        state = state.touched(access)
    return state


def _any_conflict(access: Access, earlier: Accesses) -> bool:
    return any(access.conflicts(each) for each in earlier)


def _has_something_to_release(state: State) -> bool:
    """Whether threads other than the one that arrives have done something that whoever waits may rely on.

    That they have seen the phase of an mbarrier is such a thing: its next phase may be over once others go on.
    """
    return state.wrote or any(access.waits or not access.counts for access in state.pending)
