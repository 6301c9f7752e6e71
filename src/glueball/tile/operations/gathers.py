"""Elements found by index, counted by value, or mapped by a function."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glueball.errors import OutOfBoundsError
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Array, Machine, OperationDefinition, TileArray, fault, initialized
from glueball.tile.operations.regions import alike_tiles, apply_region, element_types, expect_scalars, moved
from glueball.tile.operations.rules import expect_alike, expect_counts, is_boolean
from glueball.tile.types import distributed_type, int32


def _check_gather(operation: Operation) -> None:
    expect_counts(operation, 2, 1)
    source, index, result = (*(operand.type for operand in operation.operands), operation.result.type)
    axis = operation.attributes["axis"]
    if not all(isinstance(kind, distributed_type) for kind in (source, index, result)):
        raise fault(operation, f"works on tiles, not on {source}, {index} and {result}")
    if index.scalar != int32 or result.scalar != source.scalar:
        raise fault(operation, f"takes int32 indices and keeps the element type, not {index} and {result}")
    expect_alike(operation, operation.operands[1], operation.result)
    for other, (extent, wanted) in enumerate(zip(source.shape, index.shape, strict=True)):
        if other != axis and extent != wanted:
            raise fault(operation, f"needs equal extents but along axis {axis}, not {source.shape} and {index.shape}")


def gathered_elements(machine: Machine, operation: Operation, source: TileArray, index: TileArray) -> TileArray:
    """The elements at each index along the operation's axis; `OutOfBoundsError` for an index that is outside."""
    axis = operation.attributes["axis"]
    places = initialized(machine, operation, index, "index")
    extent = source.values.shape[axis]
    outside = (places < 0) | (places >= extent)
    if outside.any():
        raise OutOfBoundsError(
            f"gather at index {int(places[outside][0])} along a dimension of {extent} elements "
            f"(program {machine.program})",
            operation.location,
            index=int(places[outside][0]),
            program=machine.program,
        )
    return moved(source, lambda values: np.take_along_axis(values, places, axis))


def _gather(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    return [gathered_elements(machine, operation, *operands)]


def _check_histogram(operation: Operation) -> None:
    expect_counts(operation, 1, 1, most_operands=2)
    source, *mask = operation.operands
    result = operation.result.type
    for kind, role in ((source.type, "input"), (result, "result")):
        if not isinstance(kind, distributed_type) or kind.element_ty != int32 or len(kind.shape) != 1:
            raise fault(operation, f"has an {role} of int32 in one dimension, not {kind}")
    if mask and not is_boolean(mask[0].type.scalar):
        raise fault(operation, f"needs a mask of int1, not {mask[0].type.scalar}")
    expect_alike(operation, *operation.operands)


def _histogram(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    source, *mask = operands
    active = np.ones(source.values.shape, np.bool_)
    if mask:
        active = initialized(machine, operation, mask[0], "mask")
    places = initialized(machine, operation, source, "value", active)[active]
    bins = operation.result.type.shape[0]
    outside = (places < 0) | (places >= bins)
    if outside.any():
        raise OutOfBoundsError(
            f"histogram of {bins} bins counts the value {int(places[outside][0])} (program {machine.program})",
            operation.location,
            index=int(places[outside][0]),
            program=machine.program,
        )
    return [TileArray(np.bincount(places, minlength=bins).astype(np.int32))]


def _check_map(operation: Operation) -> None:
    source, pack = alike_tiles(operation), operation.attributes["pack"]
    if source.linear.size("register") % pack:
        raise fault(
            operation, f"takes {pack} elements of a thread at a time, which holds {source.linear.size('register')}"
        )
    arguments = [kind for kind in element_types(operation) for _ in range(pack)]
    results = [result.type.scalar for result in operation.results for _ in range(pack)]
    expect_scalars(operation, arguments, results)
    expect_alike(operation, *operation.operands, *operation.results)


def _map(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    (region,) = operation.regions
    kind, pack = operation.operands[0].type, operation.attributes["pack"]
    assert isinstance(kind, distributed_type)
    if pack == 1:
        return apply_region(machine, region, operands)
    groups = register_groups(kind, pack)
    arguments = [_places(operand, groups[:, index]) for operand in operands for index in range(pack)]
    found = apply_region(machine, region, arguments)
    results = []
    for start in range(0, len(found), pack):
        values = np.empty(kind.numel, found[start].values.dtype)
        poison = np.zeros(kind.numel, np.bool_)
        for index, part in enumerate(found[start : start + pack]):
            values[groups[:, index]] = part.values
            poison[groups[:, index]] = False if part.poison is None else part.poison
        marked = poison.reshape(kind.shape) if poison.any() else None
        results.append(TileArray(values.reshape(kind.shape), marked))
    return results


def _places(array: TileArray, places: Array) -> TileArray:
    return moved(array, lambda values: values.reshape(-1)[places])


def register_groups(kind: distributed_type, pack: int) -> Array:
    """The flat indices of the elements in each group of `pack` neighbouring registers, thread by thread."""
    linear = kind.linear
    found = linear.table("register")[:, None] ^ linear.table("lane")
    found = (found[:, :, None] ^ linear.table("warp")).reshape(len(found), -1)
    return found.reshape(len(found) // pack, pack, -1).transpose(0, 2, 1).reshape(-1, pack)


GATHER_OPERATIONS = (
    OperationDefinition(
        "gather", "The elements of the first tile at each index along `axis`.", _check_gather, _gather,
        attributes=frozenset({"axis"}),
    ),
    OperationDefinition(
        "gather_warp", "As `gather`, by lane shuffles as `plan` says.", _check_gather, _gather,
        attributes=frozenset({"axis", "plan"}),
    ),
    OperationDefinition(
        "histogram", "How many elements have each value, of those whose mask is true.", _check_histogram, _histogram
    ),
    OperationDefinition(
        "map_elementwise", "The region applied to `pack` registers of each tile at a time.", _check_map, _map,
        attributes=frozenset({"pack"}), regions=1,
    ),
)  # fmt: skip
