"""Device arrays on an executor that runs on the host: copied there, used, and copied back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glueball.drivers.arrays import DeviceArray
from glueball.drivers.cuda import CudaDriver, cuda_driver
from glueball.runtime.specialization import Argument
from glueball.tile.types import DTYPES

ALIGNMENT = 256
"""Copies lie as device memory does, modulo this many bytes, so that what is aligned there is aligned here."""


@dataclass(frozen=True, slots=True)
class HostCopy:
    """`size` bytes of a device from address `start` on; `memory` (NumPy bytes) holds their copy at `address`."""

    device_index: int
    start: int
    size: int
    memory: Any
    address: int


@contextlib.contextmanager
def on_host(arguments: Sequence[Argument]) -> Iterator[list[Argument]]:
    """The arguments, device arrays replaced by host copies; what became of these is copied back in the end.

    Overlapping arrays share a copy, as they share memory. Waits for the work of the devices, and copies back after a
    fault too.
    """
    arrays = [argument.array for argument in arguments if argument.array is not None and argument.array.kind == "cuda"]
    if not arrays:
        yield list(arguments)
        return
    driver = cuda_driver()
    for device_index in {array.device_index for array in arrays}:
        driver.synchronize(device_index)
    copies = [_copied(driver, *span) for span in _spans(arrays)]
    try:
        yield [_moved(argument, copies) for argument in arguments]
    finally:
        for copy in copies:
            _call(driver, copy, "copying to the device", "cuMemcpyHtoD", copy.start, copy.address)


def byte_reach(array: DeviceArray) -> tuple[int, int]:
    """First byte of the array and the one after its last, relative to `pointer`; equal where it has no elements."""
    if 0 in array.shape:
        return 0, 0
    size = DTYPES[array.dtype].itemsize
    ends = [(extent - 1) * stride * size for extent, stride in zip(array.shape, array.strides, strict=True)]
    return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends) + size


def _spans(arrays: Sequence[DeviceArray]) -> list[tuple[int, int, int]]:
    """Device, first address and size of what the arrays reach, overlapping parts joined."""
    reaches = sorted((array.device_index, *(array.pointer + end for end in byte_reach(array))) for array in arrays)
    spans: list[tuple[int, int, int]] = []
    for device_index, low, high in reaches:
        if low == high:
            continue
        if spans and spans[-1][0] == device_index and low < spans[-1][1] + spans[-1][2]:
            _, start, size = spans[-1]
            spans[-1] = (device_index, start, max(size, high - start))
        else:
            spans.append((device_index, low, high - low))
    return spans


def _copied(driver: CudaDriver, device_index: int, start: int, size: int) -> HostCopy:
    import numpy

    memory = numpy.empty(size + ALIGNMENT, numpy.uint8)
    first = memory.ctypes.data
    copy = HostCopy(device_index, start, size, memory, first + (start - first) % ALIGNMENT)
    _call(driver, copy, "copying from the device", "cuMemcpyDtoH", copy.address, copy.start)
    return copy


def _call(driver: CudaDriver, copy: HostCopy, action: str, name: str, destination: int, source: int) -> None:
    with driver.activated(copy.device_index):
        driver.call(action, name, destination, source, copy.size)


def _moved(argument: Argument, copies: Sequence[HostCopy]) -> Argument:
    """The argument over its host copy; an array without elements needs none."""
    array = argument.array
    if array is None or array.kind == "host":
        return argument
    first = array.pointer + byte_reach(array)[0]
    for copy in copies:
        if copy.device_index == array.device_index and copy.start <= first < copy.start + copy.size:
            pointer = array.pointer - copy.start + copy.address
            moved = replace(array, pointer=pointer, device_index=0, kind="host", owner=copy)
            tensor_map = argument.tensor_map and replace(argument.tensor_map, base=pointer)
            return replace(argument, value=None, array=moved, tensor_map=tensor_map)
    return replace(argument, value=None, array=replace(array, device_index=0, kind="host"))
