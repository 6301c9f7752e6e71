"""Keeping the contents of arrays while configurations are tried, and putting them back."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


class Snapshot:
    """Copies of arrays as they were when they were added."""

    def __init__(self) -> None:
        self._saved: dict[int, tuple[Any, Any]] = {}

    def add(self, name: str, value: Any) -> None:
        """Keeps a copy of an array, once; what is no array, such as `None`, is passed over.

        A copy that the device has no room for is kept on the host. `TypeError` names an array of a framework whose
        arrays cannot be written.
        """
        array = _array(name, value)
        if array is not None and id(array) not in self._saved:
            self._saved[id(array)] = (array, _copied(_distinct(array)))

    def holds(self, value: Any) -> bool:
        """Whether a copy of this array is kept."""
        return id(value) in self._saved

    def restore(self) -> None:
        """Puts all contents back."""
        for array, saved in self._saved.values():
            with _untracked(array):
                _write(_distinct(array), saved)


def set_to_zero(name: str, value: Any) -> None:
    """Sets every element of an array to zero; as `Snapshot.add` where it is none."""
    array = _array(name, value)
    if array is None:
        return
    with _untracked(array):
        if hasattr(array, "zero_"):
            array.zero_()
        else:
            array[...] = 0


def _array(name: str, value: Any) -> Any:
    """The array that an argument is or stands around, such as a tensor descriptor's base."""
    while value is not None and not _is_array(value) and hasattr(value, "base"):
        value = value.base
    if value is None or isinstance(value, bool | int | float):
        return None
    if not _is_array(value):
        raise TypeError(
            f"argument `{name}` is a {type(value).__name__}, whose contents the tuner can neither keep nor put back; "
            f"pass a torch, NumPy or CuPy array, or tune with protect_written=False"
        )
    return value


def _is_array(value: Any) -> bool:
    """Whether a value can be copied and written: torch's tensors, NumPy's arrays and arrays used like them."""
    if isinstance(value, type):
        return False
    return hasattr(value, "copy_") or (hasattr(value, "__setitem__") and hasattr(value, "strides"))


def _distinct(array: Any) -> Any:
    """The view in which no element of a broadcast array is twice."""
    strides = array.stride() if callable(getattr(array, "stride", None)) else array.strides
    return array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)]


def _copied(array: Any) -> Any:
    if not hasattr(array, "clone"):
        return array.copy()
    detached = array.detach()
    try:
        return detached.clone()
    except sys.modules["torch"].cuda.OutOfMemoryError:
        return detached.cpu()


def _write(array: Any, saved: Any) -> None:
    if hasattr(array, "copy_"):
        array.copy_(saved)
    elif getattr(getattr(array, "flags", None), "writeable", True):
        array[...] = saved


@contextlib.contextmanager
def _untracked(array: Any) -> Iterator[None]:
    """Within it torch lets tensors that require gradients be written."""
    if hasattr(array, "requires_grad"):
        with sys.modules["torch"].no_grad():
            yield
    else:
        yield
