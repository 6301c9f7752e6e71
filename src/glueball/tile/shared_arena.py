"""Shared memory of the reference executor: bytes, and which of them were written or hold undefined values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from glueball.errors import OutOfBoundsError, UninitializedReadError
from glueball.tile.ir import Operation
from glueball.tile.mbarriers import BarrierWord
from glueball.tile.shared_views import CTA_STRIDE

Array = NDArray[Any]
ALIGNMENT = 1024
NOWHERE = -(1 << 60)
"""The address of what a view of a buffer that is not there looks at."""


class SharedArena:
    """Every allocation has a place of its own, whichever others are alive; made again, it is unwritten again.

    Every CTA has one, and an allocation the same place in each. `barriers` are the mbarriers by their addresses.
    """

    def __init__(self, program: tuple[int, int, int], ctas: int = 1) -> None:
        self.program = program
        self._bytes = np.zeros((ctas, 0), np.uint8)
        self._written = np.zeros((ctas, 0), bool)
        self._poison = np.zeros((ctas, 0), bool)
        self._places: dict[Operation, tuple[int, int]] = {}
        self.barriers: dict[int, BarrierWord] = {}

    def allocate(self, operation: Operation, size: int) -> int:
        """The byte address of an allocation."""
        if operation not in self._places:
            ctas, base = self._bytes.shape
            more = -(-size // ALIGNMENT) * ALIGNMENT
            self._bytes = np.concatenate([self._bytes, np.zeros((ctas, more), np.uint8)], axis=1)
            self._written = np.concatenate([self._written, np.zeros((ctas, more), bool)], axis=1)
            self._poison = np.concatenate([self._poison, np.zeros((ctas, more), bool)], axis=1)
            self._places[operation] = (base, size)
        base, _ = self._places[operation]
        self._written[:, base : base + size] = False
        return base

    def load(self, operation: Operation, addresses: Array, element: np.dtype[Any]) -> tuple[Array, Array | None]:
        """Values and poison of the elements at byte addresses; `UninitializedReadError` where one was never written."""
        self.check(operation, addresses)
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

    def peek(self, addresses: Array, element: np.dtype[Any]) -> Array:
        """What lies at byte addresses, for people: masked where it was never written or is undefined."""
        places = _bytes_of(addresses, element)
        values = np.ascontiguousarray(self._bytes[places]).view(element)[..., 0]
        unknown = (~self._written[places] | self._poison[places]).any(axis=-1)
        return np.ma.masked_array(values, unknown) if unknown.any() else values

    def check(self, operation: Operation, addresses: Array) -> None:
        """`OutOfBoundsError` for a view of a buffer that is not there."""
        if addresses.size and int(addresses.min()) < 0:
            raise OutOfBoundsError(
                f"`{operation.opcode}` uses one of several buffers by an index out of range (program {self.program})",
                operation.location,
                program=self.program,
            )

    def store(self, operation: Operation, addresses: Array, values: Array, poison: Array | None) -> None:
        """Writes elements at byte addresses; the last one wins where addresses are equal."""
        self.check(operation, addresses)
        places = _bytes_of(addresses, values.dtype)
        raw = np.ascontiguousarray(values)[..., None].view(np.uint8).reshape(places[1].shape)
        self._bytes[places] = raw
        self._written[places] = True
        self._poison[places] = False if poison is None else poison[..., None]


def _bytes_of(addresses: Array, element: np.dtype[Any]) -> tuple[Array, Array]:
    """CTA and byte of every byte of the elements at byte addresses."""
    places: Array = addresses[..., None] + np.arange(element.itemsize)
    return places // CTA_STRIDE, places % CTA_STRIDE
