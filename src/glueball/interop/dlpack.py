"""Handing memory to other libraries through DLPack: the capsules that `__dlpack__` returns."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from glueball.drivers.exchange import DLPACK_VERSION, READ_ONLY, DLDataType, DLManagedTensorVersioned, DLTensor

_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_NAMED_CODES = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13}
_PLAIN_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"


class _Managed(ctypes.Structure):
    """DLPack's `DLManagedTensor`."""

    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Holder:
    """What must live as long as a consumer uses the memory: its owner, and the description itself."""

    def __init__(self, owner: object, kept: Sequence[object]) -> None:
        self.owner = owner
        self.kept = kept


def capsule(
    pointer: int, dtype: Any, shape: Sequence[int], strides: Sequence[int], device: tuple[int, int], owner: object,
    *, versioned: bool, writeable: bool,
) -> object:  # fmt: skip
    """A DLPack capsule over memory that lives while `owner` does; `strides` are in elements, `dtype` is NumPy's.

    `BufferError` for read-only memory where the consumer knows no versioned capsules, which alone say so.
    """
    if not (versioned or writeable):
        raise BufferError("read-only memory cannot be handed to a consumer of DLPack before version 1.0; copy it")
    rank = len(shape)
    extents, steps = (ctypes.c_int64 * rank)(*shape), (ctypes.c_int64 * rank)(*strides)
    managed = DLManagedTensorVersioned() if versioned else _Managed()
    holder = _Holder(owner, (managed, extents, steps))
    managed.tensor = DLTensor(
        pointer, *device, rank, DLDataType(_code(dtype), 8 * dtype.itemsize, 1),
        ctypes.cast(extents, ctypes.POINTER(ctypes.c_int64)), ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64)), 0,
    )  # fmt: skip
    managed.context = id(holder)
    if isinstance(managed, DLManagedTensorVersioned):
        managed.major, managed.minor = DLPACK_VERSION
        managed.flags = 0 if writeable else READ_ONLY
        managed.deleter = ctypes.cast(_VERSIONED_DELETER, ctypes.c_void_p)
    else:
        managed.deleter = ctypes.cast(_PLAIN_DELETER, ctypes.c_void_p)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder))
    made: object = _new_capsule(ctypes.addressof(managed), _VERSIONED_NAME if versioned else _PLAIN_NAME, _DESTROY)
    return made


def _code(dtype: Any) -> int:
    return _NAMED_CODES[dtype.name] if dtype.name in _NAMED_CODES else _CODES[dtype.kind]


def _delete_plain(address: int) -> None:
    _release(_Managed.from_address(address).context)


def _delete_versioned(address: int) -> None:
    _release(DLManagedTensorVersioned.from_address(address).context)


def _release(holder: int) -> None:
    ctypes.pythonapi.Py_DecRef(ctypes.cast(holder, ctypes.py_object))


def _destroy_capsule(address: int) -> None:
    """A capsule that nobody took over still owns its memory."""
    for name, kind in ((_PLAIN_NAME, _Managed), (_VERSIONED_NAME, DLManagedTensorVersioned)):
        if _is_valid(address, name):
            _release(kind.from_address(_pointer_of(address, name)).context)


# Capsules are passed by address: one that is being destroyed must not be referred to again.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_PLAIN_DELETER, _VERSIONED_DELETER = _DELETER(_delete_plain), _DELETER(_delete_versioned)
_DESTROY = _DESTRUCTOR(_destroy_capsule)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _DESTRUCTOR)(
    ("PyCapsule_New", ctypes.pythonapi)
)

# Consumers may call the functions for as long as the process lives, after this module is gone too.
for _function in (_PLAIN_DELETER, _VERSIONED_DELETER, _DESTROY):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_function))
