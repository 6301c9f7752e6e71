"""The launcher in plain Python, for interpreters whose objects the native code cannot read.

It computes the same keys and behaves the same; a launch costs some tens of microseconds.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from glueball.drivers.exchange import ExchangeAPI
from glueball.knob_groups import LAUNCH_EPOCH
from glueball.runtime.launcher_ir import MAXIMUM_ARGUMENTS
from glueball.runtime.launcher_table import Entry, KeyFlag, Repetition, TableState, TensorType, Variant, split_index

_WORD = (1 << 64) - 1
_CONSTEXPR_TAG = 16
_FLOAT_TAG = 4
_BOOL_TAG = 5
_STALE = object()

_LAUNCH_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    *(ctypes.c_uint,) * 7,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)
_CONTEXT_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))

Encoded: TypeAlias = tuple[int, int, int]
"""The two key words and the raw value of an argument."""


class PortableBackend:
    """Keys and launches without native code."""

    def __init__(self, state: TableState) -> None:
        self._state = state
        self._flags = dict(state.parameters)

    def add_tensor_type(self, tensor_type: type, reading: TensorType) -> None:
        """Nothing to announce: `state.tensor_types` is read at each call."""

    def forget_latest(self) -> None:
        """Nothing to forget: each call looks into the table."""

    def key(self, arguments: tuple[object, ...], keywords: dict[str, object]) -> tuple[bytes, list[object]] | None:
        """The key of a call and the objects whose addresses are in it; `None` for a call without a key."""
        encoded = self._encode_call(arguments, keywords)
        return None if encoded is None else encoded[:2]

    def entry(self, variant: Variant, key: bytes, references: list[object]) -> Entry:
        """What the table stores: the variant, what its key refers to, and its C functions."""
        launch = _LAUNCH_TYPE(variant.launch_address)
        context = _CONTEXT_TYPE(variant.context_address) if variant.context_address else None
        return b"", variant, (references, launch, context, LAUNCH_EPOCH[0])

    def launcher(self, grid: tuple[int, int, int]) -> Callable[..., Any]:
        """The function that launches on one grid."""
        state = self._state

        def launch(*arguments: object, **keywords: object) -> object:
            encoded = self._encode_call(arguments, keywords)
            entry = None if encoded is None else state.variants.get(encoded[0])
            if encoded is None or entry is None:
                return state.miss(grid, arguments, keywords)
            result = _run(entry, grid, encoded[2])
            return state.miss(grid, arguments, keywords) if result is _STALE else result

        return launch

    def repeater(self, repetition: Repetition, grid: tuple[int, int, int], values: Sequence[int]) -> Callable[[], Any]:
        """A function that launches a repetition's entry with the same raw values each time."""

        def repeat() -> object:
            entry = repetition.entry
            result = _STALE if entry is None else _run(entry, grid, list(values))
            return repetition() if result is _STALE else result

        return repeat

    def _encode_call(
        self, arguments: tuple[object, ...], keywords: dict[str, object]
    ) -> tuple[bytes, list[object], list[int]] | None:
        if len(arguments) + len(keywords) > MAXIMUM_ARGUMENTS:
            return None
        words = [len(arguments) | len(keywords) << 32]
        values: list[int] = []
        references: list[object] = []
        named = [(None, argument) for argument in arguments]
        for position, (name, argument) in enumerate([*named, *keywords.items()]):
            if name is None:
                parameters = self._state.parameters
                flags = parameters[position][1] if position < len(parameters) else KeyFlag.NORMAL
            else:
                flags = self._flags.get(name, KeyFlag.CONSTEXPR)
                words.append(id(name))
                references.append(name)
            encoded = self._encode(argument, flags, references)
            if encoded is None:
                return None
            words += encoded[:2]
            values.append(encoded[2])
        return struct.pack(f"<{len(words)}Q", *words), references, values

    def _encode(self, argument: object, flags: KeyFlag, references: list[object]) -> Encoded | None:
        kind = type(argument)
        if kind is int:
            fits = -(1 << 63) <= argument < 1 << 64  # type: ignore[operator]
            if fits:
                return _encode_integer(argument, flags)  # type: ignore[arg-type]
            if not flags & KeyFlag.CONSTEXPR:
                return None
        elif kind is float:
            return _encode_float(argument, flags)  # type: ignore[arg-type]
        elif not flags & KeyFlag.CONSTEXPR:
            if kind is bool:
                return _BOOL_TAG, 0, int(argument is True)
            reading = self._state.tensor_types.get(kind)
            if reading is not None and reading.reader is not None:
                return _encode_read(argument, reading, references)
            if reading is not None and reading.exchange is not None:
                return _encode_exchange(argument, reading.exchange, reading.index, flags)
            if reading is not None:
                return _encode_tensor(argument, reading.index, flags, references)
        references.append(argument)
        return id(argument), 0, 0


def _encode_integer(number: int, flags: KeyFlag) -> Encoded:
    if -(1 << 31) <= number < 1 << 31:
        tag = 1
    elif number < 1 << 63:
        tag = 2
    else:
        tag = 3
    raw = number & _WORD
    if flags & KeyFlag.CONSTEXPR:
        return tag + _CONSTEXPR_TAG, raw, raw
    one = number == 1 and not flags & KeyFlag.NO_VALUE
    divisible = number % 16 == 0 and not flags & KeyFlag.NO_ALIGNMENT
    return tag, one | divisible << 1, raw


def _encode_float(number: float, flags: KeyFlag) -> Encoded:
    bits = int.from_bytes(struct.pack("<d", number), "little")
    raw = bits if flags & KeyFlag.FLOAT64 else int.from_bytes(bytes(ctypes.c_float(number)), "little")
    if flags & KeyFlag.CONSTEXPR:
        return _FLOAT_TAG + _CONSTEXPR_TAG, bits, raw
    return _FLOAT_TAG, 0, raw


def _encode_read(argument: object, reading: TensorType, references: list[object]) -> Encoded | None:
    assert reading.reader is not None
    given = reading.reader(argument)
    if given is None:
        return None
    content, token = given
    references.append(token)
    return id(token), 1 << 63 | reading.index << 40, ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p).value or 0


def _encode_tensor(tensor: Any, index: int, flags: KeyFlag, references: list[object]) -> Encoded:
    pointer: int = tensor.data_ptr()
    if not 0 <= pointer <= _WORD:
        raise OverflowError(f"data_ptr() gave {pointer}, which is not a 64-bit address")
    dtype = tensor.dtype
    references.append(dtype)
    return id(dtype), _tensor_word(index, tensor.get_device(), pointer, flags), pointer


def _encode_exchange(tensor: object, exchange: ExchangeAPI, index: int, flags: KeyFlag) -> Encoded | None:
    try:
        found: Any = exchange.read(tensor)
    except Exception:  # whatever the framework raises: the miss path says what is wrong
        return None
    pointer = ((found.data or 0) + found.byte_offset) & _WORD
    if pointer == 0 and 0 not in found.shape[: found.dimensions]:
        return None
    dtype = int.from_bytes(bytes(found.dtype), "little")
    first = dtype << 32 | found.device_type & 0xFFFFFFFF
    return first, _tensor_word(index, found.device_index, pointer, flags), pointer


def _tensor_word(index: int, device: int, pointer: int, flags: KeyFlag) -> int:
    aligned = pointer % 16 == 0 and not flags & KeyFlag.NO_ALIGNMENT
    return 1 << 63 | index << 40 | (device & 0xFFFFFFFF) << 1 | aligned


def _stream(variant: Variant) -> int | None:
    """The stream to launch on; `None` where the exchange API does not tell."""
    if variant.stream_exchange is not None:
        try:
            return variant.stream_exchange.current_stream(*variant.stream_device)
        except Exception:  # whatever the framework raises: the miss path says what is wrong
            return None
    if variant.stream_callable is None:
        return variant.stream
    return operator.index(variant.stream_callable(variant.stream_argument))


def _guards_hold(variant: Variant) -> bool:
    missing = object()
    return all(namespace.get(name, missing) is value for namespace, name, value in variant.guards)


def _context_holds(entry: Entry) -> bool:
    context: Any = entry[2][2]
    if context is None:
        return True
    current = ctypes.c_void_p()
    return context(ctypes.byref(current)) == 0 and (current.value or 0) == entry[1].context_handle


def _run(entry: Entry, grid: tuple[int, int, int], values: list[int]) -> object:
    """Launches what an entry holds and gives its kernel; `_STALE` where it cannot be launched as it is."""
    if entry[2][3] != LAUNCH_EPOCH[0] or not _guards_hold(entry[1]):
        return _STALE
    if 0 in grid:
        return entry[1].kernel
    stream = _stream(entry[1]) if _context_holds(entry) else None
    return _STALE if stream is None else _enqueue(entry, grid, values, stream)


def _enqueue(entry: Entry, grid: tuple[int, int, int], values: list[int], stream: int) -> object:
    variant = entry[1]
    launch: Any = entry[2][1]
    slots = (ctypes.c_uint64 * max(1, len(values)))(*values)
    start = ctypes.addressof(slots)
    indices = map(split_index, variant.argument_indices)
    pointers = (ctypes.c_void_p * max(1, len(variant.argument_indices)))(
        *(start + 8 * index if offset is None else values[index] + offset for index, offset in indices)
    )
    status = launch(variant.function_handle, *grid, *variant.block, variant.shared_bytes, stream, pointers, None)
    return variant.kernel if status == 0 else variant.launch_failed(status)
