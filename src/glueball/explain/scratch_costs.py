"""What the threads of a program do to scratch memory in which the elements of a tile lie row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from glueball.explain.indexed_costs import BY_INDEX_NOTE, Indexed, RowByRow, indexed_traffic, known_indices
from glueball.explain.measure import Measure, measured, unknown_executions
from glueball.explain.pointers import Visit
from glueball.explain.report import ScratchCost
from glueball.explain.shared_costs import request_traffic
from glueball.explain.traffic import SharedTraffic
from glueball.layouts import LinearLayout
from glueball.layouts.base import HARDWARE
from glueball.layouts.reductions import without_axis
from glueball.targets import Target
from glueball.tile.ir import Operation
from glueball.tile.scratch_moves import scratch_vectors, slice_writers
from glueball.tile.types import distributed_type, element_of

SCRATCH_ACCESSES = ("scratch_write", "scratch_write_slice", "scratch_read", "scratch_gather", "scratch_count")

BY_VALUE_NOTE = "bank conflicts depend on the values that are counted, so wavefronts are not counted"


def scratch_measure(visits: Sequence[Visit], sizes: Mapping[str, int], target: Target) -> Measure[SharedTraffic]:
    """The row of an access of scratch memory, whose allocations have `sizes` in bytes."""
    operation = visits[0].operation
    tile = operation.results[0].type if operation.results else operation.operands[0].type
    assert isinstance(tile, distributed_type)
    itemsize = element_of(tile).itemsize
    once = _once(operation, tile, target)

    def count(visit: Visit, programs: int) -> SharedTraffic | None:
        executions = visit.executions(programs)
        if executions is None or operation.opcode == "scratch_count":
            return None
        if once is not None:
            return once.times(int(executions.sum()))
        indices, attributes = known_indices(visit.operands[0]), operation.attributes
        access = Indexed(tile.linear, attributes["axis"], RowByRow(tuple(attributes["shape"])), itemsize, load=True)
        return None if indices is None else indexed_traffic(access, indices, executions, target)

    vectors = operation.opcode in ("scratch_write", "scratch_read")
    row = ScratchCost(
        kind=operation.opcode,
        location=operation.location,
        element=str(tile.element_ty),
        shape=tile.shape,
        layout=tile.layout,
        bytes=sizes[operation.attributes["allocation"]],
        vector_bytes=itemsize * (len(next(scratch_vectors(tile.linear, itemsize))) if vectors else 1),
        once=once,
        program=None,
        grid=None,
        notes=(*_notes(visits[0]), *unknown_executions(visits)),
    )
    return measured(Measure(row, SharedTraffic(), count), visits)


def _notes(visit: Visit) -> tuple[str, ...]:
    match visit.operation.opcode:
        case "scratch_count":
            return (BY_VALUE_NOTE,)
        case "scratch_gather" if known_indices(visit.operands[0]) is None:
            return (BY_INDEX_NOTE,)
    return ()


def _once(operation: Operation, tile: distributed_type, target: Target) -> SharedTraffic | None:
    """The traffic of one execution by all CTAs of a program; `None` where it depends on the elements."""
    linear, itemsize = tile.linear, element_of(tile).itemsize
    replicas = operation.attributes.get("replicas", 0)
    match operation.opcode:
        case "scratch_write":
            free = linear.free_variables()
            return _rows(linear, itemsize, {**free, "block": replicas}, target, load=False)
        case "scratch_read":
            nobody = dict.fromkeys(HARDWARE, 0)
            return _rows(linear, itemsize, nobody, target, load=not replicas)
        case "scratch_write_slice":
            return _slice(linear, operation.attributes["axis"], operation.attributes["place"], itemsize, target)
    return None


def _rows(linear: LinearLayout, itemsize: int, idle: Mapping[str, int], target: Target, *, load: bool) -> SharedTraffic:
    """Registers, warps and CTAs only XOR a constant into all addresses: every access costs the same."""
    groups = list(scratch_vectors(linear, itemsize))
    lanes = np.where(np.arange(linear.size("lane")) & idle["lane"], -1, linear.table("lane") * itemsize)
    threads = linear.size("warp") * linear.size("block") >> idle["warp"].bit_count() + idle["block"].bit_count()
    return request_traffic(lanes, len(groups[0]) * itemsize, target, load=load).times(len(groups) * threads)


def _slice(linear: LinearLayout, axis: int, place: int, itemsize: int, target: Target) -> SharedTraffic:
    """Which lanes take part changes with register, warp and CTA, and their addresses by an XOR that renames banks."""
    free = linear.free_variables()
    lane, warp, block = (linear.table(name) for name in ("lane", "warp", "block"))
    offsets = np.array([without_axis(image, linear.shape, axis) for image in lane.tolist()]) * itemsize
    along, warps, blocks = (linear.coordinates(images)[axis] for images in (lane, warp, block))
    active = np.arange(linear.size("lane")) & free["lane"] == 0
    warps = warps[np.arange(linear.size("warp")) & free["warp"] == 0]
    total = SharedTraffic()
    for _, wanted in slice_writers(linear, axis, place):
        places, counts = np.unique(np.bitwise_xor.outer(warps, blocks) ^ wanted, return_counts=True)
        for left, count in zip(places, counts.tolist(), strict=True):
            lanes = np.where(active & (along == left), offsets, -1)
            if (lanes >= 0).any():
                total += request_traffic(lanes, itemsize, target, load=False).times(count)
    return total
