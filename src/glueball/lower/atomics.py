"""Atomic accesses: one instruction for each element, by its first holder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glueball.lower.context import Context, lowers
from glueball.lower.linear import lane_id
from glueball.lower.memory import memory_type, representative_mask, representative_registers
from glueball.lower.regions import exchanged
from glueball.lower.terms import Registers, Term, conjunction, materialize, materialize_all
from glueball.thread import arithmetic, atomics, control
from glueball.thread.ir import Record, Value
from glueball.tile.ir import Operation
from glueball.tile.types import distributed_type, dtype, element_of, pointer_type


@lowers("atomic_change")
def atomic_change(context: Context, operation: Operation) -> None:
    """A read-modify-write."""
    name = operation.attributes["kind"]
    if name in ("max", "min"):
        name += "_signed" if _element(operation).signed else "_unsigned"
    _access(context, operation, atomics.ATOMIC, 1, operation=name)


@lowers("atomic_compare_exchange")
def atomic_compare_exchange(context: Context, operation: Operation) -> None:
    """A write where memory holds what is expected."""
    _access(context, operation, atomics.ATOMIC, 2, operation=atomics.COMPARE_EXCHANGE)


@lowers("atomic_load")
def atomic_load(context: Context, operation: Operation) -> None:
    """A load with an ordering."""
    _access(context, operation, atomics.ATOMIC_LOAD, 0)


@lowers("atomic_store")
def atomic_store(context: Context, operation: Operation) -> None:
    """A store with an ordering."""
    _access(context, operation, atomics.ATOMIC_STORE, 1)


def _element(operation: Operation) -> dtype:
    pointer = element_of(operation.operands[0].type)
    assert isinstance(pointer, pointer_type)
    return pointer.element_ty


def _guards(context: Context, operation: Operation, values: int) -> Callable[[int], Term | None]:
    """The predicate of each register: that of the first holders of its element, and the mask."""
    holders = representative_mask(context, context.values[operation.operands[0]])
    masks = context.terms(operation.operands[1 + values]) if len(operation.operands) > 1 + values else None

    def guard(register: int) -> Term | None:
        if masks is None or holders is None:
            return holders if masks is None else masks[register]
        return conjunction(masks[register], holders)

    return guard


def _attributes(source: Operation, **others: Any) -> dict[str, Any]:
    attributes = source.attributes
    common = {"type": memory_type(_element(source)), "count": 1, "replaced": False}
    return {**common, "semantic": attributes["semantic"], "scope": attributes["scope"], **others}


def _access(context: Context, tile_operation: Operation, record: Record, values: int, **others: Any) -> None:
    builder = context.builder
    addresses = context.terms(tile_operation.operands[0])
    columns = [materialize_all(builder, context.terms(value)) for value in tile_operation.operands[1 : 1 + values]]
    guard = _guards(context, tile_operation, values)
    keep = representative_registers(context.values[tile_operation.operands[0]])
    wanted = bool(tile_operation.results) and not tile_operation.attributes.get("unused")
    if record is atomics.ATOMIC:
        others["result"] = wanted
    found: dict[int, Value] = {}
    for register, address in enumerate(addresses):
        if not keep(register):
            continue
        operands = [address.base]
        mask = guard(register)
        masked = mask is not None and mask.base.constant is not True
        if masked and mask is not None:
            operands.append(materialize(builder, mask))
        operands += [column[register] for column in columns]
        attributes = _attributes(tile_operation, offset=address.offset, masked=masked, **others)
        results = builder.emit(record, operands, attributes)
        if wanted:
            found[register] = results[0]
    if wanted:
        context.bind(tile_operation.result, _with_copies(tile_operation, found, len(addresses)))


def _with_copies(operation: Operation, found: dict[int, Value], count: int) -> Registers:
    """The registers of the result: those that hold a copy of another's element take it from there."""
    kind = operation.result.type
    if not isinstance(kind, distributed_type):
        return (Term(found[0]),)
    images = kind.linear.table("register").tolist()
    holder = {images[register]: value for register, value in found.items()}
    return tuple(Term(holder[images[register]]) for register in range(count))


@lowers("atomic_poll")
def atomic_poll(context: Context, operation: Operation) -> None:
    """A loop for each element, which reads at least once."""
    builder = context.builder
    addresses, expected = (context.terms(operand) for operand in operation.operands[:2])
    limit = None
    if len(operation.operands) > 2:
        limit = materialize(builder, context.term(operation.operands[2]))
    guard = _guards(context, operation, 2)
    keep = representative_registers(context.values[operation.operands[0]])
    found: dict[int, Value] = {}
    for register, address in enumerate(addresses):
        if not keep(register):
            continue
        wanted, mask = materialize(builder, expected[register]), guard(register)
        if mask is None or mask.base.constant is True:
            found[register] = _wait(context, operation, address, wanted, limit)
            continue
        waiting, idle = builder.new_region(), builder.new_region()
        with builder.inside(waiting):
            builder.yield_values([_wait(context, operation, address, wanted, limit)])
        with builder.inside(idle):
            builder.yield_values([builder.constant("i1", False)])
        condition = materialize(builder, mask)
        (found[register],) = builder.structured(control.IF, (condition,), (waiting, idle), ["i1"])
    context.bind(operation.result, _with_copies(operation, found, len(addresses)))


def _wait(context: Context, operation: Operation, address: Term, wanted: Value, limit: Value | None) -> Value:
    builder = context.builder
    start = None if limit is None else builder.emit(atomics.NANOSECONDS)[0]
    condition, body = builder.new_region(["i1"]), builder.new_region(["i1"])
    with builder.inside(condition, loop=True):
        attributes = _attributes(operation, offset=address.offset, masked=False)
        (held,) = builder.emit(atomics.ATOMIC_LOAD, (address.base,), attributes)
        equal = builder.compare(arithmetic.COMPARE_SIGNED, "eq", held, wanted)
        goes_on = builder.compare(arithmetic.COMPARE_SIGNED, "ne", held, wanted)
        if start is not None and limit is not None:
            elapsed = builder.sub(builder.emit(atomics.NANOSECONDS)[0], start)
            in_time = builder.compare(arithmetic.COMPARE_SIGNED, "lt", elapsed, limit)
            goes_on = builder.logical_and(goes_on, in_time)
        builder.yield_values([goes_on, equal])
    with builder.inside(body, loop=True):
        builder.yield_values([body.arguments[0]])
    first = builder.constant("i1", False)
    return builder.structured(control.WHILE, (first,), (condition, body), ["i1"])[0]


@lowers("share_lanes")
def share_lanes(context: Context, operation: Operation) -> None:
    """Shuffles from the lanes whose masked bits are zero."""
    builder = context.builder
    values = materialize_all(builder, context.terms(operation.operands[0]))
    source = builder.logical_and(lane_id(builder), builder.constant("i32", ~operation.attributes["lanes"]))
    moved: Sequence[list[Value]] = exchanged(builder, [[value] for value in values], source)
    context.bind(operation.result, tuple(Term(value) for (value,) in moved))
