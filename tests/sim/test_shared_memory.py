"""Shared memory: data, races with both lines, uninitialised bytes, bounds, and asynchronous copies into it."""

from __future__ import annotations

import numpy as np
import pytest

from glueball.errors import (
    AsynchronousAccessError,
    MisalignedAccessError,
    OutOfBoundsError,
    SharedMemoryRaceError,
    SimulationError,
    UninitializedReadError,
)
from glueball.sim.scheduler import SCHEDULES
from glueball.thread.ir import Value
from tests.sim.kernels import Kernel

THREADS = 64


def lines(error: SimulationError) -> tuple[int, int]:
    """Line of the fault and of the other instruction that the error names."""
    assert error.location is not None
    other = error.details["other"]
    assert f"{other}" in error.error_message
    return error.location.line, other.line


def offset(kernel: Kernel, thread: Value, size: int = 4) -> Value:
    return kernel.mul(thread, kernel.i32(size))


def reversal(vary: bool = False) -> Kernel:
    """Each block reverses its 64 elements through shared memory; `vary`: by a rotation that differs between blocks."""
    kernel = Kernel(2)
    kernel.allocate("other", 32)
    kernel.allocate("buffer", 4 * THREADS)
    x, y = kernel.pointer("x"), kernel.pointer("y")
    place = kernel.place(THREADS)
    at = kernel.thread()
    if vary:
        at = kernel.do("and", kernel.add(at, kernel.program_id(0)), THREADS - 1)
    kernel.at(3)
    kernel.store(offset(kernel, at), kernel.load(kernel.address(x, place)), space="shared", allocation="buffer")
    kernel.at(4)
    kernel.do("barrier")
    back = kernel.do("sub", THREADS - 1, kernel.thread())
    kernel.at(5)
    value = kernel.load(offset(kernel, back), space="shared", allocation="buffer")
    kernel.at(6)
    kernel.store(kernel.address(y, place), value)
    return kernel


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("vary", [False, True])
def test_data_goes_through_shared_memory(schedule: str, vary: bool) -> None:
    x = np.random.default_rng(0).random((10, THREADS), np.float32)
    y = np.zeros_like(x)
    report = reversal(vary).run((10,), x, y, schedule=schedule)
    back = THREADS - 1 - np.arange(THREADS)
    expected = [row[(back - block * vary) % THREADS] for block, row in enumerate(x)]
    assert (y == np.stack(expected)).all()
    assert report.shared_loads.requests == report.shared_stores.requests == report.barriers == 20
    assert report.shared_loads.wavefronts == report.shared_loads.ideal_wavefronts == 20


@pytest.mark.parametrize("vary", [False, True])
def test_missing_barrier_is_a_race(vary: bool) -> None:
    kernel = reversal(vary)
    x = np.zeros((3, THREADS), np.float32)
    kernel.run((3,), x, x.copy())
    kernel.body.instructions = [each for each in kernel.body.instructions if each.record.name != "barrier"]
    with pytest.raises(SharedMemoryRaceError, match="has written") as caught:
        kernel.run((3,), x, x.copy())
    assert lines(caught.value) == (5, 3)
    assert caught.value.details["allocation"] == "buffer"


def test_overwriting_what_another_thread_read_is_a_race() -> None:
    kernel = Kernel(2)
    kernel.allocate("buffer", 4 * THREADS)
    thread = kernel.thread()
    kernel.store(offset(kernel, thread), thread, space="shared", kind="i32", allocation="buffer")
    kernel.do("barrier")
    kernel.at(5)
    neighbour = kernel.do("and", kernel.add(thread, kernel.i32(1)), THREADS - 1)
    value = kernel.load(offset(kernel, neighbour), space="shared", kind="i32", allocation="buffer")
    kernel.at(6)
    kernel.store(offset(kernel, thread), value, space="shared", kind="i32", allocation="buffer")
    with pytest.raises(SharedMemoryRaceError, match="has read") as caught:
        kernel.run((2,))
    assert lines(caught.value) == (6, 5)


def test_overwriting_what_many_threads_read_is_a_race_for_each() -> None:
    kernel = Kernel(2)
    kernel.allocate("buffer", 64)
    with kernel.when(kernel.less(kernel.thread(), 1)):
        kernel.store(kernel.i32(0), kernel.i32(5), space="shared", kind="i32", allocation="buffer")
    kernel.do("barrier")
    kernel.at(5)
    kernel.load(kernel.i32(0), space="shared", kind="i32", allocation="buffer")
    kernel.at(6)
    with kernel.when(kernel.less(kernel.i32(62), kernel.thread())):
        kernel.store(kernel.i32(0), kernel.i32(6), space="shared", kind="i32", allocation="buffer")
    with pytest.raises(SharedMemoryRaceError) as caught:
        kernel.run((2,))
    assert lines(caught.value) == (6, 5)
    assert (caught.value.details["warp"], caught.value.details["lane"]) == (1, 31)


def test_own_bytes_need_no_barrier() -> None:
    kernel = Kernel(2)
    kernel.allocate("buffer", 4 * THREADS)
    y, thread = kernel.pointer("y"), kernel.thread()
    for _ in range(2):
        kernel.store(offset(kernel, thread), thread, space="shared", kind="i32", allocation="buffer")
        value = kernel.load(offset(kernel, thread), space="shared", kind="i32", allocation="buffer")
    kernel.store(kernel.address(y, thread), value, kind="i32")
    out = np.zeros(THREADS, np.int32)
    kernel.run((1,), out)
    assert (out == np.arange(THREADS)).all()


@pytest.mark.parametrize("differ", [False, True])
def test_lanes_may_write_the_same_bytes_only_with_the_same_value(differ: bool) -> None:
    kernel = Kernel(2)
    kernel.allocate("buffer", 16)
    kernel.at(3)
    value = kernel.do("shr_unsigned", kernel.lane(), 4 if differ else 5)
    kernel.store(kernel.i32(8), value, space="shared", kind="i32", allocation="buffer")
    if not differ:
        kernel.run((2,))
        return
    with pytest.raises(SharedMemoryRaceError, match="different values") as caught:
        kernel.run((2,))
    assert lines_of_one(caught.value) == 3


def lines_of_one(error: SimulationError) -> int:
    assert error.location is not None
    return error.location.line


def test_reading_what_nobody_wrote() -> None:
    kernel = Kernel(2)
    kernel.allocate("buffer", 4 * THREADS)
    n, thread = kernel.scalar("n"), kernel.thread()
    with kernel.when(kernel.less(thread, n)):
        kernel.store(offset(kernel, thread), thread, space="shared", kind="i32", allocation="buffer")
    kernel.do("barrier")
    kernel.at(7)
    kernel.load(offset(kernel, thread), space="shared", kind="i32", allocation="buffer")
    kernel.run((2,), 64)
    with pytest.raises(UninitializedReadError, match="never written") as caught:
        kernel.run((2,), 63)
    assert lines_of_one(caught.value) == 7
    assert caught.value.details["offset"] == 63 * 4


def test_bounds_and_alignment_of_an_allocation() -> None:
    kernel = Kernel()
    kernel.allocate("first", 128)
    kernel.allocate("second", 128)
    scale, shift = kernel.scalar("scale"), kernel.scalar("shift")
    kernel.at(2)
    at = kernel.add(kernel.mul(kernel.lane(), scale), shift)
    kernel.store(at, kernel.lane(), space="shared", kind="i32", allocation="first")
    kernel.run((1,), 4, 0)
    with pytest.raises(OutOfBoundsError, match="`first` is written at byte 128") as caught:
        kernel.run((1,), 4, 4)
    assert caught.value.details["lane"] == 31
    with pytest.raises(OutOfBoundsError, match="at byte -4"):
        kernel.run((1,), 4, -4)
    with pytest.raises(MisalignedAccessError, match="at byte 2"):
        kernel.run((1,), 2, 0)


def asynchronous(
    waits: tuple[int, ...] = (0,),
    groups: int = 1,
    size: int = 16,
    commits: bool = True,
    barrier: bool = True,
    touch: str = "",
) -> Kernel:
    """Copies one vector per thread and group, waits, and stores the neighbour's first element of every group."""
    kernel = Kernel(2)
    kernel.allocate("buffer", groups * THREADS * size)
    x, y, n = kernel.pointer("x"), kernel.pointer("y"), kernel.scalar("n")
    thread = kernel.thread()
    place = kernel.mul(kernel.place(THREADS), kernel.i32(size // 4))
    mask = kernel.less(place, n)
    for group in range(groups):
        kernel.at(10 + group)
        source = kernel.add(kernel.address(x, place), kernel.constant("i64", group * 4 * THREADS * size))
        destination = kernel.add(offset(kernel, thread, size), kernel.i32(group * THREADS * size))
        kernel.do("copy_async", source, destination, mask, bytes=size, allocation="buffer")
        if commits:
            kernel.do("commit_group")
    kernel.at(20)
    if touch == "destination":
        kernel.store(offset(kernel, thread, size), thread, mask, space="shared", kind="i32", allocation="buffer")
    if touch == "source":
        kernel.store(kernel.address(x, place), thread, mask, kind="i32")
    for pending in waits:
        kernel.do("wait_group", pending=pending)
    if barrier:
        kernel.do("barrier")
    neighbour = kernel.do("xor", thread, 1)
    for group in range(groups):
        kernel.at(30 + group)
        read = kernel.add(offset(kernel, neighbour, size), kernel.i32(group * THREADS * size))
        value = kernel.load(read, mask, [kernel.constant("f32", -1.0)], space="shared", allocation="buffer")
        at = kernel.add(kernel.place(THREADS), kernel.i32(group * 4 * THREADS))
        kernel.store(kernel.address(y, at), value)
    return kernel


def copy_data(groups: int = 1, size: int = 16) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    x = np.random.default_rng(0).random((groups, 4, THREADS, size // 4), np.float32)
    return x, np.zeros((groups, 4, THREADS), np.float32)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize(("groups", "waits"), [(1, (0,)), (3, (0,)), (3, (2, 1, 0))])
def test_asynchronous_copies_arrive(schedule: str, size: int, groups: int, waits: tuple[int, ...]) -> None:
    x, y = copy_data(groups, size)
    report = asynchronous(waits, groups, size).run((4,), x, y, x[0].size, schedule=schedule, seed=2)
    assert (y == x[..., 0][..., np.arange(THREADS) ^ 1]).all()
    copies = report.asynchronous_copies
    assert copies.requests == groups * 8
    assert copies.sectors * 32 == x.nbytes
    assert copies.wavefronts == x.nbytes // 128


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_ragged_asynchronous_copies(schedule: str) -> None:
    x, y = copy_data(2)
    n = 3 * THREADS * 4 + 10 * 4
    asynchronous(groups=2).run((4,), x, y, n, schedule=schedule, seed=2)
    expected = x[..., 0][..., np.arange(THREADS) ^ 1].copy()
    expected[:, 3, 10:] = -1
    assert (y == expected).all()


FAULTS: list[tuple[dict[str, object], type[SimulationError], tuple[int, int]]] = [
    ({"waits": ()}, AsynchronousAccessError, (30, 10)),
    ({"waits": (1,)}, AsynchronousAccessError, (30, 10)),
    ({"waits": (1,), "groups": 2}, AsynchronousAccessError, (31, 11)),
    ({"commits": False}, AsynchronousAccessError, (30, 10)),
    ({"touch": "destination"}, AsynchronousAccessError, (20, 10)),
    ({"touch": "source"}, AsynchronousAccessError, (20, 10)),
    ({"barrier": False}, SharedMemoryRaceError, (30, 10)),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("options", "error", "expected"), FAULTS)
def test_asynchronous_faults(
    options: dict[str, object], error: type[SimulationError], expected: tuple[int, int], schedule: str
) -> None:
    groups = options.get("groups", 1)
    assert isinstance(groups, int)
    x, y = copy_data(groups)
    with pytest.raises(error) as caught:
        asynchronous(**options).run((4,), x, y, x[0].size, schedule=schedule)  # type: ignore[arg-type]
    assert lines(caught.value) == expected


def test_two_copies_to_the_same_bytes() -> None:
    kernel = Kernel()
    kernel.allocate("buffer", 64)
    x = kernel.pointer("x")
    for line, bytes_apart in ((5, 16), (6, 0)):
        kernel.at(line)
        with kernel.when(kernel.less(kernel.lane(), 4)):
            at = kernel.mul(kernel.lane(), kernel.i32(bytes_apart))
            kernel.do("copy_async", x, at, bytes=16, allocation="buffer")
    with pytest.raises(AsynchronousAccessError) as caught:
        kernel.run((1,), np.zeros(4, np.float32))
    assert lines(caught.value) == (6, 5)


def test_commits_and_waits_of_some_threads() -> None:
    """Odd lanes commit both copies at once, even lanes one by one; waiting for all but one differs between them."""
    kernel = Kernel()
    kernel.allocate("buffer", 4 * 64)
    x, y, group = kernel.pointer("x"), kernel.pointer("y"), kernel.scalar("group")
    lane = kernel.lane()
    even = kernel.do("compare_signed", kernel.do("and", lane, 1), 0, predicate="eq")
    at = offset(kernel, lane)
    kernel.do("copy_async", kernel.address(x, lane), at, bytes=4, allocation="buffer")
    with kernel.when(even):
        kernel.do("commit_group")
    second = kernel.add(at, kernel.i32(128))
    kernel.do("copy_async", kernel.address(x, kernel.add(lane, kernel.i32(32))), second, bytes=4, allocation="buffer")
    kernel.do("commit_group")
    kernel.do("wait_group", pending=1)
    kernel.at(9)
    with kernel.when(even):
        value = kernel.load(kernel.add(at, group), space="shared", allocation="buffer")
        kernel.store(kernel.address(y, lane), value)
    with kernel.when(kernel.less(kernel.i32(0), group)):
        kernel.do("wait_group", pending=0)
    x_array, out = np.arange(64, dtype=np.float32), np.zeros(32, np.float32)
    kernel.run((1,), x_array, out, 0)
    assert (out[::2] == x_array[:32:2]).all()
    with pytest.raises(AsynchronousAccessError):
        kernel.run((1,), x_array, out, 128)
