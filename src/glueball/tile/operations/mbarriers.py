"""Mbarriers: words of shared memory that count arrivals and bytes, and that threads wait for (PTX ISA, `mbarrier`).

To the reference every effect happens where it stands, so that a wait is for what comes from another partition, or for
what never comes. All CTAs of a cluster do the same, so the counts of one of their words are those of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glueball.errors import BarrierError, DeadlockError
from glueball.tile.ir import Operation
from glueball.tile.mbarriers import BarrierWord, is_word
from glueball.tile.operations.definition import Effects, Machine, OperationDefinition, TileArray, fault
from glueball.tile.operations.rules import expect_counts, is_boolean
from glueball.tile.operations.shared_memory import view_type
from glueball.tile.types import int32

BARRIER_OPERATIONS = frozenset(
    {
        "mbarrier_init",
        "mbarrier_invalidate",
        "mbarrier_arrive",
        "mbarrier_expect",
        "mbarrier_wait",
        "mbarrier_copy_arrive",
    }
)


def check_word(operation: Operation, position: int) -> None:
    """An operand is a view of one mbarrier."""
    kind = view_type(operation, operation.operands[position])
    if not is_word(kind):
        raise fault(operation, f"needs a view of one int64 in each CTA as its mbarrier, not {kind}")


def _checking(operands: int, most: int) -> Callable[[Operation], None]:
    """The check of an operation on a word; what comes after `operands` operands is a predicate."""

    def check(operation: Operation) -> None:
        expect_counts(operation, operands, 0, most_operands=most)
        check_word(operation, 0)
        for predicate in operation.operands[operands:]:
            if not is_boolean(predicate.type.scalar):
                raise fault(operation, f"needs an int1 scalar as predicate, not {predicate.type}")

    return check


def _check_wait(operation: Operation) -> None:
    _checking(2, 3)(operation)
    if operation.operands[1].type != int32:
        raise fault(operation, f"needs an int32 scalar as phase, not {operation.operands[1].type}")


def holds(operands: Sequence[TileArray], position: int) -> bool:
    """Whether the predicate at a position is true; there need be none."""
    return len(operands) <= position or bool(operands[position].values)


def word_of(machine: Machine, operation: Operation, view: TileArray) -> BarrierWord:
    """The mbarrier that a view looks at; `BarrierError` where it was never initialised."""
    machine.arena.check(operation, view.values)
    found = machine.arena.barriers.get(int(view.values.min()))
    if found is None:
        raise BarrierError(
            f"Barrier used before initialization or after invalidation (program {machine.program})", operation.location
        )
    return found


def _init(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    machine.arena.check(operation, operands[0].values)
    address, count = int(operands[0].values.min()), operation.attributes["count"]
    if address in machine.arena.barriers:
        raise BarrierError(
            f"Barrier re-initialized without prior invalidation (program {machine.program})", operation.location
        )
    machine.arena.barriers[address] = BarrierWord(count, count)
    return []


def _invalidate(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    word_of(machine, operation, operands[0])
    del machine.arena.barriers[int(operands[0].values.min())]
    return []


def _arrive(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    if holds(operands, 1):
        word = word_of(machine, operation, operands[0])
        count, size = operation.attributes.get("count", 1), operation.attributes.get("bytes", 0)
        if not word.arrive(count, size):
            raise BarrierError(
                f"Barrier arrive underflow: current count or tx-count would become invalid: {count} arrivals at an "
                f"mbarrier in {word} (program {machine.program})",
                operation.location,
            )
    return []


def _copy_arrive(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    """All threads' copies are done where they stand. An increment and its arrival cancel each other."""
    word = word_of(machine, operation, operands[0])
    if not operation.attributes["increment"] and not word.arrive(operation.attributes["threads"]):
        raise BarrierError(
            f"Barrier arrive underflow: current count or tx-count would become invalid: "
            f"{operation.attributes['threads']} threads arrive at an mbarrier in {word} (program {machine.program})",
            operation.location,
        )
    return []


def _wait(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    if not holds(operands, 2):
        return []
    word, parity = word_of(machine, operation, operands[0]), int(operands[1].values)
    if parity not in (0, 1):
        raise BarrierError(
            f"an mbarrier has the phases 0 and 1, and the wait is for {parity} (program {machine.program})",
            operation.location,
        )
    if not machine.wait_until(lambda: word.has_passed(parity)):
        raise DeadlockError(
            f"Deadlock detected while waiting on an mbarrier: the wait is for phase {parity} of one in {word}, and "
            f"nothing that could end it is under way (program {machine.program})",
            operation.location,
        )
    return []


TOUCHES = Effects(reads_shared=True, writes_shared=True)
FROM_CTA = frozenset({"from_cta"})
"""The rank bits that arrivals keep: a CTA whose other bits are zero arrives in all CTAs that differ in those only."""
MBARRIER_OPERATIONS: tuple[OperationDefinition, ...] = (
    OperationDefinition(
        "mbarrier_init",
        "An mbarrier of so many arrivals a phase, in phase 0.",
        _checking(1, 1),
        _init,
        effects=TOUCHES,
        pure=False,
        attributes=frozenset({"count"}),
    ),
    OperationDefinition(
        "mbarrier_invalidate",
        "The word is no mbarrier any more.",
        _checking(1, 1),
        _invalidate,
        effects=TOUCHES,
        pure=False,
    ),
    OperationDefinition(
        "mbarrier_arrive",
        "`count` arrivals, after everything that the threads of the partition did before.",
        _checking(1, 2),
        _arrive,
        effects=TOUCHES,
        pure=False,
        attributes=frozenset({"count"}),
        optional_attributes=FROM_CTA,
    ),
    OperationDefinition(
        "mbarrier_expect",
        "One arrival, and so many bytes more to wait for.",
        _checking(1, 2),
        _arrive,
        effects=TOUCHES,
        pure=False,
        attributes=frozenset({"bytes"}),
        optional_attributes=FROM_CTA,
    ),
    OperationDefinition(
        "mbarrier_wait",
        "Waits until the phase of a parity is over.",
        _check_wait,
        _wait,
        effects=TOUCHES,
        pure=False,
    ),
    OperationDefinition(
        "mbarrier_copy_arrive",
        "Every thread arrives once its asynchronous copies so far are done; `increment` makes one arrival more due.",
        _checking(1, 1),
        _copy_arrive,
        effects=TOUCHES,
        pure=False,
        attributes=frozenset({"increment", "threads"}),
    ),
)
