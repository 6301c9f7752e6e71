"""DLPack's C exchange API: reading an array, and the stream its framework works on, without Python attributes.

A class that takes part has an attribute `__dlpack_c_exchange_api__`: a capsule around a table of C functions, whose
layout and contract DLPack's header gives (`DLPackExchangeAPI`, since DLPack 1.3).
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

CUDA_DEVICE_TYPE = 2
"""DLPack's number for CUDA devices."""

READ_ONLY = 1
"""DLPack's flag for memory that must not be written."""

DLPACK_VERSION = (1, 0)
"""The newest version of capsules that is read and made here."""

_MAJOR_VERSION = 1
_CAPSULE_NAME = b"dlpack_exchange_api"


class DLDataType(ctypes.Structure):
    """DLPack's element type."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    """DLPack's description of an array; strides are in elements, `byte_offset` counts from `data`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLManagedTensorVersioned(ctypes.Structure):
    """What a capsule named `dltensor_versioned` holds; `flags` has `READ_ONLY` where the memory must not be written."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


class _Table(ctypes.Structure):
    """DLPack's `DLPackExchangeAPI`; tables of older versions are chained by `previous`."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_from_object", ctypes.c_void_p),
        ("object_from_managed", ctypes.c_void_p),
        ("tensor_from_object", ctypes.c_void_p),
        ("current_work_stream", ctypes.c_void_p),
    )


_READ_TYPE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
_STREAM_TYPE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
_CAPSULE_IS_VALID = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_CAPSULE_POINTER = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@dataclass(frozen=True, slots=True)
class ExchangeAPI:
    """The two C functions of a class that launches need, by address; valid for the life of the process.

    `read_address` is `int (void *object, DLTensor *out)`, `stream_address` is
    `int (int32_t device_type, int32_t device_index, void **out)`; both return 0, or set a Python error.
    """

    read_address: int
    stream_address: int

    def read(self, value: object) -> DLTensor:
        """What an object of the class is; valid while the object lives. Raises what the framework raises."""
        tensor = DLTensor()
        if _READ_TYPE(self.read_address)(value, ctypes.byref(tensor)):
            raise BufferError(f"an object of type {type(value).__name__} cannot be read through DLPack")
        return tensor

    def current_stream(self, device_type: int, device_index: int) -> int:
        """The handle of the stream the framework works on now. Raises what the framework raises."""
        stream = ctypes.c_void_p()
        if _STREAM_TYPE(self.stream_address)(device_type, device_index, ctypes.byref(stream)):
            raise BufferError(f"no current stream for device {device_index} of DLPack device type {device_type}")
        return stream.value or 0


def exchange_api(kind: type) -> ExchangeAPI | None:
    """A class's exchange API; `None` where it has none of version 1 that fills a `DLTensor`."""
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    if capsule is None or not _CAPSULE_IS_VALID(capsule, _CAPSULE_NAME):
        return None
    address = _CAPSULE_POINTER(capsule, _CAPSULE_NAME)
    while address:
        table = _Table.from_address(address)
        if table.major == _MAJOR_VERSION:
            if table.tensor_from_object and table.current_work_stream:
                return ExchangeAPI(table.tensor_from_object, table.current_work_stream)
            return None
        address = table.previous
    return None


def read_capsule(capsule: object) -> tuple[DLTensor, bool]:
    """What a DLPack capsule describes, and whether it may be written; valid while the capsule lives.

    `ValueError` for what is no capsule of DLPack.
    """
    if _CAPSULE_IS_VALID(capsule, b"dltensor_versioned"):
        managed = DLManagedTensorVersioned.from_address(_CAPSULE_POINTER(capsule, b"dltensor_versioned"))
        if managed.major != DLPACK_VERSION[0]:
            raise ValueError(f"a DLPack capsule of version {managed.major} cannot be read")
        return managed.tensor, not managed.flags & READ_ONLY
    return DLTensor.from_address(_CAPSULE_POINTER(capsule, b"dltensor")), True
