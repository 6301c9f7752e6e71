"""Reshaping, joining and splitting of tiles: every element stays in its thread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glueball.layouts import LinearLayout, f2
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Array, Machine, OperationDefinition, TileArray, fault
from glueball.tile.operations.regions import alike_tiles, joined, moved
from glueball.tile.operations.rules import expect_counts
from glueball.tile.operations.shape import moving, tile_types
from glueball.tile.types import distributed_type


def _same_threads(source: LinearLayout, result: LinearLayout, factor: int = 1) -> bool:
    """Whether two maps, flattened, agree in lanes, warps and CTAs, those of the source times a factor."""
    return all(
        tuple(basis * factor for basis in source.flat_bases(name)) == result.flat_bases(name)
        for name in ("lane", "warp", "block")
    )


def _check_reshape(operation: Operation) -> None:
    source, result = tile_types(operation)
    if source.numel != result.numel:
        raise fault(operation, f"keeps the number of elements, not {source.shape} to {result.shape}")
    held = [f2.reduced(kind.linear.flat_bases("register")) for kind in (source, result)]
    if held[0] != held[1] or not _same_threads(source.linear, result.linear):
        raise fault(operation, f"keeps every element in its thread, not from {source.layout} to {result.layout}")


def _check_join(operation: Operation) -> None:
    expect_counts(operation, 2, 1)
    source, result = alike_tiles(operation), operation.result.type
    types = {value.type.scalar for value in (*operation.operands, operation.result)}
    if not isinstance(result, distributed_type) or result.shape != (*source.shape, 2) or len(types) != 1:
        raise fault(operation, f"puts two tiles {source} side by side, which does not give {result}")
    _check_halves(operation, source, result)


def _check_split(operation: Operation) -> None:
    expect_counts(operation, 1, 2)
    source, half = operation.operands[0].type, operation.results[0].type
    if not isinstance(source, distributed_type) or not isinstance(half, distributed_type):
        raise fault(operation, f"goes from tile to tiles, not from {source} to {half}")
    if source.shape != (*half.shape, 2) or any(
        result.type.scalar != source.element_ty or result.type != half for result in operation.results
    ):
        raise fault(operation, f"takes a tile apart along its last dimension of 2, which {source} to {half} does not")
    _check_halves(operation, half, source)


def _check_halves(operation: Operation, half: distributed_type, whole: distributed_type) -> None:
    registers = f2.Echelon(whole.linear.flat_bases("register"))
    wanted = [1, *(2 * basis for basis in half.linear.flat_bases("register"))]
    if any(basis not in registers for basis in wanted) or not _same_threads(half.linear, whole.linear, 2):
        raise fault(
            operation,
            f"requires at least 2 elements per thread in the axis/last dimension, which {whole.layout} does not have",
        )


def _check_to_scalar(operation: Operation) -> None:
    expect_counts(operation, 1, 1)
    source, result = operation.operands[0].type, operation.result.type
    if not isinstance(source, distributed_type) or source.numel != 1 or result != source.element_ty:
        raise fault(operation, f"goes from a tile of one element to that element, not from {source} to {result}")


def _read(operation: Operation, values: Array) -> Array:
    return np.reshape(values, operation.result.type.shape)


def _join(_: Machine, __: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    return [joined(operands, lambda values: np.stack(values, axis=-1))]


def _split(_: Machine, __: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    return [moved(operands[0], lambda values: values[..., 0]), moved(operands[0], lambda values: values[..., 1])]


REARRANGING_OPERATIONS = (
    OperationDefinition(
        "reshape", "The elements, row by row, as a tile of another shape.", _check_reshape, moving(_read)
    ),
    OperationDefinition("join", "Two tiles side by side along a new last dimension of 2.", _check_join, _join),
    OperationDefinition("split", "The two halves of a tile along its last dimension of 2.", _check_split, _split),
    OperationDefinition("to_scalar", "The only element of a tile.", _check_to_scalar, moving(_read)),
)
