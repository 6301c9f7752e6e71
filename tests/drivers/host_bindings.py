"""A stand-in for the driver whose device memory is host memory."""

# ruff: noqa: N802, N815 - the stand-in spells functions as the driver does

from __future__ import annotations

import ctypes
import enum
import types
from typing import Any

import numpy as np

from glueball.drivers.device_memory import CudaArray


class Result(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2


class HostBindings:
    """A driver whose device memory is host memory and whose clock ticks once per recorded event."""

    CUresult = Result
    CUpointer_attribute = types.SimpleNamespace(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=9)

    def __init__(self, limit: int = 1 << 30) -> None:
        self.limit = limit
        self.buffers: dict[int, Any] = {}
        self.clock = 0
        self.times: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *_: (Result.CUDA_SUCCESS, 0)

    def cuGetErrorName(self, code: Result) -> tuple[Result, bytes]:
        return Result.CUDA_SUCCESS, code.name.encode()

    def cuGetErrorString(self, code: Result) -> tuple[Result, bytes]:
        return Result.CUDA_SUCCESS, f"text of {int(code)}".encode()

    def cuMemAlloc(self, size: int) -> tuple[Result, int]:
        if size > self.limit:
            return Result.CUDA_ERROR_OUT_OF_MEMORY, 0
        buffer = (ctypes.c_char * size)()
        self.buffers[ctypes.addressof(buffer)] = buffer
        return Result.CUDA_SUCCESS, ctypes.addressof(buffer)

    def cuMemFree(self, pointer: int) -> tuple[Result]:
        del self.buffers[pointer]
        return (Result.CUDA_SUCCESS,)

    def cuMemcpyHtoD(self, destination: int, source: int, size: int, _: int = 0) -> tuple[Result]:
        ctypes.memmove(destination, source, size)
        return (Result.CUDA_SUCCESS,)

    cuMemcpyDtoH = cuMemcpyDtoDAsync = cuMemcpyHtoD

    def cuMemsetD8Async(self, pointer: int, byte: int, size: int, _: int) -> tuple[Result]:
        ctypes.memset(pointer, byte, size)
        return (Result.CUDA_SUCCESS,)

    def cuMemGetInfo(self) -> tuple[Result, int, int]:
        return Result.CUDA_SUCCESS, self.limit, 2 * self.limit

    def cuEventCreate(self, _: int) -> tuple[Result, int]:
        self.times[len(self.times)] = 0
        return Result.CUDA_SUCCESS, len(self.times) - 1

    def cuEventRecord(self, event: int, _: int) -> tuple[Result]:
        self.clock += 1
        self.times[event] = self.clock
        return (Result.CUDA_SUCCESS,)

    def cuEventElapsedTime(self, start: int, end: int) -> tuple[Result, float]:
        return Result.CUDA_SUCCESS, float(self.times[end] - self.times[start])


def numpy_view(array: CudaArray) -> np.ndarray:
    """What the array interface describes, read in place: the stand-in's memory is the host's."""
    interface = dict(array.__cuda_array_interface__)
    return np.asarray(type("View", (), {"__array_interface__": interface}))
