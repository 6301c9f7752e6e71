"""Mbarriers: phases, arrivals and waits, and every way to use them wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glueball.errors import (
    BarrierError,
    BarrierMemoryError,
    BarrierPhaseError,
    BarrierReinitializedError,
    BarrierStateError,
    BarrierUnderflowError,
    ByteCountError,
    DeadlockError,
    PendingAtExitError,
    ReadBeforeWaitError,
    SharedMemoryRaceError,
    SimulationError,
    TransactionCountError,
)
from glueball.sim.scheduler import SCHEDULES
from tests.sim.asynchronous_kernels import AsynchronousKernel, lines


def started(num_warps: int = 1, words: int = 1, count: int = 1) -> AsynchronousKernel:
    """Mbarriers initialised at line 2."""
    kernel = AsynchronousKernel(num_warps)
    kernel.at(2)
    for word in range(words):
        kernel.init(word, count)
    kernel.do("barrier")
    kernel.at(3)
    return kernel


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_phases_alternate(schedule: str) -> None:
    """Arrivals end phases 0, 1, 2; before the first, only the wait for phase 1 goes on."""
    kernel = started(2, count=2)
    y = kernel.pointer("y")
    kernel.wait(0, 1)
    for phase in range(3):
        kernel.do("barrier")
        kernel.arrive(0)
        kernel.arrive(0)
        kernel.wait(0, phase & 1)
    kernel.do("barrier")
    kernel.invalidate(0)
    kernel.store(kernel.address(y, kernel.place(64)), kernel.thread(), kind="i32")
    out = np.full((5, 64), -1, np.int32)
    kernel.run((5,), out, schedule=schedule)
    assert (out == np.arange(64)).all()


def test_an_arrival_may_count_for_several() -> None:
    kernel = started(count=5)
    kernel.arrive(0, count=3)
    kernel.arrive(0, count=2)
    kernel.wait(0, 0)
    kernel.run((3,))


def test_blocks_may_be_in_different_phases() -> None:
    """Block i ends i phases; a wait is over when it is for all the blocks that wait."""
    kernel = started()
    y = kernel.pointer("y")

    def step(_: object, phase: object) -> tuple[object, ...]:
        kernel.arrive(0)
        kernel.wait(0, phase)  # type: ignore[arg-type]
        kernel.do("barrier")
        return (kernel.do("xor", phase, 1),)  # type: ignore[arg-type]

    (phase,) = kernel.loop(0, kernel.program_id(0), 1, [kernel.i32(0)], step)
    kernel.wait(0, kernel.do("xor", phase, 1))
    kernel.store(kernel.address(y, kernel.program_id(0)), phase, kernel.first(), kind="i32")
    out = np.full(6, -1, np.int32)
    kernel.run((6,), out)
    assert out.tolist() == [0, 1, 0, 1, 0, 1]


def test_only_lanes_where_the_predicate_holds_act() -> None:
    kernel = started(2, count=64)
    never = kernel.less(kernel.thread(), 0)
    kernel.arrive(0, predicate=never)
    kernel.wait(0, 0, never)
    kernel.arrive(0, predicate=kernel.always)
    kernel.wait(0, 0)
    kernel.run((2,))


Build = Callable[[AsynchronousKernel], None]


def freed(kernel: AsynchronousKernel) -> None:
    kernel.invalidate(0)


def use(line: int, *calls: Build) -> Build:
    """Calls at a line and the following ones."""

    def build(kernel: AsynchronousKernel) -> None:
        for number, call in enumerate(calls):
            kernel.at(line + number)
            call(kernel)

    return build


DATA: dict[str, Any] = {"allocation": "words", "kind": "i32"}
FAULTS: dict[str, tuple[type[SimulationError], tuple[int, int], str, Build]] = {
    "initialised twice": (
        BarrierReinitializedError, (5, 2), "Barrier re-initialized without prior invalidation",
        use(5, lambda kernel: kernel.init(0)),
    ),
    "invalidated twice": (
        BarrierStateError, (7, 5), "Barrier used before initialization or after invalidation",
        use(5, freed, lambda kernel: kernel.do("barrier"), freed),
    ),
    "arrival after invalidation": (
        BarrierStateError, (7, 5), "Barrier used before initialization or after invalidation",
        use(5, freed, lambda kernel: kernel.do("barrier"), lambda kernel: kernel.arrive(0)),
    ),
    "one arrival too many": (
        BarrierUnderflowError, (5, 2), "Barrier arrive underflow: current count or tx-count would become invalid",
        use(5, lambda kernel: kernel.arrive(0, count=2)),
    ),
    "a second announcement in a phase": (
        BarrierUnderflowError, (6, 5), "Barrier arrive underflow",
        use(5, lambda kernel: kernel.expect(0, 64), lambda kernel: kernel.expect(0, 64)),
    ),
    "a phase that is none": (
        BarrierPhaseError, (5, 2), "phases 0 and 1, and the wait is for 2", use(5, lambda kernel: kernel.wait(0, 2))
    ),
    "a wait for the wrong phase": (
        DeadlockError, (6, 5), "Deadlock detected while waiting on an mbarrier",
        use(5, lambda kernel: kernel.arrive(0), lambda kernel: kernel.wait(0, 1)),
    ),
    "no arrival": (
        DeadlockError, (5, 2), "for phase 0 of mbarrier `words`: 1 of 1 arrivals and 0 bytes are missing",
        use(5, lambda kernel: kernel.wait(0, 0)),
    ),
    "bytes that never come": (
        ByteCountError, (6, 5), "0 of 1 arrivals and 512 bytes are missing",
        use(5, lambda kernel: kernel.expect(0, 512), lambda kernel: kernel.wait(0, 0)),
    ),
    "announced at exit": (
        PendingAtExitError, (5, 2), "in the middle of a phase", use(5, lambda kernel: kernel.expect(0, 64))
    ),
    "read as data": (
        BarrierMemoryError, (5, 2), "Shared memory reused before barrier invalidation",
        use(5, lambda kernel: kernel.load(kernel.i32(0), space="shared", **DATA)),
    ),
    "overwritten with data": (
        BarrierMemoryError, (5, 2), "Shared memory reused before barrier invalidation",
        use(5, lambda kernel: kernel.store(kernel.i32(4), kernel.i32(0), space="shared", **DATA)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", FAULTS)
def test_faults(name: str, schedule: str) -> None:
    error, expected, text, build = FAULTS[name]
    kernel = started()
    build(kernel)
    with pytest.raises(error, match=text) as caught:
        kernel.run((3,), schedule=schedule)
    assert type(caught.value) is error
    assert lines(caught.value) == expected


def test_used_before_it_is_initialised() -> None:
    for operation in ("wait", "arrive", "expect", "invalidate"):
        kernel = AsynchronousKernel()
        kernel.at(4)
        operands = {"wait": (0,), "expect": (64,)}.get(operation, ())
        getattr(kernel, operation)(0, *operands)
        with pytest.raises(BarrierStateError, match="Barrier used before initialization") as caught:
            kernel.run((1,))
        assert caught.value.location is not None
        assert caught.value.location.line == 4


def test_counts_have_limits() -> None:
    kernel = AsynchronousKernel()
    kernel.init(0, 1 << 20)
    with pytest.raises(BarrierError, match="counts 1 to 1048575 arrivals, not 1048576"):
        kernel.run((1,))
    kernel = started()
    kernel.expect(0, 1 << 20)
    with pytest.raises(TransactionCountError, match="tx-count would become invalid"):
        kernel.run((1,))
    kernel = started(count=4)
    kernel.at(6)
    kernel.mbarrier("expect", 0, kernel.less(kernel.thread(), 2), bytes=1 << 19)
    with pytest.raises(TransactionCountError, match="would miss 1048576 bytes") as caught:
        kernel.run((1,))
    assert lines(caught.value) == (6, 2)


@pytest.mark.parametrize("ordered", [True, False])
def test_an_mbarrier_is_initialised_before_the_barrier(ordered: bool) -> None:
    """The thread that initialises may arrive; others need the barrier."""
    kernel = AsynchronousKernel(2)
    kernel.at(2)
    kernel.init(0)
    if ordered:
        kernel.do("barrier")
    kernel.at(5)
    kernel.arrive(0)
    kernel.at(6)
    kernel.wait(0, 0)
    if ordered:
        kernel.run((2,))
        return
    with pytest.raises(SharedMemoryRaceError, match="has written") as caught:
        kernel.run((2,))
    assert lines(caught.value) == (6, 2)


def test_invalidation_needs_a_barrier_after_the_wait() -> None:
    kernel = started(2)
    kernel.arrive(0)
    kernel.at(5)
    kernel.wait(0, 0)
    kernel.at(6)
    kernel.invalidate(0)
    with pytest.raises(SharedMemoryRaceError, match="has read") as caught:
        kernel.run((2,))
    assert lines(caught.value) == (6, 5)


def test_memory_of_an_invalidated_mbarrier_is_free() -> None:
    kernel = started(2)
    kernel.arrive(0)
    kernel.wait(0, 0)
    kernel.do("barrier")
    kernel.invalidate(0)
    kernel.do("barrier")
    kernel.store(kernel.i32(0), kernel.i32(7), kernel.first(), space="shared", allocation="words", kind="i32")
    kernel.do("barrier")
    kernel.load(kernel.i32(0), space="shared", allocation="words", kind="i32")
    kernel.do("barrier")
    kernel.init(0)
    kernel.do("barrier")
    kernel.wait(0, 1)
    kernel.run((2,))


COPIES = 32


def copying(count: int, increment: bool, waits: bool = True) -> AsynchronousKernel:
    """A warp copies 32 numbers and reads its neighbour's after an arrival of the copies."""
    kernel = AsynchronousKernel()
    x, y = kernel.pointer("x"), kernel.pointer("y")
    kernel.at(2)
    kernel.init(0, count)
    kernel.do("barrier")
    place = kernel.mul(kernel.lane(), kernel.i32(4))
    kernel.at(4)
    source = kernel.address(x, kernel.place(COPIES))
    kernel.do("copy_async", source, place, bytes=4, allocation="buffer")
    kernel.at(5)
    kernel.mbarrier("copy_arrive", 0, increment=increment)
    if increment:
        kernel.arrive(0)
    kernel.at(6)
    if waits:
        kernel.wait(0, 0)
    kernel.at(7)
    value = kernel.read(kernel.do("xor", place, 4))
    kernel.store(kernel.address(y, kernel.place(COPIES)), value)
    return kernel


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("count", "increment"), [(32, False), (1, True)])
def test_copies_arrive(count: int, increment: bool, schedule: str) -> None:
    x = np.random.default_rng(1).random((4, COPIES), np.float32)
    y = np.zeros_like(x)
    copying(count, increment).run((4,), x, y, schedule=schedule, seed=3)
    assert (y == x[:, np.arange(COPIES) ^ 1]).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_copies_are_read_after_the_wait_only(schedule: str) -> None:
    x = np.zeros((1, COPIES), np.float32)
    with pytest.raises(ReadBeforeWaitError) as caught:
        copying(32, False, waits=False).run((1,), x, x.copy(), schedule=schedule)
    assert lines(caught.value) == (7, 4)
    with pytest.raises(DeadlockError, match="1 of 33 arrivals"):
        copying(33, False).run((1,), x, x.copy(), schedule=schedule)
