"""Faults of programs with products of warp groups: each is found, under every schedule, with its class and lines."""

from __future__ import annotations

import copy
import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import sim
from glueball.errors import (
    OverwriteInFlightError,
    PendingAtExitError,
    PerformanceWarning,
    ProxyFenceError,
    ReadBeforeWaitError,
    SharedMemoryRaceError,
    SimulationError,
    UninitializedReadError,
    WaitCountError,
)
from glueball.language.nvidia.hopper import fence_async_shared, mbarrier, warpgroup_mma, warpgroup_mma_wait
from glueball.sim.scheduler import SCHEDULES
from glueball.targets import TARGETS
from glueball.thread.ir import Function, Region
from glueball.thread.table import INSTRUCTIONS
from tests.kernels.matrices import places, product, whole
from tests.kernels.test_warpgroup import SQUARE, SWIZZLED, WIDE, operand

TARGET = TARGETS["sm_90a"]
GROUPS = gl.NVMMADistributedLayout([3, 0], [8, 1], [16, 64, 16])
TALL = gl.BlockedLayout([1, 4], [4, 8], [8, 1], [1, 0])


def compiled(kernel: Any, *constants: Any, num_warps: int = 4) -> Function:
    """A copy of the thread IR, to be changed; what the assembler says of faults is looked at elsewhere."""
    given = ("*fp16:16", "*fp16:16", "*fp32:16", *constants)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceWarning)
        function = glueball.compile_only(kernel, *given, target="sm_90a", num_warps=num_warps).thread
    return copy.deepcopy(function, {id(record): record for record in INSTRUCTIONS.values()})


def execute(function: Function, schedule: str = "in_order", rows: int = 64, blocks: int = 1) -> np.ndarray:
    a, b, out = whole((rows, 64), np.float16), whole((64, 64), np.float16, 1), np.zeros((rows, 64), np.float32)
    sim.run(function, TARGET, (blocks, 1, 1), [a, b, out], schedule=schedule, seed=5)
    return out


def line_of(kernel: Any, text: str) -> int:
    """The line of the file on which a kernel's text stands, alone."""
    lines, first = inspect.getsourcelines(kernel.fn)
    (found,) = (number for number, line in enumerate(lines, first) if text in line)
    return found


def without(function: Function, name: str, after: str | None = None) -> Function:
    """The function without the first instruction of a name, or the first one behind one of another name."""
    started = after is None

    def remove(region: Region) -> bool:
        nonlocal started
        for index, instruction in enumerate(region.instructions):
            started = started or instruction.record.name == after
            if started and instruction.record.name == name:
                del region.instructions[index]
                return True
            if any(remove(inner) for inner in instruction.regions):
                return True
        return False

    assert remove(function.body)
    return function


@glueball.jit
def sound(a, b, out, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr, ROWS: gl.constexpr):
    x = operand(a, ROWS, 64, P, S, False)
    y = operand(b, 64, 64, P, S, False)
    total = warpgroup_mma(x, y, gl.zeros([ROWS, 64], gl.float32, L), is_async=True)
    total = warpgroup_mma_wait(0, deps=(total,))
    x.store(gl.full([ROWS, 64], 1, gl.float16, P))
    gl.store(out + places(ROWS, 64, L), total + gl.sum(gl.sum(x.load(P), 1), 0).to(gl.float32) * 0)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_sound_program(schedule: str) -> None:
    a, b = whole((64, 64), np.float16), whole((64, 64), np.float16, 1)
    out = execute(compiled(sound, SQUARE, WIDE, SWIZZLED, 64), schedule, blocks=3)
    np.testing.assert_array_equal(out, product(a, b, None, np.float32))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_missing_fence(schedule: str) -> None:
    function = without(compiled(sound, SQUARE, WIDE, SWIZZLED, 64), "fence_proxy_async")
    with pytest.raises(ProxyFenceError, match="missing fence_async_shared"):
        execute(function, schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_missing_barrier_before_the_product(schedule: str) -> None:
    function = without(compiled(sound, SQUARE, WIDE, SWIZZLED, 64), "barrier")
    with pytest.raises(SharedMemoryRaceError):
        execute(function, schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_another_warp_group_may_still_read(schedule: str) -> None:
    """One group's wait says nothing of what the other one reads, so a barrier stands between; of one there is none."""
    function = compiled(sound, GROUPS, TALL, SWIZZLED, 128, num_warps=8)
    execute(function, schedule, rows=128)
    with pytest.raises(SharedMemoryRaceError) as caught:
        execute(without(function, "barrier", after="warpgroup_wait"), schedule, rows=128)
    assert caught.value.details["other"].line == line_of(sound, "warpgroup_mma(")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_wait_at_all(schedule: str) -> None:
    function = compiled(unwaited, SQUARE, WIDE, SWIZZLED)
    with pytest.raises(PendingAtExitError, match="there is no wait for it") as caught:
        execute(function, schedule)
    assert caught.value.location.line == line_of(unwaited, "warpgroup_mma(")


@glueball.jit
def unwaited(a, b, out, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    x = operand(a, 64, 64, P, S, False)
    y = operand(b, 64, 64, P, S, False)
    warpgroup_mma(x, y, gl.zeros([64, 64], gl.float32, L), is_async=True)


@glueball.jit
def waits_for_too_few(a, b, out, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    x = operand(a, 64, 64, P, S, False)
    y = operand(b, 64, 64, P, S, False)
    total = warpgroup_mma(x, y, gl.zeros([64, 64], gl.float32, L), is_async=True)
    total = warpgroup_mma_wait(1, deps=(total,))
    gl.store(out + places(64, 64, L), total * 2)
    warpgroup_mma_wait(0, deps=(total,))


@glueball.jit
def uses_what_is_no_result(a, b, out, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    x = operand(a, 64, 64, P, S, False)
    y = operand(b, 64, 64, P, S, False)
    total = warpgroup_mma(x, y, gl.zeros([64, 64], gl.float32, L), is_async=True)
    total = warpgroup_mma_wait(1, deps=(total,))
    warpgroup_mma_wait(0, deps=(x, total))
    gl.store(out + places(64, 64, L), total)


@glueball.jit
def refills(a, b, out, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    x = operand(a, 64, 64, P, S, False)
    y = operand(b, 64, 64, P, S, False)
    total = warpgroup_mma(x, y, gl.zeros([64, 64], gl.float32, L), is_async=True)
    y.store(gl.full([64, 64], 0, gl.float16, P))
    gl.store(out + places(64, 64, L), warpgroup_mma_wait(0, deps=(total,)))


@glueball.jit
def refills_too_early(a, b, out, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    x = operand(a, 64, 64, P, S, False)
    y = operand(b, 64, 64, P, S, False)
    total = warpgroup_mma(x, y, gl.zeros([64, 64], gl.float32, L), is_async=True)
    total = warpgroup_mma_wait(1, deps=(total,))
    y.store(gl.full([64, 64], 0, gl.float16, P))
    gl.store(out + places(64, 64, L), warpgroup_mma_wait(0, deps=(total,)))


@glueball.jit
def reads_nothing(a, b, out, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    x = operand(a, 64, 64, P, S, False)
    y = gl.allocate_shared_memory(gl.float16, [64, 64], S)
    gl.store(out + places(64, 64, L), warpgroup_mma(x, y, gl.zeros([64, 64], gl.float32, L)))


@glueball.jit
def adds_early(a, b, out, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    """The accumulators of a loop are used before the wait that follows it."""
    x = operand(a, 64, 64, P, S, False)
    y = operand(b, 64, 64, P, S, False)
    total = gl.zeros([64, 64], gl.float32, L)
    largest = gl.zeros([64, 64], gl.float32, L)
    for _ in range(3):
        total = warpgroup_mma(x, y, total, is_async=True)
        total = warpgroup_mma_wait(1, deps=(total,))
        largest = gl.maximum(largest, total)
    total = warpgroup_mma_wait(0, deps=(total,))
    gl.store(out + places(64, 64, L), total + largest)


FAULTS: list[tuple[Any, type[SimulationError], str, str, str]] = [
    (waits_for_too_few, WaitCountError, "leaves the latest 1 groups in flight", "total * 2", "warpgroup_mma("),
    (uses_what_is_no_result, ReadBeforeWaitError, "use the result of warpgroup_mma_wait", "gl.store", "warpgroup_mma("),
    (refills, OverwriteInFlightError, "Pending access type: warpgroup_mma operand read", "y.store", "warpgroup_mma("),
    (refills_too_early, WaitCountError, "Pending access type: warpgroup_mma operand read", "y.store", "warpgroup_mma("),
    (adds_early, WaitCountError, "an accumulator is used before", "gl.maximum", "warpgroup_mma("),
]  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("kernel", "error", "message", "line", "other"), FAULTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_faults(kernel: Any, error: type[SimulationError], message: str, line: str, other: str, schedule: str) -> None:
    with pytest.raises(error, match=message) as caught:
        execute(compiled(kernel, SQUARE, WIDE, SWIZZLED), schedule)
    assert type(caught.value) is error
    assert caught.value.location.line == line_of(kernel, line)
    assert caught.value.details["other"].line == line_of(kernel, other)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_was_never_written(schedule: str) -> None:
    with pytest.raises(UninitializedReadError, match="never written") as caught:
        execute(compiled(reads_nothing, SQUARE, WIDE, SWIZZLED), schedule)
    assert caught.value.location.line == line_of(reads_nothing, "warpgroup_mma(")


@glueball.jit
def masked(a, b, out, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr, ROWS: gl.constexpr):
    """Rows that were not loaded are multiplied, and perhaps not stored."""
    at = places(64, 64, P)
    x = gl.allocate_shared_memory(gl.float16, [64, 64], S, gl.load(a + at, mask=at < 40 * 64))
    y = operand(b, 64, 64, P, S, False)
    total = warpgroup_mma(x, y, gl.zeros([64, 64], gl.float32, L))
    to = places(64, 64, L)
    gl.store(out + to, total, mask=to < ROWS * 64)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_undefined_rows_stay_in_their_rows(schedule: str) -> None:
    a, b = whole((64, 64), np.float16), whole((64, 64), np.float16, 1)
    out = execute(compiled(masked, SQUARE, WIDE, SWIZZLED, 40), schedule)
    np.testing.assert_array_equal(out[:40], product(a, b, None, np.float32)[:40])
    with pytest.raises(UninitializedReadError, match="masked off without `other`"):
        execute(compiled(masked, SQUARE, WIDE, SWIZZLED, 41), schedule)


@glueball.jit
def producer(x, b, ready, free, n, P: gl.constexpr):
    for i in range(n):
        mbarrier.wait(free, (i & 1) ^ 1)
        x.store(gl.load(b + places(64, 64, P)) + i.to(gl.float16))
        fence_async_shared()
        mbarrier.arrive(ready)


@glueball.jit
def consumer(x, y, out, ready, free, n, L: gl.constexpr, PENDING: gl.constexpr):
    total = gl.zeros([64, 64], gl.float32, L)
    for i in range(n):
        mbarrier.wait(ready, i & 1)
        total = warpgroup_mma(x, y, total, is_async=True)
        total = warpgroup_mma_wait(PENDING, deps=(total,))
        mbarrier.arrive(free)
    gl.store(out + places(64, 64, L), warpgroup_mma_wait(0, deps=(total,)))


@glueball.jit
def specialized(a, b, out, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr, PENDING: gl.constexpr):
    """One partition fills the first matrix again and again, the other one multiplies."""
    x = gl.allocate_shared_memory(gl.float16, [64, 64], S)
    y = operand(b, 64, 64, P, S, False)
    fence_async_shared()
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(ready, count=1)
    mbarrier.init(free, count=1)
    gl.warp_specialize(
        [(consumer, (x, y, out, ready, free, 3, L, PENDING)), (producer, (x, a, ready, free, 3, P))], [4]
    )
    mbarrier.invalidate(ready)
    mbarrier.invalidate(free)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_partitions(schedule: str) -> None:
    """The wait for a product and the arrival after it order its reads before what another partition stores."""
    a, b = whole((64, 64), np.float16), whole((64, 64), np.float16, 1)
    out = execute(compiled(specialized, SQUARE, WIDE, SWIZZLED, 0), schedule)
    np.testing.assert_array_equal(out, product(3 * a + 3, b, None, np.float32))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_matrix_is_refilled_while_it_is_read(schedule: str) -> None:
    """The consumer says that the matrix is free before its product is done."""
    with pytest.raises(WaitCountError, match="warpgroup_mma operand read") as caught:
        execute(compiled(specialized, SQUARE, WIDE, SWIZZLED, 1), schedule)
    assert caught.value.location.line == line_of(producer, "x.store")
    assert caught.value.details["other"].line == line_of(consumer, "warpgroup_mma(")
