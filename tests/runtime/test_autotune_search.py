"""Searchers, the clock that is used on a GPU, and the progress bar."""

from __future__ import annotations

import importlib.util
import io
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glueball
from glueball.errors import AutotunerError
from glueball.runtime import timing
from glueball.runtime.autotuning import (
    Config,
    ExhaustiveSearch,
    OptunaSearch,
    RandomSearch,
    Searcher,
    SuccessiveHalving,
)
from glueball.runtime.autotuning.benchmark import Benchmark, runs_on_host
from glueball.runtime.autotuning.progress import progress_bar
from tests.runtime.autotune_support import Clock, blocks, choosy, double, programs
from tests.runtime.fake_gpu import DeviceArray, FakeDriver, fake_gpu

SIZES = (32, 64, 128, 256, 512, 1024)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")


class Costs:
    """A `measure` that looks costs up; `calls` are what was asked for."""

    def __init__(self, cost: Callable[[Config], float]) -> None:
        self.cost = cost
        self.calls: list[tuple[int, float]] = []

    def __call__(self, config: Config, effort: float = 1.0) -> float:
        self.calls.append((config.kwargs["BLOCK"], effort))
        return self.cost(config)

    @property
    def sizes(self) -> list[int]:
        """The block sizes asked for."""
        return [size for size, _ in self.calls]


def launch(searcher: Searcher, kernel: Any = double, clock: Clock | None = None) -> Any:
    """Tunes over all sizes and launches once, on the simulator."""
    tuned = glueball.autotune(blocks(*SIZES), [], searcher=searcher, do_bench=clock or Clock(1))(kernel)
    x = np.ones(1000, np.float32)
    tuned[programs(1000)](x, 1000)
    assert (x == 2).all()
    return tuned


def test_everything() -> None:
    measure = Costs(lambda config: 1.0)
    ExhaustiveSearch().search(blocks(*SIZES), measure)
    assert measure.calls == [(size, 1.0) for size in SIZES]


def test_a_random_sample() -> None:
    samples = []
    for seed in (0, 0, 1):
        measure = Costs(lambda config: 1.0)
        RandomSearch(3, seed).search(blocks(*SIZES), measure)
        samples.append(measure.sizes)
    assert samples[0] == samples[1] != samples[2]
    assert all(len(set(sample)) == 3 for sample in samples)
    failing = Costs(lambda config: math.inf if config.kwargs["BLOCK"] < 512 else 1.0)
    RandomSearch(2).search(blocks(*SIZES), failing)
    assert {512, 1024} <= set(failing.sizes)
    with pytest.raises(ValueError, match="trials=0"):
        RandomSearch(0)


def test_halving_measures_the_best_longer() -> None:
    measure = Costs(lambda config: math.inf if config.kwargs["BLOCK"] == 32 else float(config.kwargs["BLOCK"]))
    SuccessiveHalving(factor=2, rounds=3).search(blocks(*SIZES), measure)
    assert measure.calls[:6] == [(size, 0.25) for size in SIZES]
    assert measure.calls[6:] == [(64, 0.5), (128, 0.5), (256, 0.5), (64, 1.0), (128, 1.0)]
    for wrong in ({"factor": 1}, {"rounds": 0}):
        with pytest.raises(ValueError, match="at least 2 and 1 are needed"):
            SuccessiveHalving(**wrong)


def test_only_the_longest_measured_compete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    tuned = launch(SuccessiveHalving(factor=3, rounds=2), clock=Clock(6, 5, 4, 3, 2, 1, 9, 8))
    assert tuned.best_config == Config({"BLOCK": 512})
    (result,) = tuned.results.values()
    assert "33% of the full time" in result.table()
    assert [trial.effort for trial in result.trials.values()] == [1 / 3] * 4 + [1.0] * 2


def test_a_searcher_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")

    class Last:
        def search(self, configs: Any, measure: Any) -> None:
            assert measure(configs[-1]) == measure(configs[-1], 0.5) == 1.0
            with pytest.raises(ValueError, match="effort=0"):
                measure(configs[0], 0)

    clock = Clock(1)
    assert launch(Last(), clock=clock).best_config == Config({"BLOCK": 1024})
    assert clock.calls == 1

    class Nothing:
        def search(self, configs: Any, measure: Any) -> None:
            pass

    with pytest.raises(AutotunerError, match="the searcher measured none"):
        launch(Nothing())


def test_a_search_among_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    assert launch(RandomSearch(2), choosy).best_config.kwargs["BLOCK"] < 256
    assert launch(SuccessiveHalving(), choosy).best_config.kwargs["BLOCK"] < 256


def test_optuna_is_asked_for_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"pip install 'glueball\[optuna\]'"):
        OptunaSearch(3).search(blocks(*SIZES), Costs(lambda config: 1.0))


@pytest.mark.skipif(importlib.util.find_spec("optuna") is None, reason="optuna is not installed")
def test_optuna_finds_a_good_one() -> None:
    configs = [Config({"BLOCK": size}, num_warps=warps) for size in SIZES for warps in (1, 2, 4, 8)][:-1]
    measure = Costs(lambda config: math.inf if config.num_warps == 1 else abs(config.kwargs["BLOCK"] - 200))
    OptunaSearch(14).search(configs, measure)
    assert len(set(measure.calls)) <= 14
    assert {64, 128, 256} & set(measure.sizes)
    everything = Costs(lambda config: 1.0)
    OptunaSearch(100, seed=1).search(configs[:6], everything)
    assert len(set(everything.sizes)) == 2


# The clock


class Array(DeviceArray):
    """One that can be copied and written."""

    strides = (4,)
    dtype = np.dtype(np.float32)

    def copy(self) -> np.ndarray:
        return self.host.copy()

    def __getitem__(self, index: Any) -> Array:
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        self.host[...] = value


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    monkeypatch.delenv("GLUEBALL_EXECUTOR", raising=False)
    monkeypatch.delenv("GLUEBALL_TARGET")
    with fake_gpu(monkeypatch) as found:
        yield found


def test_a_gpu_is_timed(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, float]] = []

    def do_bench(fn: Any, warmup: float, rep: float, quantiles: Any) -> list[float]:
        asked.append((warmup, rep))
        x.host += 1
        fn()
        return [5.0 - len(asked)] * 3

    monkeypatch.setattr(timing, "do_bench", do_bench)
    x = Array(1000)
    assert not runs_on_host([x, 1000])
    tuned = glueball.autotune(blocks(64, 128), ["n"], restore_value=["x"])(double)
    tuned[16](x, 1000)
    assert asked == [(25, 100)] * 2
    assert tuned.best_config == Config({"BLOCK": 128})
    assert next(iter(tuned.results.values())).unit == "ms"
    assert (x.host == 0).all()


def test_which_clock_and_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def clock(name: str) -> Callable[..., list[float]]:
        return lambda fn, **given: asked.append((name, given)) or [1.0]  # type: ignore[func-returns-value]

    monkeypatch.setattr(timing, "do_bench", clock("events"))
    monkeypatch.setattr(timing, "do_bench_cudagraph", clock("graph"))
    Benchmark(warmup=10, rep=50).time(print, 0.5)
    Benchmark(rep=8, use_cuda_graph=True).time(print, 0.25)
    quantiles = (0.5, 0.2, 0.8)
    assert asked == [
        ("events", {"warmup": 5, "rep": 25, "quantiles": quantiles}), ("graph", {"rep": 2, "quantiles": quantiles})
    ]  # fmt: skip
    names = {
        item.name for item in (Benchmark(), Benchmark(rep=8), Benchmark(do_bench=clock), Benchmark(do_bench=Clock()))
    }
    assert len(names) == 4


def test_where_a_launch_would_run(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs_on_host([np.zeros(3), 1])
    assert not runs_on_host([1, None])
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    assert runs_on_host([Array(3)])


# Progress


def test_a_progress_bar_where_there_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    for terminal in (False, True):
        stream = io.StringIO()
        stream.isatty = lambda terminal=terminal: terminal  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "stderr", stream)
        with progress_bar("double", 2) as advance:
            advance(1, "best 3")
            advance(2, "best [1]")
        assert ("tuning double" in stream.getvalue()) == terminal
        assert ("best [1]" in stream.getvalue()) == terminal
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with progress_bar("double", 2) as advance:
        advance(1, "")


@pytest.mark.gpu
@pytest.mark.torch
def test_tuning_on_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(1 << 20, device="cuda")
    tuned = glueball.autotune(blocks(64, 1024, 100), ["n"], rep=5, warmup=1)(double)
    tuned[programs(1 << 20)](x, 1 << 20)
    assert (x == 2).all()
    assert tuned.best_config == Config({"BLOCK": 1024})
    assert next(iter(tuned.results.values())).unit == "ms"
