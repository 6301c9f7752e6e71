"""What accesses move, counted as the hardware counts it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from glueball.layouts.memory import SECTOR_BYTES


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
class ConversionTraffic:
    """What layout conversions move: 32-bit shuffles of warps, and traffic of scratch memory."""

    shuffles: int = 0
    write: SharedTraffic = SharedTraffic()
    read: SharedTraffic = SharedTraffic()

    def __add__(self, other: ConversionTraffic) -> ConversionTraffic:
        return ConversionTraffic(self.shuffles + other.shuffles, self.write + other.write, self.read + other.read)

    def times(self, count: int) -> ConversionTraffic:
        """The same traffic several times."""
        return ConversionTraffic(self.shuffles * count, self.write.times(count), self.read.times(count))


T = TypeVar("T", Traffic, SharedTraffic)


def total_of(parts: Sequence[T | None], nothing: T) -> T | None:
    """The sum; `None` where a part is not known."""
    total = nothing
    for part in parts:
        if part is None:
            return None
        total += part
    return total
