"""Rows of what the threads of a program do to views of shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glueball.explain.access_costs import geometry_of
from glueball.explain.affine import Array
from glueball.explain.asynchronous_costs import Scene
from glueball.explain.indexed_costs import BY_INDEX_NOTE, Indexed, Indices, InView, indexed_traffic, known_indices
from glueball.explain.measure import Measure, measured, unknown_executions
from glueball.explain.pointers import Buffers, Visit
from glueball.explain.report import ViewCost
from glueball.explain.shared_costs import SharedAccess, copied_access, vector_access, view_access
from glueball.explain.traffic import SharedTraffic
from glueball.tile.shared_views import Descriptor, is_whole, paddings
from glueball.tile.types import distributed_type, shared_memory_descriptor_type

BY_INDEX = {"view_gather": 1, "view_scatter": 2, "view_atomic": 2}
"""Accesses of elements at indices along an axis, and which operand has those."""
UNMASKED_OPERANDS = 3
"""As many operands as such an access has at most without a mask."""
VIEW_ACCESSES = ("view_load", "view_store", "async_store", *BY_INDEX)
READS = ("view_load", "view_gather", "view_atomic")

ELSEWHERE_NOTE = "bank conflicts depend on more than the layouts here, so wavefronts are not counted"
CHOSEN_NOTE = "masked, so wavefronts are not counted"


@dataclass(frozen=True, slots=True)
class Counted:
    """How a view is accessed: bytes a lane and instruction, in so many matrices unless 0, and one execution's traffic.

    `count` gives the traffic of all executions of a visit, by how often each program comes to it; `None` where that is
    not known, which `notes` explain.
    """

    bytes: int
    count: Callable[[Visit, Array], SharedTraffic | None]
    matrices: int = 0
    once: SharedTraffic | None = None
    notes: tuple[str, ...] = ()


def view_measure(visits: Sequence[Visit], scene: Scene) -> Measure[SharedTraffic]:
    """The row of an access of a view, or of the shared side of a copy."""
    visit = visits[0]
    operation = visit.operation
    kind = operation.operands[0].type
    assert isinstance(kind, shared_memory_descriptor_type)
    tile = operation.result.type if operation.opcode in READS else operation.operands[1].type
    assert isinstance(tile, distributed_type)
    counted = (_by_index if operation.opcode in BY_INDEX else _whole)(visit, tile, kind, scene)

    def count(visit: Visit, programs: int) -> SharedTraffic | None:
        executions = visit.executions(programs)
        return None if executions is None else counted.count(visit, executions)

    view = visit.operands[0]
    row = ViewCost(
        kind=operation.opcode,
        location=operation.location,
        allocation=scene.labels[view.allocation] if isinstance(view, Buffers) else None,
        element=str(kind.element_ty),
        shape=tile.shape,
        layout=tile.layout,
        shared=kind.layout,
        vector_bytes=counted.bytes,
        matrices=counted.matrices,
        once=counted.once,
        program=None,
        grid=None,
        notes=(*counted.notes, *unknown_executions(visits)),
    )
    return measured(Measure(row, SharedTraffic(), count), visits)


def _whole(visit: Visit, tile: distributed_type, kind: Descriptor, scene: Scene) -> Counted:
    """An access of all elements of a view."""
    access = _access(visit, tile, kind, scene)
    if access is None:
        return Counted(0, lambda _, __: None, notes=(ELSEWHERE_NOTE,))
    idle = tile.linear.free_variables()["block"] if visit.operation.opcode == "async_store" else 0
    once = access.once.times(scene.ctas >> idle.bit_count())
    return Counted(access.bytes, lambda _, executions: once.times(int(executions.sum())), access.matrices, once)


def _access(visit: Visit, tile: distributed_type, kind: Descriptor, scene: Scene) -> SharedAccess | None:
    operation = visit.operation
    if operation.opcode == "async_store":
        return vector_access(tile.linear, kind, scene.target, store=True)
    if operation.opcode != "async_copy":
        return view_access(tile.linear, kind, scene.target, store=operation.opcode == "view_store")
    geometry = geometry_of(visit, operation.operands[1], scene.where(operation))
    once = copied_access(tile.linear, kind, geometry.vector, scene.target)
    return None if once is None else SharedAccess(geometry.vector * kind.element_ty.itemsize, 0, once)


def _by_index(visit: Visit, tile: distributed_type, kind: Descriptor, scene: Scene) -> Counted:
    """An access of the elements whose indices along an axis a tile gives."""
    operation, size = visit.operation, kind.element_ty.itemsize
    reads = operation.opcode == "view_gather"
    access = Indexed(tile.linear, operation.attributes["axis"], InView(kind), size, load=reads, once=not reads)
    notes: tuple[str, ...] = ()
    if len(operation.operands) > UNMASKED_OPERANDS:
        notes = (CHOSEN_NOTE,)
    elif paddings(kind.layout) and not is_whole(kind):
        notes = (ELSEWHERE_NOTE,)
    elif _indices(visit) is None:
        notes = (BY_INDEX_NOTE,)

    def count(visit: Visit, executions: Array) -> SharedTraffic | None:
        indices = _indices(visit)
        return None if notes or indices is None else indexed_traffic(access, indices, executions, scene.target)

    return Counted(size, count, notes=notes)


def _indices(visit: Visit) -> Indices | None:
    return known_indices(visit.operands[BY_INDEX[visit.operation.opcode]])
