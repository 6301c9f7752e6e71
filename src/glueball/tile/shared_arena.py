"""Shared memory of the reference executor: bytes, and which of them were written or hold undefined values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from glueball.errors import UninitializedReadError
from glueball.tile.ir import Operation

Array = NDArray[Any]
ALIGNMENT = 1024


class SharedArena:
    """Every allocation has a place of its own, whichever others are alive; made again, it is unwritten again."""

    def __init__(self, program: tuple[int, int, int]) -> None:
        self.program = program
        self._bytes = np.zeros(0, np.uint8)
        self._written = np.zeros(0, bool)
        self._poison = np.zeros(0, bool)
        self._places: dict[Operation, tuple[int, int]] = {}

    def allocate(self, operation: Operation, size: int) -> int:
        """The byte address of an allocation."""
        if operation not in self._places:
            base = self._bytes.size
            more = -(-size // ALIGNMENT) * ALIGNMENT
            self._bytes = np.concatenate([self._bytes, np.zeros(more, np.uint8)])
            self._written = np.concatenate([self._written, np.zeros(more, bool)])
            self._poison = np.concatenate([self._poison, np.zeros(more, bool)])
            self._places[operation] = (base, size)
        base, _ = self._places[operation]
        self._written[base : base + size] = False
        return base

    def load(self, operation: Operation, addresses: Array, element: np.dtype[Any]) -> tuple[Array, Array | None]:
        """Values and poison of the elements at byte addresses; `UninitializedReadError` where one was never written."""
        places = _bytes_of(addresses, element)
        unwritten = ~self._written[places].all(axis=-1)
        if unwritten.any():
            index = [int(coordinate) for coordinate in np.argwhere(unwritten)[0]]
            raise UninitializedReadError(
                f"element {index} of shared memory is read, but was never written (program {self.program})",
                operation.location,
                index=tuple(index),
                program=self.program,
            )
        values = np.ascontiguousarray(self._bytes[places]).view(element)[..., 0]
        poison: Array = np.asarray(self._poison[places].any(axis=-1))
        return values, poison if poison.any() else None

    def store(self, addresses: Array, values: Array, poison: Array | None) -> None:
        """Writes elements at byte addresses; the last one wins where addresses are equal."""
        places = _bytes_of(addresses, values.dtype)
        raw = np.ascontiguousarray(values)[..., None].view(np.uint8).reshape(places.shape)
        self._bytes[places] = raw
        self._written[places] = True
        self._poison[places] = False if poison is None else poison[..., None]


def _bytes_of(addresses: Array, element: np.dtype[Any]) -> Array:
    places: Array = addresses[..., None] + np.arange(element.itemsize)
    return places
