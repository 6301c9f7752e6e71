"""The driver layer against a stand-in for the bindings; the real driver where there is a GPU."""

# ruff: noqa: N802 - the stand-in spells functions as the driver does

from __future__ import annotations

import ctypes
import enum
import struct
import types
from typing import Any

import pytest

from glueball.drivers import cuda
from glueball.drivers.cuda import CudaDriver, CudaError, architecture_name, cuda_available, cuda_driver, open_driver
from glueball.errors import DriverError


class Result(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_INVALID_PTX = 218


class Attributes:
    """An enumeration whose every name is a member."""

    def __getattr__(self, name: str) -> str:
        return name


class Bindings:
    """Two devices; primary contexts 0xA0 and 0xA1; records calls; `failing` names functions and their codes."""

    CUresult = Result
    CUdevice_attribute = CUfunction_attribute = CUjit_option = CUjitInputType = CUpointer_attribute = Attributes()
    CUfunction = CUstream = int

    def __init__(self, current: int = 0, devices: int = 2) -> None:
        self.stack = [current]
        self.devices = devices
        self.calls: list[tuple[Any, ...]] = []
        self.failing: dict[str, int] = {}
        self.binary = ctypes.create_string_buffer(b"\x7fELF cubin", 10)

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            if name in self.failing:
                if name == "cuLinkAddData":
                    self.error_log[: 12 + 1] = b"line 3: what\0"
                return self.failing[name], None
            handler = getattr(type(self), f"on_{name}", None)
            return (Result.CUDA_SUCCESS, *(() if handler is None else handler(self, *arguments)))

        return call

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]

    def on_cuGetErrorName(self, code: Result) -> tuple[bytes]:
        return (code.name.encode(),)

    def on_cuGetErrorString(self, code: Result) -> tuple[bytes]:
        return (f"text of {int(code)}".encode(),)

    def on_cuDeviceGetCount(self) -> tuple[int]:
        return (self.devices,)

    def on_cuDeviceGet(self, index: int) -> tuple[int]:
        return (index,)

    def on_cuDeviceGetName(self, _: int, device: int) -> tuple[bytes]:
        return (f"Device {device}".encode() + bytes(100),)

    def on_cuDriverGetVersion(self) -> tuple[int]:
        return (13020,)

    def on_cuDeviceGetAttribute(self, name: str, device: int) -> tuple[int]:
        numbers = {
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": 9 - device,
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": 0,
            "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
            "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": 132,
        }
        return (numbers[name],)

    def on_cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int]:
        return (0xA0 + device,)

    def on_cuCtxGetCurrent(self) -> tuple[int]:
        return (self.stack[-1],)

    def on_cuCtxGetDevice(self) -> tuple[int]:
        return (self.stack[-1] - 0xA0,)

    def on_cuCtxSetCurrent(self, context: int) -> tuple[()]:
        self.stack[-1] = context
        return ()

    def on_cuCtxPushCurrent(self, context: int) -> tuple[()]:
        self.stack.append(context)
        return ()

    def on_cuCtxPopCurrent(self) -> tuple[int]:
        return (self.stack.pop(),)

    def on_cuModuleLoadData(self, _: bytes) -> tuple[str]:
        return ("module",)

    def on_cuModuleGetFunction(self, *_: object) -> tuple[int]:
        return (0xF00,)

    def on_cuFuncGetAttribute(self, name: str, _: int) -> tuple[int]:
        numbers = {"NUM_REGS": 40, "LOCAL_SIZE_BYTES": 8, "MAX_THREADS_PER_BLOCK": 1024, "SHARED_SIZE_BYTES": 16}
        return (numbers[name.removeprefix("CU_FUNC_ATTRIBUTE_")],)

    def on_cuLaunchKernel(self, *arguments: Any) -> tuple[()]:
        pointers = ctypes.cast(arguments[9], ctypes.POINTER(ctypes.c_void_p))
        self.first_argument = ctypes.string_at(pointers[0], 4)
        self.launch_context = self.stack[-1]
        return ()

    def on_cuLinkCreate(self, count: int, options: list[str], values: list[Any]) -> tuple[str]:
        assert count == len(options) == len(values)
        named = dict(zip(options, values, strict=True))
        self.error_log = named["CU_JIT_ERROR_LOG_BUFFER"]
        named["CU_JIT_INFO_LOG_BUFFER"][:10] = b"registers\0"
        return ("state",)

    def on_cuLinkComplete(self, _: str) -> tuple[int, int]:
        return ctypes.addressof(self.binary), len(self.binary)

    def on_cuPointerGetAttribute(self, *_: object) -> tuple[int]:
        return (1,)

    def on_cuGetProcAddress(self, symbol: bytes, *_: int) -> tuple[int, int]:
        return (0x1000 if symbol == b"cuLaunchKernel" else 0), 0


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        ((8, 0), "sm_80"),
        ((8, 9), "sm_89"),
        ((9, 0), "sm_90a"),
        ((10, 0), "sm_100a"),
        ((10, 3), "sm_103a"),
        ((12, 0), "sm_120a"),
    ],
)
def test_a_compute_capability_names_its_target(capability: tuple[int, int], name: str) -> None:
    assert architecture_name(*capability) == name


def test_what_a_device_is() -> None:
    driver = CudaDriver(Bindings())
    assert driver.device_count() == 2
    assert driver.device_name(1) == "Device 1"
    assert (driver.architecture(0), driver.architecture(1)) == ("sm_90a", "sm_80")
    assert (driver.max_shared_bytes(0), driver.multiprocessor_count(0)) == (232448, 132)
    assert driver.driver_version() == (13, 2)


def test_a_failure_says_what_was_done_and_what_cuda_calls_it() -> None:
    bindings = Bindings()
    driver = CudaDriver(bindings)
    bindings.failing["cuModuleLoadData"] = 209
    with pytest.raises(DriverError) as caught:
        driver.load(b"cubin", "copy", 0, 0)
    assert str(caught.value) == "loading the module of copy: CUDA_ERROR_NO_BINARY_FOR_GPU (209): text of 209"
    with pytest.raises(CudaError, match=r"unknown error \(987654\)"):
        driver.raise_error("launching", 987654)


@pytest.mark.parametrize(
    ("failing", "action"),
    [
        ("cuModuleGetFunction", "finding kernel copy"),
        ("cuFuncSetAttribute", "giving copy 65536 bytes of dynamic shared memory"),
        ("cuFuncGetAttribute", "reading NUM_REGS of copy"),
    ],
)
def test_a_module_that_is_of_no_use_is_unloaded(failing: str, action: str) -> None:
    bindings = Bindings()
    bindings.failing[failing] = 1
    with pytest.raises(CudaError, match=action):
        CudaDriver(bindings).load(b"cubin", "copy", 65536, 0)
    assert bindings.named("cuModuleUnload") == [("module",)]


def test_a_loaded_kernel_has_the_assemblers_counts() -> None:
    bindings = Bindings()
    driver = CudaDriver(bindings)
    kernel = driver.load(b"cubin", "copy", 48 * 1024, 1)
    assert (kernel.function, kernel.context, kernel.device_index) == (0xF00, 0xA1, 1)
    assert (kernel.registers, kernel.local_bytes, kernel.max_threads) == (40, 8, 1024)
    assert (kernel.static_shared_bytes, kernel.shared_bytes) == (16, 48 * 1024)
    assert bindings.named("cuFuncSetAttribute") == []
    driver.load(b"cubin", "copy", 48 * 1024 + 1, 1)
    attribute = "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
    assert bindings.named("cuFuncSetAttribute") == [(0xF00, attribute, 48 * 1024 + 1)]
    assert len(bindings.named("cuDevicePrimaryCtxRetain")) == 1


@pytest.mark.parametrize(("current", "after"), [(0, [0xA0]), (0xA0, [0xA0]), (0xA1, [0xA1])])
def test_the_primary_context_is_current_while_needed(current: int, after: list[int]) -> None:
    bindings = Bindings(current)
    with CudaDriver(bindings).activated(0) as context:
        assert bindings.stack[-1] == context == 0xA0
    assert bindings.stack == after


def test_a_foreign_context_returns_after_a_failure() -> None:
    bindings = Bindings(0xA1)
    bindings.failing["cuModuleLoadData"] = 1
    with pytest.raises(CudaError):
        CudaDriver(bindings).load(b"cubin", "copy", 0, 0)
    assert bindings.stack == [0xA1]


def test_the_current_device_is_the_contexts() -> None:
    assert CudaDriver(Bindings(0)).current_device() == 0
    assert CudaDriver(Bindings(0xA1)).current_device() == 1


def test_a_launch_passes_packed_arguments_on_the_kernels_device() -> None:
    bindings = Bindings(0xA1)
    driver = CudaDriver(bindings)
    kernel = driver.load(b"cubin", "copy", 512, 0)
    driver.launch(kernel, (5, 1, 0), (128, 1, 1), 0, [])
    assert bindings.named("cuLaunchKernel") == []
    driver.launch(kernel, (5, 6, 7), (128, 2, 1), 0x51, [struct.pack("<i", -3), bytes(8)])
    (arguments,) = bindings.named("cuLaunchKernel")
    assert arguments[:9] == (0xF00, 5, 6, 7, 128, 2, 1, 512, 0x51)
    assert bindings.first_argument == struct.pack("<i", -3)
    assert bindings.launch_context == 0xA0
    assert bindings.stack == [0xA1]


def test_linking_gives_the_binary_and_the_log() -> None:
    bindings = Bindings()
    binary, log = CudaDriver(bindings).link(".version 8.0", "copy", 0)
    assert (binary, log) == (b"\x7fELF cubin", "registers")
    ((_, kind, text, size, name, *_),) = bindings.named("cuLinkAddData")
    assert (kind, text, size, name) == ("CU_JIT_INPUT_PTX", b".version 8.0\0", 13, b"copy")
    assert bindings.named("cuLinkDestroy") == [("state",)]


def test_refused_ptx_is_told_with_the_assemblers_log() -> None:
    bindings = Bindings()
    bindings.failing["cuLinkAddData"] = 218
    with pytest.raises(CudaError, match=r"(?s)assembling copy: CUDA_ERROR_INVALID_PTX.*line 3: what"):
        CudaDriver(bindings).link("nonsense", "copy", 0)
    assert bindings.named("cuLinkDestroy") == [("state",)]


def test_entry_points_are_found_or_named() -> None:
    driver = CudaDriver(Bindings())
    assert driver.launch_address == 0x1000
    with pytest.raises(DriverError, match="cuCtxGetCurrent"):
        _ = driver.context_address


class BrokenBindings:
    def cuInit(self, _: int) -> Any:
        raise RuntimeError("Failed to dlopen libcuda.so.1\nsecond line")


def test_each_missing_piece_is_named() -> None:
    uninitialised = Bindings()
    uninitialised.failing["cuInit"] = 1
    reasons = [open_driver(bindings) for bindings in (uninitialised, Bindings(devices=0), BrokenBindings())]
    assert reasons == [
        "the CUDA driver does not start: initialising CUDA: CUDA_ERROR_INVALID_VALUE (1): text of 1",
        "the CUDA driver finds no device",
        "the CUDA driver library cannot be loaded: Failed to dlopen libcuda.so.1",
    ]
    assert isinstance(open_driver(Bindings()), CudaDriver)


def probe_with(monkeypatch: pytest.MonkeyPatch, importer: Any) -> None:
    cuda._probe.cache_clear()
    monkeypatch.setattr(cuda, "importlib", types.SimpleNamespace(import_module=importer))


@pytest.fixture
def fresh_probe() -> Any:
    yield
    cuda._probe.cache_clear()


def test_availability_never_raises(monkeypatch: pytest.MonkeyPatch, fresh_probe: None) -> None:
    def missing(_: str) -> Any:
        raise ImportError("No module named 'cuda'")

    probe_with(monkeypatch, missing)
    assert not cuda_available().ok
    assert "cuda-bindings is not installed" in cuda_available().reason
    with pytest.raises(DriverError, match="cuda-bindings"):
        cuda_driver()
    probe_with(monkeypatch, lambda _: Bindings())
    assert cuda_available().ok
    assert cuda_available().reason == "2 CUDA device(s), the first is Device 0"
    with pytest.raises(CudaError, match=r"launching a kernel: CUDA_ERROR_INVALID_VALUE \(1\)"):
        cuda.raise_launch_error(1)


def test_the_machines_own_answer_is_a_sentence() -> None:
    assert cuda_available().reason


def test_every_name_is_one_the_bindings_have() -> None:
    """The stand-in accepts any name; the real bindings do not."""
    bindings = pytest.importorskip("cuda.bindings.driver")
    for name in ("MAX_DYNAMIC_SHARED_SIZE_BYTES", "NUM_REGS", "LOCAL_SIZE_BYTES", "MAX_THREADS_PER_BLOCK"):
        getattr(bindings.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
    for name in ("COMPUTE_CAPABILITY_MAJOR", "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", "MULTIPROCESSOR_COUNT"):
        getattr(bindings.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    recorder = Bindings()
    driver = CudaDriver(recorder)
    driver.unload(driver.load(b"cubin", "copy", 65536, 0))
    driver.link("", "copy", 0)
    driver.synchronize(0)
    assert driver.device_of_pointer(0x1000) == 1
    driver.current_device()
    for name in {call[0] for call in recorder.calls}:
        assert hasattr(bindings, name)
    for option in recorder.named("cuLinkCreate")[0][1]:
        getattr(bindings.CUjit_option, option)


FILL_PTX = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 destination, .param .u32 value, .param .u32 length)
{
  .reg .pred %p<2>;
  .reg .b32 %r<7>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [destination];
  ld.param.u32 %r1, [value];
  ld.param.u32 %r2, [length];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.u32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r6, %r2;
  @%p1 bra DONE;
  mul.wide.u32 %d2, %r6, 4;
  add.u64 %d3, %d1, %d2;
  st.global.u32 [%d3], %r1;
DONE:
  ret;
}
"""


@pytest.mark.gpu
@pytest.mark.torch
def test_a_kernel_runs_on_the_device() -> None:
    import torch

    torch.zeros(1, device="cuda")
    driver = cuda_driver()
    assert cuda_available().ok
    assert driver.architecture(0) == architecture_name(*torch.cuda.get_device_capability(0))
    binary, _ = driver.link(FILL_PTX, "fill", 0)
    kernel = driver.load(binary, "fill", 64 * 1024, 0)
    assert kernel.registers > 0
    assert kernel.local_bytes == 0
    tensor = torch.zeros(1000, dtype=torch.int32, device="cuda")
    assert driver.device_of_pointer(tensor.data_ptr()) == 0
    arguments = [struct.pack("<Q", tensor.data_ptr()), struct.pack("<i", -7), struct.pack("<i", 999)]
    driver.launch(kernel, (8, 1, 1), (128, 1, 1), 0, arguments)
    driver.synchronize(0)
    assert tensor.tolist() == [-7] * 999 + [0]
    with pytest.raises(CudaError, match="launching on grid"):
        driver.launch(kernel, (8, 1, 1), (2048, 1, 1), 0, arguments)
    driver.unload(kernel)


@pytest.mark.gpu
def test_the_driver_refuses_what_it_cannot_do() -> None:
    driver = cuda_driver()
    with pytest.raises(CudaError, match=r"(?s)assembling broken.*line"):
        driver.link(FILL_PTX.replace("add.u64", "add.u63"), "broken", 0)
    binary, _ = driver.link(FILL_PTX, "fill", 0)
    with pytest.raises(CudaError, match="finding kernel absent"):
        driver.load(binary, "absent", 0, 0)
    with pytest.raises(CudaError, match="dynamic shared memory"):
        driver.load(binary, "fill", driver.max_shared_bytes(0) + 1, 0)
    with pytest.raises(CudaError, match="loading the module"):
        driver.load(b"not a cubin", "fill", 0, 0)


@pytest.mark.gpu
@pytest.mark.torch
def test_the_native_launcher_drives_the_device() -> None:
    import torch

    from glueball.drivers.arrays import stream_callable
    from glueball.runtime.launcher import Variant, VariantTable

    torch.zeros(1, device="cuda")
    driver = cuda_driver()
    kernel = driver.load(driver.link(FILL_PTX, "fill", 0)[0], "fill", 0, 0)
    misses: list[object] = []

    def miss(grid: Any, arguments: Any, keywords: Any) -> object:
        misses.append(grid)
        variant = Variant(
            kernel=kernel,
            launch_address=driver.launch_address,
            function_handle=kernel.function,
            block=(128, 1, 1),
            shared_bytes=0,
            argument_indices=(0, 1, 2),
            context_address=driver.context_address,
            context_handle=kernel.context,
            stream_callable=stream_callable(),
            stream_argument=0,
        )
        assert table.add(variant, arguments, keywords)
        return table.launcher(grid)(*arguments, **keywords)

    table = VariantTable(miss)
    table.register_tensor_type(torch.Tensor)
    launch = table.launcher((8, 1, 1))
    first, second = (torch.zeros(1000, dtype=torch.int32, device="cuda") for _ in range(2))
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    assert launch(first, -7, 999) is kernel
    with torch.cuda.stream(stream):
        assert launch(second, 5, 997) is kernel
    torch.cuda.synchronize()
    assert first.tolist() == [-7] * 999 + [0]
    assert second.tolist() == [5] * 997 + [0] * 3
    assert len(misses) == 1
