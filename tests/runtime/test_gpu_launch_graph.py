"""Launches through graphs on a real GPU."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

import glueball
import glueball.language as gl
from glueball.drivers.cuda import cuda_driver
from glueball.drivers.launch_graph import LaunchGraph, LaunchGraphs
from glueball.runtime.launcher_graph import GRAPH_AFTER
from tests.runtime.kernels import count_programs

pytestmark = [pytest.mark.gpu, pytest.mark.torch]


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))
    return pytest.importorskip("torch")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[LaunchGraph | None]:
    """The graphs made in a test."""
    graphs: list[LaunchGraph | None] = []
    original = LaunchGraphs.make

    def make(self: LaunchGraphs, *arguments: Any) -> LaunchGraph | None:
        graphs.append(original(self, *arguments))
        return graphs[-1]

    monkeypatch.setattr(LaunchGraphs, "make", make)
    return graphs


def new_kernel() -> Any:
    """A kernel without variants yet."""

    @glueball.jit(do_not_specialize=["index", "value"])
    def put(y: Any, index: Any, value: Any):
        gl.store(y + index, gl.load(y + index) + value)

    return put


@glueball.jit
def double(x: Any, y: Any):
    gl.store(y, gl.load(x) * 2)


def test_every_launch_has_its_own_arguments(torch: Any, made: list[Any]) -> None:
    put, count = new_kernel(), 20_000
    y = torch.zeros(count, device="cuda", dtype=torch.int32)
    for index in range(count):
        put[(1,)](y, index, index * 7 + 3)
    assert torch.equal(y.cpu(), torch.arange(count, dtype=torch.int32) * 7 + 3)
    assert len(made) == 1
    assert made[0] is not None


def test_every_launch_has_its_own_grid(torch: Any, made: list[Any]) -> None:
    outputs = torch.zeros(600, 24, device="cuda", dtype=torch.int32)
    grids = [(2, 3, 4), (24,), (1, 1, 1), (5, 2), (1, 3, 5)]
    expected = torch.zeros(600, 24, dtype=torch.int32)
    for index in range(600):
        grid = grids[index % len(grids)]
        count = torch.Size(grid).numel()
        # Rows of 96 bytes: all have the same alignment.
        count_programs[grid](outputs[index])
        expected[index, :count] = torch.arange(1, count + 1, dtype=torch.int32)
    assert torch.equal(outputs.cpu(), expected)
    assert None not in made


def test_two_streams_in_turn(torch: Any, made: list[Any]) -> None:
    put, streams = new_kernel(), [torch.cuda.Stream(), torch.cuda.Stream()]
    outputs = [torch.zeros(8, device="cuda", dtype=torch.int32) for _ in streams]
    torch.cuda.synchronize()
    for step in range(4000):
        with torch.cuda.stream(streams[step % 2]):
            put[(1,)](outputs[step % 2], step // 2 % 8, step % 5)
    torch.cuda.synchronize()
    for number, output in enumerate(outputs):
        expected = [0] * 8
        for step in range(number, 4000, 2):
            expected[step // 2 % 8] += step % 5
        assert output.tolist() == expected
    assert len(made) == 1


def test_a_capture_records_the_launch(torch: Any, made: list[Any]) -> None:
    stream, home, put = torch.cuda.Stream(), torch.cuda.Stream(), new_kernel()
    x, y = (torch.zeros(1, device="cuda", dtype=torch.int32) for _ in range(2))
    aside = torch.zeros(4, device="cuda", dtype=torch.int32)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for _ in range(2 * GRAPH_AFTER):
            double[(1,)](x, y)
    with torch.cuda.stream(home):
        for _ in range(GRAPH_AFTER + 1):
            put[(1,)](aside, 1, 1)
    torch.cuda.synchronize()
    before = len(made)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        double[(1,)](x, y)
        double[(1,)](y, y)
        # Not part of the capture, and the first of these makes a graph, which takes memory.
        with torch.cuda.stream(home):
            for _ in range(3):
                put[(1,)](aside, 2, 5)
    assert len(made) == before + 1
    torch.cuda.synchronize()
    assert aside.tolist() == [0, GRAPH_AFTER + 1, 15, 0]
    for value in (3, 5):
        x.fill_(value)
        y.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert y.item() == 4 * value
    assert aside.tolist() == [0, GRAPH_AFTER + 1, 15, 0]


@pytest.mark.parametrize("shared_stream", [True, False])
def test_threads_launch_the_same_kernel(torch: Any, made: list[Any], shared_stream: bool) -> None:
    put, count = new_kernel(), 5000
    streams = [torch.cuda.Stream()] * 2 if shared_stream else [torch.cuda.Stream(), torch.cuda.Stream()]
    outputs = [torch.zeros(count, device="cuda", dtype=torch.int32) for _ in streams]
    put[(1,)](outputs[0], 0, 0)
    torch.cuda.synchronize()
    failures: list[BaseException] = []
    first = threading.Barrier(2)

    def work(number: int) -> None:
        try:
            with torch.cuda.stream(streams[number]):
                # A thread's first launch finds no current context and so makes the variant anew, with its own graph.
                put[(1,)](outputs[number], 0, number)
                first.wait(60)
                for index in range(1, count):
                    put[(1,)](outputs[number], index, index + number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert failures == []
    for number, output in enumerate(outputs):
        assert torch.equal(output.cpu(), torch.arange(count, dtype=torch.int32) + number)
    assert len(made) == 1


def test_graphs_go_while_launches_are_under_way(torch: Any, made: list[Any]) -> None:
    y = torch.zeros(1, device="cuda", dtype=torch.int32)
    for _ in range(5):
        put = new_kernel()
        for _ in range(GRAPH_AFTER + 1):
            put[(1,)](y, 0, 1)
        torch.cuda._sleep(20_000_000)
        for _ in range(50):
            put[(1,)](y, 0, 1)
        put._table.clear()
        made.clear()
    assert y.item() == 5 * (GRAPH_AFTER + 51)


def test_the_knob_keeps_launches_as_they_are(torch: Any, made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_LAUNCH_GRAPH", "off")
    put, y = new_kernel(), torch.zeros(4, device="cuda", dtype=torch.int32)
    for _ in range(2 * GRAPH_AFTER):
        put[(1,)](y, 2, 3)
    assert y.tolist() == [0, 0, 6 * GRAPH_AFTER, 0]
    assert made == []


def test_the_interpreter_ends_well_with_graphs_under_way(torch: Any, tmp_path: Path) -> None:
    script = tmp_path / "launches.py"
    script.write_text(
        textwrap.dedent("""
            import atexit
            import torch
            import glueball

            @glueball.jit
            def empty(x):
                pass

            x = torch.zeros(64, device="cuda")

            def launch():
                for _ in range(100):
                    empty[(1,)](x)

            # Exit functions run backwards: these before and after those of the modules that launches import.
            atexit.register(launch)
            launch()
            atexit.register(launch)
            torch.cuda._sleep(200_000_000)
        """)
    )
    assert cuda_driver().graphs is not None
    subprocess.run([sys.executable, str(script)], check=True, timeout=100)
