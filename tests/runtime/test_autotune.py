"""Tuning: which configuration wins, what a launch is, keys, pruning, threads."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import AutotunerError
from glueball.runtime.autotuning.autotuner import tuning_key
from tests.kernels.harness import EXECUTORS, run
from tests.runtime.autotune_support import Clock, blocks, double, programs, tuned

pytestmark = pytest.mark.usefixtures("simulated")


def ones(n: int = 1000) -> np.ndarray:
    return np.ones(n, np.float32)


# Configurations


def test_a_configuration_is_keywords() -> None:
    config = glueball.Config({"BLOCK": 64}, num_warps=8, maxnreg=32)
    assert config.all_kwargs() == {"BLOCK": 64, "num_warps": 8, "num_stages": 3, "num_ctas": 1, "maxnreg": 32}
    assert glueball.Config({}, num_warps=None).all_kwargs() == {"num_stages": 3, "num_ctas": 1}
    assert str(config) == "BLOCK: 64, num_warps: 8, num_ctas: 1, num_stages: 3, maxnreg: 32, ir_override: None"
    assert eval(repr(config), {"Config": glueball.Config}) == config
    assert len({config, glueball.Config({"BLOCK": 64}, 8, 3, 1, 32), glueball.Config({"BLOCK": 64})}) == 2
    assert config != glueball.Config({"BLOCK": 64}, num_warps=8, maxnreg=32, pre_hook=print)
    assert config != "BLOCK: 64"


# Which one wins, and what a launch does


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_fastest_wins_and_is_kept(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(3, 1, 2)
    kernel = glueball.autotune(blocks(64, 128, 256), ["n"], do_bench=clock)(double)
    x = ones()
    for times in (1, 2):
        run(executor, monkeypatch, lambda x: kernel[programs(1000)](x, 1000), x)
        assert (x == 2**times).all()
    assert clock.calls == 3
    assert kernel.best_config == glueball.Config({"BLOCK": 128})
    assert list(kernel.cache.values()) == [kernel.best_config]
    assert kernel.configs_timings == dict(zip(kernel.configs, [(3, 4, 5), (1, 2, 3), (2, 3, 4)], strict=True))
    assert kernel.bench_time is not None and kernel.bench_time > 0


def test_equal_medians_are_told_apart_by_the_other_quantiles() -> None:
    times = iter([(1, 1, 3), (1, 1, 2), (1, 2, 1)])
    kernel = glueball.autotune(blocks(64, 128, 256), [], do_bench=lambda fn, quantiles: next(times))(double)
    kernel[16](ones(), 1000)
    assert kernel.best_config == glueball.Config({"BLOCK": 128})


def test_one_number_from_the_benchmark_will_do() -> None:
    times = iter([2.0, 1.0])
    kernel = glueball.autotune(blocks(64, 128), [], do_bench=lambda fn, quantiles: next(times))(double)
    kernel[16](ones(), 1000)
    assert kernel.configs_timings[kernel.configs[1]] == (1, 1, 1)


@pytest.mark.parametrize("executor", ["sim", "reference"])
def test_without_a_clock_the_predicted_cost_decides(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
    kernel = glueball.autotune(blocks(32, 512), ["n"])(double)
    x = ones()
    kernel[programs(1000)](x, 1000)
    assert (x == 2).all()
    (result,) = kernel.results.values()
    assert result.unit == "cycles"
    assert kernel.best_config == glueball.Config({"BLOCK": 32})
    small, large = (kernel.configs_timings[config][0] for config in kernel.configs)
    assert 0 < small < large
    kernel[0](ones(2000), 2000)
    assert set(kernel.configs_timings.values()) == {(0, 0, 0)}


def test_a_choice_by_counters_does_not_hold_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = glueball.autotune(blocks(32, 64), [])(double)
    kernel[programs(1000)](ones(), 1000)
    named = {"x": ones(), "n": 1000}
    key = tuning_key([], kernel.arg_names, named)
    assert kernel._known(key, named) == kernel.best_config
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "gpu")
    assert kernel._known(key, named) is None


@pytest.mark.parametrize("given", [[], blocks(64)])
def test_one_configuration_is_not_measured(given: list[glueball.Config]) -> None:
    clock = Clock(1)
    kernel = glueball.autotune(given, ["n"], do_bench=clock)(double)
    x = ones()
    kernel[16](x, 1000, **({} if given else {"BLOCK": 64}))
    assert (x == 2).all()
    assert clock.calls == 0
    assert kernel.configs == (given or [glueball.Config({})])


def test_a_launch_may_not_set_what_configurations_set() -> None:
    kernel = glueball.autotune(blocks(64, 128), [], do_bench=Clock(1))(double)
    for keywords in ({"BLOCK": 64}, {"num_warps": 4}):
        with pytest.raises(ValueError, match=f"Conflicting meta-parameters: {next(iter(keywords))}"):
            kernel[16](ones(), 1000, **keywords)


def test_ways_to_launch() -> None:
    kernel = glueball.autotune(blocks(64, 128), ["n"], do_bench=Clock(2, 1))(double)
    x = ones()
    compiled = kernel.run(x, 1000, grid=programs(1000))
    assert compiled.name == "double"
    assert (x == 2).all()
    assert kernel.run(x, 1000, grid=programs(1000), warmup=True)[0].name == "double"
    assert (x == 2).all()
    assert [found.request.options.num_warps for found in kernel.warmup(x, n=1000, grid=(8,))] == [4, 4]
    assert (kernel.fn, kernel.base_fn, kernel.__name__) == (double, double.fn, "double")
    assert kernel.arg_names == ["x", "n", "BLOCK"]
    assert "Autotuner(" in repr(kernel)
    with pytest.raises(RuntimeError, match="launch it with"):
        kernel(x, 1000)
    with pytest.raises(TypeError, match="missing a required argument: 'n'"):
        kernel[16](x)


def test_tuned_kernels_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(tuned)) is tuned  # noqa: S301 - its own bytes


def test_decorating_what_is_no_kernel() -> None:
    for decorator in (glueball.autotune([], []), glueball.heuristics({})):
        with pytest.raises(TypeError, match=r"above a function decorated with @glueball\.jit"):
            decorator(len)
    nested = glueball.autotune(blocks(64, 128), [])(glueball.autotune(blocks(64, 128), [])(double))
    with pytest.raises(TypeError, match="chooses its own configuration"):
        nested[16](ones(), 1000)


@pytest.mark.parametrize("what", ["key", "reset_to_zero", "restore_value"])
def test_names_are_those_of_arguments(what: str) -> None:
    with pytest.raises(ValueError, match=rf"{what} names 'm'.* takes x, n, BLOCK"):
        glueball.autotune(blocks(64), **{"key": [], what: ["n", "m"]})(double)  # type: ignore[arg-type]


# Keys


def test_keys_have_values_and_dtypes() -> None:
    clock = Clock(1)
    kernel = glueball.autotune(blocks(64, 128), ["n"], do_bench=clock)(double)
    kernel[16](ones(), 1000)
    kernel[16](n=1000, x=ones())
    assert clock.calls == 2
    assert list(kernel.cache) == [(1000, "float32")]
    kernel[16](ones(), 999)
    kernel[16](ones().astype(np.float64), 1000)
    assert list(kernel.cache)[1:] == [(999, "float32"), (1000, "float64")]


def test_keys_have_shapes_and_strides_of_arrays() -> None:
    def key(array: np.ndarray, *keys: str) -> tuple[Any, ...]:
        return tuning_key(keys, ["x", "n"], {"x": array, "n": gl.constexpr(3)})

    square = np.zeros((8, 8), np.float32)
    assert key(square, "n", "x") == (3, (8, 8), "float32")
    assert key(square.T) == ("float32", "strides 1, aligned")
    assert key(square[:, ::2]) == ("float32", "strides aligned, unaligned")
    assert key(np.broadcast_to(square[:1], (8, 8))) == ("float32", "strides 0, 1")
    with pytest.raises(TypeError, match="key argument `n` is a list"):
        tuning_key(["n"], ["n"], {"n": [1]})


@pytest.mark.torch
def test_keys_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(8, 8, dtype=torch.bfloat16)
    assert tuning_key(["x"], ["x"], {"x": tensor}) == ((8, 8), "torch.bfloat16")
    assert tuning_key([], ["x"], {"x": tensor.t()}) == ("torch.bfloat16", "strides 1, aligned")


# Pruning


def test_pruning_early() -> None:
    seen: list[Any] = []

    def prune(configs: list[glueball.Config], named: dict[str, Any], **keywords: Any) -> list[glueball.Config]:
        seen.append((list(named), keywords["n"]))
        return configs[1:]

    clock = Clock(2, 1)
    kernel = glueball.autotune(blocks(64, 128, 256), [], {"early_config_prune": prune}, do_bench=clock)(double)
    kernel[16](ones(), n=1000)
    assert seen == [(["x"], 1000)]
    assert clock.calls == 2
    assert kernel.best_config == glueball.Config({"BLOCK": 256})


def test_pruning_everything() -> None:
    kernel = glueball.autotune(blocks(64, 128), [], {"early_config_prune": lambda *_, **__: []})(double)
    with pytest.raises(AutotunerError, match="left no configuration of `double`"):
        kernel[16](ones(), 1000)


@pytest.mark.parametrize(("top_k", "measured"), [(2, 2), (0.5, 2), (1, 0), (0.01, 0), (1.0, 4), (9, 4)])
def test_pruning_by_a_model(top_k: float, measured: int) -> None:
    def model(BLOCK: int, n: int, num_warps: int, **others: Any) -> float:
        assert (n, num_warps) == (1000, 4)
        return -BLOCK

    clock = Clock(1)
    rules = {"perf_model": model, "top_k": top_k}
    kernel = glueball.autotune(blocks(64, 128, 256, 512), [], rules, do_bench=clock)(double)
    kernel[16](ones(), 1000)
    assert clock.calls == measured
    if measured < 4:
        assert kernel.best_config == glueball.Config({"BLOCK": 512})


@pytest.mark.parametrize("top_k", [2.5, "2"])
def test_a_share_or_a_number_of_configurations_is_kept(top_k: Any) -> None:
    rules = {"perf_model": lambda **_: 0, "top_k": top_k}
    with pytest.raises(TypeError, match="either an integer or a share"):
        glueball.autotune(blocks(64, 128), [], rules)(double)[16](ones(), 1000)


# Threads


def test_threads_tune_a_key_once() -> None:
    clock = Clock(2, 1)
    kernel = glueball.autotune(blocks(64, 128), ["n"], do_bench=clock)(double)
    arrays = [ones() for _ in range(8)]
    start = threading.Barrier(8)
    errors: list[BaseException] = []

    def work(x: np.ndarray) -> None:
        try:
            start.wait()
            for _ in range(3):
                kernel[programs(1000)](x, 1000)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert all((x == 8).all() for x in arrays)
    assert clock.calls == 2
