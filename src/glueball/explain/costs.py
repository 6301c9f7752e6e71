"""From tile IR to costs: the closed-form counts of every access, copy, conversion, barrier and wait of a kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glueball.explain.access_costs import access_measure
from glueball.explain.asynchronous_costs import (
    BULK_COPIES,
    WAITS,
    Scene,
    bulk_measure,
    wait_measure,
)
from glueball.explain.flight import FLIGHT, most_in_flight, rings_of
from glueball.explain.liveness import tile_registers
from glueball.explain.measure import Measure, executions_of, measured
from glueball.explain.occupancy import occupancy, registers_of_partitions
from glueball.explain.pointers import ACCESSES, Grid, Programs, Visit, Walk, Walker
from glueball.explain.report import BarrierCost, ConversionCost, Report
from glueball.explain.scratch_costs import SCRATCH_ACCESSES, scratch_measure
from glueball.explain.shared_costs import round_trip_access
from glueball.explain.traffic import ConversionTraffic
from glueball.explain.turns import TurnWalker
from glueball.explain.view_costs import VIEW_ACCESSES, view_measure
from glueball.layouts import ConversionPlan, SharedRoundTrip
from glueball.targets import Target
from glueball.tensor_map import TensorMap
from glueball.tile.buffers import labels_of
from glueball.tile.ir import Operation, TileFunction
from glueball.tile.partitions import launched_warps, walk_with_warps
from glueball.tile.types import TileType, distributed_type

CONVERSIONS = ("shared_store", "shared_load", "shuffle", "permute_registers")
ROWS = frozenset({"barrier"}.union(ACCESSES, CONVERSIONS, BULK_COPIES, VIEW_ACCESSES, SCRATCH_ACCESSES, WAITS, FLIGHT))
TURNING = frozenset({"async_copy", "mbarrier_wait", *BULK_COPIES})
"""Operations of which a kernel's loops are walked turn by turn: what they are about goes round with the turns."""
CHUNK = 1 << 18
"""Programs of a launch that are looked at at once."""


def analyse(
    function: TileFunction,
    target: Target,
    arguments: Mapping[str, int | TensorMap | None],
    grid: Grid | None,
    shared_bytes: int,
    registers: int | None,
) -> Report:
    """The report on a function after its passes.

    `arguments` has the value of every integer argument, the address of every pointer and the tensor map of every
    descriptor, `None` where not known; `registers` are those of a thread by the assembler, if that was asked.
    """
    labels = labels_of(each for each in function.body.walk() if each.opcode == "allocate_shared")
    maps = {name: value for name, value in arguments.items() if isinstance(value, TensorMap)}
    scene = Scene(target, maps, labels, function.num_ctas, dict(walk_with_warps(function)))
    numbers = {name: value for name, value in arguments.items() if not isinstance(value, TensorMap)}
    kind = TurnWalker if any(operation.opcode in TURNING for operation in function.body.walk()) else Walker
    found = kind(Programs((np.zeros(1, np.int64),) * 3, grid), ROWS).function(function, numbers)
    scratch = _scratch_memory(function)
    measures = {
        operation: [(measure, list[Any]()) for measure in _measures(visits, scratch, scene)]
        for operation, visits in _by_operation(found).items()
    }
    for programs in () if grid is None else _chunks(grid):
        for operation, visits in _by_operation(kind(programs, ROWS).function(function, numbers)).items():
            for measure, totals in measures[operation]:
                totals.append(measure.total(visits, programs.count))
    rows = [pair for group in measures.values() for pair in group]
    warps, tiles = launched_warps(function), tile_registers(function, found.indices)
    return Report(
        kernel=function.name,
        location=function.location,
        target=target,
        num_warps=function.num_warps,
        grid=grid,
        rows=tuple(measure.row if grid is None else measure.in_all(totals) for measure, totals in rows),
        shared_bytes=shared_bytes,
        registers=tiles,
        rings=rings_of(function, found.visits, labels),
        in_flight=most_in_flight(found.visits),
        occupancy=occupancy(target, warps, shared_bytes, _registers(function, target, warps, registers or tiles)),
    )


@dataclass(frozen=True, slots=True)
class Scratch:
    """Scratch memory by the name of its allocation: its bytes, and the type of what a conversion reads from it."""

    sizes: Mapping[str, int]
    loaded: Mapping[str, TileType]


def _scratch_memory(function: TileFunction) -> Scratch:
    sizes, loaded = {}, {}
    for operation in function.body.walk():
        if operation.opcode == "allocate_shared":
            sizes[operation.attributes["name"]] = operation.attributes["bytes"]
        elif operation.opcode == "shared_load":
            loaded[operation.attributes["allocation"]] = operation.result.type
    return Scratch(sizes, loaded)


def _by_operation(found: Walk) -> dict[Operation, list[Visit]]:
    """The visits of every operation, in program order."""
    groups: dict[Operation, list[Visit]] = {}
    for visit in found.visits:
        groups.setdefault(visit.operation, []).append(visit)
    return groups


def _registers(function: TileFunction, target: Target, warps: int, registers: int) -> int:
    """Registers of a thread when a program starts."""
    shared_out = any(
        operation.opcode == "warp_specialize" and operation.attributes["worker_registers"] is not None
        for operation in function.body.walk()
    )
    return registers_of_partitions(target, warps) if shared_out else registers


def _chunks(grid: Grid) -> Iterator[Programs]:
    """All programs of a grid, some at a time, x fastest."""
    count = math.prod(grid)
    for start in range(0, count, CHUNK):
        index = np.arange(start, min(start + CHUNK, count), dtype=np.int64)
        ids = (index % grid[0], index // grid[0] % grid[1], index // (grid[0] * grid[1]))
        yield Programs(ids, grid)


def _measures(visits: Sequence[Visit], scratch: Scratch, scene: Scene) -> Iterator[Measure[Any]]:
    """The rows of one operation. A conversion through shared memory has its row where it first writes."""
    operation = visits[0].operation
    opcode = operation.opcode
    if opcode in ACCESSES:
        yield access_measure(visits, scene.where(operation))
    if opcode in (*VIEW_ACCESSES, "async_copy"):
        yield view_measure(visits, scene)
    elif opcode in SCRATCH_ACCESSES:
        yield scratch_measure(visits, scratch.sizes, scene.target)
    elif opcode in BULK_COPIES:
        yield bulk_measure(visits, scene)
    elif opcode in WAITS:
        yield wait_measure(visits)
    elif opcode == "barrier":
        yield Measure(BarrierCost(operation.location, executions_of(visits)))
    elif opcode in CONVERSIONS and opcode != "shared_load" and not operation.attributes.get("round", 0):
        written = opcode == "shared_store"
        result = scratch.loaded[operation.attributes["allocation"]] if written else operation.result.type
        yield _conversion_measure(visits, result, scene.target)


def _conversion_measure(visits: Sequence[Visit], result: TileType, target: Target) -> Measure[ConversionTraffic]:
    """The row of a conversion, and how what it moves is counted."""
    operation = visits[0].operation
    plan: ConversionPlan = operation.attributes["plan"]
    source = operation.operands[0].type
    assert isinstance(source, distributed_type) and isinstance(result, distributed_type)
    once = _converted(plan, source.linear.size("warp") * source.linear.size("block"), target)

    def count(visit: Visit, programs: int) -> ConversionTraffic | None:
        executions = visit.executions(programs)
        return None if executions is None else once.times(int(executions.sum()))

    row = ConversionCost(
        location=operation.location,
        element=str(source.element_ty),
        shape=source.shape,
        source=source.layout,
        destination=result.layout,
        plan=plan,
        once=once,
        program=None,
        grid=None,
    )
    return measured(Measure(row, ConversionTraffic(), count), visits)


def _converted(plan: ConversionPlan, warps: int, target: Target) -> ConversionTraffic:
    """What one conversion moves, by all warps of all CTAs."""
    if not isinstance(plan, SharedRoundTrip):
        return ConversionTraffic(plan.shuffles * warps)
    writing = warps >> plan.write.idle_warps.bit_count()
    return ConversionTraffic(
        write=round_trip_access(plan.write, plan.element_bytes, target, store=True).times(writing),
        read=round_trip_access(plan.read, plan.element_bytes, target, store=False).times(warps),
    )
