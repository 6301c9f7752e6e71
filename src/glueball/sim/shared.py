"""Shared memory of the blocks of one context: an arena of bytes for each block, and one shadow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from glueball.errors import (
    AsynchronousAccessError,
    MisalignedAccessError,
    OutOfBoundsError,
    SharedMemoryRaceError,
    SimulationError,
    UninitializedReadError,
)
from glueball.sim.masks import Array, Mask
from glueball.sim.memory import WORDS, packed
from glueball.sim.shadow import Shadow, Touch
from glueball.thread.conversion import NUMPY
from glueball.thread.ir import Attributes
from glueball.thread.memory import access_bytes

if TYPE_CHECKING:
    from glueball.sim.machine import Machine


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the active lanes of an access go.

    `offsets` are byte offsets in the arena `[1 or cta, warp, lane]`, one block standing for all if all do the same.
    Of each of the active lanes, `[access]`: `lanes` is its index in the flattened offsets, `rows` its block, `places`
    its byte offset, `threads` its thread in the block.
    """

    allocation: str
    offsets: Array
    predicate: Mask
    lanes: Array
    rows: Array
    places: Array
    threads: Array


class SharedMemory:
    """The arenas `[cta, byte]` of a context."""

    def __init__(self, machine: Machine, size: int, granule: int) -> None:
        size = -(-size // 16) * 16
        self.machine = machine
        self.shape = (machine.ctas, machine.warps, machine.lanes)
        self.arena: Array = np.zeros((machine.ctas, size), np.uint8)
        self.shadow = Shadow(machine.ctas, size, granule)

    def load(self, attributes: Attributes, offset: Any, predicate: Mask) -> tuple[tuple[Array, ...], list[Mask]]:
        """Values and poison, one array per element; where the predicate is false, zeros."""
        kind, count, width = NUMPY[attributes["type"]], attributes["count"], access_bytes(attributes)
        placement = self.place(attributes, offset, predicate, width, "read")
        touch = self.touch(placement, width, self.machine.at)
        self.shadow.record_read(touch, self._faults(placement, "read"))
        self._count(placement, width)
        elements = self._spread(placement, self._words(placement, width))[..., None].view(kind)
        values = tuple(elements[..., index] for index in range(count))
        return values, self._loaded_poison(placement, touch, count)

    def store(
        self, attributes: Attributes, offset: Any, predicate: Mask, values: Sequence[Any], poison: Sequence[Mask]
    ) -> None:
        """Stores one array per element, with its poison, where the predicate holds."""
        width = access_bytes(attributes)
        if any(element is not None and element.ndim == 3 and element.shape[0] > 1 for element in poison):
            self.shadow.expand()
        placement = self.place(attributes, offset, predicate, width, "written")
        touch = self.touch(placement, width, self.machine.at)
        clash = self.shadow.record_write(touch, self._faults(placement, "written"))
        self._count(placement, width)
        words = np.broadcast_to(packed(values, attributes["type"], (1, 1, 1)), self.shape)
        self.write(placement, width, words)
        if clash:
            self._check_equal(placement, width, words)
        self.shadow.set_poison(touch, self._stored_poison(placement, poison, touch.entries.shape[1]))

    def place(self, attributes: Attributes, offset: Any, predicate: Mask, width: int, verb: str) -> Placement:
        """Checks bounds and alignment of the active lanes; at least one is active."""
        allocation = self.machine.function.allocations[attributes["allocation"]]
        local = np.asarray(offset).astype(np.int64) + attributes.get("offset", 0)
        placement = self.select(allocation.name, local + allocation.offset, predicate)
        places = placement.places
        outside = (places < allocation.offset) | (places > allocation.offset + allocation.bytes - width)
        if outside.any():
            access = int(outside.argmax())
            byte = int(places[access]) - allocation.offset
            self._fail(
                OutOfBoundsError,
                placement,
                access,
                f"{verb} at byte {byte} in an access of {width} bytes, outside its {allocation.bytes} bytes",
            )
        if np.bitwise_or.reduce(places) & (width - 1):
            access = int((places % width != 0).argmax())
            byte = int(places[access]) - allocation.offset
            self._fail(
                MisalignedAccessError, placement, access, f"{verb} at byte {byte} in one access of {width} bytes"
            )
        return placement

    def select(self, allocation: str, offsets: Array, predicate: Mask) -> Placement:
        """The placement of the active lanes, given arena offsets."""
        _, warps, lanes = self.shape
        shape = np.broadcast_shapes((1, 1, 1), offsets.shape, () if predicate is None else predicate.shape)
        if shape[0] > 1:
            self.shadow.expand()
        rows = self.shadow.rows
        offsets = np.broadcast_to(offsets, (rows, warps, lanes))
        if predicate is None:
            active = np.arange(offsets.size)
        else:
            predicate = np.broadcast_to(predicate, offsets.shape)
            active = np.flatnonzero(predicate)
        return Placement(
            allocation=allocation,
            offsets=offsets,
            predicate=predicate,
            lanes=active,
            rows=active // (warps * lanes),
            places=offsets.reshape(-1)[active],
            threads=active % (warps * lanes),
        )

    def touch(self, placement: Placement, width: int, instruction: int) -> Touch:
        """The shadow entries of a placement."""
        return self.shadow.touch(placement.rows, placement.places, placement.threads, width, instruction)

    def begin(self, placement: Placement, width: int) -> None:
        """An asynchronous write to the placement starts."""
        touch = self.touch(placement, width, self.machine.at)
        if self.shadow.record_write(touch, self._faults(placement, "written")):
            self._fail(SharedMemoryRaceError, placement, 0, "written by two lanes in one asynchronous copy")
        self.shadow.begin(touch, self.machine.at)
        self.shadow.set_poison(touch, None)
        self._count(placement, width, new_request=False)

    def write(self, placement: Placement, width: int, words: Array) -> None:
        """Puts words `[cta, warp, lane]` where a placement says."""
        view = self.arena.view(WORDS[width])
        if placement.offsets.shape[0] == 1:
            view[:, placement.places // width] = words.reshape(self.shape[0], -1)[:, placement.lanes]
        else:
            view.reshape(-1)[self._flat(placement, width)] = words.reshape(-1)[placement.lanes]

    def _flat(self, placement: Placement, width: int) -> Array:
        return np.asarray(placement.rows * (self.arena.shape[1] // width) + placement.places // width)

    def _words(self, placement: Placement, width: int) -> Array:
        """Words of the active lanes: `[cta, access]` if one block stands for all, else `[access]`."""
        view = self.arena.view(WORDS[width])
        if placement.offsets.shape[0] == 1:
            return view.take(placement.places // width, axis=1)
        return view.reshape(-1).take(self._flat(placement, width))

    def _spread(self, placement: Placement, found: Array) -> Array:
        """Values of the active lanes as `[cta, warp, lane]`, zero elsewhere."""
        if placement.predicate is None:
            return found.reshape(self.shape)
        spread = np.zeros(self.shape, found.dtype)
        if found.ndim == 2:
            spread.reshape(self.shape[0], -1)[:, placement.lanes] = found
        else:
            spread.reshape(-1)[placement.lanes] = found
        return spread

    def _check_equal(self, placement: Placement, width: int, words: Array) -> None:
        """Lanes that write the same bytes in one instruction must write the same values."""
        stands_for_all = placement.offsets.shape[0] == 1
        wanted = words.reshape(self.shape[0] if stands_for_all else 1, -1)[:, placement.lanes]
        found = self._words(placement, width)
        shape = (-1, placement.places.size, width)
        differs = (_as_bytes(found) != _as_bytes(wanted)).reshape(shape).any(axis=(0, 2))
        if differs.any():
            access = int(differs.argmax())
            self._fail(
                SharedMemoryRaceError,
                placement,
                access,
                "written by two lanes with different values in one instruction",
                other=self.machine.location,
            )

    def _loaded_poison(self, placement: Placement, touch: Touch, count: int) -> list[Mask]:
        found = self.shadow.get_poison(touch)
        if found is None:
            return [None] * count
        elements = np.asarray(found.reshape(found.shape[0], count, -1).any(axis=2))
        poison: list[Mask] = []
        for index in range(count):
            spread = np.zeros(placement.offsets.shape, bool)
            spread.reshape(-1)[placement.lanes] = elements[:, index]
            poison.append(spread)
        return poison

    def _stored_poison(self, placement: Placement, poison: Sequence[Mask], granules: int) -> Mask:
        if all(element is None for element in poison):
            return None
        per_element = [
            np.broadcast_to(False if element is None else element, placement.offsets.shape).reshape(-1)[placement.lanes]
            for element in poison
        ]
        return np.repeat(np.stack(per_element, axis=1), granules // len(poison), axis=1)

    def _count(self, placement: Placement, width: int, new_request: bool = True) -> None:
        self.machine.count_shared(placement.offsets, placement.predicate, width, new_request)

    def _faults(self, placement: Placement, verb: str) -> Any:
        """How the shadow's findings are told."""

        def fault(kind: str, access: int, other: int) -> NoReturn:
            line = self.machine.instructions[other].location if other >= 0 else None
            byte = int(placement.places[access])
            if kind == "uninitialized":
                self._fail(UninitializedReadError, placement, access, f"read at arena byte {byte}, never written")
            if kind == "in flight":
                text = f"{verb} at arena byte {byte} before the asynchronous copy started at {line} was waited for"
                self._fail(AsynchronousAccessError, placement, access, text, other=line)
            text = f"{verb} at arena byte {byte}, which another thread has {kind} at {line} with no barrier between"
            self._fail(SharedMemoryRaceError, placement, access, text, other=line)

        return fault

    def _fail(
        self, error: type[SimulationError], placement: Placement, access: int, text: str, **details: Any
    ) -> NoReturn:
        thread = self.machine.thread_at(int(placement.lanes[access]), placement.offsets.shape)
        message = f"shared memory `{placement.allocation}` is {text} ({thread})"
        offset = int(placement.places[access])
        raise error(
            message,
            self.machine.location,
            allocation=placement.allocation,
            offset=offset,
            **thread.details(),
            **details,
        )


def _as_bytes(words: Array) -> Array:
    return np.ascontiguousarray(words).view(np.uint8)
