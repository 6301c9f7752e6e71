"""What a kernel costs, as data: a row for every access, copy, conversion, barrier and wait, at the author's line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from glueball.layouts import ConversionPlan, DistributedLayout
from glueball.layouts.base import SharedLayout
from glueball.layouts.memory import SECTOR_BYTES
from glueball.location import SourceLocation
from glueball.targets import Target

MASKED_NOTE = "masked: counted as if every element were inside"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Global memory traffic: warp-wide requests, 32-byte sectors that they touch, distinct bytes that they ask for."""

    requests: int = 0
    sectors: int = 0
    useful_bytes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.requests + other.requests, self.sectors + other.sectors, self.useful_bytes + other.useful_bytes
        )

    def times(self, count: int) -> Traffic:
        """The same traffic several times."""
        return Traffic(self.requests * count, self.sectors * count, self.useful_bytes * count)

    @property
    def sectors_per_request(self) -> float:
        """Mean number of sectors that one warp-wide instruction touches; 0 without requests."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """Share of the bytes in the touched sectors that is asked for; 0 without sectors."""
        return self.useful_bytes / (self.sectors * SECTOR_BYTES) if self.sectors else 0.0


@dataclass(frozen=True, slots=True)
class SharedTraffic:
    """Shared memory traffic: warp-wide requests, the wavefronts that they take, and what those were without conflicts.

    A wavefront is one pass over the banks.
    """

    requests: int = 0
    wavefronts: int = 0
    least: int = 0

    def __add__(self, other: SharedTraffic) -> SharedTraffic:
        return SharedTraffic(
            self.requests + other.requests, self.wavefronts + other.wavefronts, self.least + other.least
        )

    def times(self, count: int) -> SharedTraffic:
        """The same traffic several times."""
        return SharedTraffic(self.requests * count, self.wavefronts * count, self.least * count)

    @property
    def conflicts(self) -> float:
        """How many times as many wavefronts as needed bank conflicts make; 1 where there are none."""
        return self.wavefronts / self.least if self.least else 1.0


@dataclass(frozen=True, slots=True)
class AccessCost:
    """A load or store of global memory, or its part of a copy of threads to shared memory (`async_copy`).

    `vector_bytes` is what one lane moves with one instruction. `once` is the traffic of one execution, `program` that
    of one program (of the first one, loops included), `grid` that of the whole launch; `None` where the `notes` say
    what is not known. `strides` are in elements.
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
    """What threads read from a view of shared memory or write to it: `view_load`, `view_store`, or `async_copy`.

    `vector_bytes` is what one lane moves with one instruction, in `matrices` of 8 x 8 where they are not 0. `once`,
    `program` and `grid` are as for `AccessCost`.
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
class UncountedCost:
    """An access of which is only known `what` it is and how often one program comes to it: no total has its traffic."""

    kind = "uncounted"
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
class ConversionCost:
    """A layout conversion; counts are those of one program, `None` where the number of executions is not known."""

    kind = "convert"
    location: SourceLocation
    element: str
    shape: tuple[int, ...]
    source: DistributedLayout
    destination: DistributedLayout
    plan: ConversionPlan
    shuffles: int | None
    wavefronts_write: int | None
    wavefronts_read: int | None


@dataclass(frozen=True, slots=True)
class BarrierCost:
    """A barrier, the author's or the compiler's, and how often one program meets it."""

    kind = "barrier"
    location: SourceLocation
    executions: int | None


Row: TypeAlias = AccessCost | BulkCost | ViewCost | ConversionCost | BarrierCost | WaitCost | UncountedCost


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
        return _sum([self.loads, self.stores, self.copies, self.bulk_loads, self.bulk_stores])

    def at(self, line: int) -> tuple[Row, ...]:
        """The rows of one line of the kernel's file."""
        return tuple(row for row in self.rows if (row.location.file, row.location.line) == (self.location.file, line))

    def _total(self, kind: str) -> Traffic | None:
        found: tuple[AccessCost | BulkCost, ...] = (*self.accesses, *self.bulk_copies)
        rows = [row for row in found if row.kind == kind]
        return _sum([row.program if self.grid is None else row.grid for row in rows])


def _sum(parts: Sequence[Traffic | None]) -> Traffic | None:
    total = Traffic()
    for part in parts:
        if part is None:
            return None
        total += part
    return total
