"""Global memory: each pointer argument in its own virtual region, backed by the caller's storage.

A region's base is `(argument + 1) << 40` plus half a region, so gaps between arguments are far wider than any of them;
addresses equal the real ones modulo 16 and an allocation starts at a multiple of 32 if its real start is one of 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from glueball.errors import MisalignedAccessError, OutOfBoundsError, ReadOnlyWriteError
from glueball.sim.masks import Array, Booleans, Mask
from glueball.thread.atomics import COMPARE_EXCHANGE, OPERATIONS
from glueball.thread.builder import wrapped
from glueball.thread.conversion import NUMPY
from glueball.thread.ir import Attributes
from glueball.thread.memory import access_bytes

if TYPE_CHECKING:
    from glueball.sim.machine import Machine
    from glueball.sim.threads import Thread

REGION_BITS = 40
WORDS = {width: np.dtype(kind) for width, kind in ((1, "u1"), (2, "u2"), (4, "u4"), (8, "u8"), (16, "c16"))}


@dataclass(frozen=True, slots=True)
class HostArray:
    """Host storage behind a pointer argument.

    `address` is that of element `[0, ..., 0]`, `strides` are in elements (any sign, zero), `itemsize` in bytes.
    `allocation` is the address where the storage that the view belongs to starts, if known; `keepalive` holds it.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    writeable: bool = True
    keepalive: object = None
    allocation: int | None = None

    @staticmethod
    def of(array: Array) -> HostArray:
        """A NumPy array or view; `ValueError` if its strides are no multiples of the item size."""
        if any(stride % array.itemsize for stride in array.strides):
            raise ValueError(f"strides {array.strides} of an array are not multiples of its item size {array.itemsize}")
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        return HostArray(
            address=array.__array_interface__["data"][0],
            shape=array.shape,
            strides=tuple(stride // array.itemsize for stride in array.strides),
            itemsize=array.itemsize,
            writeable=array.flags.writeable,
            keepalive=array,
            allocation=root.__array_interface__["data"][0] if root.flags.owndata else None,
        )

    def reach(self) -> tuple[int, int]:
        """First byte reachable from the view and the one after the last, relative to `address`."""
        if 0 in self.shape:
            return 0, 0
        ends = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)]
        low, high = sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)
        return low * self.itemsize, (high + 1) * self.itemsize

    def has_gaps(self) -> bool:
        """Whether bytes between the first and the last reachable one are not reachable."""
        dense = 1
        axes = [(abs(stride), extent) for extent, stride in zip(self.shape, self.strides, strict=True) if extent != 1]
        for stride, extent in sorted(axes):
            if stride > dense:
                return True
            dense = max(dense, stride * (extent - 1) + dense)
        return False

    def index_text(self, index: int) -> str:
        """An element index, in every dimension too where the view is contiguous and has more than one."""
        expected = 1
        coordinates: list[int] = []
        rest = index
        for axis in reversed(range(len(self.shape))):
            extent = self.shape[axis]
            if extent == 0 or (extent > 1 and self.strides[axis] != expected):
                return str(index)
            expected *= extent
            rest, coordinate = divmod(rest, extent) if axis else (0, rest)
            coordinates.insert(0, coordinate)
        return f"{index} = {coordinates}" if len(self.shape) > 1 else str(index)


class _Storage:
    """Raw bytes at an address, for NumPy."""

    def __init__(self, address: int, size: int, writeable: bool, keepalive: object) -> None:
        self.keepalive = keepalive
        self.__array_interface__ = {
            "data": (address, not writeable),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }


@dataclass(frozen=True, slots=True)
class Window:
    """The accesses of one width that a region admits.

    `words` are its aligned words; word 0 lies `skipped` words above `origin`, a multiple of 32. `whole` tells which
    words are reachable in all bytes, `None` for every one.
    """

    origin: int
    skipped: int
    shift: int
    words: Array
    whole: Booleans | None


@dataclass(slots=True)
class Region:
    """The reachable bytes `[low, high)`, in virtual addresses, of one pointer argument."""

    name: str
    host: HostArray
    base: int
    low: int
    high: int
    storage: Array
    windows: dict[int, Window] = field(default_factory=dict)
    _reachable: Booleans | None = None

    @staticmethod
    def of(name: str, index: int, host: HostArray) -> Region:
        """Places an argument."""
        slot = ((index + 1) << REGION_BITS) + (1 << (REGION_BITS - 1))
        start = host.address if host.allocation is None else host.allocation
        base = slot + start % 16 + (host.address - start)
        low, high = host.reach()
        storage = np.asarray(_Storage(host.address + low, high - low, host.writeable, host.keepalive))
        return Region(name, host, base, base + low, base + high, storage)

    def reachable(self) -> Booleans | None:
        """Which bytes from `low` on the view reaches; `None` for all."""
        if self._reachable is None and self.high > self.low and self.host.has_gaps():
            mask = np.zeros(self.high - self.low, bool)
            size = self.host.itemsize
            view = np.lib.stride_tricks.as_strided(
                mask[self.base - self.low :],
                (*self.host.shape, size),
                (*(stride * size for stride in self.host.strides), 1),
            )
            view[...] = True
            self._reachable = mask
        return self._reachable

    def window(self, width: int) -> Window:
        """The window for accesses of `width` bytes."""
        if width not in self.windows:
            first = -self.low % width
            count = max(0, (self.high - self.low - first) // width)
            origin = (self.low + first) & ~31
            reachable = self.reachable()
            words = slice(first, first + count * width)
            self.windows[width] = Window(
                origin=origin,
                skipped=(self.low + first - origin) // width,
                shift=width.bit_length() - 1,
                words=self.storage[words].view(WORDS[width]),
                whole=None if reachable is None else np.asarray(reachable[words].reshape(-1, width).all(axis=1)),
            )
        return self.windows[width]

    def place(self, address: Array, predicate: Mask, offset: int, width: int) -> Part | None:
        """Words that the active lanes access, or `None` unless all are inside, reachable and aligned."""
        window = self.window(width)
        size = window.words.shape[0]
        if size == 0:
            return None
        relative = address - wrapped(window.origin - offset, "i64")
        if predicate is not None:
            relative = np.where(predicate, relative, window.skipped << window.shift)
        if np.bitwise_or.reduce(relative, axis=None) & (width - 1):
            return None
        index = relative >> window.shift
        if window.skipped:
            index -= window.skipped
        if index.min() < 0 or index.max() >= size:
            return None
        if window.whole is not None:
            reachable = window.whole.take(index)
            if not (reachable if predicate is None else reachable | ~predicate).all():
                return None
        return Part(window, relative, index, predicate)

    def outside(self, starts: Array, width: int) -> Booleans:
        """Which bytes of accesses at `starts` are not reachable: `[access, width]`."""
        places = starts[:, None] + (np.arange(width) - self.low)
        outside = (places < 0) | (places >= self.high - self.low)
        reachable = self.reachable()
        if reachable is not None:
            outside[~outside] = ~reachable[places[~outside]]
        return np.asarray(outside)

    def distance(self, address: int) -> int:
        """Bytes between an address and the region."""
        return max(self.low - address, address - self.high + 1, 0)


@dataclass(slots=True)
class Part:
    """The lanes of an access that fall into one region; `relative` is their address minus a multiple of 32."""

    window: Window
    relative: Array
    index: Array
    predicate: Mask


class GlobalMemory:
    """The regions of a launch."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self.regions = {region.base >> REGION_BITS: region for region in regions}

    def region_at(self, address: int) -> Region:
        """The region that an address belongs to."""
        return self.regions[address >> REGION_BITS]

    def real(self, addresses: Array) -> Array:
        """The host's addresses of what regions have, some of which may be of the same storage."""
        numbers = addresses >> REGION_BITS
        first = numbers.flat[0] if numbers.size else 0
        if (numbers == first).all():
            return np.asarray(addresses + self._displacement(int(first)))
        found = addresses.copy()
        for number in np.unique(numbers).tolist():
            found[numbers == number] += self._displacement(number)
        return found

    def _displacement(self, number: int) -> int:
        """How far the host's addresses of a region are above its own."""
        region = self.regions.get(number)
        return region.host.address - region.base if region else 0

    def load(self, machine: Machine, attributes: Attributes, address: Any, predicate: Mask) -> tuple[Array, ...]:
        """One array per element; where the predicate is false, anything. At least one lane is active."""
        kind, count = NUMPY[attributes["type"]], attributes["count"]
        words = self.read(machine, np.asarray(address), predicate, attributes["offset"], access_bytes(attributes))
        elements = words[..., None].view(kind)
        return tuple(elements[..., index] for index in range(count))

    def read(self, machine: Machine, address: Array, predicate: Mask, offset: int, width: int) -> Array:
        """The words at the active lanes' addresses."""
        parts = self.access(machine, address, predicate, offset, width, "read")
        first = parts[0]
        if len(parts) == 1:
            return np.asarray(first.window.words.take(first.index))
        words = np.zeros(first.index.shape, WORDS[width])
        for part in parts:
            assert part.predicate is not None
            words[part.predicate] = part.window.words[part.index[part.predicate]]
        return words

    def store(
        self, machine: Machine, attributes: Attributes, address: Any, predicate: Mask, values: Sequence[Any]
    ) -> None:
        """Stores one array per element where the predicate holds. At least one lane is active."""
        width, offset = access_bytes(attributes), attributes["offset"]
        address = np.asarray(address)
        parts = self.access(machine, address, predicate, offset, width, "written")
        for part in parts:
            if not part.window.words.flags.writeable:
                self._fault_read_only(machine, address, part.predicate)
            words = packed(values, attributes["type"], part.index.shape)
            scatter(part.window.words, part.index, words, part.predicate)

    def change(
        self, machine: Machine, attributes: Attributes, address: Any, predicate: Mask, operands: Sequence[Any]
    ) -> Array:
        """Atomic changes where the predicate holds, one after the other; what was there before each."""
        kind, width, offset = NUMPY[attributes["type"]], access_bytes(attributes), attributes["offset"]
        address = np.asarray(address)
        shape = np.broadcast_shapes(
            (machine.ctas, machine.warps, machine.lanes), address.shape, *(np.shape(operand) for operand in operands)
        )
        parts = self.access(machine, address, predicate, offset, width, "changed")
        old = np.zeros(shape, kind)
        spread = [np.broadcast_to(np.asarray(operand, kind), shape).reshape(-1) for operand in operands]
        for part in parts:
            if not part.window.words.flags.writeable:
                self._fault_read_only(machine, address, part.predicate)
            index = np.broadcast_to(part.index, shape).reshape(-1)
            active = np.ones(index.shape, bool)
            if part.predicate is not None:
                active = np.broadcast_to(part.predicate, shape).reshape(-1)
            chosen = np.flatnonzero(active)
            values = [operand[chosen] for operand in spread]
            found = change_in_turn(part.window.words.view(kind), index[chosen], attributes["operation"], values)
            old.reshape(-1)[chosen] = found
        return old

    def access(
        self, machine: Machine, address: Array, predicate: Mask, offset: int, width: int, verb: str
    ) -> list[Part]:
        """Checks and counts an access; where its active lanes go, by region."""
        machine.group.transfers.check_access(machine, address, predicate, offset, width, verb)
        region = self.regions.get(_first_active(address, predicate) >> REGION_BITS)
        part = region and region.place(address, predicate, offset, width)
        if not part:
            parts = self._split(machine, address, predicate, offset, width, verb)
            machine.count_global(address + offset, predicate, width)
            return parts
        machine.count_global(part.relative, predicate, width)
        return [part]

    def _split(
        self, machine: Machine, address: Array, predicate: Mask, offset: int, width: int, verb: str
    ) -> list[Part]:
        """Lanes that do not all access the first one's region; a fault unless each accesses some region."""
        shape = np.broadcast_shapes((1, 1, 1), address.shape, () if predicate is None else predicate.shape)
        numbers = np.broadcast_to((address + offset) >> REGION_BITS, shape)
        active = np.broadcast_to(True if predicate is None else predicate, shape)
        parts = []
        for number in np.unique(numbers[active]).tolist():
            here = active & (numbers == number)
            region = self.regions.get(number)
            part = region and region.place(np.broadcast_to(address, shape), here, offset, width)
            if not part:
                self._fault(machine, np.broadcast_to(address, shape), here, offset, width, verb)
            parts.append(part)
        return parts

    def _fault(
        self, machine: Machine, address: Array, active: Booleans, offset: int, width: int, verb: str
    ) -> NoReturn:
        """Raises for the first active lane out of bounds, else for the first that is misaligned; all in one region."""
        places = np.flatnonzero(active)
        starts = address.ravel()[places] + offset
        region = self._nearest(machine, int(starts[0]))
        outside = region.outside(starts, width)
        if outside.any():
            first = int(outside.any(axis=1).argmax())
            byte = int(starts[first]) + int(outside[first].argmax())
            self._fault_bounds(machine, region, byte, verb, machine.thread_at(int(places[first]), active.shape))
        first = int(np.argmax(starts % width != 0))
        start = int(starts[first])
        thread = machine.thread_at(int(places[first]), active.shape)
        element = (start - region.base) // region.host.itemsize
        raise MisalignedAccessError(
            f"`{region.name}` is {verb} at element {region.host.index_text(element)} in one access of {width} bytes, "
            f"but its address is only a multiple of {start & -start} ({thread})",
            machine.location,
            argument=region.name,
            index=element,
            width=width,
            **thread.details(),
        )

    def _nearest(self, machine: Machine, address: int) -> Region:
        if not self.regions:
            raise OutOfBoundsError(
                f"address {address:#x} is accessed, but the kernel has no pointer argument", machine.location
            )
        return min(self.regions.values(), key=lambda region: region.distance(address))

    def _fault_bounds(self, machine: Machine, region: Region, byte: int, verb: str, thread: Thread) -> NoReturn:
        host = region.host
        index = (byte - region.base) // host.itemsize
        view = f"its view of shape {list(host.shape)} and strides {list(host.strides)}"
        if byte >> REGION_BITS != region.base >> REGION_BITS:
            where = f"address {byte:#x} is {verb}, which belongs to no argument; the nearest is `{region.name}`"
        elif region.low <= byte < region.high:
            where = f"`{region.name}` is {verb} at element {index}, in a gap of {view}"
        else:
            where = f"`{region.name}` is {verb} at element {host.index_text(index)}, outside {view}"
        raise OutOfBoundsError(
            f"{where} ({thread})",
            machine.location,
            argument=region.name,
            index=index,
            **thread.details(),
        )

    def _fault_read_only(self, machine: Machine, address: Array, predicate: Mask) -> NoReturn:
        region = self._nearest(machine, _first_active(address, predicate))
        raise ReadOnlyWriteError(
            f"`{region.name}` is written, but its array is read-only", machine.location, argument=region.name
        )


def packed(values: Sequence[Any], kind: str, shape: tuple[int, ...]) -> Array:
    """Elements side by side as words: `[*shape]`, or wider where the values are."""
    shape = np.broadcast_shapes(shape, *(np.shape(value) for value in values))
    elements = np.empty((*shape, len(values)), NUMPY[kind])
    for index, value in enumerate(values):
        elements[..., index] = value
    return np.asarray(elements.view(WORDS[elements.itemsize * len(values)])[..., 0])


def change_in_turn(elements: Array, index: Array, operation: str, operands: Sequence[Array]) -> Array:
    """Changes `elements[index]` one after the other; what was there before each change."""
    old = np.empty(index.shape, elements.dtype)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    turn = np.empty(index.shape, np.int64)
    turn[order] = np.arange(index.size) - np.repeat(starts, np.diff([*starts, index.size]))
    for number in range(int(turn.max(initial=-1)) + 1):
        now = turn == number
        places = index[now]
        held = elements[places]
        old[now] = held
        values = [operand[now] for operand in operands]
        if operation == COMPARE_EXCHANGE:
            wanted, new = values
            equal = held.view(f"u{held.itemsize}") == wanted.view(f"u{held.itemsize}")
            elements[places] = np.where(equal, new, held)
        else:
            elements[places] = OPERATIONS[operation](held, *values)
    return old


def scatter(words: Array, index: Array, values: Array, predicate: Mask) -> None:
    """`words[index] = values` where the predicate holds, all broadcast against one another."""
    shape = np.broadcast_shapes(index.shape, values.shape)
    index, values = np.broadcast_to(index, shape), np.broadcast_to(values, shape)
    if predicate is not None:
        predicate = np.broadcast_to(predicate, shape)
        index, values = index[predicate], values[predicate]
    words[index.reshape(-1)] = values.reshape(-1)


def _first_active(address: Array, predicate: Mask) -> int:
    if predicate is None:
        return int(address.flat[0])
    shape = np.broadcast_shapes(address.shape, predicate.shape)
    place = np.unravel_index(int(np.broadcast_to(predicate, shape).argmax()), shape)
    return int(np.broadcast_to(address, shape)[place])
