"""What a kernel costs, as data: a row for every access, copy, conversion, barrier and wait, at the author's line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from glueball.explain.traffic import ConversionTraffic, SharedTraffic, Traffic, total_of
from glueball.layouts import ConversionPlan, DistributedLayout
from glueball.layouts.base import SharedLayout
from glueball.location import SourceLocation
from glueball.targets import Target

MASKED_NOTE = "masked: counted as if every element were inside"
ATOMICS = ("atomic_change", "atomic_compare_exchange", "atomic_load", "atomic_store", "atomic_poll")
"""Tile operations that access global memory atomically."""
SHARED_TOTALS = {
    "view_load": "loads", "view_gather": "loads", "scratch_read": "loads", "scratch_gather": "loads",
    "view_store": "stores", "view_scatter": "stores", "async_store": "stores", "scratch_write": "stores",
    "scratch_write_slice": "stores", "view_atomic": "atomics", "scratch_count": "atomics",
}  # fmt: skip
"""Tile operations that access shared memory, and the total that has their traffic."""


@dataclass(frozen=True, slots=True)
class AccessCost:
    """A load, store or atomic access of global memory, or its part of a copy of threads to shared memory.

    `kind` is the tile operation: `load`, `store`, `async_copy`, or one of `ATOMICS`, of which one holder of each
    element makes one access; `change` says what an atomic change does, such as `add`. `vector_bytes` is what one lane
    moves with one instruction. `once` is the traffic of one execution, `program` that of one program (of the first one,
    loops included), `grid` that of the whole launch; `None` where the `notes` say what is not known. `strides` are in
    elements.
    """

    kind: str
    location: SourceLocation
    argument: str | None
    element: str
    shape: tuple[int, ...]
    layout: DistributedLayout | None
    strides: tuple[int | None, ...]
    vector_bytes: int
    once: Traffic | None
    program: Traffic | None
    grid: Traffic | None
    change: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def typical(self) -> Traffic | None:
        """What ratios are taken from: the largest part of the launch that is known."""
        return self.grid or self.program or self.once


@dataclass(frozen=True, slots=True)
class BulkCost:
    """A bulk copy of a block, cut into messages of one box each; `kind` is `bulk_load` or `bulk_store`.

    The requests of its traffic are messages. `bytes` are those that a block's mbarrier counts, whatever lies outside of
    the tensor. Fields are otherwise as for `AccessCost`.
    """

    kind: str
    location: SourceLocation
    argument: str | None
    element: str
    block: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    bytes: int
    reduction: str | None
    program: Traffic | None
    grid: Traffic | None
    notes: tuple[str, ...] = ()

    @property
    def typical(self) -> Traffic | None:
        """What ratios are taken from, as for `AccessCost`."""
        return self.grid or self.program

    @property
    def messages(self) -> int:
        """Messages of one block."""
        return math.prod(self.block) // math.prod(self.box)


@dataclass(frozen=True, slots=True)
class ViewCost:
    """What threads do to a view of shared memory, perhaps in the memory of other CTAs of the cluster.

    `kind` is the tile operation, one of those in `SHARED_TOTALS` or `async_copy`. `vector_bytes` is what one lane moves
    with one instruction, in `matrices` of 8 x 8 where they are not 0. `once`, `program` and `grid` are as for
    `AccessCost`; a request whose lanes go to several CTAs takes its wavefronts in the memory of each of them.
    """

    kind: str
    location: SourceLocation
    allocation: str | None
    element: str
    shape: tuple[int, ...]
    layout: DistributedLayout
    shared: SharedLayout
    vector_bytes: int
    matrices: int
    once: SharedTraffic | None
    program: SharedTraffic | None
    grid: SharedTraffic | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitCost:
    """A wait for asynchronous work, or a fence before it: `what` it is for, and how often one program comes to it."""

    kind = "wait"
    location: SourceLocation
    what: str
    executions: int | None


@dataclass(frozen=True, slots=True)
class Ring:
    """An allocation that asynchronous loads fill: how many buffers of how many bytes it has."""

    name: str
    location: SourceLocation
    stages: int
    stage_bytes: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many programs a multiprocessor has room for, by each of the things that they share."""

    by_threads: int
    by_shared_memory: int
    by_registers: int

    @property
    def programs(self) -> int:
        """How many fit."""
        return min(self.by_threads, self.by_shared_memory, self.by_registers)


@dataclass(frozen=True, slots=True)
class ScratchCost:
    """What threads do to scratch memory, in which a tile lies row by row: for gathers, histograms, results of atomics.

    `kind` is the tile operation: `scratch_write`, `scratch_write_slice`, `scratch_read`, `scratch_gather` or
    `scratch_count`. `bytes` are those of the scratch memory that one CTA has. Fields are otherwise as for `ViewCost`.
    """

    kind: str
    location: SourceLocation
    element: str
    shape: tuple[int, ...]
    layout: DistributedLayout
    bytes: int
    vector_bytes: int
    once: SharedTraffic | None
    program: SharedTraffic | None
    grid: SharedTraffic | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConversionCost:
    """A layout conversion, the author's or one that a reduction, a scan or another operation needs.

    `once`, `program` and `grid` are as for `AccessCost`.
    """

    kind = "convert"
    location: SourceLocation
    element: str
    shape: tuple[int, ...]
    source: DistributedLayout
    destination: DistributedLayout
    plan: ConversionPlan
    once: ConversionTraffic
    program: ConversionTraffic | None
    grid: ConversionTraffic | None


@dataclass(frozen=True, slots=True)
class BarrierCost:
    """A barrier, the author's or the compiler's, and how often one program meets it."""

    kind = "barrier"
    location: SourceLocation
    executions: int | None


Row: TypeAlias = AccessCost | BulkCost | ViewCost | ScratchCost | ConversionCost | BarrierCost | WaitCost


@dataclass(frozen=True, slots=True)
class Report:
    """What a kernel costs.

    `registers` is how many 32-bit registers of a thread hold tile data at most at once, index arithmetic apart.
    `in_flight` are the bytes that asynchronous loads of one program have under way at most at once. `occupancy` counts
    with the registers that the assembler says, where they were given, else with those of tile data; `None` for targets
    of which it is not known.
    """

    kernel: str
    location: SourceLocation
    target: Target
    num_warps: int
    grid: tuple[int, int, int] | None
    rows: tuple[Row, ...]
    shared_bytes: int
    registers: int
    rings: tuple[Ring, ...] = ()
    in_flight: int = 0
    occupancy: Occupancy | None = None

    @property
    def accesses(self) -> tuple[AccessCost, ...]:
        """The accesses of global memory, in program order."""
        return tuple(row for row in self.rows if isinstance(row, AccessCost))

    @property
    def conversions(self) -> tuple[ConversionCost, ...]:
        """The layout conversions, in program order."""
        return tuple(row for row in self.rows if isinstance(row, ConversionCost))

    @property
    def bulk_copies(self) -> tuple[BulkCost, ...]:
        """The bulk copies, in program order."""
        return tuple(row for row in self.rows if isinstance(row, BulkCost))

    @property
    def views(self) -> tuple[ViewCost, ...]:
        """The accesses of shared memory by views, in program order."""
        return tuple(row for row in self.rows if isinstance(row, ViewCost))

    @property
    def scratch(self) -> tuple[ScratchCost, ...]:
        """The accesses of scratch memory other than those of conversions, in program order."""
        return tuple(row for row in self.rows if isinstance(row, ScratchCost))

    @property
    def barriers(self) -> int:
        """How many barriers the kernel's code has."""
        return sum(isinstance(row, BarrierCost) for row in self.rows)

    @property
    def loads(self) -> Traffic | None:
        """Traffic of all loads: of the launch where the grid is known, else of one program."""
        return self._total("load")

    @property
    def stores(self) -> Traffic | None:
        """Traffic of all stores, as `loads`."""
        return self._total("store")

    @property
    def copies(self) -> Traffic | None:
        """Traffic of all copies of threads to shared memory, as `loads`."""
        return self._total("async_copy")

    @property
    def atomics(self) -> Traffic | None:
        """Traffic of all atomic accesses, as `loads`."""
        return total_of([self._total(kind) for kind in ATOMICS], Traffic())

    @property
    def bulk_loads(self) -> Traffic | None:
        """Traffic of all bulk copies to shared memory, as `loads`."""
        return self._total("bulk_load")

    @property
    def bulk_stores(self) -> Traffic | None:
        """Traffic of all bulk copies to global memory, as `loads`."""
        return self._total("bulk_store")

    @property
    def total(self) -> Traffic | None:
        """Traffic of all accesses and copies of global memory."""
        parts = [self.loads, self.stores, self.copies, self.atomics, self.bulk_loads, self.bulk_stores]
        return total_of(parts, Traffic())

    @property
    def shared_loads(self) -> SharedTraffic | None:
        """Traffic of all reads of shared memory, those of conversions among them, as `loads`."""
        return self._shared_total("loads", [None if each is None else each.read for each in self._converted()])

    @property
    def shared_stores(self) -> SharedTraffic | None:
        """Traffic of all writes to shared memory, those of conversions among them but not copies, as `loads`."""
        return self._shared_total("stores", [None if each is None else each.write for each in self._converted()])

    @property
    def shared_atomics(self) -> SharedTraffic | None:
        """Traffic of all atomic changes of shared memory, as `loads`."""
        return self._shared_total("atomics")

    def at(self, line: int) -> tuple[Row, ...]:
        """The rows of one line of the kernel's file."""
        return tuple(row for row in self.rows if (row.location.file, row.location.line) == (self.location.file, line))

    def _total(self, kind: str) -> Traffic | None:
        found: tuple[AccessCost | BulkCost, ...] = (*self.accesses, *self.bulk_copies)
        rows = [row for row in found if row.kind == kind]
        return total_of([row.program if self.grid is None else row.grid for row in rows], Traffic())

    def _converted(self) -> list[ConversionTraffic | None]:
        return [row.program if self.grid is None else row.grid for row in self.conversions]

    def _shared_total(self, total: str, others: Sequence[SharedTraffic | None] = ()) -> SharedTraffic | None:
        found: tuple[ViewCost | ScratchCost, ...] = (*self.views, *self.scratch)
        rows = [row for row in found if SHARED_TOTALS.get(row.kind) == total]
        return total_of([*(row.program if self.grid is None else row.grid for row in rows), *others], SharedTraffic())
