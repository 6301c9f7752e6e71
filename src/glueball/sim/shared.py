"""Shared memory of a group of blocks: an arena of bytes for each block, and one shadow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from glueball.errors import (
    MisalignedAccessError,
    OutOfBoundsError,
    SharedMemoryRaceError,
    SimulationError,
    UninitializedReadError,
)
from glueball.sim.faults import access_fault
from glueball.sim.masks import Array, Booleans, Mask
from glueball.sim.memory import WORDS, change_in_turn, packed
from glueball.sim.shadow import Fault, Touch
from glueball.thread.conversion import NUMPY
from glueball.thread.ir import Attributes
from glueball.thread.memory import access_bytes

if TYPE_CHECKING:
    from glueball.sim.group import BlockGroup
    from glueball.sim.machine import Machine


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the active lanes of an access go.

    `offsets` are byte offsets in the arena `[1 or cta, warp, lane]`, one block standing for all if all do the same.
    Of each of the active lanes, `[access]`: `lanes` is its index in the flattened offsets, `places` its byte offset.
    `first_thread` is that of the partition in its block.
    """

    allocation: str
    offsets: Array
    predicate: Mask
    lanes: Array
    places: Array
    first_thread: int

    @property
    def rows(self) -> Array:
        """The block of each active lane, `[access]`."""
        _, warps, lanes = self.offsets.shape
        return np.asarray(self.lanes // (warps * lanes))

    @property
    def threads(self) -> Array:
        """The thread in its block of each active lane, `[access]`."""
        _, warps, lanes = self.offsets.shape
        return np.asarray(self.lanes % (warps * lanes) + self.first_thread)

    def part(self, accesses: Booleans) -> Placement:
        """Some of the accesses; offsets and predicate stay those of all."""
        return replace(self, lanes=self.lanes[accesses], places=self.places[accesses])


class SharedMemory:
    """The arenas `[cta, byte]` of a group of blocks, as the threads of one partition reach them.

    `requests` says that what reads or writes here counts requests, and not only wavefronts.
    """

    def __init__(self, machine: Machine, group: BlockGroup, *, requests: bool = True) -> None:
        self.machine = machine
        self.requests = requests
        self.group = group
        self.shape = machine.shape
        self.first_thread = machine.first_warp * machine.lanes
        self.arena = group.arena
        self.shadow = group.shadow

    def load(self, attributes: Attributes, offset: Any, predicate: Mask) -> tuple[tuple[Array, ...], list[Mask]]:
        """Values and poison, one array per element; where the predicate is false, zeros."""
        kind, count, width = NUMPY[attributes["type"]], attributes["count"], access_bytes(attributes)
        placement = self.place(attributes, offset, predicate, width, "read")
        touch = self.touch(placement, width, self.machine.at)
        self.record_read(placement, touch, width)
        elements = self.words_of(placement, width)[..., None].view(kind)
        values = tuple(elements[..., index] for index in range(count))
        return values, self._loaded_poison(placement, touch, count)

    def store(
        self, attributes: Attributes, offset: Any, predicate: Mask, values: Sequence[Any], poison: Sequence[Mask]
    ) -> None:
        """Stores one array per element, with its poison, where the predicate holds."""
        width = access_bytes(attributes)
        placement = self.place(attributes, offset, predicate, width, "written")
        touch = self.touch(placement, width, self.machine.at)
        words = np.broadcast_to(packed(values, attributes["type"], (1, 1, 1)), self.shape)
        self.record_write(placement, touch, width, words)
        self.shadow.set_poison(touch, self._stored_poison(placement, poison, width // self.shadow.granule))

    def add(self, attributes: Attributes, offset: Any, predicate: Mask, value: Array) -> None:
        """Adds integers where the predicate holds, each exactly once."""
        kind, width = NUMPY[attributes["type"]], access_bytes(attributes)
        placement = self._place_atomic(attributes, offset, predicate, "added to")
        values = np.broadcast_to(value, self.shape)
        view = self.arena.view(kind)
        if placement.offsets.shape[0] == 1:
            added = values.reshape(self.shape[0], -1)[:, placement.lanes]
            for row, amounts in zip(view, added, strict=True):
                np.add.at(row, placement.places // width, amounts)
        else:
            np.add.at(view.reshape(-1), self._flat(placement, width), values.reshape(-1)[placement.lanes])

    def change(self, attributes: Attributes, offset: Any, predicate: Mask, value: Array) -> Array:
        """Changes elements where the predicate holds, one after the other; what was there, zeros elsewhere."""
        kind, width = NUMPY[attributes["type"]], access_bytes(attributes)
        placement = self._place_atomic(attributes, offset, predicate, "changed")
        values = np.broadcast_to(value, self.shape)
        view, operation = self.arena.view(kind), attributes["operation"]
        if placement.offsets.shape[0] == 1:
            given = values.reshape(self.shape[0], -1)[:, placement.lanes]
            places = placement.places // width
            rows = zip(view, given, strict=True)
            old = np.stack([change_in_turn(row, places, operation, [new]) for row, new in rows])
        else:
            given = values.reshape(-1)[placement.lanes]
            old = change_in_turn(view.reshape(-1), self._flat(placement, width), operation, [given])
        return self._spread(placement, old)

    def _place_atomic(self, attributes: Attributes, offset: Any, predicate: Mask, verb: str) -> Placement:
        """The placement of atomic changes, recorded and counted; they must find defined values."""
        width = access_bytes(attributes)
        placement = self.place(attributes, offset, predicate, width, verb)
        touch = self.touch(placement, width, self.machine.at)
        self.shadow.record_atomic(touch, self.faults(placement, verb))
        poison = self.shadow.get_poison(touch)
        if poison is not None:
            row, access, _ = (int(part) for part in np.argwhere(poison)[0])
            text = f"{verb} at arena byte {int(placement.places[access])}, which holds an undefined value"
            self._fail(UninitializedReadError, placement, access, text, row)
        self._count(placement, width)
        return placement

    def place(
        self, attributes: Attributes, offset: Any, predicate: Mask, width: int, verb: str, alignment: int = 0
    ) -> Placement:
        """Checks bounds and alignment (that of the width where none is told) of the active lanes, at least one."""
        alignment = alignment or width
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
        if np.bitwise_or.reduce(places) & (alignment - 1):
            access = int((places % alignment != 0).argmax())
            byte = int(places[access]) - allocation.offset
            text = f"{verb} at byte {byte} in one access of {width} bytes"
            if alignment != width:
                text = f"{text}, which starts at a multiple of {alignment} bytes of the block's shared memory"
            self._fail(MisalignedAccessError, placement, access, text)
        return placement

    def select(self, allocation: str, offsets: Array, predicate: Mask) -> Placement:
        """The placement of the active lanes, given arena offsets."""
        _, warps, lanes = self.shape
        shape = np.broadcast_shapes((1, 1, 1), offsets.shape, () if predicate is None else predicate.shape)
        if shape[0] > 1:
            self.group.expand()
        rows = self.group.rows
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
            places=offsets.reshape(-1)[active],
            first_thread=self.first_thread,
        )

    def of_thread(self, allocation: str, rows: Array, places: Array, thread: int) -> Placement:
        """The placement of what one thread of the partition accesses, by row and byte offset in the arena."""
        _, warps, lanes = self.shape
        offsets = np.broadcast_to(np.int64(0), (self.group.rows, warps, lanes))
        return Placement(allocation, offsets, None, rows * warps * lanes + thread, places, self.first_thread)

    def touch(self, placement: Placement, width: int, instruction: int) -> Touch:
        """The shadow entries of a placement."""
        return self.shadow.touch(placement, width, instruction, self.machine.agent)

    def record_read(self, placement: Placement, touch: Touch, width: int) -> None:
        """Checks, records and counts a read."""
        self.shadow.record_read(touch, self.faults(placement, "read"))
        self._count(placement, width)

    def record_write(self, placement: Placement, touch: Touch, width: int, words: Array) -> None:
        """Checks, records and counts a write of words `[cta, warp, lane]`, and does it."""
        clash = self.shadow.record_write(touch, self.faults(placement, "written"))
        self._count(placement, width)
        self.write(placement, width, words)
        if clash:
            self._check_equal(placement, width, words)

    def words_of(self, placement: Placement, width: int) -> Array:
        """The words that a placement reads, `[cta, warp, lane]`, zero in lanes that read nothing."""
        return self._spread(placement, self._words(placement, width))

    def begin(self, placement: Placement, width: int) -> None:
        """An asynchronous write to the placement starts."""
        touch = self.touch(placement, width, self.machine.at)
        if self.shadow.record_write(touch, self.faults(placement, "written")):
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
        rows, accesses, _ = found.shape
        elements = np.asarray(found.reshape(rows, accesses, count, -1).any(axis=3))
        poison: list[Mask] = []
        for index in range(count):
            spread = np.zeros((rows, placement.offsets.size), bool)
            spread[:, placement.lanes] = elements[..., index]
            poison.append(spread.reshape(-1, *self.shape[1:]))
        return poison

    def _stored_poison(self, placement: Placement, poison: Sequence[Mask], granules: int) -> Mask:
        if all(element is None for element in poison):
            return None
        given = [np.zeros((), bool) if element is None else element for element in poison]
        shape = np.broadcast_shapes(placement.offsets.shape, *(element.shape for element in given))
        rows = shape[0] // placement.offsets.shape[0]
        per_element = [np.broadcast_to(element, shape).reshape(rows, -1)[:, placement.lanes] for element in given]
        return np.repeat(np.stack(per_element, axis=2), granules // len(poison), axis=2)

    def _count(self, placement: Placement, width: int, new_request: bool = True) -> None:
        self.machine.count_shared(placement.offsets, placement.predicate, width, new_request and self.requests)

    def faults(self, placement: Placement, verb: str) -> Fault:
        """How the shadow's findings about accesses are told."""

        def fault(kind: str, access: int, other: int, partition: int) -> NoReturn:
            error, text, line = access_fault(self, kind, verb, int(placement.places[access]), other, partition)
            details: dict[str, Any] = {} if line is None else {"other": line}
            self._fail(error, placement, access, text, **details)

        return fault

    def _fail(
        self, error: type[SimulationError], placement: Placement, access: int, text: str, row: int = 0, **details: Any
    ) -> NoReturn:
        """Raises for an access, in the block of a row where one access stands for those of all."""
        _, warps, lanes = self.shape
        thread = self.machine.thread_at(int(placement.lanes[access]) + row * warps * lanes, self.shape)
        where = "" if self.group is self.machine.group else f" of CTA {self.group.rank}"
        message = f"shared memory `{placement.allocation}`{where} is {text} ({thread})"
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
