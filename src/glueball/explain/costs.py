"""From tile IR to costs: the closed-form counts of every access, conversion and barrier of a kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from glueball.explain.affine import ZERO, Affine, Array, Mask, Number
from glueball.explain.liveness import tile_registers
from glueball.explain.pointers import Grid, Programs, Visit, walk
from glueball.explain.report import MASKED_NOTE, AccessCost, BarrierCost, ConversionCost, Report, Row, Traffic
from glueball.layouts import ConversionPlan, LinearLayout, SharedRoundTrip, global_access
from glueball.layouts.memory import SECTOR_BYTES, VECTOR_BYTES
from glueball.targets import Target
from glueball.tile.ir import TileFunction
from glueball.tile.types import TileType, distributed_type, pointer_type

ROWS = ("load", "store", "shared_store", "shared_load", "shuffle", "permute_registers", "barrier")
CHUNK = 1 << 18
"""Programs of a launch that are looked at at once."""
FAR = 1 << 32


def analyse(
    function: TileFunction, target: Target, arguments: Mapping[str, int | None], grid: Grid | None = None
) -> Report:
    """The report on a function after its passes.

    `arguments` has the value of every integer argument and the address of every pointer, `None` where not known.
    """
    first = Programs((np.zeros(1, np.int64),) * 3, grid)
    found = walk(function, arguments, first, ROWS)
    geometries = [_geometry(visit, function) for visit in found.visits]
    loaded = {
        operation.attributes["allocation"]: operation.result.type
        for operation in function.body.walk()
        if operation.opcode == "shared_load"
    }
    rows = [_row(visit, geometry, loaded) for visit, geometry in zip(found.visits, geometries, strict=True)]
    if grid is not None:
        totals: list[Traffic | None] = [Traffic()] * len(rows)
        for programs in _chunks(grid):
            visits = walk(function, arguments, programs, ROWS).visits
            for index, (visit, geometry) in enumerate(zip(visits, geometries, strict=True)):
                total = totals[index]
                if geometry is not None and total is not None:
                    part = geometry.traffic(visit, programs.count)
                    totals[index] = None if part is None else total + part
        rows = [_with_grid(row, total) for row, total in zip(rows, totals, strict=True)]
    return Report(
        kernel=function.name,
        location=function.location,
        target=target,
        num_warps=function.num_warps,
        grid=grid,
        rows=tuple(row for row in rows if row is not None),
        shared_bytes=function.shared_bytes,
        registers=tile_registers(function, found.indices),
    )


def _chunks(grid: Grid) -> Iterator[Programs]:
    """All programs of a grid, some at a time, x fastest."""
    count = math.prod(grid)
    for start in range(0, count, CHUNK):
        index = np.arange(start, min(start + CHUNK, count), dtype=np.int64)
        ids = (index % grid[0], index // grid[0] % grid[1], index // (grid[0] * grid[1]))
        yield Programs(ids, grid)


@dataclass(frozen=True, slots=True)
class Geometry:
    """How the threads of a program share one access: who holds which element, and the vectors that lowering forms."""

    kind: str
    linear: LinearLayout
    element_bits: int
    vector: int

    def once(self, strides: tuple[int, ...], residue: int) -> Traffic:
        """Traffic of one execution whose base address leaves a residue modulo the sector size."""
        return _traffic(self.linear, strides, self.element_bits, self.vector, residue, self.kind == "store")

    def traffic(self, visit: Visit, programs: int) -> Traffic | None:
        """Traffic of all executions in some programs; `None` where something about them is not known."""
        strides = _element_strides(visit.address, self.element_bits)
        residues = _residues(visit, programs)
        if strides is None or residues is None:
            return None
        total = Traffic()
        for residue in np.flatnonzero(residues):
            total += self.once(strides, int(residue)).times(int(residues[residue]))
        return total


@lru_cache(maxsize=1024)
def _traffic(
    linear: LinearLayout, strides: tuple[int, ...], element_bits: int, vector: int, residue: int, store: bool
) -> Traffic:
    size = vector * element_bits // 8
    access = global_access(
        linear, strides, element_bits, base_alignment=size, base_address=residue, store=store, vector_bytes=size
    )
    return Traffic(access.requests, access.sectors, access.useful_bytes)


def _geometry(visit: Visit, function: TileFunction) -> Geometry | None:
    if visit.operation.opcode not in ("load", "store"):
        return None
    pointers = visit.operation.operands[0].type
    element = pointers.scalar
    assert isinstance(element, pointer_type)
    bits = element.element_ty.memory_bits
    if isinstance(pointers, distributed_type):
        linear = pointers.linear
    else:
        everyone = {"register": (), "lane": (0,) * _log2(function.lanes), "warp": (0,) * _log2(function.num_warps)}
        linear = LinearLayout.from_flat_bases({**everyone, "block": ()}, ())
    vector = 1 if visit.address is None else _vector(linear, visit.address, visit.mask, bits)
    return Geometry(visit.operation.opcode, linear, bits, vector)


def _log2(value: int) -> int:
    return value.bit_length() - 1


def _vector(linear: LinearLayout, address: Affine, mask: Mask | None, bits: int) -> int:
    """Elements that one instruction of a thread moves, by what is known when the kernel is compiled.

    A stride of which only a divisor is known is stood for by a number that has no greater one and is far from the
    others.
    """
    size = bits // 8
    strides = []
    for stride in address.strides:
        if stride.constant is not None and stride.constant % size == 0:
            strides.append(stride.constant // size)
        else:
            strides.append(max(1, min(stride.divisibility // size, FAR)) * (FAR + 1))
    alignment = min(address.alignment, VECTOR_BYTES)
    if alignment < size:
        return 1
    widest = global_access(linear, strides, bits, base_alignment=alignment).vector_elements
    while widest > 1 and mask is not None and not _constant_over(mask, linear.shape, strides, widest):
        widest //= 2
    return widest


def _constant_over(mask: Mask, shape: tuple[int, ...], strides: list[int], elements: int) -> bool:
    """Whether a mask does not change inside a vector; its elements run along the dimensions of the least strides."""
    for axis in sorted(range(len(shape)), key=lambda axis: abs(strides[axis])):
        if elements == 1:
            return True
        along = min(elements, shape[axis])
        if mask.runs[axis] < along:
            return False
        elements //= along
    return True


def _element_strides(address: Affine | None, bits: int) -> tuple[int, ...] | None:
    if address is None:
        return None
    strides = []
    for stride in address.strides:
        value = stride.value
        if value is None or value % (bits // 8):
            return None
        strides.append(value * 8 // bits)
    return tuple(strides)


def _residues(visit: Visit, programs: int) -> Array | None:
    """How many executions start at each place in a sector; `None` where that is not known."""
    executions, address = visit.chosen, visit.address
    base = None if address is None else _base_modulo_sector(address.base)
    if executions is None or address is None or base is None:
        return None
    steps = dict(address.steps)
    loops = []
    for loop in visit.loops:
        distance = steps.get(loop.number, ZERO).value
        if loop.trips is None or distance is None:
            return None
        loops.append((np.broadcast_to(loop.trips, (programs,)), distance))
    counts = np.zeros(SECTOR_BYTES, np.int64)
    _add_executions(counts, np.broadcast_to(base, (programs,)), np.broadcast_to(executions, (programs,)), loops)
    return counts


def _add_executions(counts: Array, residues: Array, executions: Array, loops: list[tuple[Array, int]]) -> None:
    """Adds executions to `counts` by residue, loop by loop; the turns of a loop repeat after at most 32."""
    if not loops:
        counts += np.bincount(residues % SECTOR_BYTES, executions, SECTOR_BYTES).astype(np.int64)
        return
    (trips, distance), *inner = loops
    period = SECTOR_BYTES // math.gcd(distance, SECTOR_BYTES)
    for turn in range(period):
        repeats = np.maximum(0, (trips - turn + period - 1) // period)
        _add_executions(counts, residues + turn * distance, executions * repeats, inner)


def _base_modulo_sector(base: Number) -> Array | None:
    if base.values is not None:
        return base.values % SECTOR_BYTES
    return np.zeros(1, np.int64) if base.divisibility % SECTOR_BYTES == 0 else None


def _row(visit: Visit, geometry: Geometry | None, loaded: Mapping[str, TileType]) -> Row | None:
    """The row of one operation. A conversion through shared memory has its row where it first writes."""
    operation = visit.operation
    if geometry is not None:
        return _access_row(visit, geometry)
    if operation.opcode == "barrier":
        return BarrierCost(operation.location, _executions(visit))
    if operation.opcode == "shared_load" or operation.attributes.get("round", 0):
        return None
    result = loaded[operation.attributes["allocation"]] if operation.opcode == "shared_store" else operation.result.type
    return _conversion_row(visit, result)


def _executions(visit: Visit) -> int | None:
    """How often the first program comes here."""
    if visit.chosen is None:
        return None
    count = int(visit.chosen.flat[0])
    for loop in visit.loops:
        if loop.trips is None:
            return None
        count *= int(loop.trips.flat[0])
    return count


def _access_row(visit: Visit, geometry: Geometry) -> AccessCost:
    operation, address = visit.operation, visit.address
    pointers = operation.operands[0].type
    element = pointers.scalar
    assert isinstance(element, pointer_type)
    size = geometry.element_bits // 8
    strides = _element_strides(address, geometry.element_bits)
    base = None if address is None else _base_modulo_sector(address.base)
    once = None if strides is None else geometry.once(strides, 0 if base is None else int(base.flat[0]))
    values = [] if address is None else [stride.value for stride in address.strides]
    shown = tuple(None if value is None else value // size for value in values)
    return AccessCost(
        kind=operation.opcode,
        location=operation.location,
        argument=None if address is None else address.argument,
        element=str(element.element_ty),
        shape=pointers.shape,
        layout=pointers.layout if isinstance(pointers, distributed_type) else None,
        strides=shown,
        vector_bytes=geometry.vector * size,
        once=once,
        program=geometry.traffic(visit, 1),
        grid=None,
        notes=tuple(_notes(visit, shown)),
    )


def _notes(visit: Visit, strides: tuple[int | None, ...]) -> Iterator[str]:
    address = visit.address
    if address is None:
        yield "the addresses are no linear function of the tile's coordinates, so they are not counted"
        return
    unknown = [str(axis) for axis, stride in enumerate(strides) if stride is None]
    if unknown:
        yield f"the stride along dimension {', '.join(unknown)} is not known, so sectors are not counted"
    elif _base_modulo_sector(address.base) is None:
        yield "the base address is not known: sectors of one execution count from the start of a sector"
    if visit.chosen is None or any(loop.trips is None for loop in visit.loops):
        yield "how often this line runs is not known"
    if visit.mask is not None:
        yield MASKED_NOTE


def _with_grid(row: Row | None, traffic: Traffic | None) -> Row | None:
    return replace(row, grid=traffic) if isinstance(row, AccessCost) else row


def _conversion_row(visit: Visit, result: TileType) -> ConversionCost:
    operation = visit.operation
    plan: ConversionPlan = operation.attributes["plan"]
    source = operation.operands[0].type
    assert isinstance(source, distributed_type) and isinstance(result, distributed_type)
    executions = _executions(visit)
    warps = source.linear.size("warp")
    writing = warps >> plan.write.idle_warps.bit_count() if isinstance(plan, SharedRoundTrip) else warps

    def counted(per_warp: int, warps: int) -> int | None:
        return None if executions is None else per_warp * warps * executions

    return ConversionCost(
        location=operation.location,
        element=str(source.element_ty),
        shape=source.shape,
        source=source.layout,
        destination=result.layout,
        plan=plan,
        shuffles=counted(plan.shuffles, warps),
        wavefronts_write=counted(plan.wavefronts_write, writing),
        wavefronts_read=counted(plan.wavefronts_read, warps),
    )
