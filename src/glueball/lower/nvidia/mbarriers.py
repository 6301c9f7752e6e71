"""Operations on mbarriers: one thread acts for its partition, all threads wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glueball.errors import LayoutError
from glueball.lower.context import Context, lowers
from glueball.lower.linear import cta_rank, lane_id, linear_combination
from glueball.lower.memory import idle_mask
from glueball.lower.shared_memory import first_address, view_of
from glueball.lower.terms import Term, conjunction, materialize
from glueball.thread.ir import Record, Value
from glueball.thread.nvidia import mbarrier
from glueball.tile.cluster_accesses import is_routed
from glueball.tile.ir import Operation
from glueball.tile.ir import Value as TileValue
from glueball.tile.mbarriers import group_mask
from glueball.tile.types import shared_memory_descriptor_type


def place_of_word(context: Context, view: TileValue) -> tuple[Value, dict[str, Any]]:
    """The byte offset of an mbarrier as a register, and the attributes that name its allocation and add the rest."""
    word = view_of(context, view)
    address = first_address(context.builder, word)
    return address.base, {"allocation": word.allocation, "offset": address.offset}


def first_thread(context: Context, *predicates: TileValue, ctas: int = 0) -> Value:
    """Whether the thread is the partition's first one, and the predicates hold; not where rank bits `ctas` are set."""
    mask = idle_mask(context.builder, context.target.lanes - 1, context.num_warps - 1, ctas)
    return _all_hold(context, mask, predicates)


def _all_hold(context: Context, mask: Term | None, predicates: Sequence[TileValue]) -> Value:
    for predicate in predicates:
        term = context.term(predicate)
        mask = term if mask is None else conjunction(mask, term)
    return context.builder.constant("i1", True) if mask is None else materialize(context.builder, mask)


def group_of(word: TileValue) -> int:
    """The rank bits in which the CTAs differ that share an mbarrier, that of their lead."""
    assert isinstance(word.type, shared_memory_descriptor_type)
    return group_mask(word.type)


@lowers("mbarrier_init")
def init(context: Context, operation: Operation) -> None:
    """The first thread of the lead initialises, for as many arrivals in each CTA of its group."""
    (word,) = operation.operands
    offset, place = place_of_word(context, word)
    group = group_of(word)
    count = operation.attributes["count"] << group.bit_count()
    context.builder.emit(mbarrier.MBARRIER_INIT, [offset, first_thread(context, ctas=group)], {**place, "count": count})


@lowers("mbarrier_invalidate")
def invalidate(context: Context, operation: Operation) -> None:
    """The first thread of the lead invalidates."""
    (word,) = operation.operands
    offset, place = place_of_word(context, word)
    context.builder.emit(mbarrier.MBARRIER_INVALIDATE, [offset, first_thread(context, ctas=group_of(word))], place)


@lowers("mbarrier_arrive")
def arrive(context: Context, operation: Operation) -> None:
    """The first thread arrives, or as many as there are CTAs to arrive in; a barrier has gathered the others."""
    _arrive(context, operation, mbarrier.MBARRIER_ARRIVE)


@lowers("mbarrier_expect")
def expect(context: Context, operation: Operation) -> None:
    """The same, and each announces bytes."""
    _arrive(context, operation, mbarrier.MBARRIER_EXPECT)


def _arrive(context: Context, operation: Operation, record: Record) -> None:
    builder, (word, *predicates) = context.builder, operation.operands
    offset, place = place_of_word(context, word)
    attributes = {name: value for name, value in operation.attributes.items() if name != "from_cta"} | place
    if not is_routed(operation, context.num_ctas):
        builder.emit(record, [offset, first_thread(context, *predicates)], attributes)
        return
    kept = operation.attributes.get("from_cta")
    others = 0 if kept is None else (context.num_ctas - 1) & ~kept
    receivers = (1 << others.bit_count()) - 1
    mask = idle_mask(builder, (context.target.lanes - 1) & ~receivers, context.num_warps - 1, others)
    bits = [1 << bit for bit in range(others.bit_length()) if others >> bit & 1]
    rank = builder.logical_xor(cta_rank(builder), linear_combination(builder, lane_id(builder), bits, whole=False))
    lead = builder.logical_and(rank, builder.constant("i32", (context.num_ctas - 1) & ~group_of(word)))
    guard = _all_hold(context, mask, predicates)
    builder.emit(record, [offset, guard, lead], {**attributes, "remote": True, "cluster": context.arrivals_carry_data})


@lowers("mbarrier_wait")
def wait(context: Context, operation: Operation) -> None:
    """Every thread of the lead waits."""
    word, phase, *predicates = operation.operands
    offset, place = place_of_word(context, word)
    builder = context.builder
    guard = _all_hold(context, idle_mask(builder, 0, 0, group_of(word)), predicates)
    elsewhere = any(each.allocation in context.words_elsewhere for each in context.views[word])
    place["cluster"] = elsewhere and context.arrivals_carry_data
    builder.emit(mbarrier.MBARRIER_WAIT, [offset, materialize(builder, context.term(phase)), guard], place)


@lowers("mbarrier_copy_arrive")
def copy_arrive(context: Context, operation: Operation) -> None:
    """Every thread arrives when its copies are done."""
    if group_of(operation.operands[0]):
        raise LayoutError("copies arrive at an mbarrier of their own CTA, and this one is that of a group of CTAs")
    offset, place = place_of_word(context, operation.operands[0])
    attributes = {**place, "increment": operation.attributes["increment"]}
    context.builder.emit(mbarrier.MBARRIER_COPY_ARRIVE, [offset], attributes)
