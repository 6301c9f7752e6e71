"""XLA's foreign function interface, version 0.x, as `xla/ffi/api/c_api.h` declares it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

_METADATA_EXTENSION = 1
_INTERNAL_ERROR = 13

_ELEMENT_TYPES: dict[int, Any] = {
    1: np.bool_, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.uint8, 7: np.uint16, 8: np.uint32,
    9: np.uint64, 10: np.float16, 11: np.float32, 12: np.float64, 16: ml_dtypes.bfloat16, 19: ml_dtypes.float8_e5m2,
    20: ml_dtypes.float8_e4m3fn, 24: ml_dtypes.float8_e5m2fnuz, 25: ml_dtypes.float8_e4m3fnuz,
}  # fmt: skip


class ExtensionBase(ctypes.Structure):
    """`XLA_FFI_Extension_Base`; extensions are chained by `next`."""


ExtensionBase._fields_ = (
    ("struct_size", ctypes.c_size_t),
    ("type", ctypes.c_int),
    ("next", ctypes.POINTER(ExtensionBase)),
)

_HEAD = (("struct_size", ctypes.c_size_t), ("extension_start", ctypes.POINTER(ExtensionBase)))


class ApiVersion(ctypes.Structure):
    """`XLA_FFI_Api_Version`."""

    _fields_ = (*_HEAD, ("major", ctypes.c_int), ("minor", ctypes.c_int))


class Metadata(ctypes.Structure):
    """`XLA_FFI_Metadata` as far as it is filled in here."""

    _fields_ = (("struct_size", ctypes.c_size_t), ("api_version", ApiVersion), ("traits", ctypes.c_uint32))


class MetadataExtension(ctypes.Structure):
    """`XLA_FFI_Metadata_Extension`."""

    _fields_ = (("base", ExtensionBase), ("metadata", ctypes.POINTER(Metadata)))


class Buffer(ctypes.Structure):
    """`XLA_FFI_Buffer`; elements lie in row-major order."""

    _fields_ = (
        *_HEAD,
        ("dtype", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("extents", ctypes.POINTER(ctypes.c_int64)),
    )


class Buffers(ctypes.Structure):
    """`XLA_FFI_Args` and `XLA_FFI_Rets`, which are alike."""

    _fields_ = (
        *_HEAD,
        ("size", ctypes.c_int64),
        ("types", ctypes.POINTER(ctypes.c_int)),
        ("items", ctypes.POINTER(ctypes.POINTER(Buffer))),
    )

    def buffers(self) -> Iterator[Buffer]:
        """The buffers in order."""
        for index in range(self.size):
            yield self.items[index].contents


class Attributes(ctypes.Structure):
    """`XLA_FFI_Attrs`."""

    _fields_ = (
        *_HEAD,
        ("size", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("names", ctypes.c_void_p),
        ("items", ctypes.c_void_p),
    )


class Api(ctypes.Structure):
    """`XLA_FFI_Api` up to the functions that are called here."""

    _fields_ = (
        *_HEAD,
        ("version", ApiVersion),
        ("internal", ctypes.c_void_p),
        ("error_create", ctypes.c_void_p),
        ("error_message", ctypes.c_void_p),
        ("error_destroy", ctypes.c_void_p),
        ("handler_register", ctypes.c_void_p),
        ("stream_get", ctypes.c_void_p),
    )


class CallFrame(ctypes.Structure):
    """`XLA_FFI_CallFrame`."""

    _fields_ = (
        *_HEAD,
        ("api", ctypes.POINTER(Api)),
        ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("arguments", Buffers),
        ("results", Buffers),
        ("attributes", Attributes),
        ("future", ctypes.c_void_p),
    )


class _ErrorArguments(ctypes.Structure):
    """`XLA_FFI_Error_Create_Args`."""

    _fields_ = (*_HEAD, ("message", ctypes.c_char_p), ("code", ctypes.c_int))


class _StreamArguments(ctypes.Structure):
    """`XLA_FFI_Stream_Get_Args`."""

    _fields_ = (*_HEAD, ("context", ctypes.c_void_p), ("stream", ctypes.c_void_p))


_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def metadata_of(frame: CallFrame) -> MetadataExtension | None:
    """Where to put the function's description, if that is all that XLA wants of this call."""
    extension = frame.extension_start
    while extension:
        if extension.contents.type == _METADATA_EXTENSION:
            return ctypes.cast(extension, ctypes.POINTER(MetadataExtension)).contents
        extension = extension.contents.next
    return None


def error_of(frame: CallFrame, message: str) -> int | None:
    """The address of a new error of XLA's."""
    arguments = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, message.encode(errors="replace"), _INTERNAL_ERROR)
    made: int | None = _FUNCTION(frame.api.contents.error_create)(ctypes.addressof(arguments))
    return made


def stream_of(frame: CallFrame) -> int:
    """The handle of the CUDA stream that XLA works on. `RuntimeError` where it does not say."""
    arguments = _StreamArguments(ctypes.sizeof(_StreamArguments), None, frame.context, None)
    if _FUNCTION(frame.api.contents.stream_get)(ctypes.addressof(arguments)):
        raise RuntimeError("XLA does not tell the stream that it works on")
    return int(arguments.stream or 0)


def element_type(code: int) -> np.dtype[Any]:
    """The NumPy type of XLA's number of an element type; `TypeError` for one that kernels do not have."""
    if code not in _ELEMENT_TYPES:
        raise TypeError(f"XLA's element type {code} cannot be passed to a kernel")
    found: np.dtype[Any] = np.dtype(_ELEMENT_TYPES[code])
    return found
