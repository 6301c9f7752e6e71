"""Launches with attributes through a function that has none, and what a forked process is told."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import pytest

from glueball.drivers import cuda
from glueball.drivers.cuda import CudaError, LoadedKernel
from glueball.drivers.launch_attributes import (
    CLUSTER_DIMENSION,
    COOPERATIVE,
    LAUNCH_TYPE,
    PROGRAMMATIC_STREAM_SERIALIZATION,
    launch_with_attributes,
)
from tests.drivers.test_cuda import Bindings

CONFIGURED_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
)


class Recorder:
    """A function like `cuLaunchKernelEx`."""

    def __init__(self, result: int = 0) -> None:
        self.result = result
        self.calls: list[tuple[Any, ...]] = []
        self._function = CONFIGURED_TYPE(self._record)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _record(self, configuration: int, function: Any, pointers: Any, extra: Any) -> int:
        *numbers, stream, attributes, count = struct.unpack("<7I4xQQI", ctypes.string_at(configuration, 52))
        read = []
        for index in range(count):
            number, value, *rest = struct.unpack("<I4x8Q", ctypes.string_at(attributes + 72 * index, 72))
            assert rest[1:] == [0] * 6
            read.append((number, value, rest[0]) if number == CLUSTER_DIMENSION else (number, value))
        self.calls.append((function, tuple(numbers), stream, read, pointers[0], extra))
        return self.result


@pytest.mark.parametrize("count", [1, 2])
def test_a_configuration_is_made_of_the_arguments(count: int) -> None:
    attributes = ((COOPERATIVE, 1), (PROGRAMMATIC_STREAM_SERIALIZATION, 1))[:count]
    recorder = Recorder(result=7)
    launch = launch_with_attributes(recorder.address, attributes)
    pointers = (ctypes.c_void_p * 1)(0x1234)
    for grid in ((1, 2, 3), (2**31 - 1, 65535, 65535)):
        assert LAUNCH_TYPE(launch.address)(0xF00, *grid, 128, 2, 1, 2048, 0x51, pointers, None) == 7
        assert recorder.calls[-1] == (0xF00, (*grid, 128, 2, 1, 2048), 0x51, list(attributes), 0x1234, None)


def test_a_grid_of_clusters_has_so_many_more_blocks() -> None:
    recorder = Recorder()
    launch = launch_with_attributes(recorder.address, ((CLUSTER_DIMENSION, 4),))
    pointers = (ctypes.c_void_p * 1)(0x1234)
    assert LAUNCH_TYPE(launch.address)(0xF00, 3, 5, 1, 128, 1, 1, 2048, 0x51, pointers, None) == 0
    (call,) = recorder.calls
    assert call[1] == (12, 5, 1, 128, 1, 1, 2048)
    # The extents of a cluster are numbers of 32 bits, one after another: 4, 1, 1.
    assert call[3] == [(CLUSTER_DIMENSION, 4 | 1 << 32, 1)]
    invalid_value = 1
    assert LAUNCH_TYPE(launch.address)(0xF00, 1 << 30, 1, 1, 128, 1, 1, 0, 0x51, pointers, None) == invalid_value
    assert len(recorder.calls) == 1


def loaded(driver: Any) -> LoadedKernel:
    kernel: LoadedKernel = driver.load(b"cubin", "kernel", 2048, 0)
    return kernel


def test_the_driver_launches_with_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, recorder = cuda.open_driver(Bindings()), Recorder()
    assert isinstance(driver, cuda.CudaDriver)
    monkeypatch.setattr(driver, "_entry_point", {"cuLaunchKernelEx": recorder.address}.__getitem__)
    for _ in range(2):
        driver.launch(loaded(driver), (5, 1, 1), (64, 1, 1), 0x51, [bytes(8)], ((COOPERATIVE, 1),))
    assert len(recorder.calls) == 2
    function, numbers, stream, attributes, _, _ = recorder.calls[0]
    assert (function, numbers, stream, attributes) == (0xF00, (5, 1, 1, 64, 1, 1, 2048), 0x51, [(COOPERATIVE, 1)])
    assert len(driver._launch_functions) == 1
    recorder.result = 720
    with pytest.raises(CudaError, match=r"launching on grid \(5, 1, 1\), block \(64, 1, 1\)"):
        driver.launch(loaded(driver), (5, 1, 1), (64, 1, 1), 0, [bytes(8)], ((COOPERATIVE, 1),))


def test_a_driver_belongs_to_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = cuda.open_driver(Bindings())
    monkeypatch.setattr(cuda, "_probe", lambda: driver)
    assert cuda.cuda_driver() is driver
    assert not cuda.forked()
    monkeypatch.setattr("os.getpid", lambda: driver.process_id + 1)
    assert cuda.forked()
    with pytest.raises(cuda.DriverError, match=r"was forked from one that uses CUDA.*`spawn` or `forkserver`"):
        cuda.cuda_driver()
    assert not cuda.cuda_available().ok
    monkeypatch.setattr(cuda, "_probe", lambda: "there is no GPU")
    assert not cuda.forked()
