"""Tuples as arguments of launches, read so that the launcher passes their elements and knows what they are compiled as.

A kernel gets the run-time elements, those of inner tuples included, one by one: of each the 8 bytes that a plain
argument would have.
"""

from __future__ import annotations

import functools
import struct
import threading
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from glueball.drivers.arrays import read_array
from glueball.errors import DriverError
from glueball.language.constexpr import constexpr
from glueball.language.values import tuple_type
from glueball.runtime.constants import constant_key
from glueball.runtime.launcher_ir import MAXIMUM_ARGUMENTS
from glueball.tile.types import float32, int1, int32, int64

if TYPE_CHECKING:
    from glueball.runtime.specialization import Argument

WORD_BYTES = 8
ALIGNMENT = 16


class _Latest(threading.local):
    """What a launch of this thread may yet look at: as much as it has arguments."""

    def __init__(self) -> None:
        self.read: deque[tuple[bytes, object]] = deque(maxlen=MAXIMUM_ARGUMENTS)


_latest = _Latest()


def tuple_words(values: tuple[Any, ...]) -> tuple[bytes, object] | None:
    """8 bytes for each element, inner ones included, and an object that is the same for tuples of one kernel.

    `None` where an element is neither a number, an array on a GPU, a constant nor a tuple of such.
    """
    words: list[bytes] = []
    try:
        token = _token(tuple(_described(values, words)))
    except (TypeError, OverflowError, struct.error, DriverError):
        return None
    given = b"".join(words), token
    _latest.read.append(given)
    return given


def _described(values: tuple[Any, ...], words: list[bytes]) -> Iterator[object]:
    """What a kernel is compiled for, element by element; appends the words."""
    yield type(values)
    for value in values:
        kind = type(value)
        if kind is int:
            words.append(struct.pack("<q", value))
            yield "int", -(1 << 31) <= value < 1 << 31, value == 1, value % ALIGNMENT == 0
        elif kind is float:
            words.append(struct.pack("<fI", value, 0))
            yield "float"
        elif kind is bool:
            words.append(struct.pack("<Q", value))
            yield "bool"
        elif value is None or kind is constexpr:
            constant = None if value is None else value.value
            words.append(bytes(WORD_BYTES * _count(constant)))
            yield constant_key(constant)
        elif isinstance(value, tuple):
            yield tuple(_described(value, words))
        else:
            array = read_array(value)
            if array is None or array.kind != "cuda":
                raise TypeError(f"{kind.__name__} is no array on a GPU")
            words.append(struct.pack("<Q", array.pointer))
            yield array.dtype, array.device_index, array.pointer % ALIGNMENT == 0


@functools.lru_cache(maxsize=4096)
def _token(_: tuple[object, ...]) -> object:
    return object()


def passes_as_words(argument: Argument) -> bool:
    """Whether a launch passes the elements of a tuple just as `tuple_words` has them."""
    for element in argument.leaves:
        if element.array is None and element.type not in _TYPES.get(type(element.value), ()):
            return False
    return True


_TYPES = {bool: (int1,), int: (int32, int64), float: (float32,)}


def word_offsets(argument: Argument) -> list[int]:
    """Where each of the kernel's parameters that a tuple becomes lies in its words, in bytes."""
    return [WORD_BYTES * place for place, is_passed in enumerate(_passed(argument)) if is_passed]


def _passed(argument: Argument) -> Iterator[bool]:
    """For each word whether the kernel gets it, or has the element as a constant."""
    if isinstance(argument.type, constexpr):
        yield from (False for _ in range(_count(argument.type.value)))
    elif isinstance(argument.type, tuple_type):
        for element in argument.elements:
            yield from _passed(element)
    else:
        yield True


def _count(constant: Any) -> int:
    return sum(map(_count, constant)) if isinstance(constant, tuple) else 1
