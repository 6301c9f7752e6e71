"""Timing: statistics, the host's clock where there is no GPU, the driver's events on a fake one, real ones on a GPU."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import glueball
from glueball.errors import DriverError, OptionError
from glueball.runtime import timing
from glueball.runtime.timing import DriverClock, HostClock, Measurement
from glueball.testing import do_bench, do_bench_cudagraph, do_bench_proton, measure
from tests.runtime.fake_gpu import FakeDriver, fake_gpu

TIMES = (4.0, 1.0, 3.0, 2.0, 10.0)
FASTEST_MEMORY = 20
"""Terabytes a second that no GPU's memory reaches: a time that says so is not a copy's."""


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")


def test_statistics_of_a_measurement() -> None:
    found = Measurement(TIMES, "a clock")
    assert (found.median, found.mean) == (3.0, 4.0)
    assert [found.quantile(fraction) for fraction in (0, 0.25, 0.5, 0.6, 1)] == [1, 2, 3, 3.4, 10]
    assert found.confidence_interval() == (1.0, 10.0)
    for wrong in (-0.1, 1.5):
        with pytest.raises(ValueError, match="fraction from 0 to 1"):
            found.quantile(wrong)
    with pytest.raises(ValueError, match="between 0 and 1"):
        found.confidence_interval(1)


@pytest.mark.parametrize(("level", "runs"), [(0.95, 30), (0.8, 101)])
def test_the_confidence_interval_holds_the_true_median_as_often_as_it_says(level: float, runs: int) -> None:
    generator, truth, inside = random.Random(1), math.log(2), 0
    for _ in range(1000):
        sample = Measurement(tuple(generator.expovariate(1) for _ in range(runs)), "made up")
        low, high = sample.confidence_interval(level)
        inside += low <= truth <= high
    assert level - 0.01 < inside / 1000 < level + 0.06


@pytest.mark.parametrize(
    ("mode", "expected"), [("min", 1.0), ("max", 10.0), ("mean", 4.0), ("median", 3.0), ("all", list(TIMES))]
)
def test_return_modes(mode: str, expected: object) -> None:
    assert timing.summarize(Measurement(TIMES, ""), None, mode) == expected


def test_quantiles_come_as_a_list_and_one_as_a_number() -> None:
    assert timing.summarize(Measurement(TIMES, ""), (0.5, 0.25, 1.0), "mean") == [3.0, 2.0, 10.0]
    assert timing.summarize(Measurement(TIMES, ""), [0.5], "mean") == 3.0


@pytest.mark.parametrize("bench", [do_bench, do_bench_cudagraph])
def test_an_unknown_mode_is_refused_before_anything_runs(bench: Callable[..., Any]) -> None:
    with pytest.raises(OptionError, match="must be one of min, max, mean, median, all"):
        bench(lambda: pytest.fail("ran"), return_mode="average")


@pytest.mark.usefixtures("on_host")
def test_a_callable_on_the_host_is_timed_by_the_hosts_clock_which_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    timing._say_host_clock.cache_clear()
    found = measure(lambda: time.sleep(0.004), warmup=8, rep=40)
    assert found.clock == "host clock"
    assert found.median >= 4
    assert 1 <= len(found.times) <= 10
    assert do_bench(lambda: time.sleep(0.004), warmup=1, rep=8) >= 4
    assert do_bench_cudagraph(lambda: time.sleep(0.004), rep=8, return_mode="min") >= 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "GLUEBALL_EXECUTOR=sim; times are the host clock's" in line


@pytest.mark.usefixtures("on_host")
def test_gradients_are_forgotten_before_each_run_that_counts() -> None:
    class Tensor:
        grad: object = "old"

    tensor, seen = Tensor(), []

    def run() -> None:
        seen.append(tensor.grad)
        tensor.grad = "new"

    do_bench(run, warmup=0, rep=0.001, grad_to_none=[tensor])
    assert seen[0] == "old"
    assert seen[-1] is None
    assert "new" in seen


def test_without_a_gpu_asking_for_one_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "gpu")
    monkeypatch.setattr(timing, "cuda_available", lambda: glueball.drivers.cuda.Availability(False, "none is here"))
    monkeypatch.setitem(timing.sys.modules, "torch", None)
    with pytest.raises(DriverError, match="no GPU to time on: none is here"):
        do_bench(lambda: None)


def test_profiler_variants_name_what_they_would_need() -> None:
    with pytest.raises(NotImplementedError, match="Proton"):
        do_bench_proton(lambda: None)


class EventDriver(FakeDriver):
    """Events that read a clock which only `work` moves, and memory that is only counted."""

    now = 0.0
    flushes = 0

    def call(self, _: str, name: str, *arguments: Any) -> Any:
        if name == "cuEventCreate":
            return [0.0]
        if name == "cuEventRecord":
            arguments[0][0] = self.now
        elif name == "cuEventElapsedTime":
            return arguments[1][0] - arguments[0][0]
        elif name == "cuMemsetD8Async":
            self.flushes += 1
            self.now += 7
        elif name == "cuMemAlloc":
            assert arguments == (timing.FLUSHED_BYTES,)
            return 4096
        return None

    def activated(self, _: int) -> Any:
        import contextlib

        return contextlib.nullcontext()


@pytest.fixture
def event_driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[EventDriver]:
    monkeypatch.delenv("GLUEBALL_EXECUTOR", raising=False)
    monkeypatch.setitem(timing.sys.modules, "torch", None)
    monkeypatch.setattr("tests.runtime.fake_gpu.FakeDriver", EventDriver)
    with fake_gpu(monkeypatch) as driver:
        assert isinstance(driver, EventDriver)
        monkeypatch.setattr("glueball.drivers.device_memory.cuda_driver", lambda: driver)
        yield driver


def test_events_of_the_driver_count_the_work_and_not_the_flush(event_driver: EventDriver) -> None:
    assert isinstance(timing._clock(), DriverClock)
    runs = 0

    def work() -> None:
        nonlocal runs
        runs += 1
        event_driver.now += 0.5

    found = measure(work, warmup=2, rep=4)
    assert found == Measurement((0.5,) * 8, "events of Device 0")
    assert event_driver.flushes == 8
    assert runs == 1 + 5 + 4 + 8


def test_a_graph_is_captured_through_torch(event_driver: EventDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install torch"):
        do_bench_cudagraph(lambda: None)


@pytest.mark.gpu
@pytest.mark.torch
def test_times_of_a_copy_on_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    x = torch.empty(1 << 28, dtype=torch.int8, device="cuda")
    y = torch.empty_like(x)
    found = measure(lambda: y.copy_(x))
    low, high = found.confidence_interval()
    assert found.clock.startswith("events of ")
    assert 2 * x.numel() / found.median * 1e-9 < FASTEST_MEMORY, "TB/s"
    assert low <= found.median <= high
    in_graph = do_bench_cudagraph(lambda: y.copy_(x), return_mode="median")
    assert 2 * x.numel() / in_graph * 1e-9 < FASTEST_MEMORY, "TB/s"


@pytest.mark.gpu
def test_times_of_a_copy_on_a_gpu_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    from glueball.drivers.device_memory import empty

    monkeypatch.setitem(timing.sys.modules, "torch", None)
    x, y = empty((1 << 28,), "int8"), empty((1 << 28,), "int8")
    found = measure(lambda: y.copy_from(x))
    assert not isinstance(timing._clock(), HostClock)
    assert 2 * x.size / found.median * 1e-9 < FASTEST_MEMORY, "TB/s"
