"""Hand-built thread IR with mbarriers, bulk copies and partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glueball.errors import SimulationError
from glueball.sim import HostArray
from glueball.tensor_map import MappedArray, TensorMap, TensorMapType
from glueball.thread.control import PARTITIONS
from glueball.thread.ir import Parameter, SharedAllocation, Value
from tests.sim.kernels import Kernel

ELEMENTS = {"float32": np.float32, "float16": np.float16, "int32": np.int32, "uint8": np.uint8, "tfloat32": np.float32}


def lines(error: SimulationError) -> tuple[int, int]:
    """Line of the fault and of the other instruction that the error names."""
    assert error.location is not None
    other = error.details.get("other")
    if other is None:
        return error.location.line, 0
    assert f"{other}" in error.error_message
    return error.location.line, other.line


def aligned(shape: Sequence[int], dtype: Any) -> Any:
    """Zeros whose storage starts at a multiple of 16 bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    storage = np.zeros(size + 16, np.uint8)
    start = -storage.ctypes.data % 16
    return storage[start : start + size].view(dtype).reshape(shape)


def describe(array: np.ndarray[Any, Any], box: Sequence[int], element: str = "float32", **fields: Any) -> MappedArray:
    """An array as a descriptor argument."""
    host = HostArray.of(array)
    return MappedArray(host, TensorMap(host.address, host.shape, host.strides, element, tuple(box), **fields))


class AsynchronousKernel(Kernel):
    """A kernel with mbarriers in `words` and boxes in `buffer`; addresses are immediate offsets."""

    def __init__(self, num_warps: int = 1, words: int = 4, buffer: int = 4096, target: str = "sm_90a") -> None:
        super().__init__(num_warps, target)
        self.function.allocations["buffer"] = SharedAllocation("buffer", buffer, 1024, 0)
        self.function.allocations["words"] = SharedAllocation("words", 8 * words, 16, buffer)
        self.function.shared_bytes = buffer + 16 * words
        self.always = self.constant("i1", True)

    def first(self) -> Value:
        """Whether the thread is the partition's first."""
        value: Value = self.do("compare_signed", self.thread(), 0, predicate="eq")
        return value

    def tensor(self, name: str, kind: TensorMapType) -> Value:
        """A descriptor parameter."""
        value = self.new_value("i64")
        self.function.parameters.append(Parameter(value, name, None, kind))
        return value

    def mbarrier(self, operation: str, word: int | Value, *operands: Value | int, **attributes: Any) -> None:
        """An operation on a word, an index or a byte offset."""
        offset, place = (self.i32(0), 8 * word) if isinstance(word, int) else (word, 0)
        self.do(f"mbarrier_{operation}", offset, *operands, allocation="words", offset=place, **attributes)

    def init(self, word: int, count: int = 1) -> None:
        self.mbarrier("init", word, self.first(), count=count)

    def invalidate(self, word: int) -> None:
        self.mbarrier("invalidate", word, self.first())

    def arrive(self, word: int | Value, count: int = 1, predicate: Value | None = None) -> None:
        self.mbarrier("arrive", word, self.first() if predicate is None else predicate, count=count)

    def expect(self, word: int | Value, size: int) -> None:
        self.mbarrier("expect", word, self.first(), bytes=size)

    def wait(self, word: int | Value, phase: int | Value, predicate: Value | None = None) -> None:
        self.mbarrier("wait", word, phase, self.always if predicate is None else predicate)

    def load_box(
        self, tensor: Value, word: int | Value, coordinates: Sequence[int | Value], offset: int | Value = 0,
        size: int = 512, taps: Sequence[int | Value] = (), predicate: Value | None = None,
    ) -> None:  # fmt: skip
        """The first thread copies a box to the buffer; coordinates are outermost first."""
        signal, barrier_offset = (self.i32(0), 8 * word) if isinstance(word, int) else (word, 0)
        place, immediate = (self.i32(0), offset) if isinstance(offset, int) else (offset, 0)
        self.do(
            "bulk_tensor_load", tensor, place, signal, self.first() if predicate is None else predicate,
            *coordinates[::-1], *taps[::-1], allocation="buffer", offset=immediate, barrier_allocation="words",
            barrier_offset=barrier_offset, rank=len(coordinates), im2col=bool(taps), box=size, cache_policy=None,
        )  # fmt: skip

    def store_box(self, tensor: Value, coordinates: Sequence[int | Value], offset: int | Value = 0,
                  reduction: str | None = None, predicate: Value | None = None) -> None:  # fmt: skip
        """The first thread copies a box from the buffer."""
        place, immediate = (self.i32(0), offset) if isinstance(offset, int) else (offset, 0)
        self.do(
            "bulk_tensor_store", tensor, place, self.first() if predicate is None else predicate, *coordinates[::-1],
            allocation="buffer", offset=immediate, rank=len(coordinates), reduction=reduction, cache_policy=None,
        )  # fmt: skip

    def wait_stores(self, pending: int = 0, read_only: bool = False) -> None:
        self.do("bulk_wait_group", pending=pending, read_only=read_only)

    def fence(self) -> None:
        self.do("fence_proxy_async", cluster=False)

    def read(self, place: Value, kind: str = "f32", **attributes: Any) -> Value:
        """An element of the buffer by its byte."""
        value: Value = self.load(place, space="shared", kind=kind, allocation="buffer", **attributes)
        return value

    def write(self, place: Value, value: Value, kind: str = "f32") -> None:
        self.store(place, value, space="shared", kind=kind, allocation="buffer")

    def partitions(
        self, default: Callable[[], Sequence[Value] | None], *workers: tuple[Callable[..., None], int, Sequence[Value]],
        kinds: Sequence[str] = (),
    ) -> tuple[Value, ...]:  # fmt: skip
        """The default partition's function, and function, warps and captures of each worker."""
        own = self.threads // 32
        regions = [self.new_region()]
        with self.inside(regions[0]):
            self.yield_values(default() or ())
        for body, _, captures in workers:
            regions.append(self.new_region([value.type for value in captures]))
            with self.inside(regions[-1], sealed=True):
                body(*regions[-1].arguments)
                self.yield_values(())
        warps = [own, *(count for _, count, _ in workers)]
        attributes = {
            "warps": tuple(warps),
            "first_warp": tuple(sum(warps[:index]) for index in range(len(warps))),
            "registers": None,
        }
        captures = [value for _, _, values in workers for value in values]
        return self.structured(PARTITIONS, captures, regions, kinds, attributes)
