"""Bulk copies: a block is cut into messages, which the warps of the partition take turns to send, one lane each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glueball.errors import LayoutError
from glueball.lower.context import Context, lowers
from glueball.lower.linear import cta_rank, thread_offset, warp_id
from glueball.lower.memory import idle_mask
from glueball.lower.nvidia.mbarriers import group_of, place_of_word
from glueball.lower.shared_memory import View, first_address, view_of
from glueball.lower.terms import Term, materialize
from glueball.thread import arithmetic, conversion
from glueball.thread.builder import Builder
from glueball.thread.ir import Value
from glueball.thread.nvidia import bulk_tensor, election
from glueball.tile.bulk_boxes import BOX_ALIGNMENT, box_offsets, boxes_of, part_bases
from glueball.tile.ir import Operation
from glueball.tile.ir import Value as TileValue
from glueball.tile.shared_views import buffer_bytes
from glueball.tile.types import shared_memory_descriptor_type, tensor_descriptor_type

VIEWS_OF_VIEWS = ("view_index", "view_slice", "view_permute", "view_reshape")


@dataclass(frozen=True, slots=True)
class Message:
    """What the warps send at a time: predicate of the sending lanes, offset of the box and what its start adds."""

    predicate: Value
    offset: Term
    start: tuple[Value, ...]


def messages(
    context: Context, kind: tensor_descriptor_type, view: View, predicates: Sequence[TileValue], idle_ctas: int = 0
) -> list[Message]:
    """The messages of a block, as many at a time as there are warps; none in CTAs with a rank bit of `idle_ctas`."""
    builder, boxes, warps = context.builder, boxes_of(kind), context.num_warps
    base, places = first_address(builder, view), box_offsets(kind, view.type)
    found = []
    for first in range(0, len(boxes.starts), warps):
        group = boxes.starts[first : first + warps]
        senders = _senders(context, len(group), predicates, idle_ctas)
        warp = warp_id(builder) if len(group) > 1 else None
        offsets = [place * kind.element_ty.itemsize for place in places[first : first + warps]]
        moved = _by_warp(builder, warp, offsets)
        starts = tuple(_as_value(builder, _by_warp(builder, warp, axis)) for axis in zip(*group, strict=True))
        offset = Term(builder.add(base.base, moved.base), base.offset + moved.offset)
        found.append(Message(senders, offset, starts))
    return found


def _check_place(value: TileValue) -> None:
    """`LayoutError` for one of several buffers of which not all start where a box can."""
    operation = value.operation
    while operation is not None and operation.opcode in VIEWS_OF_VIEWS:
        value = operation.operands[0]
        assert isinstance(value.type, shared_memory_descriptor_type)
        if operation.opcode == "view_index" and (size := buffer_bytes(value.type)) % BOX_ALIGNMENT:
            raise LayoutError(
                f"a bulk copy needs a view that starts at a multiple of {BOX_ALIGNMENT} bytes, and the buffers of "
                f"{value.type} are {size} bytes apart"
            )
        operation = value.operation


def copies_of(kind: tensor_descriptor_type) -> int:
    """The rank bits in which CTAs differ that have the same part of a block."""
    return sum(1 << bit for bit, basis in enumerate(kind.layout.cga_layout) if not any(basis))


def _senders(context: Context, count: int, predicates: Sequence[TileValue], idle_ctas: int) -> Value:
    """The elected lanes of the first warps, where the predicates hold."""
    builder = context.builder
    (chosen,) = builder.emit(election.ELECT)
    if (mask := idle_mask(builder, 0, 0, idle_ctas)) is not None:
        chosen = builder.logical_and(chosen, materialize(builder, mask))
    if count < context.num_warps:
        chosen = builder.logical_and(
            chosen, builder.compare(arithmetic.COMPARE_SIGNED, "lt", warp_id(builder), builder.constant("i32", count))
        )
    for predicate in predicates:
        chosen = builder.logical_and(chosen, materialize(builder, context.term(predicate)))
    return chosen


def _by_warp(builder: Builder, warp: Value | None, numbers: Sequence[int]) -> Term:
    """`numbers[warp]`; whatever for further warps. Counts of boxes are powers of two, and so are the steps."""
    if warp is None or len(set(numbers)) == 1:
        return Term(builder.constant("i32", 0), numbers[0])
    total = builder.constant("i32", 0)
    for bit in range((len(numbers) - 1).bit_length()):
        step = numbers[1 << bit] - numbers[0]
        if step:
            position = builder.logical_and(warp, builder.constant("i32", 1 << bit))
            distance = (step >> bit).bit_length() - 1
            total = builder.add(total, builder.shift_left(position, distance))
    return Term(total, numbers[0])


def _as_value(builder: Builder, term: Term) -> Value:
    return materialize(builder, term)


def _coordinates(
    context: Context, kind: tensor_descriptor_type, values: Sequence[TileValue], start: Sequence[Value]
) -> list[Value]:
    """Where a box is, innermost first. The rows of an im2col block are pixels, which the engine counts itself."""
    builder = context.builder
    places = [materialize(builder, context.term(value)) for value in values]
    axes = zip(*part_bases(kind), strict=True) if kind.layout.cga_layout else ((),) * len(start)
    start = [builder.add(moved, thread_offset(builder, (), (), axis)) for moved, axis in zip(start, axes, strict=True)]
    if kind.im2col:
        places[-1] = builder.add(places[-1], start[-1])
    else:
        places = [builder.add(place, moved) for place, moved in zip(places, start, strict=True)]
    return places[::-1]


def _receivers(context: Context, kind: tensor_descriptor_type) -> Value:
    """A bit for each CTA that has the same part of a block as this one, which is the first of them."""
    builder, copies = context.builder, copies_of(kind)
    pattern = sum(1 << rank for rank in range(context.num_ctas) if not rank & ~copies)
    return builder.binary(arithmetic.SHL, builder.constant("i32", pattern), cta_rank(builder))


@lowers("bulk_load")
def load(context: Context, operation: Operation) -> None:
    """The mbarrier counts the bytes of every message."""
    builder, attributes = context.builder, operation.attributes
    descriptor, target, word, *rest = operation.operands
    kind = descriptor.type
    assert isinstance(kind, tensor_descriptor_type)
    coordinates, rest = rest[: kind.rank], rest[kind.rank :]
    offsets, predicates = rest[: attributes["offsets"]], rest[attributes["offsets"] :]
    _check_place(target)
    if group_of(word):
        raise LayoutError(
            "a bulk copy tells the mbarrier of the CTA that it writes to, and this one is that of a group of CTAs: "
            "its cga_layout has a zero"
        )
    view = view_of(context, target)
    signal, barrier = place_of_word(context, word)
    taps = [
        builder.convert(conversion.SIGN_EXTEND, materialize(builder, context.term(offset)), "i32")
        for offset in reversed(offsets)
    ]
    multicast = attributes["multicast"]
    receivers = [_receivers(context, kind)] if multicast else []
    for message in messages(context, kind, view, predicates, copies_of(kind) if multicast else 0):
        places = [*_coordinates(context, kind, coordinates, message.start), *taps, *receivers]
        operands = [_handle(context, descriptor), message.offset.base, signal, message.predicate, *places]
        builder.emit(
            bulk_tensor.BULK_TENSOR_LOAD,
            operands,
            {
                "allocation": view.allocation,
                "offset": message.offset.offset,
                "barrier_allocation": barrier["allocation"],
                "barrier_offset": barrier["offset"],
                "rank": kind.rank,
                "im2col": kind.im2col,
                "multicast": multicast,
                "box": boxes_of(kind).elements * kind.element_ty.itemsize,
                "cache_policy": attributes["cache_policy"],
            },
        )


@lowers("bulk_store")
def store(context: Context, operation: Operation) -> None:
    """One group for all messages of a block."""
    builder, attributes = context.builder, operation.attributes
    descriptor, source, *coordinates = operation.operands
    kind = descriptor.type
    assert isinstance(kind, tensor_descriptor_type)
    _check_place(source)
    view = view_of(context, source)
    for message in messages(context, kind, view, (), copies_of(kind)):
        places = _coordinates(context, kind, coordinates, message.start)
        builder.emit(
            bulk_tensor.BULK_TENSOR_STORE,
            [_handle(context, descriptor), message.offset.base, message.predicate, *places],
            {
                "allocation": view.allocation,
                "offset": message.offset.offset,
                "rank": kind.rank,
                "box": boxes_of(kind).elements * kind.element_ty.itemsize,
                "reduction": attributes["reduction"],
                "cache_policy": attributes["cache_policy"],
            },
        )
    builder.emit(bulk_tensor.BULK_COMMIT_GROUP)


def _handle(context: Context, descriptor: TileValue) -> Value:
    return materialize(context.builder, context.term(descriptor))


@lowers("bulk_wait")
def wait(context: Context, operation: Operation) -> None:
    """Every thread waits, of which those that sent have something to wait for."""
    attributes = {name: operation.attributes[name] for name in ("pending", "read_only")}
    context.builder.emit(bulk_tensor.BULK_WAIT_GROUP, (), attributes)


@lowers("proxy_fence")
def fence(context: Context, operation: Operation) -> None:
    """Every thread orders what it did."""
    context.builder.emit(bulk_tensor.FENCE_PROXY_ASYNC, (), {"cluster": operation.attributes["cluster"]})
