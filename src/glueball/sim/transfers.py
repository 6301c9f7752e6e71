"""Bulk copies in flight: boxes on their way between the tensors of a launch and the shared memory of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from glueball.errors import (
    OutOfBoundsError,
    OverwriteInFlightError,
    PendingAtExitError,
    ReadBeforeWaitError,
    ReadOnlyWriteError,
    UninitializedReadError,
    WaitCountError,
)
from glueball.location import SourceLocation
from glueball.numerics import BFLOAT16, maximum_number, minimum_number
from glueball.sim.clocks import TIME_SHIFT
from glueball.sim.footprints import Footprint, accessed, selected
from glueball.sim.masks import Array, Booleans, Mask
from glueball.sim.shadow import INSTRUCTION_BITS
from glueball.tensor_map import TensorMap

if TYPE_CHECKING:
    from glueball.sim.group import BlockGroup
    from glueball.sim.machine import Machine
    from glueball.sim.mbarriers import Word
    from glueball.sim.remote import Parcel

VALUES = {"bfloat16": BFLOAT16, "tfloat32": np.dtype(np.float32)}
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
}
FLOAT_REDUCTIONS: dict[str, Callable[..., Any]] = {"add": np.add, "min": minimum_number, "max": maximum_number}


@dataclass(slots=True, eq=False)
class Box:
    """What a lane's message copies in some blocks: from or to `places` of the arena of each of `ctas`.

    `coordinates` are `[cta, dimension]`, outermost first, `taps` `[cta, spatial dimension]`.
    """

    machine: Machine
    instruction: int
    tensor_map: TensorMap
    ctas: Array
    places: Array
    coordinates: Array
    taps: Array | None
    touched: Footprint | None = field(init=False, default=None)

    @property
    def group(self) -> BlockGroup:
        """The blocks it belongs to."""
        return self.machine.group

    @property
    def location(self) -> SourceLocation:
        """Where it was started."""
        return self.machine.instructions[self.instruction].location

    def addresses(self) -> tuple[Array, Booleans]:
        """Global addresses of its elements, and which are in bounds: `[cta, element]`."""
        offsets, inside = self.tensor_map.elements(self.coordinates, self.taps, store=isinstance(self, Store))
        return self.tensor_map.base + offsets * self.tensor_map.item_bytes, inside

    def footprint(self) -> Footprint:
        """Its tensor elements at real addresses, in order; those side by side make one piece."""
        if self.touched is None:
            addresses, inside = self.addresses()
            run = self.tensor_map.run
            addresses, inside = addresses.reshape(-1, run), inside.reshape(-1, run)
            lengths, first = np.count_nonzero(inside, axis=1), inside.argmax(axis=1)
            rows = np.flatnonzero(lengths)
            starts = self.machine.memory.real(addresses[rows, first[rows]])
            self.touched = Footprint(starts, starts + lengths[rows] * self.tensor_map.item_bytes).in_order()
        return self.touched

    def shared_index(self) -> tuple[Array, Array]:
        """Block and element index in the arena of every element."""
        addresses = self.tensor_map.shared_addresses(self.places)
        return self.ctas[:, None], addresses // self.tensor_map.item_bytes

    def value_type(self) -> np.dtype[Any]:
        """The NumPy type of its elements."""
        return VALUES.get(self.tensor_map.element) or np.dtype(self.tensor_map.element)

    def arena(self) -> Array:
        """The group's shared memory as elements."""
        return self.group.arena.view(f"u{self.tensor_map.item_bytes}")

    def rows(self) -> Array:
        """The rows of the shadow that stand for its blocks."""
        return self.group.rows_of(self.ctas)

    def row_mask(self) -> Booleans:
        """The same as a mask."""
        mask = np.zeros(self.group.rows, bool)
        mask[self.rows()] = True
        return mask

    def entries(self) -> Array:
        """The entries of the shadow that it covers, `[row, granule]`."""
        rows = self.rows()
        return self.group.shadow.entries(rows, self.places[: len(rows)], self.tensor_map.box_bytes)

    def tensor(self) -> tuple[Array, Array, Booleans]:
        """The storage behind the tensor as elements, its elements' indices in it, and which are in bounds."""
        region = self.machine.memory.region_at(self.tensor_map.base)
        size = self.tensor_map.item_bytes
        first = self.tensor_map.base - region.low
        count = (region.high - region.low - first) // size
        elements = region.storage[first : first + count * size].view(f"u{size}")
        addresses, inside = self.addresses()
        index = np.where(inside, (addresses - self.tensor_map.base) // size, 0)
        if index.max() >= count:
            raise OutOfBoundsError(
                f"a bulk copy goes beyond the array of `{region.name}`, of whose tensor it is", self.location
            )
        return elements, index, inside


@dataclass(slots=True, eq=False)
class Load(Box):
    """A box on its way to shared memory, where `word` counts its bytes, perhaps that of another CTA."""

    word: Word

    @property
    def group(self) -> BlockGroup:
        """The blocks that it goes to."""
        return self.word.group

    def land(self) -> bool:
        """The bytes are there, and the mbarrier is told."""
        self.word.check(self.machine, self.instruction, self.row_mask())
        elements, index, inside = self.tensor()
        values = np.where(inside, elements.take(index), elements.dtype.type(self.tensor_map.fill_bits()))
        values = self.tensor_map.as_loaded(values.view(self.value_type())).view(values.dtype)
        self.arena()[self.shared_index()] = values
        self.group.shadow.land(self.entries(), self.word.agent, self.rows(), self.instruction)
        self.group.transfers.landed(self)
        self.word.receive(self.machine, self.instruction, self.row_mask(), self.tensor_map.box_bytes)
        return True


@dataclass(slots=True, eq=False)
class Store(Box):
    """A box on its way to a tensor: first its bytes are read, then written or combined with what is there.

    `busy` and `unwritten` tell in which of its blocks the thread has not waited for the one and for the other.
    """

    warp: int
    lane: int
    reduction: str | None
    values: Array | None = None
    written: bool = False
    busy: Booleans = field(init=False)
    unwritten: Booleans = field(init=False)

    def __post_init__(self) -> None:
        self.busy = np.ones(len(self.ctas), bool)
        self.unwritten = np.ones(len(self.ctas), bool)

    def land(self) -> bool:
        """The next of the two steps is done."""
        if self.values is None:
            self.read()
            return False
        self.write()
        return True

    def read(self) -> None:
        """Takes the bytes out of shared memory."""
        if self.values is None:
            self.values = self.arena()[self.shared_index()]

    def write(self) -> None:
        """Changes the tensor."""
        self.read()
        if self.written or self.values is None:
            return
        self.written = True
        elements, index, inside = self.tensor()
        if not elements.flags.writeable:
            name = self.machine.memory.region_at(self.tensor_map.base).name
            raise ReadOnlyWriteError(f"`{name}` is written, but its array is read-only", self.location, argument=name)
        places, new = index[inside], self.values[inside]
        if self.reduction is None:
            elements[places] = new
            return
        kind = self.value_type()
        typed = elements.view(kind)
        combine = (REDUCTIONS if kind.kind in "iu" else FLOAT_REDUCTIONS)[self.reduction]
        for number in _turns(places):
            typed[places[number]] = combine(typed[places[number]], new.view(kind)[number])

    def check_defined(self) -> None:
        """The bytes that are to be stored must have been written, with defined values."""
        shadow = self.group.shadow
        bad = shadow.undefined(self.entries())
        if bad is None:
            return
        _, inside = self.addresses()
        bad = np.broadcast_to(np.repeat(bad, shadow.granule, axis=1), (len(self.ctas), self.tensor_map.box_bytes))
        first = self.tensor_map.shared_addresses(self.places) - self.places[:, None]
        for byte in range(self.tensor_map.item_bytes):
            wrong = inside & np.take_along_axis(bad, first + byte, axis=1)
            if wrong.any():
                cta, element = np.argwhere(wrong)[0].tolist()
                place = int(self.places[cta] + first[cta, element]) + byte
                raise UninitializedReadError(
                    f"a bulk copy stores arena byte {place}, which holds no defined value ({self.machine.name})",
                    self.location,
                )

    def shares(self, threads: Booleans) -> Booleans:
        """In which of its blocks its thread is among some, broadcastable to `[cta, warp, lane]`."""
        spread = np.broadcast_to(threads, self.machine.shape)
        return np.asarray(spread[self.ctas, self.warp, self.lane])

    def missed_wait(self) -> str:
        """Why a wait did not cover it; nothing if there was none."""
        missed = self.machine.bulk.groups.missed_wait(self.instruction)
        return missed[0] if missed else ""


class Transfers:
    """The bulk copies of a group that are in flight: loads that have not landed, stores that nobody has waited for.

    `starters` tells, for each instruction that has brought something, whose threads were the last to start it.
    """

    def __init__(self, group: BlockGroup) -> None:
        self.group = group
        self.loads: list[Load | Parcel] = []
        self.starters: dict[int, Machine] = {}
        self.stores: list[Store] = []

    def load(self, loads: Sequence[Load | Parcel]) -> None:
        """Loads that start."""
        self.loads += loads
        for load in loads:
            self.start(load.instruction, load.machine)

    def start(self, instruction: int, machine: Machine) -> None:
        """An instruction of a partition's threads brings something."""
        self.starters[instruction] = machine

    def landed(self, load: Load | Parcel) -> None:
        """A load that has landed."""
        self.loads.remove(load)

    def store(self, stores: Sequence[Store]) -> None:
        """Stores that start."""
        self.stores += stores

    def written(self, store: Store) -> None:
        """A store that all its threads have waited for."""
        self.stores.remove(store)

    def check_access(
        self, machine: Machine, address: Array, predicate: Mask, offset: int, width: int, verb: str
    ) -> None:
        """An access of threads to global memory must not meet what a copy in flight has yet to do there."""
        if verb != "read":
            machine.copies.check_sources(address, predicate, offset, width)
        if not self.loads and not self.stores:
            return
        touched = accessed(machine.memory.real(selected(address, predicate) + offset), width)
        self._check(touched, verb, machine.location, False)

    def check_box(self, box: Box, verb: str, reduces: bool) -> None:
        """A bulk copy that starts must not either; those that change the tensor by reductions may meet."""
        if self.stores or (self.loads and verb == "written"):
            self._check(box.footprint(), verb, box.location, reduces)

    def _check(self, touched: Footprint, verb: str, location: SourceLocation, reduces: bool) -> None:
        for store in self.stores:
            if not (reduces and store.reduction) and store.footprint().meets(touched):
                text = f"global memory is {verb} before the bulk copy to it started at {store.location} was waited for"
                if missed := store.missed_wait():
                    raise WaitCountError(f"{text}: {missed}", location, other=store.location)
                error = ReadBeforeWaitError if verb == "read" else OverwriteInFlightError
                raise error(text, location, other=store.location)
        for load in self.loads:
            if verb != "read" and load.footprint().meets(touched):
                text = f"a store overwrites the source of the bulk copy started at {load.location} before the wait"
                raise OverwriteInFlightError(text, location, other=load.location)

    def finish(self) -> None:
        """Reports what is in flight when the blocks end; results that only have to be written may be."""
        for load in self.loads:
            copy = f"the bulk copy started at {load.location}{load.machine.by}"
            text = f"{self.group.name} ended before {copy} was there"
            raise PendingAtExitError(f"{text}: no wait for {load.word.name} covers it", load.location)
        for store in self.stores:
            if store.busy.any():
                missed = store.missed_wait() or "there is no wait for it"
                copy = f"the bulk copy started at {store.location}{store.machine.by}"
                text = f"{self.group.name} ended while {copy} may still read it"
                raise PendingAtExitError(f"{text}: {missed}", store.location)
        self._check_known()

    def _check_known(self) -> None:
        """Reports boxes that have landed without anybody waiting for them."""
        entry = self.group.shadow.unknown_load()
        if entry is not None:
            instruction, phase = entry & INSTRUCTION_BITS, entry >> TIME_SHIFT
            line = self.group.launch.instructions[instruction].location
            copy = f"the copy started at {line}{self.starters[instruction].by}"
            text = f"{self.group.name} ended without a wait for the mbarrier of {copy}, in its phase {phase}"
            raise PendingAtExitError(text, line)


def _turns(places: Array) -> list[Array]:
    """Indices of changes, in turns that touch no place twice."""
    left, turns = np.arange(len(places)), []
    while left.size:
        _, first = np.unique(places[left], return_index=True)
        turns.append(left[first])
        left = np.delete(left, first)
    return turns
