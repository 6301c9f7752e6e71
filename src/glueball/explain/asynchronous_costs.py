"""Rows of asynchronous work: bulk copies and waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from glueball.explain.access_costs import Executed
from glueball.explain.bulk_costs import bulk_traffic
from glueball.explain.measure import Measure, executions_of, measured
from glueball.explain.pointers import Visit
from glueball.explain.report import BulkCost, WaitCost
from glueball.explain.traffic import Traffic
from glueball.targets import Target
from glueball.tensor_map import TensorMap
from glueball.tile.bulk_boxes import boxes_of
from glueball.tile.ir import Operation
from glueball.tile.types import tensor_descriptor_type

BULK_COPIES = ("bulk_load", "bulk_store")
WAITS = ("mbarrier_wait", "async_copy_wait", "bulk_wait", "proxy_fence", "cluster_barrier", "grid_wait")

UNKNOWN_PLACE_NOTE = "where the blocks lie, or how often they are copied, is not known, so sectors are not counted"


@dataclass(frozen=True, slots=True)
class Scene:
    """What rows are made from beside visits.

    `ctas` are those of a program, `warps` those of a CTA that execute each operation, `labels` what allocations are
    called.
    """

    target: Target
    tensor_maps: Mapping[str, TensorMap]
    labels: Mapping[str, str]
    ctas: int
    warps: Mapping[Operation, int]

    def where(self, operation: Operation) -> Executed:
        """Where an operation is executed."""
        return Executed(self.ctas, self.warps[operation], self.target.lanes)


def bulk_measure(visits: Sequence[Visit], scene: Scene) -> Measure[Traffic]:
    """The row of a bulk copy, and how its sectors are counted."""
    operation = visits[0].operation
    descriptor, kind = operation.operands[0], operation.operands[0].type
    assert isinstance(kind, tensor_descriptor_type)
    tensor = scene.tensor_maps.get(descriptor.name)

    def count(visit: Visit, programs: int) -> Traffic | None:
        executions, places = visit.executions(programs), visit.numbers(_places(visit.operation, kind))
        taps = visit.numbers(_taps(visit.operation, kind))
        if executions is None or places is None or taps is None or tensor is None or visit.loops:
            return None
        if visit.operation.attributes.get("predicated"):
            held = visit.numbers(slice(-1, None))
            if held is None:
                return None
            executions = executions * (held[0] != 0)
        store, once = operation.opcode == "bulk_store", bool(operation.attributes.get("multicast"))
        return bulk_traffic(kind, tensor, places, taps, executions, store=store, once=once)

    row = BulkCost(
        kind=operation.opcode,
        location=operation.location,
        argument=descriptor.name if descriptor.operation is None else None,
        element=str(kind.element_ty),
        block=kind.block_shape,
        box=boxes_of(kind).shape,
        swizzle=kind.layout.swizzle_byte_width,
        bytes=kind.nbytes_per_cta,
        reduction=operation.attributes.get("reduction"),
        program=None,
        grid=None,
    )
    measure = Measure(row, Traffic(), count)
    if measure.total(visits, 1) is None:
        row = replace(row, notes=(UNKNOWN_PLACE_NOTE,))
    return measured(replace(measure, row=row), visits)


def _places(operation: Operation, kind: tensor_descriptor_type) -> slice:
    """Which operands are coordinates."""
    first = 3 if operation.opcode == "bulk_load" else 2
    return slice(first, first + kind.rank)


def _taps(operation: Operation, kind: tensor_descriptor_type) -> slice:
    """Which operands are the offsets of an im2col load."""
    first = 3 + kind.rank
    return slice(first, first + operation.attributes.get("offsets", 0))


def wait_measure(visits: Sequence[Visit]) -> Measure[Traffic]:
    """The row of a wait or a fence."""
    operation = visits[0].operation
    attributes = operation.attributes
    match operation.opcode:
        case "cluster_barrier":
            what = "barrier of the cluster"
        case "grid_wait":
            what = "wait for the kernels before"
        case "mbarrier_wait":
            what = "wait for an mbarrier"
        case "async_copy_wait":
            what = f"wait for copies{_but(attributes['pending'], 'group')}"
        case "bulk_wait":
            done = "to have read" if attributes["read_only"] else "to be done"
            what = f"wait for bulk stores {done}{_but(attributes['pending'], 'store')}"
        case _:
            what = "proxy fence"
    return Measure(WaitCost(operation.location, what, executions_of(visits)))


def _but(pending: int, what: str) -> str:
    """What a wait leaves under way."""
    if pending == 0:
        return ""
    return f", but for the latest {what}" if pending == 1 else f", but for the latest {pending} {what}s"
