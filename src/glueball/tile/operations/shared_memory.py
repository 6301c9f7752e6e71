"""Shared memory as the author allocates it: views of it, and accesses through them.

To a reference a view is the byte addresses of its elements, as a tile of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glueball.errors import LayoutError, OutOfBoundsError
from glueball.tile.ir import Operation, Value
from glueball.tile.operations.definition import (
    Array,
    Effects,
    Machine,
    OperationDefinition,
    Reference,
    TileArray,
    fault,
    initialized,
    numpy_type,
)
from glueball.tile.operations.rules import expect_alike, expect_counts, is_boolean, is_integer
from glueball.tile.shared_arena import NOWHERE
from glueball.tile.shared_views import Descriptor, cluster_addresses, indexed, permuted, reinterpreted, reshaped, sliced
from glueball.tile.types import distributed_type, int32, shared_memory_descriptor_type

ATOMIC_OPERATORS = ("add", "max", "min", "and", "or", "xor", "xchg")


def view_type(operation: Operation, value: Value) -> Descriptor:
    """The type of a view; `VerificationError` for what is none."""
    if not isinstance(value.type, shared_memory_descriptor_type):
        raise fault(operation, f"needs a view of shared memory, not {value.type}")
    return value.type


def _checking(operands: int, rule: Callable[[Operation, Descriptor], Descriptor]) -> Callable[[Operation], None]:
    """The check of an operation that makes a view of a view, whose type `rule` gives."""

    def check(operation: Operation) -> None:
        expect_counts(operation, operands, 1)
        try:
            expected = rule(operation, view_type(operation, operation.operands[0]))
        except (ValueError, LayoutError) as error:
            raise fault(operation, str(error)) from error
        if operation.result.type != expected:
            raise fault(operation, f"gives {expected}, not {operation.result.type}")

    return check


def _check_index(operation: Operation) -> None:
    _checking(2, lambda _, kind: indexed(kind))(operation)
    if operation.operands[1].type != int32:
        raise fault(operation, f"needs an int32 scalar as index, not {operation.operands[1].type}")


def _sliced(operation: Operation, kind: Descriptor) -> Descriptor:
    attributes = operation.attributes
    return sliced(kind, attributes["start"], attributes["length"], attributes["dim"])


def _reinterpreted(operation: Operation, kind: Descriptor) -> Descriptor:
    wanted = view_type(operation, operation.result)
    return reinterpreted(kind, wanted.element_ty, wanted.shape, wanted.layout)


def _tile(operation: Operation, value: Value) -> distributed_type:
    if not isinstance(value.type, distributed_type):
        raise fault(operation, f"needs a tile, not {value.type}")
    return value.type


def _check_same(operation: Operation, kind: Descriptor, tile: distributed_type) -> None:
    if (tile.shape, tile.element_ty) != (kind.shape, kind.element_ty):
        raise fault(
            operation,
            f"moves a tile of the view's shape and type, {list(kind.shape)} of {kind.element_ty}, not "
            f"{list(tile.shape)} of {tile.element_ty}",
        )


def _check_load(operation: Operation) -> None:
    expect_counts(operation, 1, 1)
    _check_same(operation, view_type(operation, operation.operands[0]), _tile(operation, operation.result))


def _check_store(operation: Operation) -> None:
    expect_counts(operation, 2, 0)
    _check_same(operation, view_type(operation, operation.operands[0]), _tile(operation, operation.operands[1]))


def _check_elements(operation: Operation, kind: Descriptor, values: Value, indices: Value) -> None:
    """Values at indices along an axis of a view."""
    axis, tile = operation.attributes["axis"], _tile(operation, indices)
    if not is_integer(tile.element_ty) or is_boolean(tile.element_ty):
        raise fault(operation, f"needs integers as indices, not {tile.element_ty}")
    if not 0 <= axis < len(kind.shape) or len(tile.shape) != len(kind.shape) or kind.is_buffered:
        raise fault(operation, f"needs indices of the rank of {kind} for an axis of it, not {tile} for axis {axis}")
    if values.type.scalar != kind.element_ty:
        raise fault(operation, f"moves elements of {kind.element_ty}, not {values.type.scalar}")
    expect_alike(operation, values, indices)


def _check_gather(operation: Operation) -> None:
    expect_counts(operation, 2, 1)
    view, indices = operation.operands
    _check_elements(operation, view_type(operation, view), operation.result, indices)


def _check_scatter(operation: Operation) -> None:
    expect_counts(operation, 3, 0)
    view, values, indices = operation.operands
    _check_elements(operation, view_type(operation, view), values, indices)


def _check_atomic(operation: Operation) -> None:
    expect_counts(operation, 3, 1, most_operands=4)
    view, values, indices, *mask = operation.operands
    _check_elements(operation, view_type(operation, view), values, indices)
    if operation.attributes["operator"] not in ATOMIC_OPERATORS:
        raise fault(operation, f"has no operator {operation.attributes['operator']!r}")
    if mask and not is_boolean(mask[0].type.scalar):
        raise fault(operation, f"needs a mask of int1, not {mask[0].type.scalar}")
    expect_alike(operation, *operation.operands[1:], operation.result)


def _check_none(operation: Operation) -> None:
    expect_counts(operation, 0, 1)
    view_type(operation, operation.result)


def _check_keep_alive(operation: Operation) -> None:
    expect_counts(operation, 1, 0)
    view_type(operation, operation.operands[0])


def _viewing(function: Callable[[Operation, Array], Array]) -> Reference:
    """A reference that only chooses or reorders the addresses of a view."""

    def reference(_: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
        return [TileArray(function(operation, operands[0].values))]

    return reference


def _slice(operation: Operation, addresses: Array) -> Array:
    attributes = operation.attributes
    start, length, dim = attributes["start"], attributes["length"], attributes["dim"]
    return addresses[(*(slice(None),) * dim, slice(start, start + length))]


def _reinterpret(operation: Operation, addresses: Array) -> Array:
    return cluster_addresses(view_type(operation, operation.result), int(addresses.min()))


def _index(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    """A view of a buffer that is not there is no fault before somebody uses it."""
    index = int(initialized(machine, operation, operands[1], "index"))
    buffers = operands[0].values
    if 0 <= index < buffers.shape[0]:
        return [TileArray(buffers[index])]
    return [TileArray(np.full(buffers.shape[1:], NOWHERE))]


def _check_range(machine: Machine, operation: Operation, indices: Array, count: int) -> None:
    outside = (indices < 0) | (indices >= count)
    if outside.any():
        index = int(indices[outside].flat[0])
        raise OutOfBoundsError(
            f"`{operation.opcode}` with the index {index} of {count} (program {machine.program})",
            operation.location,
            index=index,
            program=machine.program,
        )


def _load(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    element = numpy_type(operation.result.type)
    return [TileArray(*machine.arena.load(operation, operands[0].values, element))]


def _store(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    view, value = operands
    machine.arena.store(operation, view.values, value.values, value.poison)
    return []


def _places(machine: Machine, operation: Operation, view: TileArray, indices: TileArray, where: Any = True) -> Array:
    """The addresses of the elements that indices along the axis choose, coordinates elsewhere being the tile's own."""
    axis = operation.attributes["axis"]
    chosen = initialized(machine, operation, indices, "indices", where if where is not True else None)
    chosen = np.where(where, chosen, 0).astype(np.int64)
    _check_range(machine, operation, chosen, view.values.shape[axis])
    coordinates = list(np.indices(chosen.shape))
    coordinates[axis] = chosen
    for other, along in enumerate(coordinates):
        _check_range(machine, operation, np.asarray(along), view.values.shape[other])
    return np.asarray(view.values[tuple(coordinates)])


def _gather(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    addresses = _places(machine, operation, *operands)
    return [TileArray(*machine.arena.load(operation, addresses, numpy_type(operation.result.type)))]


def _scatter(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    view, values, indices = operands
    machine.arena.store(operation, _places(machine, operation, view, indices), values.values, values.poison)
    return []


def combined(operator: str, old: Any, new: Any) -> Any:
    """What an atomic operator leaves in memory."""
    if operator == "xchg":
        return new
    functions = {"add": np.add, "max": np.maximum, "min": np.minimum}
    bits = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    return (functions | bits)[operator](old, new)


def _atomic(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    """One element after the other, in the order of the tile: that order is not specified."""
    view, values, indices, *mask = operands
    chosen = initialized(machine, operation, mask[0], "mask") if mask else np.ones(values.values.shape, bool)
    addresses = _places(machine, operation, view, indices, chosen)
    numbers = initialized(machine, operation, values, "values", chosen)
    results = np.zeros_like(numbers)
    for place in map(tuple, np.argwhere(chosen)):
        address = np.asarray(addresses[place])
        old, poison = machine.arena.load(operation, address, numbers.dtype)
        results[place] = old
        after = np.asarray(combined(operation.attributes["operator"], old, numbers[place]), numbers.dtype)
        machine.arena.store(operation, address, after, poison)
    return [TileArray(results, None if chosen.all() else ~chosen)]


def _nothing(_: Machine, __: Operation, ___: Sequence[TileArray]) -> Sequence[TileArray]:
    return []


def _accessing(
    name: str, meaning: str, check: Callable[[Operation], None], reference: Reference, effects: Effects, *needs: str
) -> OperationDefinition:
    return OperationDefinition(
        name, meaning, check, reference, effects=effects, pure=False, attributes=frozenset(needs)
    )


READS = Effects(reads_shared=True)
WRITES = Effects(writes_shared=True)

SHARED_MEMORY_OPERATIONS = (
    OperationDefinition("view_index", "One of the buffers of a view, by an int32.", _check_index, _index, pure=False),
    OperationDefinition(
        "view_slice",
        "`length` elements of a view from `start` on, along `dim`.",
        _checking(1, _sliced),
        _viewing(_slice),
        attributes=frozenset({"start", "length", "dim"}),
    ),
    OperationDefinition(
        "view_permute",
        "The view with its dimensions in another order: dimension `i` is the operand's `order[i]`.",
        _checking(1, lambda operation, kind: permuted(kind, operation.attributes["order"])),
        _viewing(lambda operation, addresses: addresses.transpose(operation.attributes["order"])),
        attributes=frozenset({"order"}),
    ),
    OperationDefinition(
        "view_reshape",
        "The view with its elements, row by row, in another shape.",
        _checking(1, lambda operation, kind: reshaped(kind, operation.result.type.shape)),
        _viewing(lambda operation, addresses: addresses.reshape(operation.result.type.shape)),
    ),
    OperationDefinition(
        "view_reinterpret",
        "A view of the same bytes with another type, shape and layout.",
        _checking(1, _reinterpreted),
        _viewing(_reinterpret),
    ),
    _accessing("view_load", "Reads a view into a tile.", _check_load, _load, READS),
    _accessing("view_store", "Writes a tile to a view.", _check_store, _store, WRITES),
    _accessing(
        "view_gather",
        "Reads the elements whose index along `axis` a tile gives.",
        _check_gather,
        _gather,
        READS,
        "axis",
    ),
    _accessing(
        "view_scatter",
        "Writes values to the elements whose index along `axis` a tile gives; of several to one, any.",
        _check_scatter,
        _scatter,
        WRITES,
        "axis",
    ),
    OperationDefinition(
        "view_atomic",
        "Combines values with the elements whose index along `axis` a tile gives, each at once; gives the old ones, "
        "which are `unused` where nobody asks for them.",
        _check_atomic,
        _atomic,
        effects=Effects(reads_shared=True, writes_shared=True),
        pure=False,
        attributes=frozenset({"axis", "operator"}),
        optional_attributes=frozenset({"unused"}),
    ),
    OperationDefinition(
        "view_none",
        "A view that nothing looks at, for a path of control where there is none.",
        _check_none,
        lambda _, operation, __: [TileArray(np.zeros(operation.result.type.shape, np.int64))],
    ),
    OperationDefinition(
        "keep_alive", "Uses a view, so that nothing takes its place before.", _check_keep_alive, _nothing, pure=False
    ),
)
