"""Arrays in device memory and device timing, without a framework: what the command line needs on a bare machine."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glueball.drivers.cuda import CudaDriver, cuda_driver

if TYPE_CHECKING:
    import numpy

DEFAULT_STREAM = 0


class Allocation:
    """Device memory of a number of bytes, freed when nothing refers to it any more or `free` is called."""

    def __init__(self, size: int, device_index: int, driver: CudaDriver) -> None:
        self.size = size
        self.device_index = device_index
        self.driver = driver
        with driver.activated(device_index):
            self.pointer = int(driver.call(f"allocating {size:,} bytes", "cuMemAlloc", size)) if size else 0
        self._finalizer = weakref.finalize(self, _free, driver, device_index, self.pointer)
        self._finalizer.atexit = False

    def free(self) -> None:
        """Gives the memory back now; its arrays must not be used any more."""
        self._finalizer()


def _free(driver: CudaDriver, device_index: int, pointer: int) -> None:
    if pointer:
        with driver.activated(device_index):
            driver.call("freeing device memory", "cuMemFree", pointer)


@dataclass(frozen=True, slots=True)
class CudaArray:
    """An array, or a view of one, in device memory. As NumPy's: `strides` are in bytes and views share memory.

    Kernels take it, and so does everything that reads `__cuda_array_interface__`.
    """

    memory: Allocation
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: numpy.dtype[Any]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "strides": self.strides,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "version": 3,
        }

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements follow one another in row-major order."""
        return self.size <= 1 or self.strides == _row_major(self.shape, self.dtype.itemsize)

    @property
    def T(self) -> CudaArray:  # noqa: N802 - NumPy's name
        """The view with its dimensions in reverse order."""
        return CudaArray(self.memory, self.pointer, self.shape[::-1], self.strides[::-1], self.dtype)

    def __getitem__(self, key: slice | tuple[slice, ...]) -> CudaArray:
        """A view of slices along the first dimensions."""
        slices = key if isinstance(key, tuple) else (key,)
        if len(slices) > len(self.shape) or not all(isinstance(item, slice) for item in slices):
            raise IndexError(
                f"an array of {len(self.shape)} dimensions is indexed by at most as many slices, not {key!r}"
            )
        pointer, shape, strides = self.pointer, list(self.shape), list(self.strides)
        for axis, item in enumerate(slices):
            chosen = range(*item.indices(shape[axis]))
            pointer += chosen.start * strides[axis] if chosen else 0
            shape[axis], strides[axis] = len(chosen), strides[axis] * chosen.step
        return CudaArray(self.memory, pointer, tuple(shape), tuple(strides), self.dtype)

    def reshape(self, *shape: int) -> CudaArray:
        """A contiguous array in another shape; one extent may be -1. `ValueError` for what would need a copy."""
        if not self.is_contiguous:
            raise ValueError("only a contiguous array can be reshaped")
        rest = math.prod(extent for extent in shape if extent != -1)
        extents = tuple(self.size // rest if extent == -1 and rest else extent for extent in shape)
        if math.prod(extents) != self.size or min(extents, default=0) < 0:
            raise ValueError(f"an array of {self.size} elements has no shape {shape}")
        return CudaArray(self.memory, self.pointer, extents, _row_major(extents, self.dtype.itemsize), self.dtype)

    def upload(self, host: numpy.ndarray[Any, Any]) -> None:
        """Copies a host array of the same shape and dtype here; waits for the end."""
        import numpy

        self._check_whole(host.shape)
        source = numpy.ascontiguousarray(host, self.dtype)
        self._call("copying to the device", "cuMemcpyHtoD", self.pointer, source.ctypes.data, self.nbytes)

    def to_numpy(self) -> numpy.ndarray[Any, Any]:
        """A copy in host memory of a contiguous array; waits for all earlier work."""
        import numpy

        self._check_whole(self.shape)
        host = numpy.empty(self.shape, self.dtype)
        self._call("copying from the device", "cuMemcpyDtoH", host.ctypes.data, self.pointer, self.nbytes)
        return host

    def fill_bytes(self, byte: int, stream: int = DEFAULT_STREAM) -> None:
        """Sets every byte of a contiguous array; does not wait."""
        self._check_whole(self.shape)
        self._call("filling memory", "cuMemsetD8Async", self.pointer, byte, self.nbytes, stream)

    def copy_from(self, source: CudaArray) -> None:
        """The driver's plain copy between contiguous arrays of equal size on one device; does not wait."""
        self._check_whole(self.shape)
        source._check_whole(source.shape)
        if source.nbytes != self.nbytes:
            raise ValueError(f"{source.nbytes} bytes cannot be copied to {self.nbytes}")
        action = "copying within the device"
        self._call(action, "cuMemcpyDtoDAsync", self.pointer, source.pointer, self.nbytes, DEFAULT_STREAM)

    def _check_whole(self, shape: tuple[int, ...]) -> None:
        if not self.is_contiguous:
            raise ValueError("only a contiguous array can be copied or filled")
        if shape != self.shape:
            raise ValueError(f"an array of shape {shape} does not fit one of {self.shape}")

    def _call(self, action: str, name: str, *arguments: Any) -> None:
        if self.nbytes:
            with self.memory.driver.activated(self.memory.device_index):
                self.memory.driver.call(action, name, *arguments)


def empty(shape: Sequence[int], dtype: Any, device_index: int = 0, driver: CudaDriver | None = None) -> CudaArray:
    """A new contiguous array, its content undefined. `CudaError` where memory does not suffice."""
    import numpy

    extents, kind = tuple(shape), numpy.dtype(dtype)
    memory = Allocation(math.prod(extents) * kind.itemsize, device_index, driver or cuda_driver())
    return CudaArray(memory, memory.pointer, extents, _row_major(extents, kind.itemsize), kind)


def from_numpy(host: numpy.ndarray[Any, Any], device_index: int = 0, driver: CudaDriver | None = None) -> CudaArray:
    """A copy of a host array, contiguous in row-major order."""
    array = empty(host.shape, host.dtype, device_index, driver)
    array.upload(host)
    return array


def free_bytes(device_index: int = 0, driver: CudaDriver | None = None) -> int:
    """Device memory that can still be allocated, in bytes."""
    found = driver or cuda_driver()
    with found.activated(device_index):
        free, _ = found.call("reading the free memory", "cuMemGetInfo")
    return int(free)


class Event:
    """A point in the work of one stream of a device."""

    def __init__(self, device_index: int = 0, driver: CudaDriver | None = None) -> None:
        self.device_index = device_index
        self.driver = driver or cuda_driver()
        with self.driver.activated(device_index):
            self._event = self.driver.call("making an event", "cuEventCreate", 0)
        weakref.finalize(self, _destroy, self.driver, device_index, self._event).atexit = False

    def record(self, stream: int = DEFAULT_STREAM) -> None:
        """Marks the point where the work enqueued on a stream so far ends."""
        with self.driver.activated(self.device_index):
            self.driver.call("recording an event", "cuEventRecord", self._event, stream)

    def synchronize(self) -> None:
        """Waits until the device reaches the point."""
        with self.driver.activated(self.device_index):
            self.driver.call("waiting for an event", "cuEventSynchronize", self._event)

    def seconds_since(self, start: Event) -> float:
        """Time on the device from an earlier event, both of them reached."""
        with self.driver.activated(self.device_index):
            return float(self.driver.call("reading a time", "cuEventElapsedTime", start._event, self._event)) / 1000


def _destroy(driver: CudaDriver, device_index: int, event: Any) -> None:
    with driver.activated(device_index):
        driver.call("freeing an event", "cuEventDestroy", event)


def _row_major(shape: tuple[int, ...], item_bytes: int) -> tuple[int, ...]:
    return tuple(item_bytes * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
