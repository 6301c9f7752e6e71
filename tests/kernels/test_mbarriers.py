"""Mbarriers: phases, counts, predicates, reuse of their memory, and what is wrong use of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import BarrierError, CompilationError, DeadlockError, TargetError
from glueball.language.nvidia.ampere import mbarrier as ampere_mbarrier
from glueball.language.nvidia.hopper import mbarrier
from tests.kernels.harness import EXECUTORS, run

LINE = gl.BlockedLayout([1], [32], [4], [0])
SPREAD = gl.DistributedLinearLayout([], [[1 << (6 - i)] for i in range(5)], [[2], [1]], [], [128])
PLAIN = gl.SwizzledSharedLayout(1, 1, 1, [0])
HOST = ["reference", "sim"]


@glueball.jit
def hands_over(x, y, ROUNDS: gl.constexpr, COUNT: gl.constexpr):
    """Each round is a phase: what was stored before the arrivals is read after the wait."""
    place = gl.arange(0, 128, layout=LINE)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=COUNT)
    view = gl.allocate_shared_memory(gl.int32, [128], PLAIN)
    for i in range(ROUNDS):
        view.store(gl.load(x + i * 128 + place))
        mbarrier.arrive(bar, count=COUNT)
        mbarrier.wait(bar, i & 1)
        back = gl.arange(0, 128, layout=SPREAD)
        gl.store(y + i * 128 + back, view.load(SPREAD))
    mbarrier.invalidate(bar)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("rounds", "count"), [(1, 1), (5, 1), (4, 3), (2, (1 << 20) - 1)])
def test_phases(executor: str, rounds: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(128 * rounds, dtype=np.int32)
    y = np.zeros_like(x)
    run(executor, monkeypatch, hands_over[(1,)], x, y, rounds, count)
    np.testing.assert_array_equal(x, y)


@glueball.jit
def counts_arrivals(y, n):
    """The phase is over after three arrivals: those whose predicate holds."""
    bars = mbarrier.allocate_mbarrier(batch=3)
    for i in gl.static_range(3):
        mbarrier.init(bars.index(i), 3)
    bar = bars.index(1)
    mbarrier.arrive(bar, pred=n > 100)
    mbarrier.arrive(bar, pred=False)
    mbarrier.arrive(bar)
    mbarrier.arrive(bar, count=2, pred=n > 0)
    mbarrier.wait(bar, 0)
    mbarrier.wait(bar, 0, pred=n > 0)
    mbarrier.wait(bar, 1, pred=n < 0)
    mbarrier.wait(bars.index(2), phase=1)
    for i in gl.static_range(3):
        mbarrier.invalidate(bars.index(i))
    gl.store(y, n)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_counts_and_predicates(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.zeros(1, np.int32)
    run(executor, monkeypatch, counts_arrivals[(1,)], y, 7)
    assert y[0] == 7


@glueball.jit
def reuses_memory(y):
    """An invalidated word is memory again, or another mbarrier, in phase 0 and with another count."""
    words = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    for i in gl.static_range(3):
        mbarrier.init(words, count=i + 1)
        mbarrier.arrive(words, count=i + 1)
        mbarrier.wait(words, 0)
        mbarrier.invalidate(words)
    place = gl.arange(0, 1, layout=LINE)
    words.store((place + 5).to(gl.int64))
    gl.store(y + place, words.load(LINE))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_memory_is_used_again_after_invalidation(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.zeros(1, np.int64)
    run(executor, monkeypatch, reuses_memory[(1,)], y)
    assert y[0] == 5


@glueball.jit
def once(y):
    bar = ampere_mbarrier.allocate_mbarrier()
    ampere_mbarrier.init(bar, count=1)
    ampere_mbarrier.arrive(bar, pred=True)
    ampere_mbarrier.wait(bar, 0, deps=(bar,))
    ampere_mbarrier.invalidate(bar)
    gl.store(y, 1)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_ampere(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.zeros(1, np.int32)
    run(executor, monkeypatch, once[(1,)], y)
    assert y[0] == 1


def test_waits_by_generation() -> None:
    """Where the hardware suspends waiting threads they try; elsewhere they test and sleep."""
    y = np.zeros(1, np.int32)
    old, new = (glueball.compile_only(once, y, target=name).asm["ptx"] for name in ("sm_80", "sm_90a"))
    assert "mbarrier.test_wait" in old
    assert "nanosleep" in old
    assert "try_wait" not in old
    assert "mbarrier.try_wait.parity" in new
    assert "nanosleep" not in new


@glueball.jit
def announces(y):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, 64)


def test_bytes_need_hopper() -> None:
    with pytest.raises(CompilationError, match=r"`mbarrier\.expect` needs sm_90, and .* sm_80") as caught:
        glueball.compile_only(announces, np.zeros(1, np.int32), target="sm_80")
    assert isinstance(caught.value.__cause__, TargetError)


@glueball.jit
def twice_initialised(y):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.init(bar, count=1)


@glueball.jit
def never_initialised(y):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.arrive(bar)


@glueball.jit
def used_after_its_end(y):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.invalidate(bar)
    mbarrier.wait(bar, 0)


@glueball.jit
def arrives_too_often(y):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=2)
    mbarrier.arrive(bar, count=3)


@glueball.jit
def waits_for_a_third_phase(y):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.wait(bar, gl.load(y))


@pytest.mark.parametrize("executor", HOST)
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (twice_initialised, "re-initialized without prior invalidation"),
        (never_initialised, "used before initialization or after invalidation"),
        (used_after_its_end, "used before initialization or after invalidation"),
        (arrives_too_often, "arrive underflow"),
        (waits_for_a_third_phase, "phase"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_wrong_use(executor: str, kernel: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BarrierError, match=message) as caught:
        run(executor, monkeypatch, kernel[(1,)], np.full(1, 2, np.int32))
    assert caught.value.location is not None
    assert "mbarrier." in caught.value.location.excerpt()


@glueball.jit
def waits_in_vain(y, phase):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=2)
    mbarrier.arrive(bar)
    mbarrier.wait(bar, phase)


@pytest.mark.parametrize("executor", HOST)
def test_deadlock_is_reported(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeadlockError, match=r"waiting on an mbarrier|waits") as caught:
        run(executor, monkeypatch, waits_in_vain[(1,)], np.zeros(1, np.int32), 0)
    assert "mbarrier.wait(bar, phase)" in caught.value.location.excerpt()
