"""Simulations without the sanitizer: the same numbers and counts, bounds and deadlocks still errors, and said to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import DeadlockError, OutOfBoundsError, SharedMemoryRaceError, SimulationError
from glueball.kernels.cluster_rows import ClusterRowPlan, launch_softmax_split
from glueball.kernels.ladder import RUNGS, Launch, tensors
from glueball.runtime import host
from glueball.sim import Report
from glueball.sim.clocks import Clocks
from glueball.sim.footprints import Footprint, accessed
from glueball.sim.scheduler import SCHEDULES
from glueball.sim.shadow import Shadow
from glueball.sim.transfers import Transfers
from glueball.sim.unchecked import NoClocks, NoShadow, NoTransfers
from tests.sim.asynchronous_kernels import AsynchronousKernel, aligned, describe
from tests.sim.faulty_kernels import KERNELS, numbers
from tests.sim.kernels import Kernel

LINE = gl.BlockedLayout([1], [32], [1], [0])


def rung(name: str, rows: int, columns: int) -> Launch:
    """A rung of the copy ladder on small exact numbers."""
    (found,) = (each for each in RUNGS if each.name == name)
    return found.launch(*tensors(found.view, lambda shape: numbers(shape, np.float32), rows, columns), 32)


def shared_rows() -> Launch:
    """Rows that clusters share."""
    x, y = numbers((3, 4096), np.float32), numbers((3, 4096), np.float32)
    return launch_softmax_split(x, y, ClusterRowPlan(4, 4, 1, 1))


LAUNCHES: dict[str, Callable[[], Launch]] = {
    **KERNELS,
    **{f"copy {each.name}": lambda name=each.name: rung(name, 128, 160) for each in RUNGS if each.name != "a"},
    "copy of an odd shape": lambda: rung("f-converted", 131, 157),
    "softmax of clusters": shared_rows,
}


def simulated(
    make: Callable[[], Launch], monkeypatch: pytest.MonkeyPatch, sanitize: bool
) -> tuple[Report, list[bytes]]:
    """What a launch counted, and what its arrays hold after it."""
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")
    monkeypatch.setenv("GLUEBALL_SANITIZE", str(int(sanitize)))
    launch = make()
    report = launch.run().report
    arrays = (getattr(argument, "base", None) for argument in launch.arguments)
    given = [*launch.arguments, *arrays]
    return report, [each.tobytes() for each in given if isinstance(each, np.ndarray)]


@pytest.mark.parametrize("name", LAUNCHES)
def test_numbers_and_counts_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checked, expected = simulated(LAUNCHES[name], monkeypatch, True)
    plain, found = simulated(LAUNCHES[name], monkeypatch, False)
    assert found == expected
    assert (checked.checked, plain.checked) == (True, False)
    counts = [[(each.name, each.issued, each.counts) for each in report.instructions] for report in (checked, plain)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", ["add partitions", "product v8", "softmax held", "softmax of clusters"])
def test_schedules(name: str, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_SCHEDULE", schedule)
    monkeypatch.setenv("GLUEBALL_SEED", "3")
    test_numbers_and_counts_are_the_same(name, monkeypatch)


def exchanged() -> Kernel:
    """Two warps read what the other one has stored, with no barrier between."""
    kernel = Kernel(2)
    kernel.allocate("buffer", 256)
    x, y = kernel.pointer("x"), kernel.pointer("y")
    place = kernel.mul(kernel.thread(), kernel.i32(4))
    kernel.store(place, kernel.load(kernel.address(x, kernel.thread())), space="shared", allocation="buffer")
    other = kernel.do("xor", place, 128)
    kernel.store(kernel.address(y, kernel.thread()), kernel.load(other, space="shared", allocation="buffer"))
    return kernel


def test_a_race_goes_unseen_and_the_report_does_not_look_clean() -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    with pytest.raises(SharedMemoryRaceError):
        exchanged().run((1,), x, y)
    report = exchanged().run((1,), x, y, sanitize=False)
    assert not report.checked
    assert y.tolist() == np.roll(x, 32).tolist()


@glueball.jit
def negated(x, y, n, layout: gl.constexpr):
    i = gl.arange(0, 32, layout)
    gl.store(y + i, -gl.load(x + i, mask=i < n), mask=i < n)


def test_an_unchecked_launch_is_said_to_be_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GLUEBALL_SANITIZE", "0")
    host._say_unchecked.cache_clear()
    x, y = np.ones(32, np.int32), np.zeros(32, np.int32)
    for _ in range(2):
        assert not negated[(1,)](x, y, 20, LINE, num_warps=1).report.checked
    assert capsys.readouterr().err.count("GLUEBALL_SANITIZE=0: ") == 1
    assert y.sum() == -20


def test_checks_of_overflow_know_what_is_undefined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements that were not loaded may be the least integer, whose negation does not fit."""
    monkeypatch.setenv("GLUEBALL_SANITIZE", "0")
    x, y = np.full(32, -(2**31), np.int32), np.zeros(32, np.int32)
    x[1:20] = 1
    assert negated[(1,)](x[1:], y, 19, LINE, num_warps=1, debug=True).report.checked
    assert y.sum() == -19


def wild(space: str, operation: str) -> Kernel:
    """An access far outside."""
    kernel = Kernel()
    kernel.allocate("buffer", 128)
    x = kernel.pointer("x")
    lane = kernel.add(kernel.lane(), kernel.i32(1 << 20))
    place = kernel.address(x, lane) if space == "global" else kernel.mul(lane, kernel.i32(4))
    options: dict[str, Any] = {} if space == "global" else {"allocation": "buffer"}
    if operation == "load":
        kernel.load(place, space=space, **options)
    else:
        kernel.store(place, kernel.constant("f32", 1.0), space=space, **options)
    return kernel


@pytest.mark.parametrize("operation", ["load", "store"])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_accesses_out_of_bounds(space: str, operation: str) -> None:
    with pytest.raises(OutOfBoundsError):
        wild(space, operation).run((1,), np.zeros(32, np.float32), sanitize=False)


def test_an_address_that_was_not_loaded() -> None:
    """Nobody says that it is undefined, and it is within bounds or reported."""
    kernel = Kernel()
    x, y = kernel.pointer("x", "int32"), kernel.pointer("y", "int32")
    index = kernel.load(kernel.address(x, kernel.lane()), kernel.less(0, kernel.lane()), kind="i32")
    kernel.store(kernel.address(y, index), kernel.i32(1), kind="i32")
    with pytest.raises(OutOfBoundsError, match="`y` is written at element 77"):
        kernel.run((1,), np.array([77, *range(1, 32)], np.int32), np.zeros(32, np.int32), sanitize=False)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_deadlocks(schedule: str) -> None:
    """A box that has half the bytes that are announced."""
    kernel = AsynchronousKernel()
    x = kernel.tensor("x", describe(aligned((8, 16), np.float32), (8, 16)).map.type)
    kernel.init(0)
    kernel.expect(0, 1024)
    kernel.load_box(x, 0, [0, 0])
    kernel.wait(0, 0)
    with pytest.raises(DeadlockError, match="0 of 1 arrivals and 512 bytes are missing"):
        kernel.run((1,), describe(aligned((8, 16), np.float32), (8, 16)), sanitize=False, schedule=schedule)


def test_threads_that_never_reach_a_barrier() -> None:
    kernel = Kernel(2)
    with kernel.when(kernel.less(kernel.thread(), 40)):
        kernel.do("barrier")
    with pytest.raises(DeadlockError):
        kernel.run((1,), sanitize=False)


def test_an_mbarrier_that_is_none() -> None:
    kernel = AsynchronousKernel()
    kernel.arrive(0)
    with pytest.raises(SimulationError, match="Barrier used before initialization"):
        kernel.run((1,), sanitize=False)


@pytest.mark.parametrize(("watching", "stand_in", "internal"), [
    (Shadow, NoShadow, {"unknown_load"}),
    (Transfers, NoTransfers, {"check_box"}),
    (Clocks, NoClocks, {"rows", "floors", "all_floors", "widest_floors", "stamps", "times"}),
])  # fmt: skip
def test_stand_ins_are_told_everything(watching: type, stand_in: type, internal: set[str]) -> None:
    """What is not replaced is only for one another."""
    public = {name for name in vars(watching) if not name.startswith("_")}
    assert public - set(vars(stand_in)) == internal


def test_footprints_meet_where_they_have_a_byte_in_common() -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        starts = random.integers(0, 200, random.integers(0, 6))
        pieces = Footprint(starts, starts + random.integers(1, 30, len(starts)))
        others = accessed(random.integers(0, 200, random.integers(0, 4)), int(random.integers(1, 9)))
        bytes_of = [
            {byte for start, end in zip(each.starts, each.ends, strict=True) for byte in range(start, end)}
            for each in (pieces, others)
        ]
        assert pieces.in_order().meets(others) == bool(bytes_of[0] & bytes_of[1])
