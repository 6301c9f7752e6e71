"""Operations that only tile passes make: register moves, shuffles, scratch memory, barriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glueball.layouts import Exchange, SharedAccess, Shuffles, ThreadFunction, WarpMoves
from glueball.lower.context import Context, lowers
from glueball.lower.linear import lane_id, linear_combination, span, split_constant, thread_offset, warp_id
from glueball.lower.memory import as_register, as_stored, idle_mask, memory_type
from glueball.lower.terms import Term, materialize, materialize_all
from glueball.thread import arithmetic, conversion, memory, synchronization
from glueball.thread.builder import Builder
from glueball.thread.ir import BITS, SharedAllocation, Value
from glueball.tile.ir import Operation
from glueball.tile.types import element_of

WORD = 32


@lowers("barrier")
def barrier(context: Context, operation: Operation) -> None:
    """All warps of the block meet, and their shared accesses are ordered."""
    context.builder.emit(synchronization.ORDER_SHARED)
    context.builder.emit(synchronization.BARRIER)


@lowers("permute_registers")
def permute_registers(context: Context, operation: Operation) -> None:
    """Registers are renamed, which costs nothing."""
    terms = context.terms(operation.operands[0])
    context.bind(operation.result, tuple(terms[source] for source in operation.attributes["sources"]))


@lowers("allocate_shared")
def allocate_shared(context: Context, operation: Operation) -> None:
    """Makes a buffer that the placement pass has placed known to code generation and simulator."""
    attributes = operation.attributes
    context.allocations[attributes["name"]] = SharedAllocation(
        attributes["name"], attributes["bytes"], attributes["alignment"], attributes["offset"], operation.location
    )


@lowers("shared_store")
def shared_store(context: Context, operation: Operation) -> None:
    """Each thread writes its registers to scratch memory, vector by vector; copies are written once."""
    builder, plan = context.builder, operation.attributes["plan"]
    element = element_of(operation.operands[0].type)
    terms = context.terms(operation.operands[0])
    mask = idle_mask(builder, plan.write.idle_lanes, plan.write.idle_warps)
    guard = [] if mask is None else [materialize(builder, mask)]
    for group, offset, immediate in _accesses(builder, plan.write, plan.element_bytes):
        values = [as_stored(builder, materialize(builder, terms[register]), element) for register in group]
        attributes = _shared_attributes(operation, memory_type(element), len(group), immediate)
        builder.emit(memory.SHARED_STORE, [offset, *guard, *values], {**attributes, "masked": bool(guard)})


@lowers("shared_load")
def shared_load(context: Context, operation: Operation) -> None:
    """Each thread reads its registers of the other layout, vector by vector."""
    builder, plan = context.builder, operation.attributes["plan"]
    element = element_of(operation.result.type)
    loaded: dict[int, Value] = {}
    for group, offset, immediate in _accesses(builder, plan.read, plan.element_bytes):
        attributes = _shared_attributes(operation, memory_type(element), len(group), immediate)
        values = builder.emit(memory.SHARED_LOAD, [offset], {**attributes, "masked": False, "replaced": False})
        for register, value in zip(group, values, strict=True):
            loaded[register] = as_register(builder, value, element)
    context.bind(operation.result, tuple(Term(loaded[register]) for register in plan.copies))


def _shared_attributes(operation: Operation, kind: str, count: int, immediate: int) -> dict[str, Any]:
    return {"allocation": operation.attributes["allocation"], "type": kind, "count": count, "offset": immediate}


def _accesses(builder: Builder, access: SharedAccess, element_bytes: int) -> list[tuple[tuple[int, ...], Value, int]]:
    """Per access: its registers, the thread's byte offset, and the immediate on top of it."""
    lanes, warps = access.offsets.flat_bases("lane"), access.offsets.flat_bases("warp")
    base = thread_offset(builder, lanes, warps)
    variable = span(lanes) | span(warps)
    images = access.offsets.table("register").tolist()
    shift = element_bytes.bit_length() - 1
    result = []
    for group in access.groups:
        mixed, added = split_constant(images[group[0]], variable)
        offset = builder.logical_xor(base, builder.constant("i32", mixed))
        result.append((group, builder.shift_left(offset, shift), added << shift))
    return result


@lowers("shuffle")
def shuffle(context: Context, operation: Operation) -> None:
    """Data moves inside each warp: selects, shuffles, selects."""
    builder, plan = context.builder, operation.attributes["plan"]
    assert isinstance(plan, Shuffles)
    values = dict(enumerate(materialize_all(builder, context.terms(operation.operands[0]))))
    moves = plan.moves
    _exchange(builder, moves.before, values, [source for step in moves.rounds for source in step.sources])
    received = _rounds(builder, moves, values)
    _exchange(builder, moves.after, received, list(received))
    context.bind(operation.result, tuple(Term(received[register]) for register in moves.copies))


def _rounds(builder: Builder, moves: WarpMoves, values: dict[int, Value]) -> dict[int, Value]:
    received: dict[int, Value] = {}
    for step in moves.rounds:
        moved = [values[source] for source in step.sources]
        if not step.is_move:
            moved = _shuffled(builder, moved, _thread_function(builder, step.source_lane))
        received.update(zip(step.destinations, moved, strict=True))
    return received


def _exchange(builder: Builder, exchange: Exchange, values: dict[int, Value], outputs: Sequence[int]) -> None:
    """Permutes registers within each thread, in place, by selects on bits of the thread's index."""
    for stage, registers in exchange.schedule(outputs):
        swaps = _odd_parity(builder, stage.lane_mask, stage.warp_mask)
        before = dict(values)
        for register in registers:
            values[register] = builder.select(swaps, before[register ^ stage.swap], before[register])


def _odd_parity(builder: Builder, lane_mask: int, warp_mask: int) -> Value:
    parts = builder.constant("i32", 0)
    for identifier, mask in ((lane_id(builder), lane_mask), (warp_id(builder), warp_mask)):
        bases = [mask >> bit & 1 for bit in range(mask.bit_length())]
        parts = builder.logical_xor(parts, linear_combination(builder, identifier, bases, whole=False))
    return builder.compare(arithmetic.COMPARE_SIGNED, "ne", parts, builder.constant("i32", 0))


def _thread_function(builder: Builder, function: ThreadFunction) -> Value:
    base = thread_offset(builder, function.lane, function.warp)
    return builder.logical_xor(base, builder.constant("i32", function.base))


def _shuffled(builder: Builder, values: Sequence[Value], lane: Value) -> list[Value]:
    """Registers of the same type fetched from another lane, packed into 32-bit words."""
    kind = values[0].type
    bits = max(8, BITS[kind])
    words = _as_words(builder, values, bits)
    fetched = [builder.emit(synchronization.SHUFFLE, (word, lane))[0] for word in words]
    return _from_words(builder, fetched, kind, bits, len(values))


def _as_words(builder: Builder, values: Sequence[Value], bits: int) -> list[Value]:
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


def _from_words(builder: Builder, words: Sequence[Value], kind: str, bits: int, count: int) -> list[Value]:
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
