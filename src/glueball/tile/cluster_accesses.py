"""Which operations of a kernel reach into the shared memory of other CTAs of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from glueball.layouts import SharedRoundTrip
from glueball.tile.ir import Operation, TileFunction, Value
from glueball.tile.mbarriers import group_mask
from glueball.tile.operations import TILE_OPERATIONS
from glueball.tile.operations.assembly import ASSEMBLY_OPERATIONS
from glueball.tile.shared_views import leaves_cta
from glueball.tile.types import distributed_type, shared_memory_descriptor_type

ASSEMBLY = frozenset(definition.name for definition in ASSEMBLY_OPERATIONS)
"""What may read and write anything, unless it is said to be pure."""


def reads_other_ctas(operation: Operation) -> bool:
    """Whether threads read what other CTAs have in their memory."""
    match operation.opcode:
        case "shared_load":
            plan = operation.attributes["plan"]
            return isinstance(plan, SharedRoundTrip) and plan.read.crosses_ctas
        case "scratch_read":
            return bool(operation.attributes.get("replicas"))
        case "view_load":
            kind, tile = operation.operands[0].type, operation.result.type
            assert isinstance(kind, shared_memory_descriptor_type) and isinstance(tile, distributed_type)
            return leaves_cta(tile.linear, kind)
    return False


def is_routed(operation: Operation, ctas: int) -> bool:
    """Whether an arrival is one in other CTAs: in the lead of a group, or in all those that `from_cta` tells."""
    kind = operation.operands[0].type
    assert isinstance(kind, shared_memory_descriptor_type)
    kept = operation.attributes.get("from_cta")
    return bool(group_mask(kind)) or (kept is not None and kept != ctas - 1)


def arrives_elsewhere(operation: Operation, ctas: int) -> bool:
    """Whether threads arrive at mbarriers in the memory of other CTAs."""
    return operation.opcode in ("mbarrier_arrive", "mbarrier_expect") and is_routed(operation, ctas)


def words_elsewhere(operation: Operation, ctas: int) -> Iterator[Value]:
    """The mbarriers that an operation uses in the memory of other CTAs."""
    match operation.opcode:
        case "mbarrier_arrive" | "mbarrier_expect":
            if arrives_elsewhere(operation, ctas):
                yield operation.operands[0]
        case "bulk_load":
            if operation.attributes["multicast"]:
                yield operation.operands[2]
        case "async_store":
            yield operation.operands[2]


def arrivals_carry_data(function: TileFunction) -> bool:
    """Whether a CTA may read what another one has written before its threads arrived at an mbarrier.

    That is in the shared memory of another CTA, or in global memory. Copy engines order what they move themselves, but
    for stores that a thread waits for until others may see them, which copies may read too. Where there is no such
    data, an arrival in another CTA need not have all earlier writes of its multiprocessor seen first, which takes
    thousands of cycles.
    """
    reads, copies, writes, stores = False, False, False, False
    for operation in function.body.walk():
        effects = TILE_OPERATIONS[operation.opcode].effects
        if (operation.opcode in ASSEMBLY and not operation.attributes["is_pure"]) or reads_other_ctas(operation):
            return True
        copies |= operation.opcode == "bulk_load"
        reads |= effects.reads_global and operation.opcode != "bulk_load"
        writes |= effects.writes_global and operation.opcode != "bulk_store"
        stores |= operation.opcode == "bulk_wait" and not operation.attributes["read_only"]
    return (reads and (writes or stores)) or (copies and stores)


def views_elsewhere(operation: Operation, ctas: int) -> Iterator[Value]:
    """The same, and the memory of other CTAs that it has asynchronously written."""
    yield from words_elsewhere(operation, ctas)
    match operation.opcode:
        case "bulk_load":
            if operation.attributes["multicast"]:
                yield operation.operands[1]
        case "async_store":
            yield operation.operands[0]


def all_words_elsewhere(function: TileFunction) -> list[Value]:
    """The mbarriers that any operation of a kernel uses in the memory of other CTAs."""
    return [view for each in function.body.walk() for view in words_elsewhere(each, function.num_ctas)]
