"""What the CTAs of a cluster do together: barriers, and stores that an mbarrier of the receiver counts."""

from __future__ import annotations

from glueball.errors import LayoutError
from glueball.lower.context import Context, lowers
from glueball.lower.linear import cta_rank
from glueball.lower.memory import as_stored, memory_type
from glueball.lower.nvidia.mbarriers import first_thread, place_of_word
from glueball.lower.partitions import barrier
from glueball.lower.shared_memory import first_holders, tile_accesses, view_of
from glueball.lower.terms import materialize
from glueball.thread.ir import SharedAllocation
from glueball.thread.nvidia import cluster, dependent_grids
from glueball.thread.nvidia.cluster import WORD_BYTES, WORDS
from glueball.tile.ir import Operation
from glueball.tile.mbarriers import group_mask
from glueball.tile.types import distributed_type, shared_memory_descriptor_type

WORDS_OF_PARTITION = 2
LEAST_BYTES = 4
"""The least that one `st.async` stores."""


@lowers("cluster_barrier")
def cluster_barrier(context: Context, operation: Operation) -> None:
    """All threads, or those of this partition in every CTA where there are partitions."""
    builder, attributes = context.builder, {"relaxed": operation.attributes["relaxed"]}
    if context.barrier is None:
        builder.emit(cluster.CLUSTER_BARRIER, (), attributes)
        return
    barrier(context, operation)
    slot = context.cluster_barriers.setdefault(context.partition, len(context.cluster_barriers))
    attributes |= {
        "allocation": WORDS,
        "offset": slot * WORDS_OF_PARTITION * WORD_BYTES,
        "threads": context.num_warps * context.target.lanes,
        "ctas": context.num_ctas,
    }
    builder.emit(cluster.CLUSTER_BARRIER, [builder.constant("i32", 0), cta_rank(builder)], attributes)


def cluster_words(partitions: int, start: int) -> SharedAllocation:
    """The mbarriers by which so many partitions wait for those of other CTAs, from `start` on or after."""
    offset = -(-start // WORD_BYTES) * WORD_BYTES
    return SharedAllocation(WORDS, partitions * WORDS_OF_PARTITION * WORD_BYTES, WORD_BYTES, offset)


@lowers("mbarrier_init_fence")
def mbarrier_init_fence(context: Context, _: Operation) -> None:
    """The thread that has initialised them."""
    context.builder.emit(cluster.FENCE_MBARRIER_INIT, [first_thread(context)])


@lowers("async_store")
def async_store(context: Context, operation: Operation) -> None:
    """Each thread stores what it holds, the first of those that hold copies, to the CTA in whose memory it lies."""
    builder, (target, source, word) = context.builder, operation.operands
    view, terms = view_of(context, target), context.terms(source)
    assert isinstance(source.type, distributed_type) and isinstance(word.type, shared_memory_descriptor_type)
    if group_mask(view.type) or group_mask(word.type):
        raise LayoutError("async_store stores each element, and tells an mbarrier, in one CTA: a cga_layout has a zero")
    signal, barrier_place = place_of_word(context, word)
    element = view.type.element_ty
    holders, _ = first_holders(context, source, in_cluster=True)
    guard = [] if holders is None else [materialize(builder, holders)]
    for access in tile_accesses(builder, view, source.type.linear):
        if len(access.registers) * element.itemsize < LEAST_BYTES:
            raise LayoutError(
                f"async_store stores at least {LEAST_BYTES} bytes, and these layouts keep "
                f"{len(access.registers) * element.itemsize} side by side both in a thread and in shared memory"
            )
        values = [as_stored(builder, materialize(builder, terms[register]), element) for register in access.registers]
        attributes = {
            "allocation": view.allocation,
            "offset": access.address.offset,
            "type": memory_type(element),
            "count": len(access.registers),
            "masked": bool(guard),
            "barrier_allocation": barrier_place["allocation"],
            "barrier_offset": barrier_place["offset"],
            "remote": True,
        }
        rank = cta_rank(builder) if access.rank is None else access.rank
        builder.emit(cluster.STORE_ASYNC, [access.address.base, rank, signal, *guard, *values], attributes)


@lowers("grid_wait")
def grid_wait(context: Context, _: Operation) -> None:
    """Every thread waits."""
    context.builder.emit(dependent_grids.WAIT)


@lowers("grid_launch_dependents")
def grid_launch_dependents(context: Context, _: Operation) -> None:
    """Every thread says so."""
    context.builder.emit(dependent_grids.LAUNCH_DEPENDENTS)
