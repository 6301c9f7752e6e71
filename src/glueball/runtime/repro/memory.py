"""The memory of a launch's arrays: every byte between the first and the last element, overlaps kept as they are."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glueball.drivers.arrays import DeviceArray
from glueball.drivers.cuda import cuda_driver
from glueball.runtime.host import allocation_address
from glueball.tile.types import DTYPES

ALIGNMENT = 256
DATA_LIMIT = 64 << 20
"""Memory that is written as it is, in bytes; larger memory is described by a seed."""


@dataclass(frozen=True, slots=True)
class Span:
    """Memory from an address on, of a number of bytes, on the host (`kind` is `host`) or a device."""

    kind: str
    device_index: int
    address: int
    size: int

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + self.size

    @property
    def place(self) -> tuple[str, int]:
        """The host or a device."""
        return self.kind, self.device_index

    def holds(self, other: Span) -> bool:
        """Whether another span lies within this one."""
        return self.place == other.place and self.address <= other.address and other.end <= self.end

    def read(self) -> bytes:
        """The bytes as they are now; waits for the device's earlier work."""
        if self.kind == "host":
            return ctypes.string_at(self.address, self.size)
        buffer = ctypes.create_string_buffer(self.size)
        driver = cuda_driver()
        driver.synchronize(self.device_index)
        with driver.activated(self.device_index):
            driver.call("copying from the device", "cuMemcpyDtoH", ctypes.addressof(buffer), self.address, self.size)
        return buffer.raw

    def digest(self) -> str:
        """The SHA-256 of the bytes as they are now."""
        return hashlib.sha256(self.read()).hexdigest()


def span_of(array: DeviceArray) -> Span:
    """The memory that an array's elements lie in."""
    itemsize = DTYPES[array.dtype].itemsize
    if 0 in array.shape:
        return Span(array.kind, array.device_index, array.pointer, 0)
    reaches = [(extent - 1) * stride * itemsize for extent, stride in zip(array.shape, array.strides, strict=True)]
    low = sum(min(reach, 0) for reach in reaches)
    high = sum(max(reach, 0) for reach in reaches) + itemsize
    return Span(array.kind, array.device_index, array.pointer + low, high - low)


def merged(spans: Sequence[Span]) -> list[Span]:
    """The spans with those that overlap made one, in the order in which they first appear."""
    found: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.kind, span.device_index, span.address)):
        last = found[-1] if found else None
        if last is not None and last.place == span.place and span.address < last.end:
            end = max(last.end, span.end)
            found[-1] = Span(span.kind, span.device_index, last.address, end - last.address)
        else:
            found.append(span)
    return sorted(found, key=lambda one: next(index for index, span in enumerate(spans) if one.holds(span)))


def describe(array: DeviceArray, spans: Sequence[Span], value: Any) -> dict[str, Any]:
    """An array within the spans as JSON values: strides in elements, the offset in bytes."""
    own = span_of(array)
    number = next(index for index, span in enumerate(spans) if span.holds(own))
    flags = getattr(value, "flags", None)
    return {
        "memory": number,
        "offset": array.pointer - spans[number].address,
        "dtype": array.dtype,
        "shape": list(array.shape),
        "strides": list(array.strides),
        "writeable": bool(getattr(flags, "writeable", True)),
    }


def alignment_of(span: Span, value: Any) -> int:
    """Bytes that memory lies behind a multiple of 256, as alignment decides code and the simulator's addresses."""
    start = allocation_address(value) if span.kind == "host" else None
    return (span.address - start if start is not None and start % ALIGNMENT == 0 else span.address) % ALIGNMENT
