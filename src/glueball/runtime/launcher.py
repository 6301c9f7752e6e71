"""Launching a kernel with as little host time as can be: a table of variants, found by what a call passes.

    table = VariantTable(miss, [("destination", KeyFlag.NORMAL), ("BLOCK", KeyFlag.CONSTEXPR)])
    launch = table.launcher((grid, 1, 1))
    launch(tensor, BLOCK=1024)

A call the table does not know goes to `miss(grid, arguments, keywords)`, which compiles, calls
`table.add(variant, arguments, keywords)` and then may call the launcher again; the next such call never enters Python.
"""

from __future__ import annotations

import operator
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from glueball.drivers.exchange import exchange_api
from glueball.runtime.launcher_native import NativeBackend, native_supported
from glueball.runtime.launcher_portable import PortableBackend
from glueball.runtime.launcher_table import (
    Backend,
    GraphSource,
    KeyFlag,
    Miss,
    Reader,
    Repetition,
    TableState,
    TensorType,
    Variant,
    part_index,
    split_index,
)

VARIANT_LIMIT = 256
"""Variants a table keeps; the oldest leaves first."""

_LARGEST_TAG = 31


class VariantTable:
    """The variants of one kernel.

    `parameters` gives, in order, each parameter's name and how much of its value belongs to the key. A keyword that
    names no parameter is a launch option and counts as constexpr. `native` chooses the native or the portable
    launcher; left out, the native one where the interpreter allows it.

    An argument that is no int, float, bool or registered tensor is keyed by identity: only add a variant when such
    arguments are immutable. Their values are never passed to the kernel.
    """

    def __init__(
        self, miss: Miss, parameters: Sequence[tuple[str, KeyFlag]] = (), *, native: bool | None = None
    ) -> None:
        interned = tuple((sys.intern(name), flags) for name, flags in parameters)
        self._state = TableState(miss, interned)
        use_native = native_supported() if native is None else native
        self._backend: Backend = NativeBackend(self._state) if use_native else PortableBackend(self._state)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._state.variants)

    def register_tensor_type(self, tensor_type: type) -> None:
        """Treats objects of exactly this type as tensors.

        They are read through DLPack's C exchange API where the type has it; elements at a null pointer are then a miss.
        Else they have `data_ptr()`, `dtype` and `get_device()` as torch's do.
        """
        with self._lock:
            if tensor_type not in self._state.tensor_types:
                reading = TensorType(len(self._state.tensor_types), exchange_api(tensor_type))
                self._backend.add_tensor_type(tensor_type, reading)
                self._state.tensor_types[tensor_type] = reading

    def register_reader(self, kind: type, reader: Reader) -> None:
        """Has `reader` read objects of exactly this type; parts of the bytes that it gives can be passed."""
        with self._lock:
            if kind not in self._state.tensor_types:
                reading = TensorType(len(self._state.tensor_types), None, reader)
                self._backend.add_tensor_type(kind, reading)
                self._state.tensor_types[kind] = reading

    def key(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bytes | None:
        """The key of a call, valid while its arguments live.

        `None` when the call has none: an int beyond 64 bits, too many arguments, a tensor that its exchange API
        cannot read or that has no memory. What a tensor's `data_ptr` and its kin raise propagates.
        """
        found = self._backend.key(arguments, _intern_names(keywords))
        return None if found is None else found[0]

    def add(self, variant: Variant, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        """Makes calls like this one launch `variant`. False when such a call has no key.

        `ValueError` when the variant passes an argument that the call lacks or that is keyed by identity.
        """
        _check_variant(variant)
        found = self._backend.key(arguments, _intern_names(keywords))
        if found is None:
            return False
        key, references = found
        _check_indices(variant.argument_indices, key)
        entry = self._backend.entry(variant, key, references)
        variants = self._state.variants
        with self._lock:
            removed = [variants.pop(key, None)]
            while len(variants) >= VARIANT_LIMIT:
                removed.append(variants.pop(next(iter(variants))))
            self._backend.forget_latest()
            variants[key] = entry
        return True

    def repeater(
        self,
        grid: tuple[int, int, int],
        values: Sequence[int],
        again: Callable[[], Any],
        renew: Callable[[], Variant | None],
    ) -> Callable[[], Any]:
        """A callable without arguments that launches with the same raw values each time.

        `values` are 64-bit words, which `argument_indices` of the variant that `renew()` gives counts; those of parts
        are addresses of bytes that live as long as the callable. Where that
        variant is stale, or `renew` gives `None`, `again()` does the work and gives the result.
        """

        def checked() -> Variant | None:
            variant = renew()
            if variant is not None:
                _check_variant(variant)
                if any(not 0 <= split_index(number)[0] < len(values) for number in variant.argument_indices):
                    raise ValueError("an argument that the kernel needs is not among the values")
            return variant

        return self._backend.repeater(Repetition(self._backend, again, checked), _checked_grid(grid), values)

    def clear(self) -> None:
        """Forgets all variants; launchers stay valid and miss."""
        with self._lock:
            removed = dict(self._state.variants)
            self._state.variants.clear()
            self._backend.forget_latest()
            del removed

    def launcher(self, grid: tuple[int, int, int]) -> Callable[..., Any]:
        """A callable that launches on `grid` blocks and returns the variant's kernel; an empty grid launches nothing.

        `TypeError` for an extent that is no integer, `ValueError` for one outside [0, 2^32).
        """
        return self._backend.launcher(_checked_grid(grid))


def _checked_grid(grid: tuple[int, int, int]) -> tuple[int, int, int]:
    if len(grid) != 3:
        raise ValueError(f"a grid has 3 extents here, not {len(grid)}")
    x, y, z = (operator.index(extent) for extent in grid)
    for extent in (x, y, z):
        if not 0 <= extent < 1 << 32:
            raise ValueError(f"grid extent {extent} is outside [0, 2^32)")
    return x, y, z


def _intern_names(keywords: dict[str, Any]) -> dict[str, Any]:
    """Calls spell keywords in source, hence interned; a key must hold the same strings."""
    return {sys.intern(str(name)): value for name, value in keywords.items()}


def _check_variant(variant: Variant) -> None:
    if not variant.launch_address:
        raise ValueError("a variant needs the address of a launch function")
    for what, number, bits in (
        ("launch_address", variant.launch_address, 64),
        ("function_handle", variant.function_handle, 64),
        ("context_address", variant.context_address, 64),
        ("context_handle", variant.context_handle, 64),
        ("stream", variant.stream, 64),
        ("shared_bytes", variant.shared_bytes, 32),
        *(("block", extent, 32) for extent in variant.block),
    ):
        if not 0 <= number < 1 << bits:
            raise ValueError(f"{what} {number} is outside [0, 2^{bits})")
    functions = None if variant.graph is None else variant.graph.functions
    if functions is not None and not all((functions.set_parameters, functions.launch, functions.is_capturing)):
        raise ValueError("launches through a graph need the addresses of three functions")
    if len(variant.block) != 3:
        raise ValueError(f"a block has 3 extents, not {len(variant.block)}")


def _check_indices(indices: tuple[int, ...], key: bytes) -> None:
    words = struct.unpack(f"<{len(key) // 8}Q", key)
    positional, total = words[0] & 0xFFFFFFFF, (words[0] & 0xFFFFFFFF) + (words[0] >> 32)
    if len(set(indices)) != len(indices):
        raise ValueError("an argument is passed to the kernel twice")
    for index, _ in map(split_index, indices):
        if not 0 <= index < total:
            raise ValueError(f"argument {index} is passed to the kernel, but the call has {total}")
        first = 1 + 2 * index if index < positional else 2 + 2 * positional + 3 * (index - positional)
        if words[first] > _LARGEST_TAG and not words[first + 1] >> 63:
            raise ValueError(f"argument {index} is keyed by identity and cannot be passed to the kernel")


__all__ = ["VARIANT_LIMIT", "GraphSource", "KeyFlag", "Miss", "Variant", "VariantTable", "part_index"]
