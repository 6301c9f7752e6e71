"""Scratch memory in which the elements of a tile lie row by row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any

from glueball.layouts import LinearLayout
from glueball.layouts.reductions import without_axis
from glueball.lower.context import Context, lowers
from glueball.lower.linear import cta_rank, span, split_constant, thread_offset
from glueball.lower.memory import (
    as_register,
    as_stored,
    idle_mask,
    memory_type,
    read_shared,
    representative_registers,
)
from glueball.lower.terms import Term, conjunction, materialize
from glueball.thread import arithmetic, memory
from glueball.thread.builder import Builder
from glueball.thread.ir import Value
from glueball.tile.ir import Operation
from glueball.tile.scratch_moves import scratch_vectors, slice_writers
from glueball.tile.types import distributed_type, element_of


def _attributes(operation: Operation, kind: str, count: int, immediate: int) -> dict[str, Any]:
    return {"allocation": operation.attributes["allocation"], "type": kind, "count": count, "offset": immediate}


def _places(builder: Builder, linear: LinearLayout, itemsize: int) -> Iterator[tuple[list[int], Value, int]]:
    """Per access: its registers, the thread's byte offset, and the immediate on top of it."""
    bases = [linear.flat_bases(name) for name in ("lane", "warp", "block")]
    base = thread_offset(builder, *bases)
    variable = reduce(or_, map(span, bases))
    images = linear.table("register").tolist()
    shift = itemsize.bit_length() - 1
    for group in scratch_vectors(linear, itemsize):
        mixed, added = split_constant(images[group[0]], variable)
        offset = builder.logical_xor(base, builder.constant("i32", mixed))
        yield group, builder.shift_left(offset, shift), added << shift


@lowers("scratch_write")
def scratch_write(context: Context, operation: Operation) -> None:
    """One holder of each element in each CTA writes it, in the first of the CTAs where they are told."""
    builder, (source,) = context.builder, operation.operands
    assert isinstance(source.type, distributed_type)
    element, linear, terms = element_of(source.type), source.type.linear, context.terms(source)
    free = linear.free_variables()
    mask = idle_mask(builder, free["lane"], free["warp"], operation.attributes.get("replicas", 0))
    guard = [] if mask is None else [materialize(builder, mask)]
    for group, offset, immediate in _places(builder, linear, element.itemsize):
        values = [as_stored(builder, materialize(builder, terms[register]), element) for register in group]
        attributes = _attributes(operation, memory_type(element), len(group), immediate)
        builder.emit(memory.SHARED_STORE, [offset, *guard, *values], {**attributes, "masked": bool(guard)})


@lowers("scratch_write_slice")
def scratch_write_slice(context: Context, operation: Operation) -> None:
    """One holder of each element at a place along an axis writes it, in each CTA."""
    builder, (source,) = context.builder, operation.operands
    axis, place = operation.attributes["axis"], operation.attributes["place"]
    assert isinstance(source.type, distributed_type)
    element, linear, terms = element_of(source.type), source.type.linear, context.terms(source)
    free = linear.free_variables()
    idle = idle_mask(builder, free["lane"], free["warp"])
    threads = [linear.flat_bases(name) for name in ("lane", "warp", "block")]
    along = [[linear.unflatten(basis)[axis] for basis in bases] for bases in threads]
    rows = [[without_axis(basis, linear.shape, axis) for basis in bases] for bases in threads]
    base, variable = thread_offset(builder, *rows), reduce(or_, map(span, rows))
    images, shift = linear.table("register").tolist(), element.itemsize.bit_length() - 1
    for register, wanted in slice_writers(linear, axis, place):
        own = thread_offset(builder, *along)
        here = Term(builder.compare(arithmetic.COMPARE_SIGNED, "eq", own, builder.constant("i32", wanted)))
        mask = materialize(builder, here if idle is None else conjunction(idle, here))
        mixed, added = split_constant(without_axis(images[register], linear.shape, axis), variable)
        offset = builder.shift_left(builder.logical_xor(base, builder.constant("i32", mixed)), shift)
        value = as_stored(builder, materialize(builder, terms[register]), element)
        attributes = _attributes(operation, memory_type(element), 1, added << shift)
        builder.emit(memory.SHARED_STORE, [offset, mask, value], {**attributes, "masked": True})


@lowers("scratch_read")
def scratch_read(context: Context, operation: Operation) -> None:
    """Every thread reads its own elements, each once, from the first of the CTAs where they are told."""
    builder, kind = context.builder, operation.result.type
    assert isinstance(kind, distributed_type)
    element, linear = element_of(kind), kind.linear
    rank, replicas = None, operation.attributes.get("replicas", 0)
    if replicas:
        rank = builder.logical_and(cta_rank(builder), builder.constant("i32", context.num_ctas - 1 & ~replicas))
    images = linear.table("register").tolist()
    found: dict[int, Term] = {}
    for group, offset, immediate in _places(builder, linear, element.itemsize):
        attributes = _attributes(operation, memory_type(element), len(group), immediate)
        values = read_shared(builder, offset, rank, [], {**attributes, "masked": False, "replaced": False})
        for register, value in zip(group, values, strict=True):
            found[images[register]] = Term(as_register(builder, value, element))
    context.bind(operation.result, tuple(found[image] for image in images))


@lowers("scratch_gather")
def scratch_gather(context: Context, operation: Operation) -> None:
    """Every thread reads the elements that its indices name, in the rows of its own."""
    builder, (index,) = context.builder, operation.operands
    kind, axis, shape = operation.result.type, operation.attributes["axis"], operation.attributes["shape"]
    assert isinstance(kind, distributed_type)
    element, linear = element_of(kind), kind.linear
    strides = [1] * len(shape)
    for position in reversed(range(len(shape) - 1)):
        strides[position] = strides[position + 1] * shape[position + 1]

    def row(basis: int) -> int:
        place = linear.unflatten(basis)
        return sum(value * strides[other] for other, value in enumerate(place) if other != axis)

    bases = [[row(basis) for basis in linear.flat_bases(name)] for name in ("lane", "warp", "block")]
    base, variable = thread_offset(builder, *bases), reduce(or_, map(span, bases))
    shift = element.itemsize.bit_length() - 1
    found = []
    for term, image in zip(context.terms(index), linear.table("register").tolist(), strict=True):
        mixed, added = split_constant(row(image), variable)
        start = builder.logical_xor(base, builder.constant("i32", mixed))
        along = builder.mul(term.base, builder.constant("i32", strides[axis]))
        offset = builder.shift_left(builder.add(start, along), shift)
        immediate = (added + term.offset * strides[axis]) << shift
        attributes = _attributes(operation, memory_type(element), 1, immediate)
        (value,) = builder.emit(memory.SHARED_LOAD, [offset], {**attributes, "masked": False, "replaced": False})
        found.append(Term(as_register(builder, value, element)))
    context.bind(operation.result, tuple(found))


@lowers("scratch_count")
def scratch_count(context: Context, operation: Operation) -> None:
    """One holder of each element counts it."""
    builder, source = context.builder, operation.operands[0]
    assert isinstance(source.type, distributed_type)
    free = source.type.linear.free_variables()
    idle = idle_mask(builder, free["lane"], free["warp"])
    masks = context.terms(operation.operands[1]) if len(operation.operands) > 1 else None
    keep = representative_registers(context.values[source])
    one = builder.constant("i32", 1)
    for register, term in enumerate(context.terms(source)):
        if not keep(register):
            continue
        parts = [part for part in (None if masks is None else masks[register], idle) if part is not None]
        guard = [materialize(builder, conjunction(*parts) if len(parts) == 2 else parts[0])] if parts else []
        offset = builder.shift_left(term.base, 2)
        attributes = {**_attributes(operation, "i32", 1, term.offset * 4), "masked": bool(guard)}
        builder.emit(memory.SHARED_ADD, [offset, *guard, one], attributes)
