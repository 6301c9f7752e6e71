"""What the native and the portable launcher share: variants, key flags and the table's contents."""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from glueball.drivers.cuda import raise_launch_error
from glueball.drivers.exchange import CUDA_DEVICE_TYPE, ExchangeAPI
from glueball.drivers.launch_graph import GraphFunctions, LaunchGraph
from glueball.runtime.locks import COMPILATION

Miss: TypeAlias = Callable[[tuple[int, int, int], tuple[Any, ...], dict[str, Any]], Any]
"""`miss(grid, arguments, keywords)` does the whole work of a launch the table does not know."""


class KeyFlag(enum.IntFlag):
    """How much of a parameter's value belongs to the key. `do_not_specialize` is `NO_VALUE | NO_ALIGNMENT`."""

    NORMAL = 0
    NO_VALUE = 1
    """An int equal to 1 is not told from others."""
    NO_ALIGNMENT = 2
    """Divisibility of an int, and alignment of a pointer, by 16 are not told."""
    CONSTEXPR = 4
    """The value is a compile-time constant: ints and floats by value, all else by identity."""
    FLOAT64 = 8
    """A Python float is passed as 64 bits instead of 32."""


@dataclass(frozen=True, slots=True)
class GraphSource:
    """How a variant's launches can go through a graph: the driver's functions, and what makes the graph when due.

    `make` gives `None` where there can be none. Errors of `make` reach the caller of the launch.
    """

    functions: GraphFunctions
    make: Callable[[], LaunchGraph | None]


@dataclass(frozen=True, slots=True)
class Variant:
    """One compiled kernel, ready to launch.

    `launch_address` is a C function with `cuLaunchKernel`'s signature and `function_handle` its first argument.
    `block` is in threads, `shared_bytes` the dynamic shared memory. `argument_indices` names, in the kernel's order,
    which of the call's arguments (positional, then keywords in the call's order) are passed; each is passed by the
    address of 8 little-endian bytes, so narrower integers and float32 read the low ones. `part_index` gives the number
    that stands for a part of the bytes of a `reader`'s argument.

    `context_address` (a C function like `cuCtxGetCurrent`, 0 to skip the check) must give `context_handle`, else the
    call is a miss. `stream_exchange` gives the stream of `stream_device` (DLPack's device type, index), and where it
    fails, the call is a miss. Without one `stream_callable(stream_argument)` does; without either it is `stream`.
    `guards` are
    `(namespace, name, value)`: a global that must still be bound to that object, else the call is a miss.
    `launch_failed(code)` is called when the launch function returns a nonzero code; it should raise. `graph` lets the
    native launcher repeat launches that `launch_address` would make without any launch attribute.
    """

    kernel: object
    launch_address: int
    function_handle: int
    block: tuple[int, int, int]
    shared_bytes: int
    argument_indices: tuple[int, ...]
    context_address: int = 0
    context_handle: int = 0
    stream_exchange: ExchangeAPI | None = None
    stream_device: tuple[int, int] = (CUDA_DEVICE_TYPE, 0)
    stream_callable: Callable[[Any], int] | None = None
    stream_argument: object = None
    stream: int = 0
    guards: tuple[tuple[dict[str, Any], str, object], ...] = ()
    launch_failed: Callable[[int], object] = raise_launch_error
    graph: GraphSource | None = None


Entry: TypeAlias = tuple[bytes, Variant, tuple[object, ...]]
"""What the table stores per key: the native record, the variant, and owners of addresses in key and record."""


INDEX_BITS = 32


def part_index(index: int, offset: int) -> int:
    """The number for what lies `offset` bytes behind the address that a `reader` gave for a call's argument."""
    return index | (offset + 1) << INDEX_BITS


def split_index(number: int) -> tuple[int, int | None]:
    """The call's argument that a number stands for, and the offset of a part, `None` where it is passed itself."""
    offset = number >> INDEX_BITS
    return number & ((1 << INDEX_BITS) - 1), offset - 1 if offset else None


Reader: TypeAlias = Callable[[Any], tuple[bytes, object] | None]
"""`reader(argument)` gives bytes of which parts are passed, and an object whose identity belongs to the key.

Both must live until the launch is over; `None` makes the call a miss.
"""


@dataclass(frozen=True, slots=True)
class TensorType:
    """How objects of a class are read: by `reader`, else as tensors through `exchange`, else by their attributes.

    `index` counts up.
    """

    index: int
    exchange: ExchangeAPI | None = None
    reader: Reader | None = None


@dataclass(slots=True)
class TableState:
    """The contents of a table, shared with its launchers. Every string in `parameters` is interned."""

    miss: Miss
    parameters: tuple[tuple[str, KeyFlag], ...]
    variants: dict[bytes, Entry] = field(default_factory=dict)
    tensor_types: dict[type, TensorType] = field(default_factory=dict)


class Backend(Protocol):
    """One way to compute keys and launch."""

    def add_tensor_type(self, tensor_type: type, reading: TensorType) -> None:
        """Announces one more tensor type."""

    def forget_latest(self) -> None:
        """Announces that entries left the table; they are kept alive until this returns."""

    def key(self, arguments: tuple[object, ...], keywords: dict[str, object]) -> tuple[bytes, list[object]] | None:
        """The key of a call and the objects whose addresses are in it; `None` for a call without a key."""

    def entry(self, variant: Variant, key: bytes, references: list[object]) -> Entry:
        """What the table stores for a variant."""

    def launcher(self, grid: tuple[int, int, int]) -> Callable[..., Any]:
        """A callable that launches on one grid."""

    def repeater(self, repetition: Repetition, grid: tuple[int, int, int], values: Sequence[int]) -> Callable[[], Any]:
        """A callable that launches a repetition's entry with the same raw values each time."""


class Repetition:
    """One launch made again and again: the entry that does it now, and what to do where that is stale.

    `again()` does the whole work of the launch, `renew()` gives the variant for later ones, or `None` for none.
    """

    __slots__ = ("_again", "_backend", "_renew", "current", "entry")

    def __init__(self, backend: Backend, again: Callable[[], Any], renew: Callable[[], Variant | None]) -> None:
        self._backend = backend
        self._again = again
        self._renew = renew
        self.current = (ctypes.c_int64 * 1)()
        self.entry: Entry | None = None
        self.take(renew())

    def take(self, variant: Variant | None) -> None:
        """Makes later launches those of a variant."""
        entry = None if variant is None else self._backend.entry(variant, b"", [])
        with COMPILATION:
            self.current[0] = 0  # the native code knows the entry by address only
            self.entry = entry
            self.current[0] = 0 if entry is None else id(entry)

    def __call__(self) -> Any:
        """Does the whole work of a launch."""
        result = self._again()
        self.take(self._renew())
        return result
