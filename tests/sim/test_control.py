"""Structured control flow with masks per block and per lane, shuffles, schedules."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pytest

from glueball.errors import DeadlockError, SimulationError, TargetError, UninitializedReadError
from glueball.sim import run
from glueball.sim.scheduler import MOST_AT_ONCE, SCHEDULES, Context, Pause, Scheduler, Wait, run_contexts
from glueball.targets import TARGETS
from tests.sim.kernels import Kernel


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_trip_counts_differ_between_blocks(schedule: str) -> None:
    kernel = Kernel(2)
    y, scale = kernel.pointer("y"), kernel.scalar("scale")
    total, last = kernel.loop(
        kernel.i32(1),
        kernel.mul(kernel.program_id(0), scale),
        kernel.i32(2),
        [kernel.thread(), kernel.i32(-7)],
        lambda index, total, last: (kernel.add(total, index), kernel.add(index, kernel.i32(100))),
    )
    place = kernel.place(64)
    kernel.store(kernel.address(y, place), kernel.add(total, kernel.mul(last, kernel.i32(10_000))), kind="i32")
    out = np.zeros((20, 64), np.int32)
    kernel.run((20,), out, 3, schedule=schedule)
    for block in range(20):
        steps = range(1, 3 * block, 2)
        expected = np.arange(64) + sum(steps) + 10_000 * (steps[-1] + 100 if steps else -7)
        assert (out[block] == expected).all()


def test_trip_counts_differ_between_lanes_and_steps_may_be_negative() -> None:
    kernel = Kernel()
    y = kernel.pointer("y")
    lane = kernel.lane()
    (total,) = kernel.loop(
        kernel.add(lane, kernel.i32(3)), kernel.i32(0), kernel.i32(-4), [kernel.i32(0)],
        lambda index, total: (kernel.add(total, index),), negative=True,
    )  # fmt: skip
    kernel.store(kernel.address(y, lane), total, kind="i32")
    out = np.zeros(32, np.int32)
    kernel.run((1,), out)
    assert out.tolist() == [sum(range(lane + 3, 0, -4)) for lane in range(32)]


def test_nested_loops_with_uniform_bounds_count_their_instructions() -> None:
    kernel = Kernel(4)
    y, n = kernel.pointer("y"), kernel.scalar("n")

    def outer(row: object, total: object) -> tuple[object, ...]:
        return kernel.loop(0, n, 1, [total], lambda column, inner: (kernel.add(inner, column),))  # type: ignore[list-item,arg-type]

    (total,) = kernel.loop(0, n, 1, [kernel.i32(0)], outer)
    kernel.store(kernel.address(y, kernel.thread()), total, kind="i32")
    out = np.zeros(128, np.int32)
    report = kernel.run((1,), out, 5)
    assert (out == 5 * 10).all()
    assert report.instructions[2].name == "add"
    assert report.instructions[2].issued == 25 * 4


def test_loop_that_never_ends_is_told() -> None:
    kernel = Kernel()
    step = kernel.scalar("step")
    kernel.at(9)
    kernel.loop(kernel.i32(0), kernel.i32(4), step, [], lambda index: ())
    kernel.run((1,), 1)
    with pytest.raises(SimulationError, match="step is not positive") as caught:
        kernel.run((1,), 0)
    assert caught.value.location is not None
    assert caught.value.location.line == 9


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_while_runs_each_lane_as_long_as_it_must(schedule: str) -> None:
    """Steps until `3 n + 1` reaches 1."""
    kernel = Kernel()
    y = kernel.pointer("y")
    start = kernel.add(kernel.place(32), kernel.i32(1))

    def body(number: object, steps: object) -> tuple[object, ...]:
        odd = kernel.do("compare_signed", kernel.do("and", number, 1), 1, predicate="eq")  # type: ignore[arg-type]
        (after,) = kernel.choose(
            odd,
            lambda: (kernel.add(kernel.mul(number, kernel.i32(3)), kernel.i32(1)),),  # type: ignore[arg-type]
            lambda: (kernel.shift_right(number, 1),),  # type: ignore[arg-type]
            ["i32"],
        )
        return after, kernel.add(steps, kernel.i32(1))  # type: ignore[arg-type]

    _, steps = kernel.spin([start, kernel.i32(0)], lambda number, _: kernel.less(kernel.i32(1), number), body)
    kernel.store(kernel.address(y, kernel.place(32)), steps, kind="i32")
    out = np.zeros(100 * 32, np.int32)
    kernel.run((100,), out, schedule=schedule, seed=1)

    def count(number: int) -> int:
        steps = 0
        while number > 1:
            number, steps = (3 * number + 1 if number % 2 else number // 2), steps + 1
        return steps

    assert out.tolist() == [count(number + 1) for number in range(3200)]


def test_if_merges_and_skips_untaken_branches() -> None:
    kernel = Kernel(2)
    x, y = kernel.pointer("x"), kernel.pointer("y")
    thread = kernel.thread()
    (value,) = kernel.choose(
        kernel.less(thread, 40),
        lambda: (kernel.load(kernel.address(x, thread)),),
        lambda: (kernel.constant("f32", -1.0),),
        ["f32"],
    )
    with kernel.when(kernel.less(kernel.program_id(0), 0)):
        kernel.load(kernel.address(x, 1 << 20))
    kernel.store(kernel.address(y, kernel.place(64)), value)
    x_array, out = np.arange(40, dtype=np.float32), np.zeros((3, 64), np.float32)
    report = kernel.run((3,), x_array, out)
    assert (out[:, :40] == x_array).all()
    assert (out[:, 40:] == -1).all()
    assert report.global_loads.requests == 3 * 2
    assert [entry.issued for entry in report.instructions if entry.name == "global_load"] == [6, 0]


def test_branches_taken_by_whole_blocks() -> None:
    kernel = Kernel()
    y = kernel.pointer("y")
    early = kernel.less(kernel.program_id(0), 3)
    values = kernel.choose(
        early,
        lambda: (kernel.program_id(0), kernel.lane()),
        lambda: (kernel.i32(50), kernel.program_id(0)),
        ["i32", "i32"],
    )
    kernel.store(kernel.address(y, kernel.place(32)), kernel.add(*values), kind="i32")
    out = np.zeros((6, 32), np.int32)
    kernel.run((6,), out)
    lanes = np.arange(32)
    expected = [program + lanes if program < 3 else 50 + program + 0 * lanes for program in range(6)]
    assert (out == np.stack(expected)).all()


@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
@pytest.mark.parametrize("pattern", ["xor", "rotate", "broadcast", "per warp"])
def test_shuffle_exchanges_within_a_warp(target: str, pattern: str) -> None:
    kernel = Kernel(2, target)
    lanes = TARGETS[target].lanes
    y = kernel.pointer("y")
    lane = kernel.lane()
    source = {
        "xor": kernel.do("xor", lane, 5),
        "rotate": kernel.add(lane, kernel.i32(3)),
        "broadcast": kernel.i32(7),
        "per warp": kernel.add(lane, kernel.do("warp_id")),
    }[pattern]
    value = kernel.mul(kernel.place(kernel.threads), kernel.i32(3))
    moved = kernel.do("shuffle", value, source)
    kernel.store(kernel.address(y, kernel.place(kernel.threads)), moved, kind="i32")
    out = np.zeros((3, 2, lanes), np.int32)
    report = kernel.run((3,), out)
    index = np.arange(lanes)
    values = 3 * np.arange(out.size).reshape(out.shape)
    for warp in range(2):
        sources = {"xor": index ^ 5, "rotate": index + 3, "broadcast": index * 0 + 7, "per warp": index + warp}[pattern]
        assert (out[:, warp] == values[:, warp, sources % lanes]).all()
    assert report.shuffles == 6


@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize(("mask", "distance"), [(31, 1), (31, 16), (12, 4), (12, 8), (16, 16)])
def test_shift_takes_from_so_many_lanes_before(mask: int, distance: int, reverse: bool, target: str) -> None:
    kernel = Kernel(2, target)
    lanes = TARGETS[target].lanes
    moved, present = kernel.pointer("moved"), kernel.pointer("present")
    place = kernel.place(kernel.threads)
    value = kernel.mul(place, kernel.i32(3))
    word, there = kernel.do("shift", value, mask=mask, distance=distance, reverse=reverse)
    kernel.store(kernel.address(moved, place), word, kind="i32")
    kernel.store(kernel.address(present, place), kernel.do("select", there, kernel.i32(1), kernel.i32(0)), kind="i32")
    words, found = np.zeros((3, 2, lanes), np.int32), np.zeros((3, 2, lanes), np.int32)
    kernel.run((3,), words, found)
    index = np.arange(lanes)
    inside = (index & mask) <= mask - distance if reverse else (index & mask) >= distance
    source = np.where(inside, index + distance if reverse else index - distance, index)
    assert (found == inside).all()
    assert (words == (3 * np.arange(words.size).reshape(words.shape))[..., source]).all()


def test_shuffle_from_an_inactive_lane_is_a_fault() -> None:
    kernel = Kernel()
    lane, n = kernel.lane(), kernel.scalar("n")
    with kernel.when(kernel.less(lane, 16)):
        kernel.at(8)
        kernel.do("shuffle", lane, kernel.do("and", kernel.add(lane, n), 15))
        kernel.do("shuffle", lane, kernel.add(lane, n))
    kernel.run((1,), 0)
    with pytest.raises(UninitializedReadError, match="does not take part") as caught:
        kernel.run((1,), 1)
    assert caught.value.details["lane"] == 15


def test_barrier_that_some_threads_miss_is_a_deadlock() -> None:
    kernel = Kernel(2)
    n = kernel.scalar("n")
    with kernel.when(kernel.less(kernel.thread(), n)):
        kernel.at(12)
        kernel.do("barrier")
    assert kernel.run((4,), 64).barriers == 8
    assert kernel.run((4,), 0).barriers == 0
    with pytest.raises(DeadlockError, match="warp 1, lane 0") as caught:
        kernel.run((4,), 32)
    assert caught.value.location is not None
    assert caught.value.location.line == 12


def test_target_must_fit() -> None:
    kernel = Kernel()
    kernel.do("commit_group")
    with pytest.raises(TargetError, match="lanes"):
        run(kernel.function, TARGETS["gfx950"], (1,), [])
    with pytest.raises(TargetError, match="has no `commit_group`"):
        run(kernel.function, TARGETS["gfx1250"], (1,), [])


def contexts(log: list[str], waits: dict[str, list[object]]) -> list[Context]:
    def body(name: str) -> object:
        for wait in waits[name]:
            yield wait
            log.append(name)

    return [Context(name, lambda name=name: body(name)) for name in waits]  # type: ignore[misc]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_contexts_wait_for_one_another(schedule: str) -> None:
    log: list[str] = []
    waits: dict[str, list[object]] = {
        "a": [lambda: log.count("c") == 2],
        "b": [lambda: "a" in log, Pause.POLLING],
        "c": [Pause.READY, Pause.POLLING],
    }
    run_contexts(contexts(log, waits), schedule, np.random.default_rng(0))
    assert sorted(log) == ["a", "b", "b", "c", "c"]
    assert log.index("a") < log.index("b")
    assert [name for name in log if name != "b"] == ["c", "c", "a"]


def test_orders_of_the_schedules() -> None:
    def order(schedule: str, seed: int, pause: Pause) -> str:
        log: list[str] = []
        waits: dict[str, list[object]] = {name: [pause, pause] for name in "abc"}
        run_contexts(contexts(log, waits), schedule, np.random.default_rng(seed))
        return "".join(log)

    assert order("in_order", 0, Pause.READY) == "aabbcc"
    assert order("in_order", 0, Pause.POLLING) == "abcabc"
    assert order("late", 0, Pause.READY) == "ccbbaa"
    assert order("late", 0, Pause.POLLING) == "cbacba"
    assert len({order("random", seed, Pause.READY) for seed in range(10)}) > 3
    assert order("random", 4, Pause.READY) == order("random", 4, Pause.READY)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_all_waiting_is_a_deadlock(schedule: str) -> None:
    log: list[str] = []
    waits: dict[str, list[object]] = {"a": [lambda: "b" in log], "b": [lambda: "a" in log], "c": [Pause.READY]}
    with pytest.raises(DeadlockError, match="waits"):
        run_contexts(contexts(log, waits), schedule, np.random.default_rng(0))
    assert log == ["c"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_work_takes_effect_before_too_many_contexts_are_under_way(schedule: str) -> None:
    scheduler = Scheduler(schedule, np.random.default_rng(0))
    under_way: list[int] = []
    most = 0

    class Work:
        done = False

        def land(self) -> bool:
            self.done = True
            return True

    def start(number: int) -> Generator[Wait, None, None]:
        nonlocal most
        under_way.append(number)
        most = max(most, len(under_way))
        work = Work()
        scheduler.later(work)
        yield lambda: work.done
        under_way.remove(number)

    scheduler.run(Context(f"{number}", lambda number=number: start(number)) for number in range(100))  # type: ignore[misc]
    assert not under_way
    assert most == {"in_order": 1, "late": MOST_AT_ONCE}.get(schedule, most)
    assert most <= MOST_AT_ONCE


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_block_may_wait_for_a_flag_of_another_context(schedule: str) -> None:
    """Sixteen warps a block and 200 blocks make several contexts; the last ones wait for a flag of the first."""
    kernel = Kernel(16)
    flag, y, sets = kernel.pointer("flag"), kernel.pointer("y"), kernel.scalar("sets")
    is_setter = kernel.less(kernel.program_id(0), sets)
    with kernel.when(is_setter):
        kernel.store(kernel.address(flag, 0), kernel.i32(1), kind="i32")
    waits = kernel.less(kernel.add(sets, kernel.i32(170)), kernel.program_id(0))
    with kernel.when(waits):
        kernel.spin(
            [kernel.i32(0)],
            lambda seen: kernel.do("compare_signed", seen, 0, predicate="eq"),
            lambda _: (kernel.load(kernel.address(flag, 0), kind="i32", volatile=True),),
        )
    kernel.store(kernel.address(y, kernel.program_id(0)), kernel.i32(1), kind="i32")
    out = np.zeros(200, np.int32)
    kernel.run((200,), np.zeros(1, np.int32), out, 1, schedule=schedule)
    assert out.all()
