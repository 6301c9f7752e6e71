"""Graphs of one launch against a stand-in for the bindings."""

# ruff: noqa: N802, N815 - the stand-in spells functions as the driver does

from __future__ import annotations

import ctypes
import types
from typing import Any

import pytest

from glueball.drivers.cuda import CudaDriver, LoadedKernel
from glueball.drivers.launch_graph import GRAPH_LIMIT, GraphFunctions, LaunchGraphs
from tests.drivers.test_cuda import Attributes, Bindings

ADDRESSES = {b"cuGraphExecKernelNodeSetParams": 0x2000, b"cuGraphLaunch": 0x3000, b"cuStreamIsCapturing": 0x4000}


class GraphBindings(Bindings):
    """Graphs are numbers that count up; `living` has those not destroyed, `mode` is the thread's capture mode."""

    CUDA_KERNEL_NODE_PARAMS = types.SimpleNamespace
    CUstreamCaptureMode = Attributes()

    def __init__(self, current: int = 0) -> None:
        super().__init__(current)
        self.living: set[int] = set()
        self.mode = "global"
        self.modes: list[str] = []
        self.counter = 0x10

    def _new(self) -> tuple[int]:
        self.counter += 1
        self.living.add(self.counter)
        return (self.counter,)

    def on_cuGetProcAddress(self, symbol: bytes, *_: int) -> tuple[int, int]:
        return ADDRESSES.get(symbol, 0), 0

    def on_cuGraphCreate(self, flags: int) -> tuple[int]:
        assert flags == 0
        return self._new()

    def on_cuGraphAddKernelNode(self, graph: int, dependencies: Any, count: int, parameters: Any) -> tuple[int]:
        assert graph in self.living
        assert (list(dependencies), count) == ([], 0)
        self.parameters = parameters
        addresses = (ctypes.c_void_p * 3).from_address(parameters.kernelParams)
        self.values = [ctypes.string_at(address, 8) for address in addresses if address]
        return (0xB0,)

    def on_cuGraphInstantiate(self, graph: int, flags: int) -> tuple[int]:
        assert graph in self.living
        assert flags == 0
        self.modes.append(self.mode)
        return self._new()

    def on_cuGraphDestroy(self, graph: int) -> tuple[()]:
        self.living.remove(graph)
        return ()

    on_cuGraphExecDestroy = on_cuGraphDestroy

    def on_cuThreadExchangeStreamCaptureMode(self, mode: str) -> tuple[str]:
        former, self.mode = self.mode, mode
        return (former,)


def graphs_of(bindings: Bindings) -> LaunchGraphs:
    graphs = CudaDriver(bindings).graphs
    assert graphs is not None
    return graphs


def kernel(device_index: int = 0) -> LoadedKernel:
    return LoadedKernel(0xF00, None, 0xA0 + device_index, device_index, 40, 0, 1024, 0, 512)


def test_a_graph_has_the_kernel_as_its_node() -> None:
    bindings = GraphBindings(0xA1)
    graphs = graphs_of(bindings)
    assert graphs.functions == GraphFunctions(0x2000, 0x3000, 0x4000)
    made = graphs.make(kernel(), (128, 2, 1), 3)
    assert made is not None
    assert (made.executable, made.node) == (0x12, 0xB0)
    parameters = bindings.parameters
    assert (parameters.func, parameters.sharedMemBytes) == (0xF00, 512)
    assert (parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ) == (1, 1, 1)
    assert (parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ) == (128, 2, 1)
    assert bindings.values == [bytes(8)] * 3
    assert bindings.living == {0x11, 0x12}
    assert bindings.modes == ["CU_STREAM_CAPTURE_MODE_RELAXED"]
    assert bindings.mode == "global"
    assert bindings.stack == [0xA1]
    del made
    assert bindings.living == set()
    assert [call[0] for call in bindings.calls if "Destroy" in call[0]] == ["cuGraphExecDestroy", "cuGraphDestroy"]
    assert bindings.mode == "global"
    assert bindings.stack == [0xA1]


def test_a_device_has_a_bounded_number_of_graphs() -> None:
    graphs = graphs_of(GraphBindings())
    made = [graphs.make(kernel(), (32, 1, 1), 3) for _ in range(GRAPH_LIMIT)]
    assert None not in made
    assert graphs.make(kernel(), (32, 1, 1), 3) is None
    assert graphs.make(kernel(1), (32, 1, 1), 3) is not None
    del made[3]
    assert graphs.make(kernel(), (32, 1, 1), 3) is not None


@pytest.mark.parametrize("failing", ["cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiate"])
def test_where_the_driver_refuses_there_is_no_graph_and_nothing_is_left(failing: str) -> None:
    bindings = GraphBindings()
    graphs = graphs_of(bindings)
    bindings.failing[failing] = 1
    for _ in range(GRAPH_LIMIT + 1):
        assert graphs.make(kernel(), (32, 1, 1), 3) is None
    assert bindings.living == set()
    assert bindings.mode == "global"
    del bindings.failing[failing]
    assert graphs.make(kernel(), (32, 1, 1), 3) is not None


def test_a_lost_context_does_not_stop_a_graph_from_going(capsys: pytest.CaptureFixture[str]) -> None:
    bindings = GraphBindings()
    graphs = graphs_of(bindings)
    for _ in range(GRAPH_LIMIT + 1):
        bindings.failing.clear()
        made = graphs.make(kernel(), (32, 1, 1), 3)
        assert made is not None
        bindings.failing["cuGraphExecDestroy"] = 1
        del made
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("missing", ADDRESSES)
def test_a_driver_that_lacks_a_function_makes_no_graphs(missing: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ADDRESSES, missing)
    assert CudaDriver(GraphBindings()).graphs is None
