"""A cost for comparing configurations of a kernel where there is no clock to ask: predicted cycles of a GPU.

The GPU is a nominal one of 132 multiprocessors, whichever the target. Of the busiest of them it counts the cycles that
its blocks' work takes in global memory, in shared memory and in issuing instructions: the greatest of the three, plus a
tenth of the others, since they overlap but not perfectly. Too few resident warps to hide latency make it longer. The
numbers compare configurations of one kernel and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glueball.targets import Target

if TYPE_CHECKING:
    from glueball.sim import Report

MULTIPROCESSORS = 132
SECTOR_CYCLES = 1.5
"""A multiprocessor's share of memory bandwidth is about 21 bytes a cycle, and a sector has 32."""
WAVEFRONT_CYCLES = 1.0
ISSUE_CYCLES = 0.25
"""Four schedulers issue one instruction each."""
OVERLAP_LOSS = 0.1
RESIDENT_THREADS = 2048
RESIDENT_BLOCKS = 32
HIDING_WARPS = 16
"""Resident warps from which on latency counts as hidden."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a whole launch does: 32-byte sectors of global memory, wavefronts of shared memory, warp instructions."""

    sectors: float
    wavefronts: float
    issued: float

    @staticmethod
    def counted(report: Report) -> Work:
        """What the simulator counted."""
        counts = [entry.counts for entry in report.instructions]
        return Work(
            sum(entry.sectors for entry in counts),
            sum(entry.wavefronts for entry in counts),
            report.instructions_issued,
        )

    @property
    def cycles(self) -> float:
        """Cycles of one multiprocessor that did it all, latency hidden."""
        parts = (self.sectors * SECTOR_CYCLES, self.wavefronts * WAVEFRONT_CYCLES, self.issued * ISSUE_CYCLES)
        bound = max(parts)
        return bound + OVERLAP_LOSS * (sum(parts) - bound)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a block takes of a multiprocessor; `registers` are 32-bit ones of a thread, 0 where not known."""

    num_warps: int
    shared_bytes: int
    registers: int = 0

    def resident_blocks(self, target: Target) -> int:
        """Blocks that a multiprocessor holds at once, at least one."""
        threads = self.num_warps * target.lanes
        limits = [RESIDENT_BLOCKS, RESIDENT_THREADS // threads]
        if self.shared_bytes:
            limits.append(target.shared_bytes // self.shared_bytes)
        if self.registers:
            limits.append(target.registers // (self.registers * threads))
        return max(1, min(limits))


def predicted_cycles(work: Work, footprint: Footprint, grid: Sequence[int], target: Target) -> float:
    """Predicted cycles of a launch; 0 for an empty grid."""
    blocks = math.prod(grid)
    if blocks == 0:
        return 0.0
    busiest = math.ceil(blocks / MULTIPROCESSORS)
    warps = min(footprint.resident_blocks(target), busiest) * footprint.num_warps
    return work.cycles / blocks * busiest / min(1.0, warps / HIDING_WARPS)
