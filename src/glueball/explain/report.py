"""What a kernel costs, as data: one row per memory access, conversion and barrier, each at the author's line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from glueball.layouts import ConversionPlan, DistributedLayout
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
class AccessCost:
    """A load or store of global memory.

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


Row: TypeAlias = AccessCost | ConversionCost | BarrierCost


@dataclass(frozen=True, slots=True)
class Report:
    """What a kernel costs.

    `registers` is how many 32-bit registers of a thread hold tile data at most at once, index arithmetic apart.
    """

    kernel: str
    location: SourceLocation
    target: Target
    num_warps: int
    grid: tuple[int, int, int] | None
    rows: tuple[Row, ...]
    shared_bytes: int
    registers: int

    @property
    def accesses(self) -> tuple[AccessCost, ...]:
        """The accesses of global memory, in program order."""
        return tuple(row for row in self.rows if isinstance(row, AccessCost))

    @property
    def conversions(self) -> tuple[ConversionCost, ...]:
        """The layout conversions, in program order."""
        return tuple(row for row in self.rows if isinstance(row, ConversionCost))

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
    def total(self) -> Traffic | None:
        """Traffic of all loads and stores."""
        return _sum([self.loads, self.stores])

    def at(self, line: int) -> tuple[Row, ...]:
        """The rows of one line of the kernel's file."""
        return tuple(row for row in self.rows if (row.location.file, row.location.line) == (self.location.file, line))

    def _total(self, kind: str) -> Traffic | None:
        rows = [row for row in self.accesses if row.kind == kind]
        return _sum([row.program if self.grid is None else row.grid for row in rows])


def _sum(parts: Sequence[Traffic | None]) -> Traffic | None:
    total = Traffic()
    for part in parts:
        if part is None:
            return None
        total += part
    return total
