"""A launch function that records, and a table around it."""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from glueball.drivers.exchange import DLTensor
from glueball.drivers.launch_attributes import LAUNCH_TYPE
from glueball.runtime.launcher import Variant, VariantTable
from glueball.runtime.launcher_native import native_supported

PATIENCE = 300
"""Seconds that a thread waits for another one: only a hang takes as long, on a machine however busy."""
CONFIGURED_LAUNCH_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
)
CONTEXT_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))

FLOAT32 = object()
FLOAT16 = object()


class Tensor:
    """As much of a torch tensor as the launcher reads."""

    def __init__(self, address: Any = 0x7F0000001000, dtype: object = FLOAT32, device: Any = 0) -> None:
        self.address = address
        self.dtype = dtype
        self.device = device

    def data_ptr(self) -> Any:
        if isinstance(self.address, Exception):
            raise self.address
        return self.address

    def get_device(self) -> Any:
        if isinstance(self.device, Exception):
            raise self.device
        return self.device


def torch_tensor_on_device(count: int, dtype: Any = None) -> Any:
    """A torch tensor in host memory that claims to be the first device's; float32 by default."""
    import torch

    class OnDevice(torch.Tensor):
        @property
        def device(self) -> Any:
            return type("Device", (), {"type": "cuda", "index": 0})

        def get_device(self) -> int:
            return 0

    return torch.zeros(count, dtype=dtype or torch.float32).as_subclass(OnDevice)


class OtherTensor(Tensor):
    pass


READ_TYPE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
STREAM_TYPE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


@dataclass
class Framework:
    """An array framework with DLPack's C exchange API: what its functions answer, and what they were asked."""

    stream: int = 0x5EED
    stream_status: int = 0
    asked: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._functions = READ_TYPE(self._read), STREAM_TYPE(self._give_stream)
        self.read_address, self.stream_address = (
            ctypes.cast(function, ctypes.c_void_p).value or 0 for function in self._functions
        )

    def _read(self, tensor: Any, slot: Any) -> int:
        described = slot[0]
        described.data, described.byte_offset = tensor.address, tensor.offset
        described.device_type, described.device_index = tensor.device
        described.dimensions, described.shape = len(tensor.shape), tensor.shape
        described.dtype.code, described.dtype.bits, described.dtype.lanes = tensor.dtype
        status: int = tensor.status
        return status

    def _give_stream(self, device_type: int, device_index: int, slot: Any) -> int:
        self.asked.append((device_type, device_index))
        slot[0] = self.stream
        return self.stream_status

    def table(self, version: int = 1, previous: Any = None, *, reads: bool = True) -> Any:
        """A `DLPackExchangeAPI`."""
        words = [version, ctypes.addressof(previous) if previous else 0, 0, 0, 0]
        return (ctypes.c_uint64 * 7)(*words, self.read_address if reads else 0, self.stream_address)


def capsule(table: Any, name: bytes) -> Any:
    """A capsule around a table; the table and the name must outlive it."""
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(table), name, None)


FRAMEWORK = Framework()
TABLE = FRAMEWORK.table()
CAPSULE_NAME = b"dlpack_exchange_api"


class ExchangeTensor:
    """What only DLPack's C exchange API can read: a CUDA tensor of float32 by default."""

    __dlpack_c_exchange_api__ = capsule(TABLE, CAPSULE_NAME)

    def __init__(
        self,
        address: int = 0x7F0000001000,
        dtype: tuple[int, int, int] = (2, 32, 1),
        device: tuple[int, int] = (2, 0),
        offset: int = 0,
        status: int = 0,
        shape: tuple[int, ...] = (64,),
    ) -> None:
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.address, self.dtype, self.device, self.offset, self.status = address, dtype, device, offset, status


@dataclass
class Driver:
    """A launch function and a context that tests can look into."""

    argument_count: int = 0
    result: int = 0
    context: int = 0xC0
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._launch = LAUNCH_TYPE(self._record)
        self._context = CONTEXT_TYPE(self._give_context)
        self._launch_with_configuration = CONFIGURED_LAUNCH_TYPE(self._record_configured)
        self.configured: list[tuple[Any, ...]] = []

    def _record(self, function: Any, *rest: Any) -> int:
        *numbers, stream, pointers, extra = rest
        raw = [ctypes.string_at(pointers[index], 8) for index in range(self.argument_count)]
        self.calls.append((function, tuple(numbers), stream, raw, extra))
        return self.result

    def _record_configured(self, configuration: int, function: Any, pointers: Any, extra: Any) -> int:
        """What `cuLaunchKernelEx` gets: `CUlaunchConfig` and its attributes."""
        *numbers, stream, attributes, count = struct.unpack("<7I4xQQI", ctypes.string_at(configuration, 52))
        read = [struct.unpack("<I4xQ", ctypes.string_at(attributes + 72 * index, 16)) for index in range(count)]
        raw = [ctypes.string_at(pointers[index], 8) for index in range(self.argument_count)]
        self.configured.append((function, tuple(numbers), stream, read, raw, extra))
        return self.result

    def _give_context(self, slot: Any) -> int:
        slot[0] = self.context
        return 0

    @property
    def launch_address(self) -> int:
        return ctypes.cast(self._launch, ctypes.c_void_p).value or 0

    @property
    def launch_with_configuration_address(self) -> int:
        return ctypes.cast(self._launch_with_configuration, ctypes.c_void_p).value or 0

    @property
    def context_address(self) -> int:
        return ctypes.cast(self._context, ctypes.c_void_p).value or 0


class Kernel:
    """What a launch returns."""


class Runtime:
    """A table whose misses add a variant that passes `passed` (all arguments when left out)."""

    def __init__(
        self, native: bool, parameters: Any = (), passed: tuple[int, ...] | None = None, **variant: Any
    ) -> None:
        self.driver = Driver()
        self.misses: list[tuple[Any, ...]] = []
        self.kernels: list[Kernel] = []
        self.passed = passed
        self.variant = variant
        self.table = VariantTable(self.miss, parameters, native=native)
        self.table.register_tensor_type(Tensor)
        self.table.register_tensor_type(ExchangeTensor)
        self.launch = self.table.launcher((2, 3, 4))

    def miss(self, grid: Any, arguments: Any, keywords: Any) -> object:
        self.misses.append((grid, arguments, keywords))
        passed = tuple(range(len(arguments) + len(keywords))) if self.passed is None else self.passed
        kernel = Kernel()
        self.kernels.append(kernel)
        self.driver.argument_count = len(passed)
        options = {"block": (128, 1, 1), "shared_bytes": 1024, "function_handle": 0xF00} | self.variant
        self.table.add(
            Variant(kernel, self.driver.launch_address, argument_indices=passed, **options), arguments, keywords
        )
        return "missed"

    def hits(self, *arguments: Any, **keywords: Any) -> bool:
        before = len(self.misses)
        result = self.launch(*arguments, **keywords)
        if len(self.misses) == before:
            assert isinstance(result, Kernel)
            return True
        assert result == "missed"
        return False

    def raw(self, *arguments: Any, **keywords: Any) -> list[bytes]:
        """The bytes the driver got for a call, after a first one to compile."""
        self.launch(*arguments, **keywords)
        assert self.hits(*arguments, **keywords)
        raw: list[bytes] = self.driver.calls[-1][3]
        return raw


MODES = [
    pytest.param(True, id="native", marks=pytest.mark.skipif(not native_supported(), reason="no native launcher here")),
    pytest.param(False, id="portable"),
]


each_launcher = pytest.mark.parametrize("native", MODES)


def in_switching_threads(work: Callable[[int], None], count: int = 4) -> None:
    """Runs `work(seed)` in several threads, which the interpreter switches between as often as it can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
