"""How many programs a multiprocessor has room for (CUDA programming guide, technical specifications by capability)."""

from __future__ import annotations

from dataclasses import dataclass

from glueball.explain.report import Occupancy
from glueball.targets import Target

RESERVED_BYTES = 1024
"""Shared memory that a block takes beside its own, which is also what a multiprocessor has beyond one block's most."""
SHARED_UNIT = 128
REGISTER_UNIT = 8
QUARTERS = 4
"""A multiprocessor is four parts with a quarter of the registers each; a warp lives in one of them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Threads and blocks that a multiprocessor holds at most."""

    threads: int
    blocks: int


LIMITS = {80: Limits(2048, 32), 90: Limits(2048, 32), 100: Limits(2048, 32), 120: Limits(1536, 24)}
"""By the target's generation; those that are not here are not known."""


def occupancy(target: Target, warps: int, shared_bytes: int, registers: int) -> Occupancy | None:
    """The programs of so many warps that fit; `registers` are those of a thread."""
    limits = LIMITS.get(target.generation) if target.family == "nvidia" else None
    if limits is None:
        return None
    taken = -(-shared_bytes // SHARED_UNIT) * SHARED_UNIT + RESERVED_BYTES
    warp_registers = max(REGISTER_UNIT, -(-registers // REGISTER_UNIT) * REGISTER_UNIT) * target.lanes
    resident_warps = target.registers // QUARTERS // warp_registers * QUARTERS
    return Occupancy(
        by_threads=min(limits.blocks, limits.threads // (warps * target.lanes)),
        by_shared_memory=min(limits.blocks, (target.shared_bytes + RESERVED_BYTES) // taken),
        by_registers=min(limits.blocks, resident_warps // warps),
    )


def registers_of_partitions(target: Target, warps: int) -> int:
    """Registers of a thread where partitions give some of theirs to others: the kernel starts with an equal share."""
    share = target.registers // (warps * target.lanes) // REGISTER_UNIT * REGISTER_UNIT
    return min(share, target.registers_per_thread)
