"""Graphs of one kernel launch, which the driver repeats with less host time than `cuLaunchKernel` takes."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glueball.errors import DriverError

if TYPE_CHECKING:
    from glueball.drivers.cuda import CudaDriver, LoadedKernel

GRAPH_LIMIT = 64
"""Graphs of one process on one device; each takes some 113 KiB of device memory."""


@dataclass(frozen=True, slots=True)
class GraphFunctions:
    """Driver functions by address: `cuGraphExecKernelNodeSetParams` (v2), `cuGraphLaunch`, `cuStreamIsCapturing`."""

    set_parameters: int
    launch: int
    is_capturing: int


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class LaunchGraph:
    """An executable graph with one kernel node, by their handles.

    It is destroyed with this object; at interpreter exit the driver does that, since launches may still follow.
    """

    executable: int
    node: int


class LaunchGraphs:
    """What makes graphs of one launch, at most `GRAPH_LIMIT` at a time on a device."""

    def __init__(self, driver: CudaDriver, bindings: Any, functions: GraphFunctions) -> None:
        self._driver = driver
        self._bindings = bindings
        self._free: dict[int, collections.deque[None]] = {}
        self.functions = functions

    def make(self, kernel: LoadedKernel, block: tuple[int, int, int], parameter_count: int) -> LaunchGraph | None:
        """A graph of the kernel in blocks of `block` threads, its grid and parameters yet to be set.

        `None` where the device has its limit already, or the driver refuses.
        """
        # A deque, since a finalizer may run between any two instructions, where a lock could be held already.
        free = self._free.setdefault(kernel.device_index, collections.deque([None] * GRAPH_LIMIT))
        try:
            free.pop()
        except IndexError:
            return None
        try:
            with self._unhindered(kernel.device_index):
                graph, node, executable = self._instantiate(kernel, block, parameter_count)
        except DriverError:
            free.append(None)
            return None
        made = LaunchGraph(int(executable), int(node))
        weakref.finalize(made, self._destroy, kernel.device_index, graph, executable).atexit = False
        return made

    def _instantiate(
        self, kernel: LoadedKernel, block: tuple[int, int, int], parameter_count: int
    ) -> tuple[Any, Any, Any]:
        zero = ctypes.c_uint64()
        pointers = (ctypes.c_void_p * max(1, parameter_count))(*[ctypes.addressof(zero)] * parameter_count)
        parameters = self._bindings.CUDA_KERNEL_NODE_PARAMS()
        parameters.func = self._bindings.CUfunction(kernel.function)
        parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1
        parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = block
        parameters.sharedMemBytes = kernel.shared_bytes
        parameters.kernelParams = ctypes.addressof(pointers)
        parameters.extra = 0
        call = self._driver.call
        graph = call("creating a graph", "cuGraphCreate", 0)
        try:
            node = call("adding a launch to a graph", "cuGraphAddKernelNode", graph, [], 0, parameters)
            # The driver asks that the graph stays while its node is named in updates.
            return graph, node, call("instantiating a graph", "cuGraphInstantiate", graph, 0)
        except DriverError:
            call("destroying a graph", "cuGraphDestroy", graph)
            raise

    def _destroy(self, device_index: int, graph: Any, executable: Any) -> None:
        """The driver lets launches under way finish first. Where the context is lost there is nothing to free."""
        with contextlib.suppress(DriverError), self._unhindered(device_index):
            self._driver.call("destroying an executable graph", "cuGraphExecDestroy", executable)
            self._driver.call("destroying a graph", "cuGraphDestroy", graph)
        self._free[device_index].append(None)

    @contextlib.contextmanager
    def _unhindered(self, device_index: int) -> Iterator[None]:
        """The device's context, in a mode in which memory calls do not spoil a stream's capture."""
        action, name = "choosing a capture mode", "cuThreadExchangeStreamCaptureMode"
        relaxed = self._bindings.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        with self._driver.activated(device_index):
            former = self._driver.call(action, name, relaxed)
            try:
                yield
            finally:
                self._driver.call(action, name, former)


def graph_functions(entry_point: Callable[[str], int]) -> GraphFunctions | None:
    """The driver's functions; `None` where it lacks one."""
    try:
        return GraphFunctions(
            entry_point("cuGraphExecKernelNodeSetParams"),
            entry_point("cuGraphLaunch"),
            entry_point("cuStreamIsCapturing"),
        )
    except DriverError:
        return None
