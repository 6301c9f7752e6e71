"""Scratch memory as whole tiles: elements lie in it row by row, so that any thread can find any of them.

Only tile passes make these operations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glueball.errors import UninitializedReadError
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Effects, Machine, OperationDefinition, TileArray, fault, initialized
from glueball.tile.operations.gathers import gathered_elements
from glueball.tile.operations.rules import expect_counts
from glueball.tile.types import distributed_type

READING = Effects(reads_shared=True)
WRITING = Effects(writes_shared=True)
REPLICAS = frozenset({"replicas"})


def _check_write(operation: Operation) -> None:
    expect_counts(operation, 1, 0)
    _expect_tile(operation, operation.operands[0].type)


def _check_read(operation: Operation) -> None:
    expect_counts(operation, 0, 1)
    _expect_tile(operation, operation.result.type)


def _check_gather(operation: Operation) -> None:
    expect_counts(operation, 1, 1)
    _expect_tile(operation, operation.operands[0].type)
    _expect_tile(operation, operation.result.type)


def _check_count(operation: Operation) -> None:
    expect_counts(operation, 1, 0, most_operands=2)
    _expect_tile(operation, operation.operands[0].type)


def _expect_tile(operation: Operation, kind: object) -> None:
    if not isinstance(kind, distributed_type):
        raise fault(operation, f"works on tiles, not on {kind}")


def _held(machine: Machine, operation: Operation) -> TileArray:
    name = operation.attributes["allocation"]
    if name not in machine.shared:
        raise UninitializedReadError(
            f"`{operation.opcode}` reads `{name}`, which nothing was written to",
            operation.location,
            program=machine.program,
        )
    return machine.shared[name]


def _write(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    machine.shared[operation.attributes["allocation"]] = operands[0]
    return []


def _write_slice(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    axis, place = operation.attributes["axis"], operation.attributes["place"]
    cut = (slice(None),) * axis + (slice(place, place + 1),)
    (tile,) = operands
    poison = None if tile.poison is None else tile.poison[cut]
    machine.shared[operation.attributes["allocation"]] = TileArray(tile.values[cut], poison)
    return []


def _read(machine: Machine, operation: Operation, _: Sequence[TileArray]) -> Sequence[TileArray]:
    return [_held(machine, operation)]


def _gather(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    return [gathered_elements(machine, operation, _held(machine, operation), operands[0])]


def _count(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    held = _held(machine, operation)
    active = operands[1].values if len(operands) > 1 else np.ones(operands[0].values.shape, np.bool_)
    places = initialized(machine, operation, operands[0], "value", active)[active]
    counts = np.bincount(places, minlength=held.values.size).astype(np.int32)
    machine.shared[operation.attributes["allocation"]] = TileArray(held.values + counts)
    return []


SCRATCH_OPERATIONS = (
    OperationDefinition(
        "scratch_write",
        "Writes a tile to an allocation, row by row; of CTAs that differ in the rank bits `replicas` only the first.",
        _check_write, _write, effects=WRITING, pure=False, attributes=frozenset({"allocation"}),
        optional_attributes=REPLICAS,
    ),
    OperationDefinition(
        "scratch_write_slice",
        "Writes the elements of a tile at one `place` along `axis` to an allocation, row by row.",
        _check_write, _write_slice, effects=WRITING, pure=False, attributes=frozenset({"allocation", "axis", "place"}),
    ),
    OperationDefinition(
        "scratch_read",
        "Reads a tile that lies in an allocation row by row, that of the first CTA where there are `replicas`.",
        _check_read, _read, effects=READING, pure=False, attributes=frozenset({"allocation"}),
        optional_attributes=REPLICAS,
    ),
    OperationDefinition(
        "scratch_gather",
        "Reads, from a tile of `shape` that lies in an allocation, the element at each index along `axis`.",
        _check_gather, _gather, effects=READING, pure=False, attributes=frozenset({"allocation", "axis", "shape"}),
    ),
    OperationDefinition(
        "scratch_count",
        "Adds one to the int32 of an allocation that each element numbers, unless its mask is false.",
        _check_count, _count, effects=WRITING, pure=False, attributes=frozenset({"allocation"}),
    ),
)  # fmt: skip
