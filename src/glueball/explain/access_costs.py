"""Accesses of global memory: which sectors the threads of a program touch, in closed form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from glueball.explain.affine import ZERO, Affine, Array, Mask, Number
from glueball.explain.masked import margins_of, masked_traffic, parted
from glueball.explain.measure import HOW_OFTEN_NOTE, Measure, measured
from glueball.explain.pointers import ACCESSES, Visit
from glueball.explain.report import ATOMICS, MASKED_NOTE, AccessCost
from glueball.explain.traffic import Traffic
from glueball.layouts import LinearLayout, global_access
from glueball.layouts.memory import SECTOR_BYTES, VECTOR_BYTES
from glueball.tile.ir import Value
from glueball.tile.shared_moves import vector_elements
from glueball.tile.shared_views import coordinate_offsets, tile_ctas, tile_offsets
from glueball.tile.types import distributed_type, pointer_type, shared_memory_descriptor_type

FAR = 1 << 32
POLL_NOTE = "how often it reads depends on when others write, so its sectors are not counted"


@dataclass(frozen=True, slots=True)
class Geometry:
    """How the threads of a program share one access: who holds which element, and the vectors that lowering forms."""

    kind: str
    linear: LinearLayout
    element_bits: int
    vector: int

    def once(self, strides: tuple[int, ...], residue: int) -> Traffic:
        """Traffic of one execution whose base address leaves a residue modulo the sector size."""
        return _traffic(self.linear, strides, self.element_bits, self.vector, residue, self.kind != "load")

    def traffic(self, visit: Visit, programs: int) -> Traffic | None:
        """Traffic of all executions in some programs; `None` where something about them is not known."""
        strides = _element_strides(visit.address, self.element_bits)
        margins = _margins(visit, programs)
        if strides is None or visit.chosen is None or self.kind == "atomic_poll":
            return None
        if margins is None:
            return self._whole(strides, _residues(visit, programs))
        whole, ways = parted(margins, self.linear.shape, np.broadcast_to(visit.chosen, (programs,)))
        total = self._whole(strides, _residues(replace(visit, chosen=whole), programs))
        for way, held in ways:
            residues = _residues(replace(visit, chosen=held), programs)
            if total is None or residues is None:
                return None
            for residue in np.flatnonzero(residues):
                layout = (self.linear, strides, self.element_bits, self.vector)
                once = masked_traffic(*layout, int(residue), way, self.kind != "load")
                total += once.times(int(residues[residue]))
        return total

    def _whole(self, strides: tuple[int, ...], residues: Array | None) -> Traffic | None:
        """Traffic of executions, given how many start at each place in a sector, in which every element is inside."""
        if residues is None:
            return None
        total = Traffic()
        for residue in np.flatnonzero(residues):
            total += self.once(strides, int(residue)).times(int(residues[residue]))
        return total


def _margins(visit: Visit, programs: int) -> list[tuple[Array, tuple[int, ...]]] | None:
    """The margins of the mask; `None` where they are not known, and every element counts as if it were inside."""
    return None if visit.mask is None else margins_of(visit.mask, programs)


@lru_cache(maxsize=1024)
def _traffic(
    linear: LinearLayout, strides: tuple[int, ...], element_bits: int, vector: int, residue: int, store: bool
) -> Traffic:
    size = vector * element_bits // 8
    access = global_access(
        linear, strides, element_bits, base_alignment=size, base_address=residue, store=store, vector_bytes=size
    )
    return Traffic(access.requests, access.sectors, access.useful_bytes)


@dataclass(frozen=True, slots=True)
class Executed:
    """Where an operation is executed: CTAs, warps of each, and lanes."""

    ctas: int
    warps: int
    lanes: int


def geometry_of(visit: Visit, pointers: Value, where: Executed) -> Geometry:
    """The geometry of an access at a tile of pointers."""
    element = pointers.type.scalar
    assert isinstance(element, pointer_type)
    bits = element.element_ty.memory_bits
    if isinstance(pointers.type, distributed_type):
        linear = pointers.type.linear
    else:
        counts = {"lane": where.lanes, "warp": where.warps, "block": where.ctas}
        everyone = {name: (0,) * _log2(count) for name, count in counts.items()}
        linear = LinearLayout.from_flat_bases({"register": (), **everyone}, ())
    opcode = visit.operation.opcode
    vector = 1
    if visit.address is not None and opcode not in ATOMICS:
        vector = _vector(linear, visit.address, visit.mask, bits)
    if opcode == "async_copy":
        vector = min(vector, _side_by_side(visit))
    return Geometry(opcode, linear, bits, vector)


def _side_by_side(visit: Visit) -> int:
    """Neighbours in global memory that a thread holds and that are neighbours in the view that they are copied to."""
    view, pointers = (operand.type for operand in visit.operation.operands[:2])
    assert isinstance(view, shared_memory_descriptor_type) and isinstance(pointers, distributed_type)
    vector = vector_elements(tile_offsets(pointers.linear, view), tile_ctas(pointers.linear, view), view)
    if visit.address is None:
        return vector
    size = view.element_ty.itemsize
    fastest = [axis for axis, stride in enumerate(visit.address.strides) if stride.constant == size]
    bits = coordinate_offsets(view)[fastest[-1]] if fastest else ()
    count = 1
    for bit, offset in enumerate(bits):
        if offset != 1 << bit:
            break
        count *= 2
    return min(vector, count)


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


def access_measure(visits: Sequence[Visit], where: Executed) -> Measure[Traffic]:
    """The row of an access of global memory, and how its traffic is counted."""
    visit = visits[0]
    operation, address = visit.operation, visit.address
    pointers = operation.operands[ACCESSES[operation.opcode][0]]
    geometry = geometry_of(visit, pointers, where)
    element = pointers.type.scalar
    assert isinstance(element, pointer_type)
    size = geometry.element_bits // 8
    strides = _element_strides(address, geometry.element_bits)
    base = None if address is None else _base_modulo_sector(address.base)
    once = None if strides is None else geometry.once(strides, 0 if base is None else int(base.flat[0]))
    values = [] if address is None else [stride.value for stride in address.strides]
    shown = tuple(None if value is None else value // size for value in values)
    row = AccessCost(
        kind=operation.opcode,
        location=operation.location,
        argument=None if address is None else address.argument,
        element=str(element.element_ty),
        shape=pointers.type.shape,
        layout=pointers.type.layout if isinstance(pointers.type, distributed_type) else None,
        strides=shown,
        vector_bytes=geometry.vector * size,
        once=once,
        program=None,
        grid=None,
        change=operation.attributes.get("kind"),
        notes=tuple(_notes(visit, shown, masked=_margins(visit, 1) is None)),
    )
    return measured(Measure(row, Traffic(), geometry.traffic), visits)


def _notes(visit: Visit, strides: tuple[int | None, ...], *, masked: bool) -> Iterator[str]:
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
        yield HOW_OFTEN_NOTE
    if visit.operation.opcode == "atomic_poll":
        yield POLL_NOTE
    if visit.mask is not None and masked:
        yield MASKED_NOTE
