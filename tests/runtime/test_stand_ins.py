"""Arguments that are no plain arrays or numbers: other views of arrays, stand-ins, NumPy's scalars, allocators."""

from __future__ import annotations

import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import MockTensor, TensorWrapper, reinterpret, set_allocator
from glueball.runtime.allocation import allocate_scratch
from glueball.tile.types import float8e4nv, int1
from tests.runtime import kernels
from tests.runtime.fake_gpu import DeviceArray, FakeDriver
from tests.runtime.kernels import layout
from tests.runtime.settings import fresh

pytestmark = pytest.mark.usefixtures("own_settings")


@glueball.jit
def widen(x: Any, y: Any, BLOCK: gl.constexpr, spread: gl.constexpr):
    offsets = gl.arange(0, BLOCK, layout=spread)
    gl.store(y + offsets, gl.load(x + offsets).to(gl.float32))


@pytest.mark.parametrize("executor", ["sim", "reference"])
def test_bytes_read_as_float8(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
    codes = np.arange(128, dtype=np.int8) % 64
    y = np.zeros(128, np.float32)
    wrapped = reinterpret(codes, gl.float8e4nv)
    widen[(1,)](wrapped, y, 128, layout())
    assert (y == codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)).all()
    assert (wrapped.dtype, wrapped.shape, wrapped.base is codes) == (gl.float8e4nv, (128,), True)
    assert wrapped.data_ptr() == codes.ctypes.data


@pytest.mark.parametrize("executor", ["sim", "reference"])
def test_elements_of_another_size(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
    words = np.arange(64, dtype=np.float32).reshape(8, 8)
    y = np.zeros(128, np.float32)
    widen[(1,)](reinterpret(words, "int16"), y, 128, layout())
    assert (y == words.view(np.int16).ravel()).all()
    with pytest.raises(TypeError, match=r"cannot be read as int16: elements of another size need a contiguous array"):
        widen[(1,)](reinterpret(words.T, "int16"), y, 128, layout())
    with pytest.raises(TypeError, match="cannot be read as float64"):
        widen[(1,)](reinterpret(np.zeros(3, np.float32), gl.float64), y, 128, layout())


def test_reinterpreting_back_gives_the_array() -> None:
    x = np.zeros(4, np.int8)
    wrapped = reinterpret(x, gl.float8e5)
    assert reinterpret(wrapped, gl.int8) is x
    assert isinstance(reinterpret(wrapped, gl.float8e4nv), TensorWrapper)
    assert reinterpret(x, np.dtype(np.int8)) is x
    with pytest.raises(TypeError, match="Cannot reinterpret a int"):
        reinterpret(3, gl.int8)
    with pytest.raises(ValueError, match="unknown type 'float99'"):
        reinterpret(x, "float99")


@pytest.mark.torch
def test_wrapped_torch_tensors() -> None:
    import torch

    x = torch.arange(128).to(torch.int8)
    wrapped = reinterpret(x, torch.float8_e5m2)
    assert (wrapped.dtype, wrapped.device, wrapped.element_size(), wrapped.stride(0)) == (gl.float8e5, x.device, 1, 1)
    assert wrapped.data_ptr() == x.data_ptr()
    assert wrapped.get_device() == -1
    other = wrapped.clone()
    assert other.base is not x
    other.copy_(reinterpret(torch.ones_like(x), gl.float8e5))
    assert other.base.sum() == 128
    assert (wrapped.cpu().dtype, wrapped.to("cpu").dtype, wrapped.new_empty(3).shape) == (
        gl.float8e5, gl.float8e5, (3,),
    )  # fmt: skip


def test_wrapped_arrays_are_launched_natively(driver: FakeDriver) -> None:
    driver.argument_count = 2
    kernel, spread = fresh(widen), layout()
    x, y = DeviceArray(128, np.int8), DeviceArray(128)
    pairs = [(reinterpret(x, gl.float8e4nv), reinterpret(y, gl.int32)) for _ in range(3)]
    compiled = {id(kernel[(1,)](*pair, 128, spread)) for pair in pairs}
    assert len(compiled) == 1
    assert (len(driver.launches), len(driver.calls)) == (1, 2)
    assert driver.calls[-1][3] == [struct.pack("<Q", x.address), struct.pack("<Q", y.address)]


def test_warmup_takes_stand_ins_for_arrays() -> None:
    kernel = fresh(kernels.copy)
    x = np.zeros(128 + 4, np.float32)
    aligned = x[(-(x.ctypes.data // 4)) % 4 :]
    compiled = kernel.warmup(MockTensor(gl.float32), MockTensor(gl.float32, (128,)), 100, 128, layout(), grid=(1,))
    assert compiled is kernel.warmup(aligned, aligned, 100, 128, layout())
    assert compiled is not kernel.warmup(aligned[1:], aligned, 100, 128, layout())
    mock = MockTensor(gl.float32, (4, 8))
    assert (mock.data_ptr(), mock.ptr_range(), mock.stride()) == (0, 0, [8, 1])
    with pytest.raises(TypeError, match="failed to specialize argument of type MockTensor for parameter `x`"):
        kernel[(1,)](mock, aligned, 100, 128, layout())


@pytest.mark.torch
def test_warmup_takes_dtypes_of_torch() -> None:
    import torch

    kernel = fresh(kernels.copy)
    compiled = kernel.warmup(torch.bfloat16, MockTensor(torch.bfloat16), 100, 128, layout())
    assert compiled.src.signature["x"] == "*bf16"
    assert compiled is kernel.warmup(MockTensor(gl.bfloat16), torch.bfloat16, 100, 128, layout())


def test_stand_ins_follow_the_parameters_rules() -> None:
    @glueball.jit(do_not_specialize_on_alignment=["y"])
    def kernel(x: "*kfp32", y: Any, C: gl.constexpr):  # type: ignore[name-defined]  # noqa: F722
        pass

    source = kernel.warmup(MockTensor(gl.float32), MockTensor(gl.float32), MockTensor).src
    assert source.signature == {"x": "*kfp32", "y": "*fp32", "C": "constexpr"}
    assert source.attrs == {(0,): [["tt.divisibility", 16]]}


@glueball.jit
def store_number(y: Any, value: Any):
    gl.store(y, value)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.int32(7), "i32"), (np.int8(-7), "i32"), (np.uint64(2**63), "u64"), (np.int64(2**40), "i64"),
        (np.float64(2.5), "fp32"), (np.float16(2.5), "fp32"), (np.float32(2.5), "fp32"), (np.bool_(True), "u1"),
        (ml_dtypes.bfloat16(2.5), "fp32"), (np.int64(1), "constexpr"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("executor", ["sim", "reference"])
def test_numpy_scalars_are_numbers(value: Any, kind: str, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
    kernel = fresh(store_number)
    y = np.zeros(1, np.float64)
    compiled = kernel[(1,)](y, value)
    assert compiled.src.signature["value"] == kind
    assert y[0] == float(value)
    assert compiled is kernel[(1,)](y, value.item())


def test_numpy_scalars_are_launched_natively(driver: FakeDriver) -> None:
    driver.argument_count = 1
    kernel = fresh(kernels.nothing)
    kernel[(1,)](6)
    for value in (np.int64(6), np.int8(8), np.uint16(6)):
        kernel[(1,)](value)
    assert (len(driver.launches), len(driver.calls)) == (1, 3)


@pytest.mark.parametrize("value", [np.complex64(1), np.datetime64("2020"), np.str_("a")])
def test_numpy_scalars_that_are_no_numbers(value: Any) -> None:
    with pytest.raises(TypeError, match=r"failed to specialize argument of type .* for parameter `n`"):
        fresh(kernels.nothing)[(1,)](value)


def test_arrays_without_dimensions_are_arrays() -> None:
    cell = np.array(3, np.int32)
    store_number[(1,)](cell, 5)
    assert cell == 5
    with pytest.raises(glueball.CompilationError):
        fresh(store_number)[(1,)](np.zeros(1, np.int32), cell)


def test_a_number_in_a_host_array_beside_device_arrays(driver: FakeDriver) -> None:
    with pytest.raises(TypeError, match=r"`y` \(on device 0\) and `value` \(on the host\).*pass its `\.item\(\)`"):
        fresh(store_number)[(1,)](DeviceArray(4), np.array(3))
    with pytest.raises(TypeError, match=r"move one of them$"):
        fresh(store_number)[(1,)](DeviceArray(4), np.zeros(3))


class Buffer:
    """Memory at a made-up address."""

    def __init__(self, address: Any) -> None:
        self.address = address

    def data_ptr(self) -> Any:
        return self.address


def test_scratch_memory_comes_from_the_allocator() -> None:
    asked: list[Any] = []

    def allocate(size: int, alignment: int, stream: int | None) -> Buffer:
        asked.append((size, alignment, stream))
        return Buffer(0x1000)

    with pytest.raises(RuntimeError, match=r"k needs 640 bytes of global scratch memory, but no allocator was set"):
        allocate_scratch("k", 640, 128, 7)
    set_allocator(allocate)
    try:
        assert allocate_scratch("k", 640, 128, 7).data_ptr() == 0x1000
        assert asked == [(640, 128, 7)]
        set_allocator(lambda *_: Buffer(0x1001))
        with pytest.raises(RuntimeError, match="is no memory at a multiple of 128 bytes"):
            allocate_scratch("k", 640, 128, 7)
        set_allocator(lambda *_: None)  # type: ignore[arg-type, return-value]
        with pytest.raises(RuntimeError, match="the allocator gave None"):
            allocate_scratch("k", 640, 128, 7)
    finally:
        set_allocator(None)
    with pytest.raises(TypeError, match="an allocator is a function"):
        set_allocator(3)  # type: ignore[arg-type]


def test_element_types_by_any_name() -> None:
    from glueball.runtime.tensor_wrapper import element_type

    assert element_type("float8_e4m3fn") == element_type("torch.float8_e4m3fn") == float8e4nv
    assert element_type("bool") == element_type(np.dtype(bool)) == int1
    with pytest.raises(TypeError, match="an element type is needed"):
        element_type("*fp32")
