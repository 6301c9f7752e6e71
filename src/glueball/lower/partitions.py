"""Partitions: workers get copies of what they use of the registers around them."""

from __future__ import annotations

from collections.abc import Iterator

from glueball.lower.carried import Edge
from glueball.lower.context import Context, lowers
from glueball.lower.terms import Lowered, Term
from glueball.thread import control, synchronization
from glueball.thread.control import CAPTURES
from glueball.thread.ir import Region, SharedAllocation, Value
from glueball.tile.ir import Operation
from glueball.tile.ir import Region as TileRegion
from glueball.tile.ir import Value as TileValue

KERNEL_BARRIER, FIRST_WORKER_BARRIER = 0, 2
"""Hardware barriers (PTX ISA, `barrier.cta`); number 1 starts and ends the workers."""
SLOT_BYTES = 8


@lowers("warp_specialize")
def warp_specialize(context: Context, operation: Operation) -> None:
    """Larger workers come first, so that they begin with a whole group of warps."""
    builder, own = context.builder, context.num_warps
    workers = operation.attributes["worker_warps"]
    default, edge = builder.new_region(), Edge(context, operation.results)
    with builder.inside(default):
        builder.yield_values(edge.registers(context.lower_region(context, operation.regions[0])))
    captures: list[Value] = []
    regions = [default]
    identifier = FIRST_WORKER_BARRIER
    for region, warps in zip(operation.regions[1:], workers, strict=True):
        lowered, captured = _worker(context, region, warps, identifier)
        identifier += warps > 1
        regions.append(lowered)
        captures += captured
    attributes = {
        "warps": (own, *workers),
        "first_warp": (0, *_first_warps(own, workers)),
        "registers": (None, *(operation.attributes["worker_registers"] or (None,) * len(workers))),
    }
    edge.bind(operation.results, builder.structured(control.PARTITIONS, captures, regions, edge.kinds, attributes))


def _first_warps(own: int, workers: tuple[int, ...]) -> tuple[int, ...]:
    firsts, place = [0] * len(workers), own
    for number in sorted(range(len(workers)), key=lambda number: -workers[number]):
        firsts[number] = place
        place += workers[number]
    return tuple(firsts)


def _worker(context: Context, region: TileRegion, warps: int, identifier: int) -> tuple[Region, list[Value]]:
    """A worker's region, and the registers that become its arguments."""
    builder, outer = context.builder, context.values
    captured: dict[int, Value] = {}
    used = list(dict.fromkeys(_free_values(region)))
    for value in used:
        for term in outer[value].terms:
            for register in (term.base, *term.also):
                if register.constant is None:
                    captured.setdefault(id(register), register)
    lowered = builder.new_region([register.type for register in captured.values()])
    inside = dict(zip(captured, lowered.arguments, strict=True))
    for register, argument in zip(captured.values(), lowered.arguments, strict=True):
        argument.divisibility = register.divisibility
    context.values = dict(outer)
    for value in used:
        context.values[value] = Lowered(
            outer[value].type,
            tuple(
                Term(inside.get(id(term.base), term.base), term.offset, tuple(inside.get(id(v), v) for v in term.also))
                for term in outer[value].terms
            ),
        )
    saved = context.num_warps, context.barrier, context.partition
    context.num_warps, context.barrier, context.partition = warps, identifier, next(context.partitions)
    try:
        with builder.inside(lowered, sealed=True):
            context.lower_region(context, region)
            builder.yield_values([])
    finally:
        context.values = outer
        context.num_warps, context.barrier, context.partition = saved
    return lowered, list(captured.values())


def _free_values(region: TileRegion) -> Iterator[TileValue]:
    """Values that a region uses and does not bind."""
    bound = set(region.arguments)
    for operation in region.operations:
        for operand in operation.operands:
            if operand not in bound:
                yield operand
        for inner in operation.regions:
            yield from (value for value in _free_values(inner) if value not in bound)
        bound.update(operation.results)


@lowers("barrier")
def barrier(context: Context, _: Operation) -> None:
    """All threads of the partition meet, and their shared accesses are ordered."""
    attributes = {}
    if context.barrier is not None:
        attributes = {"identifier": context.barrier, "threads": context.num_warps * context.target.lanes}
    context.builder.emit(synchronization.ORDER_SHARED)
    context.builder.emit(synchronization.BARRIER, (), attributes)


def capture_allocation(body: Region, start: int) -> SharedAllocation | None:
    """Shared memory through which workers are told what to run, and get their captures; None without workers.

    It starts at `start` or after; 8 bytes for a number, then 8 bytes for each capture of the instruction that has most.
    """
    counts = [len(each.operands) for each in body.walk() if each.record is control.PARTITIONS]
    if not counts:
        return None
    offset = -(-start // SLOT_BYTES) * SLOT_BYTES
    return SharedAllocation(CAPTURES, SLOT_BYTES * (1 + max(counts)), SLOT_BYTES, offset)
