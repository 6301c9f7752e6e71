"""Data whose every element tells where it came from, and the check that a copy has put each of them in its place.

Element i of a source's storage is `i * MULTIPLIER` modulo 2^32, so that what a destination must hold follows from the
strides of both, for arrays that are too large to keep a second copy of.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

MULTIPLIER = 2654435761
CHUNK_ELEMENTS = 1 << 24
ITEM_BYTES = 4


def elements(start: int, shape: Sequence[int], strides: Sequence[int]) -> NDArray[np.uint32]:
    """The elements at `start + sum(index * stride)` of the storage, all in elements."""
    total = np.asarray(start * MULTIPLIER % (1 << 32), np.uint32)
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        factor = np.uint32(stride * MULTIPLIER % (1 << 32))
        along = np.arange(extent, dtype=np.uint32) * factor
        total = total + along.reshape(extent, *(1,) * (len(shape) - axis - 1))
    return np.asarray(total)


def fill(storage: Any) -> None:
    """Writes the pattern to a contiguous one-dimensional array of 4-byte elements, on the host or on a device."""

    def write(part: slice) -> None:
        data = elements(part.start, (part.stop - part.start,), (1,)).view(storage.dtype)
        if isinstance(storage, np.ndarray):
            storage[part] = data
        else:
            storage[part].upload(data)

    _for_all(write, list(_slices(storage.size, CHUNK_ELEMENTS)))


def count_differences(source: Any, destination: Any) -> int:
    """How many elements of a destination differ, in any bit, from those of a source, a view of filled storage.

    Both views start where their storage starts; the destination or its transpose is contiguous.
    """
    if not _is_contiguous(destination):
        source, destination = source.T, destination.T
    strides = [stride // ITEM_BYTES for stride in source.strides]
    row = max(1, destination.size // destination.shape[0]) if destination.size else 1

    def compare(part: slice) -> int:
        found = destination[part]
        host = found if isinstance(found, np.ndarray) else found.to_numpy()
        expected = elements(part.start * strides[0], host.shape, strides)
        return int(np.count_nonzero(host.view(np.uint32) != expected))

    return sum(_for_all(compare, list(_slices(destination.shape[0], max(1, CHUNK_ELEMENTS // row)))))


def _is_contiguous(array: Any) -> bool:
    return bool(array.flags.c_contiguous) if isinstance(array, np.ndarray) else bool(array.is_contiguous)


def _slices(extent: int, step: int) -> Iterator[slice]:
    for start in range(0, extent, step):
        yield slice(start, min(start + step, extent))


def _for_all(function: Any, parts: list[slice]) -> list[Any]:
    """The function of every part, on all cores: NumPy and the driver work without Python's lock."""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return list(pool.map(function, parts))
