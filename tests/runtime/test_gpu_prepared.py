"""Compiled, prepared and repeated launches, launch options and hooks on a real GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import glueball
import glueball.language as gl
from glueball import knobs
from glueball.runtime.launcher_graph import GRAPH_AFTER
from tests.runtime import kernels
from tests.runtime.kernels import layout
from tests.runtime.settings import fresh

pytestmark = [pytest.mark.gpu, pytest.mark.torch]

MANY = 3 * GRAPH_AFTER


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))
    return pytest.importorskip("torch")


@glueball.jit
def add_to(y: Any, amount: Any):
    place = y + gl.program_id(0)
    gl.store(place, gl.load(place) + amount)


@pytest.mark.parametrize("graphs", ["0", "1"])
def test_the_same_launch_again_runs_again(torch: Any, graphs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_LAUNCH_GRAPH", graphs)
    kernel, y = fresh(add_to), torch.zeros(3, device="cuda", dtype=torch.int32)
    for _ in range(MANY):
        kernel[(1,)](y, 3)
    assert y.tolist() == [3 * MANY, 0, 0]
    for amount in (5, 5, 7, 5):
        kernel[(3,)](y, amount)
    kernel[(1,)](y, 5)
    assert y.tolist() == [3 * MANY + 27, 22, 22]


def test_compiled_kernels_are_launched_with_new_arguments(torch: Any) -> None:
    x, spread = torch.arange(300.0, device="cuda"), layout()
    outputs = [torch.zeros(300, device="cuda") for _ in range(2)]
    compiled = fresh(kernels.copy).warmup(x, outputs[0], 4, 128, spread, grid=(3,))
    for step in range(MANY):
        size = 4 + 4 * (step % 60)
        y = outputs[step % 2].zero_()
        compiled[(3,)](x, y, size, 128, spread)
        assert torch.equal(y[:size], x[:size])
        assert not y[size:].any()


def test_prepared_launches(torch: Any) -> None:
    y = torch.zeros(2, device="cuda", dtype=torch.int32)
    compiled = fresh(add_to).warmup(y, 3)
    launches = [compiled.prepared_launch(y, 3, grid=1), compiled.prepared_launch(y, 100, grid=(2,))]
    for _ in range(MANY):
        for launch in launches:
            assert launch() is compiled
    assert y.tolist() == [103 * MANY, 100 * MANY]


def test_prepared_launches_on_streams(torch: Any) -> None:
    y = torch.zeros(1, device="cuda", dtype=torch.int32)
    stream, other = torch.cuda.Stream(), torch.cuda.Stream()
    compiled = fresh(add_to).warmup(y, 3)
    fixed = compiled.prepared_launch(y, 3, grid=1, stream=stream.cuda_stream)
    current = compiled.prepared_launch(y, 5, grid=1)
    torch.cuda.synchronize()
    for _ in range(MANY):
        fixed()
        stream.synchronize()
        with torch.cuda.stream(other):
            current()
        other.synchronize()
        compiled[(1,)](y, 7, stream=stream.cuda_stream)
        stream.synchronize()
    assert y.tolist() == [15 * MANY]


def test_prepared_launches_are_captured(torch: Any) -> None:
    y = torch.zeros(1, device="cuda", dtype=torch.int32)
    launch = fresh(add_to).warmup(y, 3).prepared_launch(y, 3, grid=1)
    for _ in range(MANY):
        launch()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(5):
            launch()
    assert y.tolist() == [3 * MANY]
    for _ in range(10):
        graph.replay()
    launch()
    assert y.tolist() == [3 * (MANY + 50 + 1)]


@pytest.mark.parametrize("options", [{"launch_pdl": True}, {"launch_cooperative_grid": True}])
def test_launches_with_attributes(torch: Any, options: dict[str, bool]) -> None:
    kernel, y = fresh(add_to), torch.zeros(64, device="cuda", dtype=torch.int32)
    for _ in range(MANY):
        kernel[(64,)](y, 3, **options)
    assert y.tolist() == [3 * MANY] * 64


def test_a_cooperative_grid_that_does_not_fit_is_refused(torch: Any) -> None:
    y = torch.zeros(1 << 20, device="cuda", dtype=torch.int32)
    with pytest.raises(glueball.errors.DriverError, match="COOPERATIVE"):
        fresh(add_to)[(1 << 20,)](y, 3, launch_cooperative_grid=True)


def test_maxnreg_caps_registers(torch: Any) -> None:
    x = torch.zeros(4096, device="cuda")
    kernel = fresh(kernels.copy)
    free = kernel.warmup(x, x, 4096, 4096, layout())
    capped = kernel.warmup(x, x, 4096, 4096, layout(), maxnreg=24)
    assert capped.n_regs <= 24 < free.n_regs


def test_hooks_and_unloading(torch: Any) -> None:
    kernel, y = fresh(add_to), torch.zeros(1, device="cuda", dtype=torch.int32)
    seen: list[Any] = []
    for _ in range(MANY):
        compiled = kernel[(1,)](y, 3)
    with knobs.runtime.scope():
        knobs.runtime.launch_enter_hook.add(lambda metadata: seen.append(metadata.get()))
        kernel[(1,)](y, 3)
    assert seen == [{"name": "add_to", "function": compiled.function, "stream": 0}]
    assert compiled.n_max_threads >= 128
    torch.cuda.synchronize()
    compiled.unload()
    assert compiled.function is None
    for _ in range(MANY):
        kernel[(1,)](y, 3)
    assert y.tolist() == [3 * (2 * MANY + 1)]


def test_arrays_read_as_of_another_dtype(torch: Any) -> None:
    x = torch.randn(128, device="cuda").to(torch.float8_e4m3fn)
    y = torch.zeros(128, device="cuda", dtype=torch.int8)
    kernel, spread = fresh(kernels.copy), layout()
    for _ in range(MANY):
        kernel[(1,)](x, glueball.reinterpret(y, gl.float8e4nv), 128, 128, spread)
    assert torch.equal(y, x.view(torch.int8))


FORK = """
import os, sys
import torch
import glueball
from tests.runtime.kernels import nothing

nothing[(1,)](5)
torch.cuda.synchronize()
child = os.fork()
if child == 0:
    try:
        nothing[(1,)](5)
    except glueball.errors.DriverError as error:
        os._exit(42 if "forked" in str(error) else 1)
    os._exit(2)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_is_told(torch: Any) -> None:
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", FORK], cwd=root, timeout=120, check=False).returncode == 42
