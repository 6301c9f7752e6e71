"""Arrays of several frameworks, read without copying; device arrays are stood in for by objects with the protocols."""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from glueball.drivers import arrays
from glueball.drivers.arrays import DeviceArray, current_stream, read_array, stream_callable


@pytest.fixture(autouse=True)
def without_frameworks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Streams come from imported frameworks, and another test may have imported one."""
    if not request.node.get_closest_marker("torch"):
        monkeypatch.delitem(sys.modules, "torch", raising=False)
        monkeypatch.delitem(sys.modules, "cupy", raising=False)


def read(value: Any) -> DeviceArray:
    result = read_array(value)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.bool_, "int1"),
        (np.int8, "int8"),
        (np.uint64, "uint64"),
        (np.float16, "float16"),
        (np.float32, "float32"),
        (np.float64, "float64"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (ml_dtypes.float8_e4m3fn, "float8e4nv"),
        (ml_dtypes.float8_e5m2, "float8e5"),
        (ml_dtypes.float8_e4m3fnuz, "float8e4b8"),
        (ml_dtypes.float8_e5m2fnuz, "float8e5b16"),
    ],
)
def test_a_numpy_array_is_host_memory(dtype: Any, name: str) -> None:
    array = np.zeros((3, 5), dtype)
    assert read(array) == DeviceArray(array.ctypes.data, name, (3, 5), (5, 1), 0, "host", array)


def test_views_keep_their_strides() -> None:
    base = np.zeros((6, 8), np.float32)
    assert read(base[::2, ::-1]).strides == (16, -1)
    assert read(base[::2, ::-1]).pointer == base.ctypes.data + 7 * 4
    assert read(base.T).shape == (8, 6)
    assert read(np.broadcast_to(base[0], (4, 8))).strides == (0, 1)
    assert read(np.zeros((), np.int32)).shape == ()
    assert read(np.zeros((0, 3), np.int32)).shape == (0, 3)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3, ">f4"), "byte-swapped"),
        (np.zeros(3, np.complex64), "complex64"),
        (np.zeros(3, object), "object"),
        (np.zeros(3, [("a", "i1"), ("b", "<f4")])["b"], "no multiple"),
    ],
)
def test_an_array_no_kernel_can_take_is_a_type_error(array: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        read_array(array)


@pytest.mark.parametrize("value", [3, 2.5, None, "text", (1, 2), [1], np.float32(1), np.float32, object()])
def test_what_is_no_array_is_none(value: object) -> None:
    assert read_array(value) is None


class CudaArray:
    """As CuPy's arrays: the interface, a dtype, a device."""

    def __init__(self, device: int = 1, dtype: str = "float32", **interface: Any) -> None:
        self.dtype = types.SimpleNamespace(name=dtype)
        self.device = types.SimpleNamespace(id=device)
        self.__cuda_array_interface__ = {
            "data": (0x7F0000000100, False),
            "typestr": "<f4",
            "shape": (3, 5),
            "strides": None,
            "version": 3,
        } | interface


def test_a_cuda_array_interface_is_device_memory() -> None:
    array = CudaArray()
    assert read(array) == DeviceArray(0x7F0000000100, "float32", (3, 5), (5, 1), 1, "cuda", array)
    assert read(CudaArray(strides=(40, 4))).strides == (10, 1)
    assert read(CudaArray(typestr="|b1")).dtype == "int1"
    assert read(CudaArray(typestr="|u1")).dtype == "uint8"
    assert read(CudaArray(typestr="<V2", dtype="bfloat16")).dtype == "bfloat16"
    assert read(CudaArray(data=(None, False), shape=(0,))).pointer == 0


@pytest.mark.parametrize(
    ("interface", "message"),
    [
        ({"typestr": ">f4"}, "byte-swapped"),
        ({"typestr": "<c8"}, "known ones"),
        ({"typestr": "|V3", "dtype": "void24"}, "void24"),
        ({"mask": object()}, "masked"),
        ({"strides": (20, 3)}, "no multiple"),
    ],
)
def test_an_interface_no_kernel_can_take_is_a_type_error(interface: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        read_array(CudaArray(**interface))


def test_the_driver_tells_the_device_where_the_array_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = types.SimpleNamespace(device_of_pointer={0x7F0000000100: 6}.__getitem__, current_device=lambda: 2)
    monkeypatch.setattr(arrays, "cuda_driver", lambda: driver)
    array = CudaArray()
    del array.device
    assert read(array).device_index == 6
    array.__cuda_array_interface__["data"] = (0, False)
    assert read(array).device_index == 2


class Exporter:
    """A DLPack producer that hands on NumPy's capsule, and may claim another device or type."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.array = array
        self.device = device
        self.streams: list[object] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, stream: object = None) -> object:
        self.streams.append(stream)
        return self.array.__dlpack__()


def test_dlpack_is_read_in_place() -> None:
    base = np.arange(48, dtype=np.int16).reshape(6, 8)
    result = read(Exporter(base[1::2, ::-1]))
    assert (result.dtype, result.shape, result.strides) == ("int16", (3, 8), (16, -1))
    assert (result.kind, result.device_index) == ("host", 0)
    assert ctypes.c_int16.from_address(result.pointer).value == 15
    for dtype, name in ((np.bool_, "int1"), (np.float64, "float64"), (np.uint8, "uint8")):
        assert read(Exporter(np.zeros(3, dtype))).dtype == name


def test_dlpack_memory_lives_as_long_as_the_result() -> None:
    array = np.arange(1 << 16, dtype=np.int32)
    before = sys.getrefcount(array)
    result = read(Exporter(array))
    gc.collect()
    assert sys.getrefcount(array) == before + 1
    del result
    gc.collect()
    assert sys.getrefcount(array) == before


def test_dlpack_on_a_device_is_told_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = Exporter(np.zeros(4, np.float32), (2, 3))
    result = read(exporter)
    assert (result.kind, result.device_index) == ("cuda", 3)
    monkeypatch.setattr(arrays, "current_stream", lambda device: 0x50 + device)
    read(exporter)
    assert exporter.streams == [1, 0x53]


def test_dlpack_elsewhere_or_of_another_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="DLPack device type 8"):
        read_array(Exporter(np.zeros(4, np.float32), (8, 0)))
    with pytest.raises(TypeError, match="DLPack type 5 of 64 bits"):
        read_array(Exporter(np.zeros(4, np.complex64)))


def test_the_stream_is_the_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stream_callable() is None
    assert current_stream(0) == 0
    entered: list[int] = []

    class Device:
        def __init__(self, index: int) -> None:
            self.index = index

        def __enter__(self) -> None:
            entered.append(self.index)

        def __exit__(self, *_: object) -> None:
            entered.append(-1)

    stream = types.SimpleNamespace(ptr=0x77)
    cupy = types.SimpleNamespace(cuda=types.SimpleNamespace(Device=Device, get_current_stream=lambda: stream))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert current_stream(2) == 0x77
    assert entered == [2, -1]
    torch = types.SimpleNamespace(_C=types.SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 0x90 + index))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert current_stream(2) == 0x92
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(_C=types.SimpleNamespace()))
    assert current_stream(2) == 0x77


@pytest.mark.torch
def test_a_torch_tensor_on_the_host() -> None:
    import torch

    base = torch.zeros(6, 8, dtype=torch.bfloat16)
    view = base[1::2].t()
    result = read(view)
    assert (result.pointer, result.dtype, result.shape) == (base.data_ptr() + 16, "bfloat16", (8, 3))
    assert (result.strides, result.device_index, result.kind) == ((1, 16), 0, "host")
    for dtype, name in (
        (torch.bool, "int1"),
        (torch.uint16, "uint16"),
        (torch.float8_e4m3fn, "float8e4nv"),
        (torch.float8_e5m2fnuz, "float8e5b16"),
    ):
        assert read(torch.empty(3, dtype=dtype)).dtype == name
    assert read(torch.nn.Parameter(torch.zeros(3))).dtype == "float32"


@pytest.mark.torch
def test_a_torch_tensor_no_kernel_can_take_is_a_type_error() -> None:
    import torch

    with pytest.raises(TypeError, match="sparse"):
        read_array(torch.zeros(3, 3).to_sparse())
    with pytest.raises(TypeError, match="meta"):
        read_array(torch.empty(3, device="meta"))
    with pytest.raises(TypeError, match="complex64"):
        read_array(torch.empty(3, dtype=torch.complex64))


@pytest.mark.gpu
@pytest.mark.torch
def test_a_torch_tensor_on_the_device() -> None:
    import torch

    tensor = torch.zeros(6, 8, device="cuda")[1:]
    result = read(tensor)
    assert (result.pointer, result.shape, result.strides) == (tensor.data_ptr(), (5, 8), (8, 1))
    assert (result.kind, result.device_index, result.dtype) == ("cuda", 0, "float32")

    class OnlyDlpack:
        __dlpack_device__ = tensor.__dlpack_device__
        __dlpack__ = tensor.__dlpack__

    class OnlyInterface:
        __cuda_array_interface__ = tensor.__cuda_array_interface__

    for other in (OnlyDlpack(), OnlyInterface()):
        read_back = read(other)
        assert (read_back.pointer, read_back.dtype, read_back.strides) == (result.pointer, "float32", (8, 1))
        assert (read_back.kind, read_back.device_index) == ("cuda", 0)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert current_stream(0) == stream.cuda_stream


def test_masked_arrays_are_refused():
    with pytest.raises(TypeError, match="masked array"):
        read_array(np.ma.masked_array([1.0, 2.0], mask=[False, True]))


@pytest.mark.parametrize(
    "interface", [{}, {"shape": (4,), "data": (), "typestr": "<f4"}, {"shape": (4,), "data": (0, False), "typestr": ""}]
)
def test_malformed_interfaces_are_named(interface):
    class Broken:
        __cuda_array_interface__ = interface

    with pytest.raises(TypeError, match="__cuda_array_interface__ of a Broken is malformed"):
        read_array(Broken())
