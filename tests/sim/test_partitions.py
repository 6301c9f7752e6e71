"""Partitions: what workers are given, how they talk through mbarriers, and how they deadlock."""

from __future__ import annotations

import numpy as np
import pytest

from glueball.errors import (
    BarrierUnderflowError,
    ByteCountError,
    DeadlockError,
    OutOfResources,
    OverwriteInFlightError,
    PhaseOverrunError,
    ProxyFenceError,
    SharedMemoryRaceError,
    SimulationError,
    UninitializedReadError,
)
from glueball.sim.scheduler import SCHEDULES
from glueball.thread.control import launched_warps
from glueball.thread.ir import Value
from glueball.thread.printer import print_function
from tests.sim.asynchronous_kernels import AsynchronousKernel, aligned, describe, lines

TILE, SIZE = (8, 16), 512


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_workers_get_copies_and_the_default_partition_gives_results(schedule: str) -> None:
    """Worker w adds what it is given to its own part of `y`; warps and lanes are its own."""
    kernel = AsynchronousKernel(4)
    y, n = kernel.pointer("y"), kernel.scalar("n")

    def worker(first: Value, block: Value) -> None:
        place = kernel.add(kernel.add(first, kernel.thread()), kernel.mul(block, kernel.i32(256)))
        kernel.store(kernel.address(y, place), kernel.add(n, first), kind="i32")

    def default() -> list[Value]:
        return [kernel.add(kernel.thread(), n)]

    block = kernel.program_id(0)
    (mine,) = kernel.partitions(
        default, (worker, 2, [kernel.i32(128), block]), (worker, 1, [kernel.i32(192), block]), kinds=["i32"]
    )
    place = kernel.add(kernel.thread(), kernel.mul(block, kernel.i32(256)))
    kernel.store(kernel.address(y, place), mine, kind="i32")
    out = np.zeros((3, 256), np.int32)
    report = kernel.run((3,), out, 10, schedule=schedule)
    assert (out[:, :128] == np.arange(128) + 10).all()
    assert (out[:, 128:192] == 138).all()
    assert (out[:, 192:224] == 202).all()
    assert (out[:, 224:] == 0).all()
    assert report.issued("global_store") == 3 * (4 + 2 + 1)
    assert launched_warps(kernel.function) == 8
    assert "partitions" in print_function(kernel.function)
    assert "warps = (4, 2, 1)" in print_function(kernel.function)


def ring(stages: int, rows: int, fault: str = "") -> AsynchronousKernel:
    """A worker of one warp fills a ring of boxes, the default partition sums `rows` of them into one."""
    kernel = AsynchronousKernel(4, words=2 * stages, buffer=SIZE * stages)
    x, y = kernel.tensor("x", describe(aligned((8, 16), np.float32), TILE).map.type), kernel.pointer("y")
    kernel.at(2)
    for word in range(2 * stages):
        kernel.init(word)
    kernel.do("barrier")
    count = kernel.mul(kernel.program_id(0), kernel.i32(0 if fault else 1))
    upper = kernel.add(count, kernel.i32(rows))

    def at(number: Value, first: int) -> tuple[Value, Value, Value]:
        stage = kernel.do("rem_signed", number, stages)
        phase = kernel.do("and", kernel.do("div_signed", number, stages), 1)
        return stage, kernel.mul(kernel.add(stage, kernel.i32(first)), kernel.i32(8)), phase

    def producer(block: Value, upper: Value) -> None:
        def step(number: Value) -> tuple[()]:
            stage, full, phase = at(number, 0)
            _, empty, _ = at(number, stages)
            kernel.at(5)
            if fault != "no wait for empty":
                free = kernel.do("xor", phase, 1) if fault != "wrong phase" else phase
                kernel.wait(empty, free)
            kernel.at(6)
            kernel.expect(full, 2 * SIZE if fault == "twice the bytes" else SIZE)
            kernel.at(7)
            row = kernel.mul(kernel.add(kernel.mul(block, kernel.i32(16)), number), kernel.i32(8))
            kernel.load_box(x, full, [row, 0], kernel.mul(stage, kernel.i32(SIZE)))
            return ()

        kernel.loop(0, upper, 1, [], step)

    def consumer() -> list[Value]:
        def step(number: Value, total: Value) -> tuple[Value, ...]:
            stage, full, phase = at(number, 0)
            _, empty, _ = at(number, stages)
            kernel.at(11)
            if fault != "no wait for full":
                kernel.wait(full, phase)
            kernel.at(12)
            value = kernel.read(
                kernel.add(kernel.mul(stage, kernel.i32(SIZE)), kernel.mul(kernel.thread(), kernel.i32(4)))
            )
            if fault != "no barrier":
                kernel.do("barrier", identifier=1, threads=128)
            kernel.at(13)
            if fault != "no arrival":
                kernel.arrive(empty)
            return (kernel.do("fadd", total, value),)

        return list(kernel.loop(0, upper, 1, [kernel.constant("f32", 0)], step))

    kernel.at(4)
    (total,) = kernel.partitions(consumer, (producer, 1, [kernel.program_id(0), upper]), kinds=["f32"])
    kernel.store(kernel.address(y, kernel.place(128)), total)
    return kernel


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_ring_between_partitions(schedule: str, stages: int) -> None:
    x, y = aligned((4 * 16 * 8, 16), np.float32), np.zeros((4, 8, 16), np.float32)
    x[...] = np.random.default_rng(0).integers(0, 100, x.shape)
    expected = np.stack([tiles[: 5 + block].sum(axis=0) for block, tiles in enumerate(x.reshape(4, 16, 8, 16))])
    for seed in range(4):
        y[...] = 0
        ring(stages, 5).run((4,), describe(x, TILE), y, schedule=schedule, seed=seed)
        assert (y == expected).all()


RING_FAULTS: dict[str, tuple[set[type[SimulationError]], str, tuple[int, int]]] = {
    "no wait for empty": ({OverwriteInFlightError}, "outstanding writes", (7, 7)),
    "wrong phase": ({DeadlockError}, "worker 1 of block 0 waits at kernel.py:5:1 for phase 0 of mbarrier", (11, 2)),
    "no wait for full": ({UninitializedReadError}, "never written", (12, 0)),
    "no arrival": (
        {DeadlockError},
        "for phase 1 of mbarrier `words`: 1 of 1 arrivals and 0 bytes are missing",
        (11, 7),
    ),
    "no barrier": ({SharedMemoryRaceError}, "the default partition has read", (7, 12)),
    "twice the bytes": ({ByteCountError}, "0 of 1 arrivals and 512 bytes are missing", (11, 7)),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", RING_FAULTS)
def test_faults_of_a_ring(name: str, schedule: str) -> None:
    errors, text, expected = RING_FAULTS[name]
    if name == "no wait for empty" and schedule != "in_order":
        errors, text, expected = errors | {BarrierUnderflowError}, "Bu|Ba", (7, 7) if schedule == "random" else (6, 6)
    x, y = aligned((16 * 8, 16), np.float32), np.zeros((8, 16), np.float32)
    found = []
    for seed in range(6 if schedule == "random" else 1):
        with pytest.raises(tuple(errors), match=text) as caught:
            ring(2, 5, name).run((1,), describe(x, TILE), y, schedule=schedule, seed=seed)
        found.append(caught.value)
    assert {type(error) for error in found} <= errors
    assert expected in {lines(error) for error in found}


def exchange(fault: str = "") -> AsynchronousKernel:
    """A worker stores a tile at line 6, the default partition copies it to global memory at line 12."""
    kernel = AsynchronousKernel(4)
    y = kernel.tensor("y", describe(aligned((8, 16), np.float32), TILE).map.type)
    kernel.at(2)
    kernel.init(0)
    kernel.init(1)
    kernel.do("barrier")

    def worker() -> None:
        place = kernel.mul(kernel.thread(), kernel.i32(4))
        kernel.at(6)
        kernel.write(place, kernel.do("signed_to_float", kernel.thread(), to="f32"))
        if fault != "fenced by the other partition":
            kernel.fence()
        if fault != "no barrier before the arrival":
            kernel.do("barrier", identifier=2, threads=128)
        kernel.arrive(1)
        kernel.at(8)
        if fault == "both wait":
            kernel.wait(0, 0)

    def default() -> None:
        kernel.at(10)
        if fault == "both wait":
            kernel.wait(0, 0)
        if fault != "no wait":
            kernel.wait(1, 0)
        if fault == "fenced by the other partition":
            kernel.fence()
            kernel.do("barrier", identifier=1, threads=128)
        kernel.at(12)
        kernel.store_box(y, [0, 0])
        kernel.do("bulk_commit_group")
        kernel.wait_stores()

    kernel.at(4)
    kernel.partitions(default, (worker, 4, []))
    return kernel


EXCHANGE_FAULTS: dict[str, tuple[type[SimulationError], tuple[int, int], str]] = {
    "fenced by the other partition": (ProxyFenceError, (12, 6), "missing fence_async_shared"),
    "no barrier before the arrival": (SharedMemoryRaceError, (12, 6), "worker 1 has written"),
    "both wait": (DeadlockError, (10, 2), "worker 1 of block 0 waits at kernel.py:8:1 for phase 0"),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_a_worker_stores_another_partition_copies(schedule: str) -> None:
    y = aligned((8, 16), np.float32)
    exchange().run((1,), describe(y, TILE), schedule=schedule)
    assert (y.reshape(-1) == np.arange(128)).all()
    for name, (error, expected, text) in EXCHANGE_FAULTS.items():
        with pytest.raises(error, match=text) as caught:
            exchange(name).run((1,), describe(y, TILE), schedule=schedule)
        assert type(caught.value) is error
        assert lines(caught.value) == expected
    with pytest.raises((SharedMemoryRaceError, UninitializedReadError)) as caught:
        exchange("no wait").run((1,), describe(y, TILE), schedule=schedule)
    assert caught.value.location is not None
    assert caught.value.location.line == 12


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_partitions_did_is_ordered_where_they_end(schedule: str) -> None:
    """Two regions in a loop whose workers read and write what the others did before."""
    kernel = AsynchronousKernel(4)
    y = kernel.pointer("y")
    place = kernel.mul(kernel.thread(), kernel.i32(4))
    kernel.write(place, kernel.thread(), "i32")

    def worker(first: Value) -> None:
        mine = kernel.mul(kernel.add(first, kernel.thread()), kernel.i32(4))
        other = kernel.do("xor", mine, 4)
        value = kernel.read(other, "i32")
        kernel.do("barrier", identifier=3, threads=64)
        kernel.write(mine, kernel.add(value, kernel.i32(1000)), "i32")

    def step(_: Value) -> tuple[()]:
        for first in (0, 64):
            kernel.partitions(lambda: None, (worker, 2, [kernel.i32(first)]))
        return ()

    kernel.loop(0, 3, 1, [], step)
    kernel.store(kernel.address(y, kernel.thread()), kernel.read(kernel.do("xor", place, 8), "i32"), kind="i32")
    out = np.zeros(128, np.int32)
    kernel.run((1,), out, schedule=schedule)
    assert (out == (np.arange(128) ^ 2 ^ 1) + 3000).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_phase_overrun(schedule: str) -> None:
    """A worker ends two phases that nothing ties to the one who waits for the first."""
    kernel = AsynchronousKernel(4)
    kernel.at(2)
    kernel.init(0)
    kernel.do("barrier")

    def worker() -> None:
        for line in (6, 7):
            kernel.at(line)
            kernel.arrive(0)

    def default() -> None:
        kernel.at(10)
        kernel.wait(0, 0)

    kernel.partitions(default, (worker, 1, []))
    with pytest.raises((PhaseOverrunError, DeadlockError)) as caught:
        kernel.run((1,), schedule=schedule)
    if schedule == "in_order":
        assert type(caught.value) is PhaseOverrunError
        assert lines(caught.value) == (7, 10)
        assert "mbarrier phase overrun" in str(caught.value)
    if schedule == "late":
        assert "Deadlock detected after a warp-specialized thread exited" in str(caught.value)
        assert lines(caught.value) == (10, 7)


def test_workers_and_the_default_partition_race() -> None:
    kernel = AsynchronousKernel(4)

    def worker() -> None:
        kernel.at(6)
        kernel.write(kernel.i32(0), kernel.i32(1), "i32")

    def default() -> None:
        kernel.at(10)
        kernel.write(kernel.i32(0), kernel.i32(1), "i32")

    kernel.partitions(default, (worker, 1, []))
    with pytest.raises(SharedMemoryRaceError, match="the default partition has written") as caught:
        kernel.run((1,))
    assert lines(caught.value) == (6, 10)


def test_partitions_that_cannot_be() -> None:
    kernel = AsynchronousKernel(4)
    kernel.at(3)
    kernel.partitions(lambda: None, (lambda _: None, 1, [kernel.thread()]))
    with pytest.raises(SimulationError, match="differs between the threads"):
        kernel.run((1,))
    kernel = AsynchronousKernel(4)
    kernel.partitions(lambda: None, (lambda: None, 32, []))
    with pytest.raises(OutOfResources, match="threads per block"):
        kernel.run((1,))
    kernel = AsynchronousKernel(4)
    kernel.partitions(lambda: kernel.partitions(lambda: None, (lambda: None, 1, [])), (lambda: None, 1, []))
    with pytest.raises(SimulationError, match="inside partitions"):
        kernel.run((1,))
    kernel = AsynchronousKernel(4)
    kernel.partitions(lambda: kernel.do("barrier") or (), (lambda: None, 1, []))
    with pytest.raises(DeadlockError, match="160 threads waits in a partition of 128"):
        kernel.run((1,))
    kernel = AsynchronousKernel(4)
    y, outside = kernel.pointer("y"), kernel.thread()
    kernel.partitions(lambda: None, (lambda: kernel.store(y, outside, kind="i32"), 1, []))
    with pytest.raises(SimulationError, match="a value that it is not given"):
        kernel.run((1,), np.zeros(1, np.int32))


@pytest.mark.parametrize("predicated", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_blocks_whose_partitions_wait_in_opposite_orders(schedule: str, predicated: bool) -> None:
    """In block 0 the default partition waits for the worker, in block 1 it is the other way round."""
    kernel = AsynchronousKernel(4)
    kernel.init(0)
    kernel.init(1)
    kernel.do("barrier")
    even = kernel.do("compare_signed", kernel.program_id(0), 0, predicate="eq")
    odd = kernel.do("xor", even, kernel.always)

    def wait(word: int, condition: Value) -> None:
        if predicated:
            kernel.wait(word, 0, condition)
            return
        with kernel.when(condition):
            kernel.wait(word, 0)

    def worker(odd: Value) -> None:
        wait(1, odd)
        kernel.arrive(0)

    def default() -> None:
        wait(0, even)
        kernel.arrive(1)

    kernel.partitions(default, (worker, 1, [odd]))
    kernel.run((2,), schedule=schedule)


def test_blocks_with_partitions_run_together() -> None:
    """Names of blocks in a report tell how many run as one."""
    kernel = ring(2, 5, "no wait for full")
    x, y = aligned((4 * 16 * 8, 16), np.float32), np.zeros((4, 8, 16), np.float32)
    with pytest.raises(UninitializedReadError) as caught:
        kernel.run((4,), describe(x, TILE), y)
    assert caught.value.details["program"] == (0, 0, 0)
    with pytest.raises(DeadlockError, match="the default partition of blocks 0 to 3"):
        ring(2, 5, "no arrival").run((4,), describe(x, TILE), y)
