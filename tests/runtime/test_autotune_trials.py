"""Trials: the contents of arrays, hooks, failures, what is told, and heuristics around them."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import knobs
from glueball.drivers.cuda import CudaError
from glueball.errors import AutotunerError, CompileTimeAssertionFailure, OptionError, UnknownOptionError
from glueball.runtime.autotuning.buffers import Snapshot
from tests.kernels.harness import EXECUTORS, run
from tests.runtime.autotune_support import Clock, add_up, blocks, choosy, copy_part, double, programs

pytestmark = pytest.mark.usefixtures("simulated")


def ones(n: int = 1000) -> np.ndarray:
    return np.ones(n, np.float32)


# Contents of arrays


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("options", [{}, {"restore_value": ["x"]}, {"restore_value": ["x"], "protect_written": False}])
def test_tuning_in_place_doubles_once(executor: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = glueball.autotune(blocks(64, 128, 256), ["n"], do_bench=Clock(3, 1, 2), **options)(double)
    x = np.arange(1000, dtype=np.float32)
    for times in (1, 2, 3):
        run(executor, monkeypatch, lambda x: kernel[programs(1000)](x, 1000), x)
        assert (x == np.arange(1000) * 2**times).all()


def test_unprotected_arrays_keep_what_trials_did() -> None:
    kernel = glueball.autotune(blocks(64, 128), ["n"], do_bench=Clock(1), protect_written=False)(double)
    x = ones()
    kernel[programs(1000)](x, 1000)
    assert (x == 2**7).all()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_losers_leave_no_part_of_a_result(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = [glueball.Config({"START": start}) for start in (0, 128)]
    kernel = glueball.autotune(configs, [], do_bench=Clock(2, 1))(copy_part)
    x, y = np.arange(1, 257, dtype=np.int32), np.zeros(256, np.int32)
    run(executor, monkeypatch, lambda x, y: kernel[1](x, y, 256, BLOCK=128), x, y)
    assert (y[:128] == 0).all()
    assert (y[128:] == x[128:]).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("protect", [True, False])
def test_resetting_to_zero(executor: str, protect: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def bench(fn: Any, quantiles: Any) -> list[float]:
        for _ in range(3):
            fn()
        if executor != "gpu":
            seen.append(float(total[0]))
        return [1.0, 1.0, 1.0]

    kernel = glueball.autotune(
        blocks(128, 256), ["n"], reset_to_zero=["total"], do_bench=bench, protect_written=protect
    )(add_up)
    x, total = ones(), np.full(1, 7, np.float32)
    run(executor, monkeypatch, lambda x, total: kernel[programs(1000)](x, total, 1000), x, total)
    assert total.tolist() == [1000]
    assert set(seen) <= {1000.0}


def test_a_failing_run_leaves_the_contents() -> None:
    kernel = glueball.autotune(blocks(64, 512), [], restore_value=["x"], do_bench=Clock(1, 2))(choosy)
    x = ones()
    kernel[programs(1000)](x, 1000)
    assert (x == 2).all()

    def broken(fn: Any, quantiles: Any) -> list[float]:
        fn()
        raise KeyboardInterrupt

    kernel = glueball.autotune(blocks(64, 128), [], do_bench=broken)(double)
    with pytest.raises(KeyboardInterrupt):
        kernel[programs(1000)](x, 1000)
    assert (x == 2).all()


@pytest.mark.torch
def test_tensors_are_kept_and_put_back() -> None:
    torch = pytest.importorskip("torch")
    kernel = glueball.autotune(blocks(64, 128), [], reset_to_zero=["x"], do_bench=Clock(1))(double)
    x = torch.ones(1000, requires_grad=True)
    kernel[programs(1000)](x.detach(), 1000)
    assert (x == 0).all()
    snapshot = Snapshot()
    parameter, wide = torch.ones(4, requires_grad=True), torch.zeros(1).expand(8)
    for tensor in (parameter, wide):
        snapshot.add("x", tensor)
    with torch.no_grad():
        parameter.zero_()
        wide[0] = 3
    snapshot.restore()
    assert parameter.tolist() == [1] * 4
    assert wide.tolist() == [0] * 8


def test_arrays_that_cannot_be_kept_are_named() -> None:
    with pytest.raises(TypeError, match=r"argument `x` is a bytes.*protect_written=False"):
        Snapshot().add("x", b"abc")
    Snapshot().add("x", None)


# Hooks


def test_hooks_surround_every_run() -> None:
    calls: list[tuple[Any, ...]] = []

    def before(named: dict[str, Any], reset_only: bool = False) -> None:
        calls.append(("before", named["BLOCK"], named["n"], reset_only))

    def after(named: dict[str, Any], exception: Exception | None) -> None:
        calls.append(("after", named["BLOCK"], type(exception)))

    kernel = glueball.autotune(blocks(64, 512), [], pre_hook=before, post_hook=after, do_bench=Clock(1, 2, runs=2))(
        choosy
    )
    kernel[programs(1000)](ones(), 1000)
    trial = [("before", 64, 1000, False), ("after", 64, type(None))]
    failed = [("before", 512, 1000, False), ("after", 512, CompileTimeAssertionFailure)]
    assert calls == [*trial, *trial, *failed, ("before", 64, 1000, True)]
    kernel[programs(1000)](ones(), 1000)
    assert len(calls) == 7


def test_a_configurations_hook_comes_before_every_launch() -> None:
    seen: list[int] = []
    configs = blocks(64, 128, pre_hook=lambda named: seen.append(named["BLOCK"]))
    kernel = glueball.autotune(configs, [], do_bench=Clock(2, 1, runs=1), cache_results=True)(double)
    kernel[programs(1000)](ones(), 1000)
    kernel[programs(1000)](ones(), 1000)
    assert seen == [64, 128, 128, 128]
    single = glueball.autotune(configs[:1], [])(double)
    single[programs(1000)](ones(), 1000)
    assert seen[-1] == 64


# Failures


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_best_of_those_that_work(executor: str, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    configs = [*blocks(512, 100, 64, 128, 1024), *blocks(64, num_warps=3), *blocks(64, num_warps=64)]
    kernel = glueball.autotune(configs, [], do_bench=Clock(2, 1))(choosy)
    x = ones()
    with caplog.at_level(logging.WARNING, "glueball"):
        run(executor, monkeypatch, lambda x: kernel[programs(1000)](x, 1000), x)
    assert (x == 2).all()
    assert kernel.best_config == glueball.Config({"BLOCK": 128})
    (result,) = kernel.results.values()
    table = result.table()
    assert "7 configurations, 5 failed" in table
    assert "2 x CompileTimeAssertionFailure" in table and "blocks are small" in table
    assert "1 x OptionError: num_warps=3: must be a power of two" in table
    assert "1 x OutOfResources" in table
    assert "best: glueball.Config({'BLOCK': 128})" in table
    assert "2 x CompileTimeAssertionFailure" in caplog.text
    assert len(kernel.warmup(ones(), 1000)) == 2


def test_no_configuration_works() -> None:
    kernel = glueball.autotune(blocks(512, 1024), [])(choosy)
    with pytest.raises(AutotunerError, match=r"none of the 2 configurations of `choosy` works:\n  2 x ") as raised:
        kernel[16](ones(), 1000)
    assert isinstance(raised.value.__cause__, CompileTimeAssertionFailure)
    with pytest.raises(AutotunerError, match=r"no configuration of `choosy` can be compiled"):
        kernel.warmup(ones(), 1000)
    alone = glueball.autotune(blocks(512), [])(choosy)
    for launch in (alone[16], alone.warmup):
        with pytest.raises(CompileTimeAssertionFailure):
            launch(ones(), 1000)


def test_mistakes_of_the_launch_end_tuning() -> None:
    kernel = glueball.autotune(blocks(64, 128), [], do_bench=Clock(1))(double)
    with pytest.raises(UnknownOptionError, match="num_wraps"):
        kernel[16](ones(), 1000, num_wraps=3)
    with pytest.raises(ZeroDivisionError):
        kernel[lambda meta: (1 // 0,)](ones(), 1000)
    assert not kernel.cache


@pytest.mark.parametrize(("code", "ends"), [(700, True), (999, True), (1, False), (701, False)])
def test_errors_of_the_device(code: int, ends: bool) -> None:
    errors = [CudaError("launching", code, "NAME", "text")]

    def bench(fn: Any, quantiles: Any) -> list[float]:
        if errors:
            raise errors.pop()
        return [1.0, 1.0, 1.0]

    kernel = glueball.autotune(blocks(64, 128), [], do_bench=bench)(double)
    if ends:
        with pytest.raises(CudaError):
            kernel[programs(1000)](ones(), 1000)
    else:
        kernel[programs(1000)](ones(), 1000)
        assert kernel.best_config == glueball.Config({"BLOCK": 128})


def test_options_that_no_configuration_may_have() -> None:
    kernel = glueball.autotune(blocks(64, num_warps=5), [])(double)
    with pytest.raises(OptionError, match="num_warps=5"):
        kernel[16](ones(), 1000)


@pytest.mark.torch
def test_no_tuning_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    kernel = glueball.autotune(blocks(64, 128), [], do_bench=Clock(1))(double)
    with pytest.raises(AutotunerError, match="launch it once before the capture"):
        kernel[16](ones(), 1000)


# Telling


def test_the_table_on_request(monkeypatch: pytest.MonkeyPatch, capsys: Any, caplog: Any) -> None:
    monkeypatch.setenv("GLUEBALL_PRINT_AUTOTUNING", "1")
    kernel = glueball.autotune(blocks(64, 128, 512), ["n"], do_bench=Clock(2, 1))(choosy)
    kernel[programs(1000)](ones(), 1000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("glueball: tuned `choosy` for key (1000, 'float32') in ")
    assert lines[1].split() == ["*", "1", "ms", "(2", "to", "3)", "Config({'BLOCK':", "128})"]
    assert lines[2].split()[:2] == ["2", "ms"]
    assert lines[3].startswith("  1 x CompileTimeAssertionFailure")
    assert not caplog.text


def test_a_listener_is_told() -> None:
    told: list[dict[str, Any]] = []
    kernel = glueball.autotune(blocks(64, 128), ["n"], do_bench=Clock(2, 1), cache_results=True)(double)
    with knobs.autotuning.scope():
        knobs.autotuning.listener = lambda **keywords: told.append(keywords)
        for _ in range(2):
            kernel[programs(1000)](ones(), 1000)
            kernel.cache.clear()
    assert [(item["fn"], item["key"], item["best_config"]) for item in told] == [
        (double, (1000, "float32"), glueball.Config({"BLOCK": 128}))
    ] * 2
    assert [item["cache_hit"] for item in told] == [False, True]
    assert told[0]["duration"] > 0
    assert told[1]["duration"] is None
    assert told[1]["configs_timings"] == kernel.configs_timings


# Heuristics


def scale(x: Any, n: Any, BLOCK: gl.constexpr, FACTOR: gl.constexpr, spread: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=spread)
    gl.store(x + offsets, gl.load(x + offsets, mask=offsets < n) * FACTOR, mask=offsets < n)


VALUES = {
    "FACTOR": lambda named: named["n"] // 100,
    "spread": lambda named: gl.BlockedLayout([named["FACTOR"] // 5], [32], [named.get("num_warps", 4)], [0]),
}


def test_heuristics_see_arguments_and_each_other() -> None:
    kernel = glueball.heuristics(VALUES)(glueball.jit(scale))
    x = ones()
    kernel[programs(1000)](x, n=1000, BLOCK=128)
    assert (x == 10).all()
    kernel.run(x, 500, BLOCK=128, grid=(4,))
    assert (x[:500] == 50).all()
    assert kernel.warmup(x, 1000, BLOCK=128, num_warps=2).metadata.num_warps == 2


@pytest.mark.parametrize("outside", ["autotune", "heuristics"])
def test_heuristics_and_tuning_in_either_order(outside: str) -> None:
    clock = Clock(2, 1)
    tune = glueball.autotune(blocks(64, 128), ["n"], do_bench=clock)
    compute = glueball.heuristics(VALUES)
    kernel = glueball.jit(scale)
    wrapped = tune(compute(kernel)) if outside == "autotune" else compute(tune(kernel))
    x = ones()
    wrapped[programs(1000)](x, 1000)
    assert (x == 10).all()
    assert clock.calls == 2
    assert wrapped.fn.fn is kernel
    assert wrapped.base_fn is kernel.fn


def test_heuristics_below_see_the_configuration() -> None:
    configs = [*blocks(64, num_warps=2), *blocks(64, num_warps=8)]
    kernel = glueball.autotune(configs, [], do_bench=Clock(2, 1))(glueball.heuristics(VALUES)(glueball.jit(scale)))
    x = ones()
    compiled = kernel[programs(1000)](x, 1000)
    assert compiled.metadata.num_warps == 8
    assert (x == 10).all()
