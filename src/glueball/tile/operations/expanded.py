"""Operations that only passes make: what a layout conversion is done with, and the shared memory it needs.

On whole arrays each of them hands on the tile as it is: what they change is which thread holds an element.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glueball.errors import UninitializedReadError
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Effects, Machine, OperationDefinition, TileArray, fault
from glueball.tile.operations.rules import expect_counts
from glueball.tile.operations.shape import check_conversion, keep, moving, tile_types
from glueball.tile.shared_views import cluster_addresses
from glueball.tile.types import distributed_type, shared_memory_descriptor_type


def _check_permutation(operation: Operation) -> None:
    check_conversion(operation)
    source, result = tile_types(operation)
    sources, available = operation.attributes["sources"], source.linear.size("register")
    if len(sources) != result.linear.size("register"):
        raise fault(operation, f"needs {result.linear.size('register')} sources, one per result register")
    if not all(0 <= register < available for register in sources):
        raise fault(operation, f"has sources beyond the {available} registers of its operand")


def _check_allocation(operation: Operation) -> None:
    expect_counts(operation, 0, len(operation.results))
    for result in operation.results:
        if not isinstance(result.type, shared_memory_descriptor_type):
            raise fault(operation, f"gives a view of shared memory, not {result.type}")
    size, alignment = operation.attributes["bytes"], operation.attributes["alignment"]
    if size <= 0:
        raise fault(operation, f"needs a positive size, not {size} bytes")
    if alignment <= 0 or alignment & (alignment - 1):
        raise fault(operation, f"needs an alignment that is a power of two, not {alignment}")
    offset = operation.attributes.get("offset")
    if offset is not None and (offset < 0 or offset % alignment):
        raise fault(operation, f"stands at offset {offset}, which is no multiple of {alignment}")


def _check_shared_store(operation: Operation) -> None:
    expect_counts(operation, 1, 0)
    if not isinstance(operation.operands[0].type, distributed_type):
        raise fault(operation, f"stores a tile, not {operation.operands[0].type}")


def _check_shared_load(operation: Operation) -> None:
    number = operation.attributes.get("round", 0)
    expect_counts(operation, min(number, 1), 1)
    if not isinstance(operation.result.type, distributed_type):
        raise fault(operation, f"loads a tile, not {operation.result.type}")
    if number and operation.operands[0].type != operation.result.type:
        raise fault(operation, f"adds to a tile of {operation.result.type}, not of {operation.operands[0].type}")


def _allocate(machine: Machine, operation: Operation, _: Sequence[TileArray]) -> Sequence[TileArray]:
    machine.shared.pop(operation.attributes["name"], None)
    views = []
    for result in operation.results:
        assert isinstance(result.type, shared_memory_descriptor_type)
        base = machine.arena.allocate(operation, operation.attributes["bytes"])
        views.append(TileArray(cluster_addresses(result.type, base)))
    return views


def _shared_store(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    machine.shared[operation.attributes["allocation"]] = operands[0]
    return []


def _shared_load(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    name = operation.attributes["allocation"]
    if name not in machine.shared:
        raise UninitializedReadError(
            f"`shared_load` reads `{name}`, which nothing was stored to", operation.location, program=machine.program
        )
    found = machine.shared[name]
    if not operands:
        return [found]
    (before,) = operands
    arrived = operation.attributes["plan"].round_of_elements() == operation.attributes["round"]
    poison = None
    if found.poison is not None or before.poison is not None:
        poison = np.where(arrived, *(False if each.poison is None else each.poison for each in (found, before)))
    return [TileArray(np.where(arrived, found.values, before.values), poison)]


EXPANDED_OPERATIONS = (
    OperationDefinition(
        "permute_registers",
        "The tile in a layout that differs in registers only; result register `i` is operand register `sources[i]`.",
        _check_permutation,
        moving(keep),
        attributes=frozenset({"sources"}),
        optional_attributes=frozenset({"plan"}),
    ),
    OperationDefinition(
        "shuffle",
        "The tile in a layout that differs within warps only, moved by the lane shuffles of `plan`.",
        check_conversion,
        moving(keep),
        attributes=frozenset({"plan"}),
    ),
    OperationDefinition(
        "allocate_shared",
        "Shared memory `name` of `bytes`, with or without a view of it; `offset` once it is placed.",
        _check_allocation,
        _allocate,
        pure=False,
        attributes=frozenset({"name", "bytes", "alignment"}),
        optional_attributes=frozenset({"offset"}),
    ),
    OperationDefinition(
        "shared_store",
        "Writes the tile, or the piece of it that moves in `round`, to an allocation, placed as `plan` says.",
        _check_shared_store,
        _shared_store,
        effects=Effects(writes_shared=True),
        pure=False,
        attributes=frozenset({"allocation", "plan"}),
        optional_attributes=frozenset({"round"}),
    ),
    OperationDefinition(
        "shared_load",
        "Reads a tile from an allocation, placed as `plan` says; after the first `round`, into what was read before.",
        _check_shared_load,
        _shared_load,
        effects=Effects(reads_shared=True),
        pure=False,
        attributes=frozenset({"allocation", "plan"}),
        optional_attributes=frozenset({"round"}),
    ),
)
