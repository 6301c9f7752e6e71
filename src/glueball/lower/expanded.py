"""Operations that only tile passes make: register moves, shuffles, scratch memory, barriers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from glueball.layouts import Condition, Exchange, SharedAccess, Shuffles, ThreadFunction, WarpMoves, f2
from glueball.lower.context import Context, lowers
from glueball.lower.linear import (
    cta_rank,
    lane_id,
    linear_combination,
    span,
    split_constant,
    thread_offset,
    warp_id,
)
from glueball.lower.memory import as_register, as_stored, idle_mask, memory_type, read_shared
from glueball.lower.shared_memory import allocate_view
from glueball.lower.terms import Term, conjunction, materialize, materialize_all, register_type
from glueball.thread import arithmetic, conversion, memory, synchronization
from glueball.thread.builder import Builder
from glueball.thread.ir import BITS, SharedAllocation, Value
from glueball.thread.nvidia import matrix_moves
from glueball.tile.ir import Operation
from glueball.tile.types import element_of

WORD = 32


@lowers("permute_registers")
def permute_registers(context: Context, operation: Operation) -> None:
    """Registers are renamed, which costs nothing."""
    terms = context.terms(operation.operands[0])
    context.bind(operation.result, tuple(terms[source] for source in operation.attributes["sources"]))


@lowers("allocate_shared")
def allocate_shared(context: Context, operation: Operation) -> None:
    """Makes a buffer that the placement pass has placed known to code generation and simulator."""
    attributes = operation.attributes
    if operation.results:
        allocate_view(context, operation)
        return
    context.allocations[attributes["name"]] = SharedAllocation(
        attributes["name"], attributes["bytes"], attributes["alignment"], attributes["offset"], operation.location
    )


@lowers("shared_store")
def shared_store(context: Context, operation: Operation) -> None:
    """Each thread writes its registers to scratch memory, vector by vector; copies are written once."""
    builder, access = context.builder, operation.attributes["plan"].write
    element = element_of(operation.operands[0].type)
    terms = context.terms(operation.operands[0])
    idle = idle_mask(builder, access.idle_lanes, access.idle_warps)
    for each in _accesses(builder, operation, access):
        mask = idle if each.mask is None else each.mask if idle is None else conjunction(idle, each.mask)
        guard = [] if mask is None else [materialize(builder, mask)]
        values = [as_stored(builder, materialize(builder, terms[register]), element) for register in each.registers]
        attributes = _shared_attributes(operation, access, memory_type(element), each)
        record = matrix_moves.STORE_MATRIX if access.matrices else memory.SHARED_STORE
        builder.emit(record, [each.offset, *guard, *values], {**attributes, "masked": bool(guard)})


@lowers("shared_load")
def shared_load(context: Context, operation: Operation) -> None:
    """Each thread reads its registers of the other layout, vector by vector; in rounds, those of one after another."""
    builder, plan = context.builder, operation.attributes["plan"]
    access, element = plan.read, element_of(operation.result.type)
    kind = memory_type(element)
    received: dict[int, Term] = {}
    if operation.operands:
        received.update(enumerate(context.terms(operation.operands[0])))
    nothing = Term(builder.constant(register_type(element), 0))
    for each in _accesses(builder, operation, access):
        attributes = _shared_attributes(operation, access, kind, each)
        if access.matrices:
            values: Sequence[Value] = builder.emit(matrix_moves.LOAD_MATRIX, [each.offset], attributes)
        else:
            operands: list[Value] = []
            if each.mask is not None:
                before = [materialize(builder, received.get(register, nothing)) for register in each.registers]
                operands += [materialize(builder, each.mask), *(as_stored(builder, value, element) for value in before)]
            masks = {"masked": each.mask is not None, "replaced": each.mask is not None}
            values = read_shared(builder, each.offset, each.rank, operands, {**attributes, **masks})
        for register, value in zip(each.registers, values, strict=True):
            received[register] = Term(as_register(builder, value, element))
    context.bind(operation.result, tuple(received.get(register, nothing) for register in plan.copies))


@dataclass(frozen=True, slots=True)
class _Access:
    """One access of scratch memory: its registers, the thread's byte offset, an immediate on top, and who makes it.

    `rank` is that of the CTA whose memory it is, None for the thread's own.
    """

    registers: tuple[int, ...]
    offset: Value
    immediate: int
    mask: Term | None
    rank: Value | None


def _shared_attributes(operation: Operation, access: SharedAccess, kind: str, each: _Access) -> dict[str, Any]:
    attributes = {"allocation": operation.attributes["allocation"], "type": kind, "offset": each.immediate}
    if access.matrices:
        return {**attributes, "matrices": access.matrices, "transposed": access.transposed}
    return {**attributes, "count": len(each.registers)}


def _accesses(builder: Builder, operation: Operation, access: SharedAccess) -> list[_Access]:
    """The accesses of one side of a conversion in the round of an operation."""
    shift = operation.attributes["plan"].element_bytes.bit_length() - 1
    bases = [[basis << shift for basis in access.offset_bases(name)] for name in ("lane", "warp", "block")]
    base = thread_offset(builder, *bases)
    variable = reduce(or_, map(span, bases))
    result = []
    for group, condition in access.in_round(operation.attributes.get("round", 0)):
        mixed, added = split_constant(access.offset_of(group[0]) << shift, variable)
        offset = builder.logical_xor(base, builder.constant("i32", mixed))
        mask = None if condition is None else Term(_condition(builder, condition))
        result.append(_Access(group, offset, added, mask, _rank(builder, access, group[0])))
    return result


def _rank(builder: Builder, access: SharedAccess, register: int) -> Value | None:
    """The rank of the CTA to whose memory an access of a register goes; None where that is the thread's own."""
    if not access.crosses_ctas:
        return None
    lanes, warps, changes = (access.rank_bases(name) for name in ("lane", "warp", "block"))
    ranks = [1 << bit ^ change for bit, change in enumerate(changes)]
    constant = builder.constant("i32", f2.apply(access.rank_bases("register"), register))
    return builder.logical_xor(thread_offset(builder, lanes, warps, ranks), constant)


def _condition(builder: Builder, condition: Condition) -> Value:
    value = thread_offset(builder, condition.lane, condition.warp, condition.block)
    return builder.compare(arithmetic.COMPARE_SIGNED, "eq", value, builder.constant("i32", condition.value))


@lowers("shuffle")
def shuffle(context: Context, operation: Operation) -> None:
    """Data moves inside each warp: selects, shuffles, selects."""
    builder, plan = context.builder, operation.attributes["plan"]
    assert isinstance(plan, Shuffles)
    values = dict(enumerate(materialize_all(builder, context.terms(operation.operands[0]))))
    moves = plan.moves
    _exchange(builder, moves.before, values, [source for step in moves.rounds for source in step.sources])
    received = _rounds(builder, moves, values)
    _exchange(builder, moves.after, received, moves.copies)
    context.bind(operation.result, tuple(Term(received[register]) for register in moves.copies))


def _rounds(builder: Builder, moves: WarpMoves, values: dict[int, Value]) -> dict[int, Value]:
    received: dict[int, Value] = {}
    for step in moves.rounds:
        moved = [values[source] for source in step.sources]
        if not step.is_move:
            flips = step.source_lane.lane_flips
            moved = shuffled(builder, moved, flips or _thread_function(builder, step.source_lane))
        received.update(zip(step.destinations, moved, strict=True))
    return received


def _exchange(builder: Builder, exchange: Exchange, values: dict[int, Value], outputs: Sequence[int]) -> None:
    """Permutes registers within each thread, in place, by selects on bits of the thread's index."""
    for stage, registers in exchange.schedule(outputs):
        swaps = _odd_parity(builder, stage.lane_mask, stage.warp_mask, stage.block_mask)
        before = dict(values)
        for register in registers:
            values[register] = builder.select(swaps, before[register ^ stage.swap], before[register])


def _odd_parity(builder: Builder, lane_mask: int, warp_mask: int, cta_mask: int) -> Value:
    parts = builder.constant("i32", 0)
    for identifier, mask in ((lane_id, lane_mask), (warp_id, warp_mask), (cta_rank, cta_mask)):
        if mask:
            bases = [mask >> bit & 1 for bit in range(mask.bit_length())]
            parts = builder.logical_xor(parts, linear_combination(builder, identifier(builder), bases, whole=False))
    return builder.compare(arithmetic.COMPARE_SIGNED, "ne", parts, builder.constant("i32", 0))


def _thread_function(builder: Builder, function: ThreadFunction) -> Value:
    base = thread_offset(builder, function.lane, function.warp, function.block)
    return builder.logical_xor(base, builder.constant("i32", function.base))


def shuffled(builder: Builder, values: Sequence[Value], source: Value | int) -> list[Value]:
    """Registers of one type fetched from another lane; those narrower than 32 bits must fit one word together.

    `source` is that lane, or as a number the bits in which every lane's index differs from its partner's.
    """
    if isinstance(source, int):
        lane, attributes = builder.logical_xor(lane_id(builder), builder.constant("i32", source)), {"mask": source}
    else:
        lane, attributes = source, {}
    kind = values[0].type
    bits = max(8, BITS[kind])
    words = as_words(builder, values, bits)
    fetched = [builder.emit(synchronization.SHUFFLE, (word, lane), attributes)[0] for word in words]
    return from_words(builder, fetched, kind, bits, len(values))


def as_words(builder: Builder, values: Sequence[Value], bits: int) -> list[Value]:
    """Registers of `bits` bits as 32-bit words: two words each where they are wider, else one word for all."""
    integers = [_as_integer(builder, value) for value in values]
    if bits == 64:
        halves = []
        for integer in integers:
            halves.append(builder.convert(conversion.TRUNCATE, integer, "i32"))
            halves.append(builder.convert(conversion.TRUNCATE, builder.shift_right(integer, WORD), "i32"))
        return halves
    word = builder.constant("i32", 0)
    for position, integer in enumerate(integers):
        wide = builder.convert(conversion.ZERO_EXTEND, integer, "i32")
        word = builder.logical_or(word, builder.shift_left(wide, position * bits))
    return [word]


def from_words(builder: Builder, words: Sequence[Value], kind: str, bits: int, count: int) -> list[Value]:
    """The registers that `as_words` made words of."""
    if bits == 64:
        integers = []
        for low, high in zip(words[::2], words[1::2], strict=True):
            upper = builder.shift_left(builder.convert(conversion.ZERO_EXTEND, high, "i64"), WORD)
            integers.append(builder.logical_or(builder.convert(conversion.ZERO_EXTEND, low, "i64"), upper))
    else:
        narrow = "i1" if kind == "i1" else f"i{bits}"
        integers = [
            builder.convert(conversion.TRUNCATE, builder.shift_right(words[0], position * bits), narrow)
            for position in range(count)
        ]
    return [builder.convert(conversion.BITCAST, integer, kind) for integer in integers]


def _as_integer(builder: Builder, value: Value) -> Value:
    return value if value.type[0] == "i" else builder.convert(conversion.BITCAST, value, f"i{BITS[value.type]}")
