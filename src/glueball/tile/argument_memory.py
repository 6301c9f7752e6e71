"""Global memory of the reference executor: the arrays that a kernel was given, and nothing else.

Every array gets its own region of an address space, far from the others, so that an address tells which argument it
came from. A region is the storage between the first and the last byte that the array can reach; strides of the array
play no part, as on a device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from glueball.errors import MisalignedAccessError, OutOfBoundsError, ReadOnlyWriteError
from glueball.tile.operations.definition import Access

Array = NDArray[Any]

SPACING = 1 << 42
REAL_ALIGNMENT = 4096


@dataclass(frozen=True, slots=True)
class ArgumentRegion:
    """One argument's storage: `bytes` start at address `low`; `pointer` is the address of the array's first element.

    `itemsize` is that of the elements that the argument points to, by which reports count.
    """

    name: str
    bytes: Array
    low: int
    pointer: int
    itemsize: int

    @property
    def high(self) -> int:
        """The address after the last byte."""
        return self.low + self.bytes.size

    def elements(self, width: int) -> tuple[Array, int]:
        """The storage as naturally aligned unsigned integers of a width in bytes, and the first one's address."""
        skip = -self.low % width
        count = max(0, (self.bytes.size - skip) // width)
        return self.bytes[skip : skip + count * width].view(f"u{width}"), self.low + skip


class ArgumentMemory:
    """The regions of all arguments, in order of their addresses."""

    def __init__(self) -> None:
        self.regions: list[ArgumentRegion] = []

    def add(self, name: str, array: Array, itemsize: int) -> int:
        """Give an array a region; the address of its first element, equal to the real one modulo 4096."""
        storage, first = _storage(array)
        real = int(storage.__array_interface__["data"][0])
        low = (len(self.regions) + 1) * SPACING + real % REAL_ALIGNMENT
        self.regions.append(ArgumentRegion(name, storage, low, low + first, itemsize))
        return low + first

    def load(self, access: Access, addresses: Array, element: np.dtype[Any]) -> Array:
        """The elements at byte addresses; an int1 is a byte other than zero."""
        bits = np.empty(addresses.shape, f"u{element.itemsize}")
        for region, chosen in self._owners(access, addresses):
            elements, positions = _locate(access, region, addresses[chosen], element.itemsize)
            bits[chosen] = elements[positions]
        return bits != 0 if element.kind == "b" else bits.view(element)

    def store(self, access: Access, addresses: Array, values: Array) -> None:
        """Write elements at byte addresses."""
        bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
        for region, chosen in self._owners(access, addresses):
            if not region.bytes.flags.writeable:
                raise ReadOnlyWriteError(
                    f"store to argument `{region.name}`, whose array is read-only (program {access.program})",
                    access.location,
                    argument=region.name,
                    program=access.program,
                )
            elements, positions = _locate(access, region, addresses[chosen], values.dtype.itemsize)
            elements[positions] = bits[chosen]

    def _owners(self, access: Access, addresses: Array) -> Iterator[tuple[ArgumentRegion, Any]]:
        """The regions that addresses lie in or near to, each with what selects its addresses."""
        owners = (addresses + SPACING // 2) // SPACING - 1
        for owner in np.unique(owners):
            chosen = owners == owner
            if not 0 <= owner < len(self.regions):
                address = int(addresses[chosen][0])
                raise OutOfBoundsError(
                    f"{access.opcode} at address {address:#x}, near no argument (program {access.program})",
                    access.location,
                    address=address,
                    program=access.program,
                )
            yield self.regions[owner], chosen


def _locate(access: Access, region: ArgumentRegion, addresses: Array, width: int) -> tuple[Array, Array]:
    """The region's elements of a width, and which of them the addresses mean; an error where one means none."""
    outside = (addresses < region.low) | (addresses + width > region.high)
    if outside.any():
        index = (int(addresses[outside][0]) - region.pointer) // region.itemsize
        first, end = ((edge - region.pointer) // region.itemsize for edge in (region.low, region.high))
        holds = f"elements {first} to {end - 1}" if region.bytes.size else "no elements"
        raise OutOfBoundsError(
            f"{access.opcode} out of bounds: element {index} of argument `{region.name}`, whose storage holds {holds} "
            f"(program {access.program})",
            access.location,
            argument=region.name,
            index=index,
            program=access.program,
        )
    misaligned = addresses % width != 0
    if misaligned.any():
        offset = int(addresses[misaligned][0]) - region.pointer
        raise MisalignedAccessError(
            f"{access.opcode} of {width} bytes at byte {offset} of argument `{region.name}`: the address is no "
            f"multiple of {width} (program {access.program})",
            access.location,
            argument=region.name,
            offset=offset,
            program=access.program,
        )
    elements, start = region.elements(width)
    return elements, (addresses - start) // width


def _storage(array: Array) -> tuple[Array, int]:
    """The bytes between the first and the last that an array reaches, and where among them its first element is."""
    if array.size == 0:
        return np.zeros(0, np.uint8), 0
    corner = array[tuple(slice(None, None, -1) if stride < 0 else slice(None) for stride in array.strides)]
    low, high = byte_bounds(array)
    one = corner[(slice(0, 1),) * corner.ndim].reshape(1).view(np.uint8)
    return as_strided(one, (high - low,), (1,)), int(array.__array_interface__["data"][0]) - low
