"""Stand-ins for arrays: one read as of another dtype, and one that is not there."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from glueball.drivers.arrays import DTYPE_NAMES, DeviceArray, read_array
from glueball.runtime.parameters import parse_type
from glueball.tile.types import DTYPES, dtype


def element_type(value: Any) -> dtype:
    """The element type that a dtype of the language, of torch or of NumPy, or a name, stands for.

    `TypeError` or `ValueError` for what is none.
    """
    if isinstance(value, dtype):
        return value
    name = str(getattr(value, "name", value)).removeprefix("torch.")
    if name in DTYPE_NAMES:
        return DTYPES[DTYPE_NAMES[name]]
    found = parse_type(name)
    if not isinstance(found, dtype):
        raise TypeError(f"an element type is needed, not {value!r}")
    return found


class TensorWrapper:
    """An array (`base`) whose elements count as of another type (`dtype`); `reinterpret` makes it."""

    def __init__(self, base: Any, dtype: Any) -> None:
        self.dtype = element_type(dtype)
        self.base = base
        self.data = getattr(base, "data", base)
        self.device = getattr(base, "device", None)
        self.shape = getattr(base, "shape", None)

    def __repr__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base!r})"

    def array(self) -> DeviceArray:
        """What a kernel sees. `TypeError` where elements of another size are asked of an array with gaps."""
        found = read_array(self.base)
        if found is None:
            raise TypeError(f"a TensorWrapper needs an array, not a {type(self.base).__name__}")
        before, after = DTYPES[found.dtype].itemsize, self.dtype.itemsize
        if before == after:
            return replace(found, dtype=self.dtype.long_name)
        count, rest = divmod(math.prod(found.shape) * before, after)
        if rest or found.strides != _contiguous(found.shape):
            raise TypeError(
                f"an array of {found.dtype} with shape {found.shape} and strides {found.strides} cannot be read as "
                f"{self.dtype.long_name}: elements of another size need a contiguous array that they divide"
            )
        return replace(found, dtype=self.dtype.long_name, shape=(count,), strides=(1,))

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.base.data_ptr() if hasattr(self.base, "data_ptr") else self.array().pointer

    def get_device(self) -> int:
        """The index of the device, -1 on the host."""
        array = self.array()
        return array.device_index if array.kind == "cuda" else -1

    def stride(self, *axis: int) -> Any:
        """The strides of the array, or one of them."""
        return self.base.stride(*axis)

    def element_size(self) -> int:
        """Bytes of an element of the array."""
        return int(self.base.element_size())

    def cpu(self) -> TensorWrapper:
        """The same on the host."""
        return TensorWrapper(self.base.cpu(), self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        """Copies the elements of another wrapper into this one."""
        self.base.copy_(other.base)

    def clone(self) -> TensorWrapper:
        """A copy."""
        return TensorWrapper(self.base.clone(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        """The same on a device."""
        return TensorWrapper(self.base.to(device), self.dtype)

    def new_empty(self, *arguments: Any, **keywords: Any) -> TensorWrapper:
        """An uninitialised array of the same kind."""
        return TensorWrapper(self.base.new_empty(*arguments, **keywords), self.dtype)


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """An array read as of another dtype, such as 8-bit integers as `float8e4nv`; no byte is copied.

    Of a `TensorWrapper` whose array has that dtype already, the array. `TypeError` for what is no array.
    """
    if isinstance(tensor, TensorWrapper):
        tensor = tensor.base
    found = read_array(tensor)
    if found is None:
        raise TypeError(f"Cannot reinterpret a {type(tensor).__name__}: an array is needed")
    wanted = element_type(dtype)
    return tensor if DTYPES[found.dtype] == wanted else TensorWrapper(tensor, wanted)


class MockTensor:
    """Stands for an array of a dtype where kernels are compiled only; it counts as aligned to 16 bytes."""

    def __init__(self, dtype: Any, shape: Any = None) -> None:
        self.dtype = dtype
        self.shape = [1] if shape is None else list(shape)

    def __repr__(self) -> str:
        return f"MockTensor({self.dtype}, {self.shape})"

    @staticmethod
    def wrap_dtype(value: Any) -> Any:
        """A dtype of torch as a `MockTensor`, any other value as it is."""
        kind = type(value)
        return MockTensor(value) if (kind.__module__, kind.__name__) == ("torch", "dtype") else value

    @staticmethod
    def data_ptr() -> int:
        """Zero: there is no memory."""
        return 0

    @staticmethod
    def ptr_range() -> int:
        """Zero: there is no memory."""
        return 0

    def stride(self) -> list[int]:
        """Strides of a contiguous array of that shape."""
        return list(_contiguous(tuple(self.shape)))


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
