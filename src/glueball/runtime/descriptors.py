"""Tensor descriptors as arguments of launches: what a kernel gets of one is made once, and again where a field changed.

That is, in the order of the kernel's parameters, the 128 bytes of the tensor map, then each extent and each stride in
8 bytes.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from glueball.drivers.arrays import DeviceArray
from glueball.drivers.tensor_maps import BYTES, encoded
from glueball.nvidia.hopper import AnyDescriptor, read_base
from glueball.tile.types import tensor_descriptor_type

WORD_BYTES = 8

Words = tuple[bytes, object]
"""What the kernel gets, and an object that is the same for descriptors that the same compiled kernel takes."""


class Prepared(NamedTuple):
    """What a launch made of a descriptor: the words, and of which base, at which address, and which fields."""

    base: object
    address_of: Callable[[], int]
    address: int
    fields: tuple[Any, ...]
    words: Words


@dataclass(frozen=True, slots=True)
class _Content:
    """What decides the words of a descriptor."""

    kind: type
    pointer: int
    dtype: str
    device_index: int
    fields: tuple[Any, ...]


def launch_words(descriptor: AnyDescriptor) -> Words | None:
    """The words of a descriptor of device memory as it is now; `None` for one that a launch must refuse or copy."""
    prepared: Prepared | None = descriptor.prepared
    if prepared is not None:
        base, address_of, address, fields, words = prepared
        if descriptor.base is base and descriptor.fields == fields and address_of() == address:
            return words
    base = descriptor.base
    try:
        array = read_base(base)
        if array.kind != "cuda":
            return None
        fields = descriptor.fields
        frozen = tuple(tuple(each) if isinstance(each, list) else each for each in fields)
        kept_words = _slot(_Content(type(descriptor), array.pointer, array.dtype, array.device_index, frozen))
        if not kept_words:
            kept_words.append(_words(descriptor, array))
        words = kept_words[0]
    except (AssertionError, TypeError, ValueError):
        return None
    kept = tuple(list(each) if isinstance(each, list) else each for each in fields)
    descriptor.prepared = Prepared(base, _reader(base), array.pointer, kept, words)
    return words


def part_offsets(kind: tensor_descriptor_type) -> list[int]:
    """Where each of the kernel's parameters that a descriptor becomes starts in its words, in bytes."""
    return [0, *(BYTES + WORD_BYTES * part for part in range(2 * kind.rank))]


@functools.lru_cache(maxsize=4096)
def _slot(_: _Content) -> list[Words]:
    """Where the words of descriptors that are equal are kept, and nothing that would keep their arrays alive."""
    return []


def _words(descriptor: AnyDescriptor, array: DeviceArray) -> Words:
    kind, tensor_map = descriptor.describe(array)
    numbers = (*tensor_map.shape, *tensor_map.strides)
    return encoded(tensor_map) + struct.pack(f"<{len(numbers)}q", *numbers), _token(kind, array.device_index)


@functools.lru_cache(maxsize=4096)
def _token(_: tensor_descriptor_type, __: int) -> object:
    return object()


def _reader(base: Any) -> Callable[[], int]:
    """What gives the address of an array's first element."""
    own = getattr(base, "data_ptr", None)
    return own if callable(own) else lambda: read_base(base).pointer
