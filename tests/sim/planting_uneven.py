"""Faults of one partition or CTA alone: it does what others do not, turns more or less often, or leaves early."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from glueball import errors
from glueball.thread.control import IF
from glueball.thread.ir import Instruction, Record, Region, Value
from tests.sim.planting import (
    FAULTS,
    MISCOUNTED,
    READ_EARLY,
    REFILLED_EARLY,
    STUCK,
    UNFINISHED,
    Fault,
    issued,
    other_operand,
)

CTAS = 2
SYNCHRONISED = ("mbarrier_wait", "mbarrier_arrive", "mbarrier_expect", "cluster_barrier")
LEFT_BEHIND = (*STUCK, *UNFINISHED, *MISCOUNTED, errors.RemoteMemoryError, errors.BarrierStateError)
IN_OTHERS = (*READ_EARLY, *REFILLED_EARLY)


def in_cta(rank: int, fault: Fault) -> Fault:
    """The fault in one CTA of each cluster."""

    def plant(instruction: Instruction) -> list[Instruction] | None:
        replacement = fault.plant(instruction)
        if replacement is None:
            return None

        def issue(machine: Any, _: Any, *operands: Any) -> Any:
            found = None
            for each in replacement if machine.group.rank == rank else [instruction]:
                found = each.record.issue(machine, each.attributes, *operands)
            return found

        return [issued(instruction, issue)]

    return dataclasses.replace(fault, plant=plant, reports=(*fault.reports, *LEFT_BEHIND))


def turns(change: int, rank: int | None = None) -> Fault:
    """Loops in which others are waited for take some turns more, in all CTAs or one."""

    def bound(machine: Any, _: Any, upper: Any, step: Any) -> Any:
        return upper + change * step if rank in (None, machine.group.rank) else upper

    def plant(loop: Instruction) -> list[Instruction] | None:
        if not any(each.record.name in SYNCHRONISED for each in loop.regions[0].walk()):
            return None
        lower, upper, *rest = loop.operands
        other = Value(upper.type, 0)
        record = Record("turns", lambda types, _: (types[0],), {}, bound)
        return [
            Instruction(record, (upper, rest[0]), (other,), {}, loop.location),
            Instruction(
                loop.record, (lower, other, *rest), loop.results, loop.attributes, loop.location, loop.regions
            ),
        ]  # fmt: skip

    return Fault(("for",), plant, (*LEFT_BEHIND, *READ_EARLY, *REFILLED_EARLY))


def leaving(rank: int) -> Fault:
    """One CTA ends there."""

    def plant(instruction: Instruction, rest: Sequence[Instruction]) -> list[Instruction] | None:
        if any(each.record.name == "yield" for each in rest):
            return None  # not the kernel's own text, but that of a loop or a partition
        stays, left_out = Value("i1", 0), Region()
        left_out.instructions = [instruction, *rest]
        record = Record("stays", lambda *_: ("i1",), {}, lambda machine, _: np.bool_(machine.group.rank != rank))
        return [
            Instruction(record, (), (stays,), {}, instruction.location),
            Instruction(IF, (stays,), (), {}, instruction.location, (left_out, Region())),
        ]

    return Fault((*SYNCHRONISED, "for", "partitions"), plant, LEFT_BEHIND, with_rest=True)


def _all_to(record: str, operand: int, rank: int, *reports: type[errors.SimulationError]) -> Fault:
    """What goes to several CTAs goes to one."""
    plant = other_operand(operand, lambda ranks: np.full_like(ranks, rank))

    def where_remote(instruction: Instruction) -> list[Instruction] | None:
        return plant(instruction) if instruction.attributes.get("remote") else None

    return Fault((record,), where_remote, (*LEFT_BEHIND, *reports))


def _receivers(others: int) -> Fault:
    """A copy for all CTAs goes to these, a bit for each."""
    plant = other_operand(-1, lambda receivers: np.full_like(receivers, others))

    def where_several(instruction: Instruction) -> list[Instruction] | None:
        return plant(instruction) if instruction.attributes.get("multicast") else None

    return Fault(("bulk_tensor_load",), where_several, LEFT_BEHIND)


TURNS = {"a turn fewer": turns(-1), "a turn more": turns(1)}
"""What goes wrong where partitions do not turn alike."""
ALONE = (
    "no wait", "other phase", "an arrival too few", "an arrival too many", "twice the bytes", "half the bytes",
    "more arrivals due", "fewer arrivals due", "no initialisation", "no barrier",
)  # fmt: skip
CLUSTER_FAULTS = {
    **FAULTS,
    **{f"{kind} in CTA {rank}": in_cta(rank, FAULTS[kind]) for kind in ALONE for rank in range(CTAS)},
    **{f"a turn fewer in CTA {rank}": turns(-1, rank) for rank in range(CTAS)},
    **{f"a turn more in CTA {rank}": turns(1, rank) for rank in range(CTAS)},
    **{f"CTA {rank} leaves early": leaving(rank) for rank in range(CTAS)},
    **{f"arrivals in CTA {rank}": _all_to("mbarrier_arrive", 2, rank, *IN_OTHERS) for rank in range(CTAS)},
    **{f"sent to CTA {rank}": _all_to("store_async", 1, rank, *IN_OTHERS) for rank in range(CTAS)},
    "a copy for one CTA": _receivers(1),
    "a copy for a CTA that is none": _receivers(7),
}
