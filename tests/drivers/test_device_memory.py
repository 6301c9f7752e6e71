"""Arrays in device memory: their geometry against NumPy's, and the driver calls against a stand-in of the driver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glueball.drivers.cuda import CudaDriver, CudaError
from glueball.drivers.device_memory import Event, empty, free_bytes, from_numpy
from tests.drivers.host_bindings import HostBindings, numpy_view


@pytest.fixture
def bindings() -> HostBindings:
    return HostBindings()


@pytest.fixture
def driver(bindings: HostBindings) -> CudaDriver:
    return CudaDriver(bindings)


VIEWS = [
    lambda x: x.T,
    lambda x: x[::2],
    lambda x: x[::2].T,
    lambda x: x[1:5:3, 2:],
    lambda x: x[::-1],
    lambda x: x[6:2:-2, ::-1],
    lambda x: x[5:5],
    lambda x: x.reshape(-1),
    lambda x: x.reshape(4, 2, -1)[1:].T,
    lambda x: x[2:4].reshape(-1)[3:],
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex64])
def test_views_are_numpys(view: Any, dtype: Any, driver: CudaDriver) -> None:
    host = np.arange(48).reshape(8, 6).astype(dtype)
    expected = view(host)
    found = view(from_numpy(host, driver=driver))
    assert (found.shape, found.dtype, found.size, found.nbytes) == (
        expected.shape, expected.dtype, expected.size, expected.nbytes,
    )  # fmt: skip
    if expected.size > 1:
        assert found.strides == expected.strides
        assert found.is_contiguous == expected.flags.c_contiguous
    assert np.array_equal(numpy_view(found), expected)


def test_data_goes_there_and_back(driver: CudaDriver) -> None:
    host = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    array = from_numpy(host.T, driver=driver)
    assert np.array_equal(array.to_numpy(), host.T)
    copy = empty((35,), np.float32, driver=driver)
    copy.copy_from(array)
    assert np.array_equal(copy.to_numpy(), host.T.reshape(-1))
    copy[3:9].fill_bytes(0)
    assert np.array_equal(copy.to_numpy()[2:10] == 0, [False, *[True] * 6, False])
    nothing = empty((0, 3), np.float32, driver=driver)
    assert nothing.to_numpy().shape == (0, 3)


def test_memory_is_freed_when_no_view_is_left(driver: CudaDriver, bindings: HostBindings) -> None:
    view = empty((4, 4), np.float32, driver=driver).T
    assert len(bindings.buffers) == 1
    del view
    assert not bindings.buffers
    array = empty((4, 4), np.float32, driver=driver)
    array.memory.free()
    assert not bindings.buffers
    del array


def test_what_cannot_be_done_is_said(driver: CudaDriver) -> None:
    array = empty((4, 6), np.float32, driver=driver)
    with pytest.raises(ValueError, match="contiguous"):
        array.T.to_numpy()
    with pytest.raises(ValueError, match="contiguous"):
        array.T.reshape(-1)
    with pytest.raises(ValueError, match="no shape"):
        array.reshape(5, -1)
    with pytest.raises(ValueError, match="does not fit"):
        array.upload(np.zeros((6, 4), np.float32))
    with pytest.raises(ValueError, match="cannot be copied"):
        array.copy_from(array[1:])
    with pytest.raises(IndexError, match="slices"):
        array[1]  # type: ignore[index]
    with pytest.raises(CudaError, match="allocating 4,294,967,296 bytes: CUDA_ERROR_OUT_OF_MEMORY"):
        empty((1 << 30,), np.float32, driver=driver)
    assert free_bytes(driver=driver) == 1 << 30


def test_events_measure_device_time(driver: CudaDriver) -> None:
    start, end = Event(driver=driver), Event(driver=driver)
    start.record()
    end.record()
    end.synchronize()
    assert end.seconds_since(start) == 1e-3


@pytest.mark.gpu
def test_on_a_device() -> None:
    host = np.random.default_rng(0).standard_normal((64, 33)).astype(np.float32)
    array, other = from_numpy(host), empty((64, 33), np.float32)
    start, end = Event(), Event()
    start.record()
    other.copy_from(array)
    end.record()
    end.synchronize()
    assert end.seconds_since(start) > 0
    assert np.array_equal(other.to_numpy(), host)
    other.fill_bytes(0)
    assert not other.to_numpy().any()
    assert free_bytes() > 0


def test_every_function_is_one_the_bindings_have() -> None:
    bindings = pytest.importorskip("cuda.bindings.driver")
    for name in (
        "cuMemAlloc", "cuMemFree", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemcpyDtoDAsync", "cuMemsetD8Async",
        "cuMemGetInfo", "cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime", "cuEventDestroy",
    ):  # fmt: skip
        assert hasattr(bindings, name)
