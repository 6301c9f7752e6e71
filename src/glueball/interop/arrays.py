"""Arrays by address: memory of any library, as every other library can take it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from glueball.drivers.arrays import DTYPE_NAMES, DeviceArray, current_stream, read_array
from glueball.drivers.cuda import cuda_driver
from glueball.drivers.exchange import DLPACK_VERSION
from glueball.interop.dlpack import capsule
from glueball.runtime.host import array_over
from glueball.tile.types import DTYPES

_HOST, _CUDA = 1, 2
_NO_SYNCHRONISATION = -1


@dataclass(frozen=True, slots=True)
class ArrayView:
    """An array over memory that `owner` keeps alive.

    Kernels take it. So do `torch.from_dlpack`, `numpy.from_dlpack`, `jax.dlpack.from_dlpack` and `cupy.from_dlpack`,
    without a copy, and whatever reads `__array_interface__` (host) or `__cuda_array_interface__` (device).

    `pointer` is the address of element 0, `strides` are in elements. `stream` is the handle of the CUDA stream on which
    the content is made and on which kernels that take this array run; `None` for the caller's current one.
    """

    pointer: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    kind: Literal["cuda", "host"] = "host"
    device_index: int = 0
    owner: object = None
    writeable: bool = True
    stream: int | None = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's type and index of the device."""
        return (_CUDA if self.kind == "cuda" else _HOST, self.device_index)

    def __dlpack__(
        self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> object:  # fmt: skip
        """A capsule over the same memory. Waits on the host for the stream of a device array.

        `BufferError` for a copy or another device, which the consumer has to make itself.
        """
        if copy:
            raise BufferError("this array is only handed on in place; copy it on the consumer's side")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"this array is on DLPack device {self.__dlpack_device__()}, not on {tuple(dl_device)}")
        if self.kind == "cuda" and stream != _NO_SYNCHRONISATION:
            self._synchronise()
        return capsule(
            self.pointer, self.dtype, self.shape, self.strides, self.__dlpack_device__(), self,
            versioned=max_version is not None and tuple(max_version) >= DLPACK_VERSION, writeable=self.writeable,
        )  # fmt: skip

    def _synchronise(self) -> None:
        stream = current_stream(self.device_index) if self.stream is None else self.stream
        with cuda_driver().activated(self.device_index):
            cuda_driver().call("waiting for an array", "cuStreamSynchronize", stream)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's description. A host array in `__array__`'s sense is what `numpy()` gives."""
        if self.kind != "host":
            raise AttributeError("a device array has no __array_interface__; copy it to the host")
        return self._interface()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface's description, version 3."""
        if self.kind != "cuda":
            raise AttributeError("a host array has no __cuda_array_interface__")
        return {**self._interface(), "stream": self.stream}

    def _interface(self) -> dict[str, Any]:
        return {
            "data": (self.pointer, not self.writeable),
            "shape": self.shape,
            "strides": tuple(stride * self.dtype.itemsize for stride in self.strides),
            "typestr": self.dtype.str,
            "version": 3,
        }

    def numpy(self) -> np.ndarray[Any, Any]:
        """The host array as a NumPy array over the same memory, ml_dtypes' types included. `TypeError` on a device."""
        if self.kind != "host":
            raise TypeError(f"an array on device {self.device_index} is no NumPy array; copy it to the host")
        name = DTYPE_NAMES[self.dtype.name]
        described = DeviceArray(self.pointer, name, self.shape, self.strides, 0, "host", self.owner, self.writeable)
        array: np.ndarray[Any, Any] = array_over(described, keepalive=self)
        return array


def from_dlpack(value: Any) -> ArrayView:
    """A view of another library's array: a NumPy array, torch tensor, JAX or CuPy array, anything with `__dlpack__`.

    No copy is made. Errors: `TypeError` for what is no array, or of an element type that kernels do not have.
    """
    if isinstance(value, ArrayView):
        return value
    found = read_array(value)
    if found is None:
        raise TypeError(f"a {type(value).__name__} is no array: it has neither __dlpack__ nor an array interface")
    return ArrayView(
        found.pointer, DTYPES[found.dtype].numpy, found.shape, found.strides, found.kind, found.device_index,
        (value, found.owner), found.writeable,
    )  # fmt: skip
