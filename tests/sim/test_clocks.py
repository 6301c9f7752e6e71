"""Order between threads, partitions and asynchronous work: what an arrival takes along and a wait gives."""

from __future__ import annotations

import numpy as np
import pytest

from glueball.errors import ProxyFenceError, ReadBeforeWaitError, SharedMemoryRaceError
from glueball.sim.clocks import TIME_SHIFT, Clocks
from glueball.sim.scheduler import SCHEDULES
from glueball.thread.ir import Value
from tests.sim.asynchronous_kernels import AsynchronousKernel, aligned, describe, lines

TILE, SIZE = (8, 16), 512


def knows(clocks: Clocks, observer: int, agent: int, row: int = 0) -> int:
    """The latest time of an agent that an observer knows."""
    return int(clocks.known[observer, row, agent])


def test_a_barrier_orders_what_a_partition_did() -> None:
    clocks = Clocks(2)
    assert knows(clocks, 0, 0) == -1
    clocks.barrier(0)
    assert knows(clocks, 0, 0) == 0
    assert clocks.time[0].tolist() == [1, 0]
    assert knows(clocks, 1, 0) == -1


def test_knowledge_passes_through_others() -> None:
    """Partition 0 to 1 by one observer, from there to 2 by another one."""
    clocks = Clocks(3)
    first, second = clocks.add_observer(), clocks.add_observer()
    clocks.barrier(0)
    clocks.publish(first, 0, False, lambda: np.ones((1, 32), bool), None)
    clocks.join(1, first)
    clocks.barrier(1)
    clocks.publish(second, 1, False, lambda: np.ones((1, 32), bool), None)
    clocks.join(2, second)
    assert knows(clocks, 2, 0) == 0
    assert knows(clocks, 2, 1) == 0
    clocks.barrier(0)
    assert knows(clocks, 2, 0) == 0


def test_blocks_apart() -> None:
    clocks = Clocks(1)
    clocks.barrier(0)
    clocks.expand(3)
    agent = clocks.add_agent()
    clocks.barrier(0, np.array([True, False, True]))
    assert clocks.time[:, 0].tolist() == [2, 1, 2]
    assert clocks.known[0, :, 0].tolist() == [1, 0, 1]
    assert clocks.known[0, :, agent].tolist() == [-1, -1, -1]
    floors = clocks.floors(0, np.array([1, 2, 1]), np.array([0, 0, 5]))
    assert (floors[:, 0] >> TIME_SHIFT).tolist() == [1, 2, 1]


def test_some_threads_know_before_the_others() -> None:
    clocks = Clocks(1)
    agent, source = clocks.add_agent(), clocks.add_observer()
    clocks.known[source, :, agent] = 4
    threads = np.zeros((1, 64), bool)
    threads[0, 3] = True
    clocks.learn(0, source, lambda: threads)
    rows = np.zeros(2, np.int64)
    assert (clocks.floors(0, rows, np.array([3, 4]))[:, agent] >> TIME_SHIFT).tolist() == [5, 0]
    clocks.barrier(0)
    assert (clocks.floors(0, rows, np.array([3, 4]))[:, agent] >> TIME_SHIFT).tolist() == [5]


def test_finished_work_is_known_to_those_who_learned_before_and_to_the_others() -> None:
    clocks = Clocks(1)
    agent, source = clocks.add_agent(), clocks.add_observer()
    threads = np.zeros((1, 64), bool)
    threads[0, 3] = True
    clocks.learn(0, source, lambda: threads)
    clocks.finish(0, agent, np.zeros(1, np.int64), 7)
    assert (clocks.floors(0, np.zeros(2, np.int64), np.array([3, 4]))[:, agent] >> TIME_SHIFT).tolist() == [8, 8]


def loaded(waiting: int, reading: int, barrier: bool) -> AsynchronousKernel:
    """Threads below `waiting` wait for a box, thread `reading` reads it, with a barrier between or not."""
    kernel = AsynchronousKernel(2)
    x = kernel.tensor("x", describe(aligned((8, 16), np.float32), TILE).map.type)
    kernel.init(0)
    kernel.do("barrier")
    kernel.expect(0, SIZE)
    kernel.at(6)
    kernel.load_box(x, 0, [0, 0])
    kernel.at(7)
    kernel.wait(0, 0, kernel.less(kernel.thread(), waiting))
    if barrier:
        kernel.do("barrier")
    kernel.at(8)
    with kernel.when(kernel.do("compare_signed", kernel.thread(), reading, predicate="eq")):
        kernel.read(kernel.i32(0))
    return kernel


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("waiting", "reading", "barrier", "fine"),
    [(64, 63, False, True), (32, 31, False, True), (32, 32, False, False), (32, 32, True, True), (1, 0, False, True)],
)
def test_a_wait_is_for_those_who_wait(waiting: int, reading: int, barrier: bool, fine: bool, schedule: str) -> None:
    kernel, argument = loaded(waiting, reading, barrier), describe(aligned((8, 16), np.float32), TILE)
    if fine:
        kernel.run((3,), argument, schedule=schedule)
        return
    with pytest.raises(ReadBeforeWaitError) as caught:
        kernel.run((3,), argument, schedule=schedule)
    assert lines(caught.value) == (8, 6)
    assert (caught.value.details["warp"], caught.value.details["lane"]) == (1, 0)


def relay(order: str) -> AsynchronousKernel:
    """The default partition stores, worker 1 waits for that, worker 2 waits for worker 1 and reads."""
    kernel = AsynchronousKernel(4, words=2)
    kernel.at(2)
    kernel.init(0, 128 if order == "everyone arrives" else 1)
    kernel.init(1)
    kernel.do("barrier")

    def default() -> None:
        kernel.at(4)
        kernel.write(kernel.mul(kernel.thread(), kernel.i32(4)), kernel.thread(), "i32")
        if order not in {"no barrier", "everyone arrives"}:
            kernel.do("barrier", identifier=1, threads=128)
        kernel.at(5)
        kernel.arrive(0, predicate=kernel.always if order == "everyone arrives" else None)

    def first() -> None:
        kernel.at(7)
        if order != "skipped":
            kernel.wait(0, 0)
        kernel.at(8)
        kernel.arrive(1)

    def second() -> None:
        kernel.at(10)
        kernel.wait(1, 0)
        kernel.at(11)
        kernel.read(kernel.mul(kernel.thread(), kernel.i32(16)), "i32")

    kernel.partitions(default, (first, 1, []), (second, 1, []))
    return kernel


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("order", ["one arrives", "everyone arrives"])
def test_order_passes_through_a_third_partition(order: str, schedule: str) -> None:
    for seed in range(5):
        relay(order).run((2,), schedule=schedule, seed=seed)


@pytest.mark.parametrize("order", ["no barrier", "skipped"])
def test_order_that_is_not_there(order: str) -> None:
    with pytest.raises(SharedMemoryRaceError, match="the default partition has written") as caught:
        relay(order).run((1,))
    assert lines(caught.value) == (11, 4)


def fenced(by: str, again: bool) -> AsynchronousKernel:
    """All threads store and some fence; a store after the fence is not covered by it."""
    kernel = AsynchronousKernel(4)
    y = kernel.tensor("y", describe(aligned((8, 16), np.float32), TILE).map.type)
    place = kernel.mul(kernel.thread(), kernel.i32(4))
    kernel.at(3)
    kernel.write(place, kernel.thread(), "i32")
    if by == "all":
        kernel.fence()
    else:
        with kernel.when(kernel.less(kernel.thread(), 127)):
            kernel.fence()
    kernel.at(5)
    if again:
        kernel.store(place, kernel.thread(), kernel.first(), space="shared", kind="i32", allocation="buffer")
    kernel.do("barrier")
    kernel.at(7)
    kernel.store_box(y, [0, 0])
    kernel.do("bulk_commit_group")
    kernel.wait_stores()
    return kernel


@pytest.mark.parametrize(("by", "again", "line"), [("all", False, 0), ("all", True, 5), ("most", False, 3)])
def test_a_fence_covers_the_stores_before_it_of_its_thread(by: str, again: bool, line: int) -> None:
    y = aligned((8, 16), np.float32)
    kernel = fenced(by, again)
    if not line:
        kernel.run((2,), describe(y, TILE))
        return
    with pytest.raises(ProxyFenceError) as caught:
        kernel.run((2,), describe(y, TILE))
    assert lines(caught.value) == (7, line)


@pytest.mark.parametrize("fence", [True, False])
@pytest.mark.parametrize("through", ["group", "mbarrier"])
def test_asynchronous_copies_need_the_fence_too(fence: bool, through: str) -> None:
    kernel = AsynchronousKernel(4)
    x = kernel.pointer("x")
    y = kernel.tensor("y", describe(aligned((8, 16), np.float32), TILE).map.type)
    kernel.init(0, 128)
    kernel.do("barrier")
    kernel.at(4)
    thread: Value = kernel.thread()
    kernel.do("copy_async", kernel.address(x, thread), kernel.mul(thread, kernel.i32(4)), bytes=4, allocation="buffer")
    if through == "group":
        kernel.do("commit_group")
        kernel.do("wait_group", pending=0)
    else:
        kernel.mbarrier("copy_arrive", 0, increment=False)
        kernel.wait(0, 0)
    if fence:
        kernel.fence()
    kernel.do("barrier")
    kernel.at(9)
    kernel.store_box(y, [0, 0])
    kernel.do("bulk_commit_group")
    kernel.wait_stores()
    x_array, y_array = np.arange(128, dtype=np.float32), aligned((8, 16), np.float32)
    for schedule in SCHEDULES:
        if fence:
            kernel.run((1,), x_array, describe(y_array, TILE), schedule=schedule)
            assert (y_array.reshape(-1) == x_array).all()
            continue
        with pytest.raises(ProxyFenceError) as caught:
            kernel.run((1,), x_array, describe(y_array, TILE), schedule=schedule)
        assert lines(caught.value) == (9, 4)


def test_a_read_before_a_bulk_copy_needs_order_and_no_fence() -> None:
    kernel = AsynchronousKernel(2)
    x = kernel.tensor("x", describe(aligned((8, 16), np.float32), TILE).map.type)
    kernel.init(0)
    kernel.do("barrier")
    for phase in (0, 1):
        kernel.expect(0, SIZE)
        kernel.load_box(x, 0, [0, 0])
        kernel.wait(0, phase)
        kernel.read(kernel.mul(kernel.thread(), kernel.i32(4)))
        kernel.do("barrier")
    kernel.run((3,), describe(aligned((8, 16), np.float32), TILE))
