"""Reading arrays of any framework, without importing one and without copying."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from glueball.drivers.cuda import cuda_driver
from glueball.drivers.exchange import CUDA_DEVICE_TYPE, DLPACK_VERSION, DLDataType, exchange_api, read_capsule

_NUMBERS = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))

DTYPE_NAMES: dict[str, str] = {
    **{name: name for name in (*_NUMBERS, "float16", "bfloat16", "float32", "float64")},
    "bool": "int1",
    "float8_e4m3fn": "float8e4nv",
    "float8_e5m2": "float8e5",
    "float8_e4m3fnuz": "float8e4b8",
    "float8_e5m2fnuz": "float8e5b16",
}
"""NumPy's, ml_dtypes' and torch's names of dtypes, and the names of the same in glueball."""

_TYPE_CODES = {"b": "bool", "i": "int", "u": "uint", "f": "float"}

_DLPACK_NUMBERS = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}
_DLPACK_SPECIAL = {(6, 8): "bool", (10, 8): "float8_e4m3fn", (11, 8): "float8_e4m3fnuz", (12, 8): "float8_e5m2"} | {
    (13, 8): "float8_e5m2fnuz"
}
_DLPACK_HOST = (1, 3)
_DLPACK_CUDA = (2, 13)
_DLPACK_LEGACY_STREAM = 1


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """An array as a kernel sees it.

    `pointer` is the address of element 0 in bytes, `dtype` glueball's name, `strides` in elements (negative and zero
    ones included), `device_index` 0 for host arrays. `owner` keeps the memory alive. `writeable` is false where the
    array says that it must not be written.
    """

    pointer: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device_index: int
    kind: Literal["cuda", "host"]
    owner: object
    writeable: bool = True


def read_array(value: Any) -> DeviceArray | None:
    """What an argument is as an array; `None` when it is none.

    Known are torch tensors, NumPy arrays (ml_dtypes included), and whatever has `__cuda_array_interface__` (CuPy) or
    `__dlpack__`. `TypeError` for an array a kernel cannot take: an unknown dtype, byte-swapped, sparse, masked, on a
    device that is neither CUDA nor the host.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _read_torch(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        if isinstance(value, numpy.ma.MaskedArray):
            raise TypeError("a masked array cannot be passed; pass its `.data`, or `.filled(...)`")
        return _read_numpy(value)
    if isinstance(value, type):
        return None
    if hasattr(value, "__cuda_array_interface__"):
        return _well_formed(_read_cuda_interface, value, "__cuda_array_interface__")
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _well_formed(_read_dlpack, value, "__dlpack__")
    return None


def _well_formed(read: Callable[[Any], DeviceArray], value: Any, protocol: str) -> DeviceArray:
    """What `read` gives; a value that does not keep to its protocol is named."""
    try:
        return read(value)
    except (AttributeError, IndexError, KeyError, ValueError) as error:
        kind = type(value).__name__
        raise TypeError(f"the {protocol} of a {kind} is malformed: {type(error).__name__}: {error}") from error


def stream_callable() -> Callable[[int], int] | None:
    """What gives a device's current stream from its index: torch's where torch was imported, else CuPy's, else none."""
    torch = sys.modules.get("torch")
    raw_stream = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
    if raw_stream is not None:
        found: Callable[[int], int] = raw_stream
        return found
    return _cupy_stream if "cupy" in sys.modules else None


def current_stream(device_index: int, owner: object = None) -> int:
    """The handle of the stream that the caller's framework uses on a device; 0 is the default stream.

    An array's framework, where `owner` is one with DLPack's C exchange API, is asked first; then the array itself, if
    its `__cuda_array_interface__` names a stream.
    """
    exchange = exchange_api(type(owner))
    if exchange is not None:
        return exchange.current_stream(CUDA_DEVICE_TYPE, device_index)
    own = (getattr(owner, "__cuda_array_interface__", None) or {}).get("stream")
    if own is not None:
        return int(own)
    read = stream_callable()
    return 0 if read is None else read(device_index)


def _cupy_stream(device_index: int) -> int:
    cuda: Any = sys.modules["cupy"].cuda
    with cuda.Device(device_index):
        return int(cuda.get_current_stream().ptr)


def _read_torch(tensor: Any) -> DeviceArray:
    if str(tensor.layout) != "torch.strided":
        raise TypeError(f"a tensor of layout {tensor.layout} has no strides; convert it to a strided one")
    device = tensor.device
    if device.type not in ("cuda", "cpu"):
        raise TypeError(f"a tensor on device {str(device)!r} cannot be passed; only cuda and cpu ones can")
    if tensor.is_neg():
        raise TypeError("a tensor whose memory holds the negated values cannot be passed; call .resolve_neg() on it")
    pointer = tensor.data_ptr()
    if pointer == 0 and tensor.numel():
        raise TypeError("a tensor without memory, such as a fake or functional one, cannot be passed")
    return DeviceArray(
        pointer=pointer,
        dtype=_dtype_name(str(tensor.dtype).removeprefix("torch.")),
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        device_index=device.index or 0,
        kind="cuda" if device.type == "cuda" else "host",
        owner=tensor,
    )


def _read_numpy(array: Any) -> DeviceArray:
    if not array.dtype.isnative:
        raise TypeError(
            f"an array of byte-swapped dtype {array.dtype} cannot be passed; convert it to the native order"
        )
    return DeviceArray(
        pointer=array.ctypes.data,
        dtype=_dtype_name(array.dtype.name),
        shape=tuple(array.shape),
        strides=_element_strides(array.strides, array.dtype.itemsize),
        device_index=0,
        kind="host",
        owner=array,
        writeable=bool(array.flags.writeable),
    )


def _read_cuda_interface(value: Any) -> DeviceArray:
    interface = value.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise TypeError("a masked array cannot be passed")
    shape = tuple(interface["shape"])
    pointer = int(interface["data"][0] or 0)
    type_string: str = interface["typestr"]
    strides = interface.get("strides")
    return DeviceArray(
        pointer=pointer,
        dtype=_dtype_name(_name_of_type_string(type_string, value)),
        shape=shape,
        strides=contiguous_strides(shape) if strides is None else _element_strides(strides, int(type_string[2:])),
        device_index=_device_of(value, pointer),
        kind="cuda",
        owner=value,
        writeable=not interface["data"][1],
    )


def _name_of_type_string(type_string: str, value: Any) -> str:
    """The dtype's name; those NumPy has no letter for, such as bfloat16, are only in the array's own dtype."""
    order, letter, size = type_string[0], type_string[1], type_string[2:]
    if (order == ">") == (sys.byteorder == "little") and size != "1":
        raise TypeError(f"an array of byte-swapped type {type_string!r} cannot be passed")
    if letter == "b":
        return "bool"
    if letter in _TYPE_CODES:
        return f"{_TYPE_CODES[letter]}{8 * int(size)}"
    return str(getattr(getattr(value, "dtype", None), "name", type_string)) if letter == "V" else type_string


def _device_of(value: Any, pointer: int) -> int:
    """The interface does not name the device; the array may, and the driver knows where an address is."""
    if hasattr(value, "__dlpack_device__"):
        return int(value.__dlpack_device__()[1])
    index = getattr(getattr(value, "device", None), "id", None)
    if isinstance(index, int):
        return index
    driver = cuda_driver()
    return driver.device_of_pointer(pointer) if pointer else driver.current_device()


def _read_dlpack(value: Any) -> DeviceArray:
    """Reads the capsule and keeps it, so that its memory lives as long as the result; it is never marked as used."""
    device_type, device_index = (int(part) for part in value.__dlpack_device__())
    if device_type in _DLPACK_CUDA:
        capsule = _capsule(value, stream=current_stream(device_index) or _DLPACK_LEGACY_STREAM)
    elif device_type in _DLPACK_HOST:
        capsule = _capsule(value)
    else:
        raise TypeError(f"an array on DLPack device type {device_type} cannot be passed; only CUDA and the host can")
    tensor, writeable = read_capsule(capsule)
    shape = tuple(tensor.shape[: tensor.dimensions])
    return DeviceArray(
        pointer=(tensor.data or 0) + tensor.byte_offset,
        dtype=_dtype_name(_name_of_dlpack(tensor.dtype)),
        shape=shape,
        strides=tuple(tensor.strides[: tensor.dimensions]) if tensor.strides else contiguous_strides(shape),
        device_index=device_index if device_type in _DLPACK_CUDA else 0,
        kind="cuda" if device_type in _DLPACK_CUDA else "host",
        owner=capsule,
        writeable=writeable and not _is_immutable(value),
    )


def _is_immutable(value: Any) -> bool:
    """Whether an array is JAX's, whose capsules do not say that it must not be written."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def _capsule(value: Any, **stream: int) -> Any:
    """The array's capsule: a versioned one, which can say that it is read-only, where its library makes such."""
    try:
        return value.__dlpack__(max_version=DLPACK_VERSION, **stream)
    except TypeError:
        return value.__dlpack__(**stream)


def _name_of_dlpack(dtype: DLDataType) -> str:
    if dtype.lanes == 1:
        if (dtype.code, dtype.bits) in _DLPACK_SPECIAL:
            return _DLPACK_SPECIAL[dtype.code, dtype.bits]
        if dtype.code in _DLPACK_NUMBERS:
            return f"{_DLPACK_NUMBERS[dtype.code]}{dtype.bits}"
    return f"DLPack type {dtype.code} of {dtype.bits} bits and {dtype.lanes} lanes"


def _dtype_name(name: str) -> str:
    try:
        return DTYPE_NAMES[name]
    except KeyError:
        raise TypeError(
            f"an array of dtype {name} cannot be passed; the known ones are {', '.join(DTYPE_NAMES)}"
        ) from None


def _element_strides(strides: tuple[int, ...], item_bytes: int) -> tuple[int, ...]:
    for stride in strides:
        if stride % item_bytes:
            raise TypeError(f"a stride of {stride} bytes is no multiple of the element's {item_bytes} bytes")
    return tuple(stride // item_bytes for stride in strides)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a row-major array."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return tuple(strides)
