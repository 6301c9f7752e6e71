"""What is under way at once: the buffers that asynchronous loads fill before a program waits for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from glueball.explain.affine import Affine
from glueball.explain.pointers import Buffers, Known, Visit
from glueball.explain.report import Ring
from glueball.tile.ir import TileFunction
from glueball.tile.shared_views import buffer_bytes
from glueball.tile.types import shared_memory_descriptor_type, tensor_descriptor_type

LOADS = ("bulk_load", "async_copy")
FLIGHT = frozenset({*LOADS, "mbarrier_wait", "async_copy_commit", "async_copy_wait", "mbarrier_copy_arrive"})
Place = tuple[str, tuple[int, ...]]


@dataclass(slots=True)
class Flight:
    """Bytes on their way to buffers of one program, as it goes.

    A buffer counts once, so that what is under way is never more than the buffers hold. Loads that nobody waits for in
    their own partition, or buffers that are not known, count until the end.
    """

    bulk: dict[Place, tuple[int, Place | None]] = field(default_factory=dict)
    open: dict[Place, int] = field(default_factory=dict)
    groups: list[dict[Place, int]] = field(default_factory=list)
    most: int = 0

    def visit(self, visit: Visit, number: int) -> None:
        """One operation, in program order."""
        operation, operands = visit.operation, visit.operands
        match operation.opcode:
            case "bulk_load":
                kind = operation.operands[0].type
                assert isinstance(kind, tensor_descriptor_type)
                target = _place(operands[1]) or ("", (number,))
                self.bulk[target] = kind.nbytes_per_cta, _place(operands[2])
            case "async_copy":
                view = operation.operands[0].type
                assert isinstance(view, shared_memory_descriptor_type)
                self.open[_place(operands[0]) or ("", (number,))] = view.numel * view.element_ty.itemsize
            case "async_copy_commit":
                self.groups.append(self.open)
                self.open = {}
            case "async_copy_wait":
                pending = operation.attributes["pending"]
                self.groups = self.groups[-pending:] if pending else []
            case "mbarrier_wait":
                word = _place(operands[0])
                self.bulk = {place: load for place, load in self.bulk.items() if load[1] != word or word is None}
            case "mbarrier_copy_arrive":
                self.open, self.groups = {}, []
        self.most = max(self.most, self.bytes)

    @property
    def bytes(self) -> int:
        """What is under way now."""
        copies: dict[Place, int] = {}
        for group in (*self.groups, self.open):
            copies |= group
        return sum(size for size, _ in self.bulk.values()) + sum(copies.values())


def most_in_flight(visits: Sequence[Visit]) -> int:
    """The most bytes that asynchronous loads of the first program have under way at once.

    Partitions are gone through one after the other. A load that may happen counts.
    """
    flight = Flight()
    for number, visit in enumerate(visits):
        if visit.operation.opcode in FLIGHT and (visit.chosen is None or int(visit.chosen.flat[0])):
            flight.visit(visit, number)
    return flight.most


def rings_of(function: TileFunction, visits: Sequence[Visit], labels: Mapping[str, str]) -> tuple[Ring, ...]:
    """The allocations that asynchronous loads fill, in program order; `labels` has what they are called."""
    filled = set()
    for visit in visits:
        if visit.operation.opcode in LOADS:
            view = visit.operands[1 if visit.operation.opcode == "bulk_load" else 0]
            if isinstance(view, Buffers):
                filled.add(view.allocation)
    found = []
    for operation in function.body.walk():
        if operation.opcode == "allocate_shared" and operation.attributes["name"] in filled:
            kind = operation.results[0].type
            assert isinstance(kind, shared_memory_descriptor_type)
            stages = kind.shape[0] if kind.is_buffered else 1
            name = labels[operation.attributes["name"]]
            found.append(Ring(name, operation.location, stages, buffer_bytes(kind)))
    return tuple(found)


def _place(view: Known) -> Place | None:
    """The buffer that a view looks at in the first program; `None` where that is not known."""
    if not isinstance(view, Buffers):
        return None
    chosen = []
    for index in view.chosen:
        if not isinstance(index, Affine) or not index.is_uniform or index.base.values is None:
            return None
        chosen.append(int(index.base.values.flat[0]))
    return view.allocation, tuple(chosen)
