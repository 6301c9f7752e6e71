"""The cost function for pruning, made of reports."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.explain import CostModel, predicted_cost
from glueball.runtime.autotuning.cost import Footprint, Work, predicted_cycles
from glueball.targets import TARGETS
from tests.runtime.autotune_support import Clock, add_up, choosy, programs

TARGET = TARGETS["sm_90a"]


@glueball.jit
def copy_rows(x: Any, y: Any, N: gl.constexpr, layout: gl.constexpr, out: gl.constexpr):
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))[None, :]
    tile = gl.convert_layout(gl.load(x + rows * N + columns), out)
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, out))[:, None]
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, out))[None, :]
    gl.store(y + rows * N + columns, tile)


WIDE = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
TALL = gl.BlockedLayout([4, 1], [16, 2], [1, 4], [0, 1])


def cost(layout: Any, out: Any) -> float:
    x = np.zeros((64, 64), np.float32)
    model = CostModel("sm_90a").for_kernel(copy_rows)
    return model(grid=(1,), x=x, y=x.copy(), N=64, layout=layout, out=out, num_warps=4)


def test_more_sectors_and_conversions_cost_more() -> None:
    assert 0 < cost(WIDE, WIDE) < cost(WIDE, TALL)
    assert cost(WIDE, WIDE) < cost(TALL, TALL)


def test_what_cannot_be_compiled_costs_everything() -> None:
    model = predicted_cost.for_kernel(choosy)
    x = np.zeros(1000, np.float32)
    costs = [model(grid=programs(1000), x=x, n=1000, BLOCK=block, num_warps=4) for block in (64, 128, 512)]
    assert costs[0] < costs[1] < costs[2] == math.inf


def test_pruning_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")
    clock = Clock(2, 1)
    configs = [glueball.Config({"layout": first, "out": second}) for first in (TALL, WIDE) for second in (WIDE, TALL)]
    kernel = glueball.autotune(configs, [], {"perf_model": CostModel(), "top_k": 2}, do_bench=clock)(copy_rows)
    x = np.random.default_rng(0).random((64, 64), np.float32)
    y = np.zeros_like(x)
    kernel[1](x, y, 64)
    assert (x == y).all()
    assert clock.calls == 2
    assert glueball.Config({"layout": WIDE, "out": WIDE}) in kernel.configs_timings


def test_heuristics_are_computed_for_it() -> None:
    kernel = glueball.heuristics({"BLOCK": lambda named: named["n"]})(add_up)
    model = predicted_cost.for_kernel(kernel)
    x = np.zeros(256, np.float32)
    assert model(grid=(1,), x=x, total=x[:1], n=256) > model(grid=(1,), x=x, total=x[:1], n=128) > 0


def test_cycles() -> None:
    block = Footprint(num_warps=4, shared_bytes=0)
    work = Work(sectors=1000, wavefronts=0, issued=0)
    assert work.cycles == 1500
    assert Work(1000, 1500, 2000).cycles == 1500 + 0.1 * (1500 + 500)
    assert predicted_cycles(work, block, (0, 3, 1), TARGET) == 0
    assert predicted_cycles(work, block, (132 * 4,), TARGET) == pytest.approx(1500 / 132)
    assert predicted_cycles(work, block, (132 * 4 + 1,), TARGET) > 1.2 * 1500 / 132
    assert predicted_cycles(work, block, (132,), TARGET) == pytest.approx(4 * 1500 / 132)


@pytest.mark.parametrize(
    ("footprint", "blocks"),
    [
        (Footprint(4, 0), 16), (Footprint(1, 0), 32), (Footprint(4, 100_000), 2), (Footprint(4, 0, 128), 4),
        (Footprint(32, 0, 255), 1),
    ],
)  # fmt: skip
def test_resident_blocks(footprint: Footprint, blocks: int) -> None:
    assert footprint.resident_blocks(TARGET) == blocks
