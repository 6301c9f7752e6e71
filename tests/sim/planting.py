"""Faults planted into the thread IR of kernels: what each kind changes, and which reports are right for it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from glueball import errors
from glueball.thread.ir import Function, Instruction, Region

READ_EARLY = (errors.ReadBeforeWaitError, errors.UninitializedReadError, errors.WaitCountError)
REFILLED_EARLY = (errors.OverwriteInFlightError, errors.SharedMemoryRaceError, errors.WaitCountError)
STUCK = (errors.DeadlockError,)
MISCOUNTED = (errors.BarrierUnderflowError, errors.PhaseOverrunError, errors.TransactionCountError)
UNFINISHED = (errors.PendingAtExitError,)
PHASES = (errors.BarrierPhaseError, *STUCK, *READ_EARLY, *REFILLED_EARLY)


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind: `records` it can be planted at, what stands there instead, and the reports that are right.

    `plant` gives the instructions in place of one, or `None` where this one cannot have the fault. `with_rest`: they
    stand in place of what follows in the region, too, which `plant` is given after the instruction.
    """

    records: tuple[str, ...]
    plant: Callable[..., list[Instruction] | None]
    reports: tuple[type[errors.SimulationError], ...]
    with_rest: bool = False

    def replacement(self, region: Region, instruction: Instruction) -> tuple[slice, list[Instruction] | None]:
        """What stands instead of which instructions of a region."""
        at = region.instructions.index(instruction)
        if self.with_rest:
            return slice(at, None), self.plant(instruction, region.instructions[at + 1 :])
        return slice(at, at + 1), self.plant(instruction)


def changed(instruction: Instruction, **attributes: Any) -> Instruction:
    return Instruction(
        instruction.record, instruction.operands, instruction.results, {**instruction.attributes, **attributes},
        instruction.location, instruction.regions,
    )  # fmt: skip


def _left_out(_: Instruction) -> list[Instruction]:
    return []


def _twice(instruction: Instruction) -> list[Instruction]:
    return [instruction, changed(instruction)]


def issued(instruction: Instruction, issue: Callable[..., Any]) -> Instruction:
    """The instruction, done otherwise."""
    record = dataclasses.replace(instruction.record, issue=issue)
    return Instruction(record, instruction.operands, instruction.results, instruction.attributes, instruction.location)


def other_operand(index: int, change: Callable[[Any], Any]) -> Callable[[Instruction], list[Instruction]]:
    """The instruction with an operand changed."""

    def plant(instruction: Instruction) -> list[Instruction]:
        def issue(machine: Any, attributes: Any, *operands: Any) -> Any:
            given = list(operands)
            given[index] = change(given[index])
            return instruction.record.issue(machine, attributes, *given)

        return [issued(instruction, issue)]

    return plant


def _count(change: int) -> Callable[[Instruction], list[Instruction] | None]:
    def plant(instruction: Instruction) -> list[Instruction] | None:
        count = instruction.attributes["count"] + change
        return [changed(instruction, count=count)] if count > 0 else None

    return plant


def _bytes(numerator: int, denominator: int) -> Callable[[Instruction], list[Instruction]]:
    return lambda each: [changed(each, bytes=each.attributes["bytes"] * numerator // denominator)]


def _one_more_pending(instruction: Instruction) -> list[Instruction]:
    return [changed(instruction, pending=instruction.attributes["pending"] + 1)]


def _not_waited_for(instruction: Instruction) -> list[Instruction]:
    """A wait that hands on accumulators stays, and lets more groups be under way than there ever are."""
    return [changed(instruction, pending=instruction.attributes["pending"] + 8)] if instruction.results else []


WAITS = ("wait_group", "bulk_wait_group", "warpgroup_wait")

FAULTS = {
    "no wait": Fault(
        ("mbarrier_wait",), _left_out, (*READ_EARLY, *REFILLED_EARLY, *UNFINISHED, *MISCOUNTED, *STUCK)
    ),
    "other phase": Fault(
        ("mbarrier_wait",), other_operand(1, lambda phase: 1 - phase), (*PHASES, *MISCOUNTED, *UNFINISHED)
    ),
    "an arrival too few": Fault(("mbarrier_arrive", "mbarrier_expect"), _left_out, (*STUCK, *MISCOUNTED)),
    "an arrival too many": Fault(
        ("mbarrier_arrive", "mbarrier_expect"), _twice, (*MISCOUNTED, *STUCK, *READ_EARLY, *REFILLED_EARLY, *UNFINISHED)
    ),
    "more arrivals due": Fault(("mbarrier_init",), _count(1), (*STUCK, *UNFINISHED)),
    "fewer arrivals due": Fault(("mbarrier_init",), _count(-1), (*MISCOUNTED, *READ_EARLY, *REFILLED_EARLY, *STUCK)),
    "no initialisation": Fault(("mbarrier_init",), _left_out, (errors.BarrierStateError,)),
    "twice the bytes": Fault(("mbarrier_expect",), _bytes(2, 1), (*STUCK, *MISCOUNTED)),
    "half the bytes": Fault(("mbarrier_expect",), _bytes(1, 2), (*MISCOUNTED, *READ_EARLY, *STUCK)),
    "copied twice": Fault(
        ("bulk_tensor_load",), _twice, (errors.OverwriteInFlightError, *MISCOUNTED, *STUCK, *READ_EARLY)
    ),
    "not copied": Fault(("bulk_tensor_load",), _left_out, STUCK),
    "no proxy fence": Fault(("fence_proxy_async",), _left_out, (errors.ProxyFenceError,)),
    "no fence after initialisation": Fault(
        ("fence_mbarrier_init",), _left_out,
        (errors.ProxyFenceError, errors.BarrierStateError, errors.SharedMemoryRaceError),
    ),
    "no wait for a group": Fault(WAITS, _not_waited_for, (*READ_EARLY, *REFILLED_EARLY, *UNFINISHED)),
    "one group too many under way": Fault(WAITS, _one_more_pending, (*READ_EARLY, *REFILLED_EARLY, *UNFINISHED)),
    "no commit": Fault(
        ("commit_group", "bulk_commit_group"), _left_out, (*READ_EARLY, *REFILLED_EARLY, *UNFINISHED)
    ),
    "no barrier": Fault(
        ("barrier", "cluster_barrier"), _left_out,
        (errors.SharedMemoryRaceError, errors.BarrierStateError, errors.RemoteMemoryError, *REFILLED_EARLY,
         *READ_EARLY, errors.ProxyFenceError, *UNFINISHED),
    ),
}  # fmt: skip


def places(function: Function, fault: Fault) -> list[tuple[Region, Instruction]]:
    """Where a fault can be planted, in the order of the text."""
    return [
        (region, each)
        for region in _regions(function.body)
        for each in region.instructions
        if each.record.name in fault.records and fault.replacement(region, each)[1] is not None
    ]


def _regions(region: Region) -> Iterator[Region]:
    yield region
    for instruction in region.instructions:
        for inner in instruction.regions:
            yield from _regions(inner)


@contextlib.contextmanager
def planted(function: Function, fault: Fault, number: int) -> Iterator[Instruction]:
    """The function with the fault at its place of that number, for a while; gives the instruction that stood there."""
    region, instruction = places(function, fault)[number]
    before = list(region.instructions)
    place, replacement = fault.replacement(region, instruction)
    assert replacement is not None
    region.instructions[place] = replacement
    try:
        yield instruction
    finally:
        region.instructions[:] = before
