"""How the threads of one partition start bulk copies and wait for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glueball.errors import MisalignedAccessError, OutOfBoundsError, SharedMemoryRaceError, SimulationError
from glueball.sim.commit_groups import CommitGroups, Share
from glueball.sim.counters import Counts
from glueball.sim.masks import Array, Mask
from glueball.sim.mbarriers import Reach
from glueball.sim.shadow import Touch
from glueball.sim.transfers import Load, Store
from glueball.tensor_map import GRANULE, TensorMap
from glueball.thread.ir import Attributes
from glueball.thread.nvidia.bulk_tensor import ALIGNMENT

if TYPE_CHECKING:
    from glueball.sim.group import BlockGroup
    from glueball.sim.machine import Machine
    from glueball.sim.shared import Placement, SharedMemory

FLOAT_REDUCTIONS = {"float16": ("add", "min", "max"), "bfloat16": ("add", "min", "max"), "float32": ("add",)}
SECTOR_SHIFT = 5


class BulkCopies:
    """The bulk copies of one partition's threads; those to global memory end in groups."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.groups: CommitGroups[Store] = CommitGroups()

    def load(
        self, attributes: Attributes, descriptor: Any, offset: Any, barrier: Any, mask: Mask, places: Sequence[Any],
        targets: Sequence[tuple[BlockGroup, SharedMemory]],
    ) -> None:  # fmt: skip
        """Each lane of a mask starts the copy of a box to shared memory, that of every target."""
        machine = self.machine
        tensor_map = self._tensor_map(descriptor, mask)
        self._check_bytes(attributes, tensor_map)
        self._separate(mask, offset, barrier)
        sent: list[Load] = []
        for group, shared in targets:
            placement, touch = self._place(attributes, offset, mask, tensor_map, "written", shared)
            word = {"allocation": attributes["barrier_allocation"], "offset": attributes["barrier_offset"]}
            reaches = list(machine.barriers_of(group).uses(word, barrier, True if mask is None else mask, "used"))
            agents = np.zeros(len(placement.lanes), np.int64)
            for reach in reaches:
                agents[reach.accesses] = reach.word.agent
            group.shadow.begin_load(touch, agents, shared.faults(placement, "written"))
            messages = [
                Load(machine, machine.at, tensor_map, *box, reach.word)
                for reach in reaches
                for _, _, box in self._boxes(attributes, placement, reach, tensor_map, places)
            ]
            for message in () if sent else messages:
                group.transfers.check_box(message, "read", False)
                self._count(message)
            group.transfers.load(messages)
            sent += messages
        for message in sent:
            machine.launch.scheduler.later(message)

    def store(self, attributes: Attributes, descriptor: Any, offset: Any, mask: Mask, places: Sequence[Any]) -> None:
        """Each lane of a mask starts the copy of a box to global memory."""
        machine, group = self.machine, self.machine.group
        tensor_map, reduction = self._tensor_map(descriptor, mask), attributes["reduction"]
        self._check_reduction(reduction, tensor_map)
        self._check_bytes(attributes, tensor_map)
        self._separate(mask, offset)
        placement, touch = self._place(attributes, offset, mask, tensor_map, "read", machine.shared)
        messages = [
            Store(machine, machine.at, tensor_map, *box, warp, lane, reduction)
            for warp, lane, box in self._boxes(attributes, placement, None, tensor_map, places)
        ]
        fault = machine.shared.faults(placement, "read")
        group.shadow.begin_source(touch, fault)
        for message in messages:
            group.transfers.check_box(message, "written", reduction is not None)
            message.check_defined()
            self._count(message)
            threads = np.zeros(machine.shape, bool)
            threads[message.ctas, message.warp, message.lane] = True
            self.groups.add(message, threads)
        group.transfers.store(messages)
        for message in messages:
            machine.launch.scheduler.later(message)

    def commit(self) -> None:
        """The active threads' open copies become their next group."""
        self.groups.commit(self.machine.active_array())

    def wait(self, pending: int, read_only: bool) -> None:
        """Ends, for each active thread, the reading of all groups but its latest ones, and unless told the writing."""
        machine = self.machine
        active = machine.active_array()
        waits = self.groups.wait_read if read_only else self.groups.wait
        for share in waits(active, pending, machine.location):
            share.work.read()
            self._release(share)
            if not read_only:
                self._finish(share)

    def _release(self, share: Share[Store]) -> None:
        """The bytes in shared memory may be used by the threads that have waited."""
        store, machine = share.work, self.machine
        free = store.busy & store.shares(share.threads)
        if not free.any():
            return
        if not free.all():
            machine.group.expand()
        rows = machine.group.rows_of(store.ctas[free])
        thread = store.warp * machine.lanes + store.lane
        placement = machine.shared.of_thread("", rows, store.places[free][: len(rows)], thread)
        touch = machine.shared.touch(placement, store.tensor_map.box_bytes, store.instruction)
        machine.group.shadow.finish_source(touch)
        store.busy = store.busy & ~free

    def _finish(self, share: Share[Store]) -> None:
        """The tensor is changed as far as the threads that have waited know."""
        store, machine = share.work, self.machine
        store.write()
        machine.launch.scheduler.forget(store)
        store.unwritten = store.unwritten & ~store.shares(share.threads)
        if not store.unwritten.any():
            machine.group.transfers.written(store)

    # What a message is

    def _separate(self, mask: Mask, *offsets: Any) -> None:
        """Gives each block its own row where blocks do not copy to the same places."""
        if any(np.ndim(value) == 3 and np.shape(value)[0] > 1 for value in (mask, *offsets)):
            self.machine.group.expand()

    def _tensor_map(self, descriptor: Any, mask: Mask) -> TensorMap:
        """The tensor map of a handle that is the same in all lanes."""
        machine = self.machine
        handles = np.asarray(descriptor)
        if handles.size > 1:
            shape = np.broadcast_shapes(machine.shape, handles.shape)
            chosen = np.broadcast_to(handles, shape)
            handles = np.unique(chosen if mask is None else chosen[np.broadcast_to(mask, shape)])
        number = int(handles.reshape(-1)[0])
        if handles.size > 1 or not 0 <= number < len(machine.launch.tensor_maps):
            raise SimulationError("a bulk copy has no descriptor, or not the same in all lanes", machine.location)
        return machine.launch.tensor_maps[number]

    def _check_bytes(self, attributes: Attributes, tensor_map: TensorMap) -> None:
        if attributes.get("box", tensor_map.box_bytes) != tensor_map.box_bytes:
            raise SimulationError(
                f"a message of {attributes['box']} bytes is copied by a descriptor with boxes of "
                f"{tensor_map.box_bytes} bytes",
                self.machine.location,
            )
        if attributes["rank"] != tensor_map.rank:
            raise SimulationError(
                f"a copy of a {attributes['rank']}-D tensor is given a {tensor_map.rank}-D one", self.machine.location
            )

    def _check_reduction(self, reduction: str | None, tensor_map: TensorMap) -> None:
        element = tensor_map.element
        whole = ("add", "min", "max", "and", "or", "xor") if "int" in element else ()
        if reduction is not None and reduction not in FLOAT_REDUCTIONS.get(element, whole):
            raise SimulationError(
                f"unsupported reduce kind {reduction} for element type {element}", self.machine.location
            )

    def _place(
        self, attributes: Attributes, offset: Any, mask: Mask, tensor_map: TensorMap, verb: str, shared: SharedMemory
    ) -> tuple[Placement, Touch]:
        """Where the boxes lie in shared memory; those of one instruction lie apart."""
        size = tensor_map.box_bytes
        placement = shared.place(attributes, offset, mask, size, verb, ALIGNMENT)
        order = np.lexsort((placement.places, placement.rows))
        rows, places = placement.rows[order], placement.places[order]
        if verb == "written" and ((rows[1:] == rows[:-1]) & (places[1:] - places[:-1] < size)).any():
            raise SharedMemoryRaceError(
                f"shared memory `{placement.allocation}` is written by two lanes in one bulk copy",
                self.machine.location,
                other=self.machine.location,
            )
        return placement, shared.touch(placement, size, self.machine.at)

    def _boxes(
        self,
        attributes: Attributes,
        placement: Placement,
        reach: Reach | None,
        tensor_map: TensorMap,
        places: Sequence[Any],
    ) -> Iterator[tuple[int, int, tuple[Array, Array, Array, Array | None]]]:
        """For each lane that sends: warp, lane, and blocks, places in the arena, coordinates and offsets."""
        machine, group = self.machine, self.machine.group
        slots = placement.lanes % (machine.warps * machine.lanes)
        values = [np.broadcast_to(np.asarray(place, np.int64), machine.shape) for place in places]
        for slot in np.unique(slots).tolist():
            chosen = slots == slot if reach is None else (slots == slot) & reach.accesses
            if not chosen.any():
                continue
            if group.rows == 1:
                ctas = np.arange(group.ctas)
                starts = np.repeat(placement.places[chosen], group.ctas)
            else:
                ctas, starts = placement.rows[chosen], placement.places[chosen]
            warp, lane = divmod(slot, machine.lanes)
            numbers = [value[ctas, warp, lane] for value in values]
            coordinates = np.stack(numbers[: tensor_map.rank][::-1], axis=1)
            taps = np.stack(numbers[tensor_map.rank :][::-1], axis=1) if attributes.get("im2col") else None
            self._check_coordinates(coordinates, tensor_map, store="reduction" in attributes)
            yield warp, lane, (ctas, starts, coordinates, taps)

    def _check_coordinates(self, coordinates: Array, tensor_map: TensorMap, *, store: bool) -> None:
        """The innermost coordinate is a multiple of 16 bytes, and a pixel is one of those that the box has.

        Stores start within the tensor or after it: at a negative coordinate an H200 stops with an illegal instruction.
        """
        if store and (coordinates < 0).any():
            found = coordinates[int((coordinates < 0).any(axis=1).argmax())].tolist()
            raise OutOfBoundsError(
                f"a bulk store cannot start at negative coordinates, and {found} (outermost first) are; loads can",
                self.machine.location,
                index=tuple(found),
            )
        wrong = coordinates[:, -1] * tensor_map.item_bytes % GRANULE != 0
        if wrong.any():
            found = int(coordinates[int(wrong.argmax()), -1])
            raise MisalignedAccessError(
                f"the innermost coordinate of a bulk copy is a multiple of {GRANULE} bytes, and {found} elements are "
                f"{found * tensor_map.item_bytes}",
                self.machine.location,
            )
        if tensor_map.pixels is not None:
            try:
                tensor_map.elements(coordinates, np.zeros((1, tensor_map.rank - 2), np.int64))
            except ValueError as error:
                raise SimulationError(str(error), self.machine.location) from error

    def _count(self, message: Load | Store) -> None:
        addresses, inside = message.addresses()
        sectors = (addresses >> SECTOR_SHIFT)[:, :]
        changes = (sectors[:, 1:] != sectors[:, :-1]) | ~inside[:, :-1]
        counts = Counts(
            requests=len(message.ctas),
            sectors=int(np.count_nonzero(inside[:, 0]) + np.count_nonzero(changes & inside[:, 1:])),
            useful_bytes=int(np.count_nonzero(inside)) * message.tensor_map.item_bytes,
        )
        self.machine.launch.report.instructions[self.machine.at].counts.add(counts)
