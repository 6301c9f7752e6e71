"""Copies of blocks of a tensor between global and shared memory (PTX ISA, `cp.async.bulk.tensor`).

To the reference a descriptor is a number under which the machine knows the tensor map.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from glueball.errors import OutOfBoundsError, VerificationError
from glueball.numerics import maximum_number, minimum_number
from glueball.tensor_map import TensorMap
from glueball.tile.bulk_boxes import boxes_of, parts_of
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import (
    Access,
    Array,
    Effects,
    Machine,
    OperationDefinition,
    TileArray,
    fault,
    numpy_type,
)
from glueball.tile.operations.mbarriers import check_word, word_of
from glueball.tile.operations.rules import expect_counts, is_boolean
from glueball.tile.operations.shared_memory import view_type
from glueball.tile.types import ScalarType, dtype, int16, int32, tensor_descriptor_type

REDUCTIONS: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "add": ("float16 bfloat16 float32 int32 uint32 uint64", np.add),
    "min": ("float16 bfloat16 int32 uint32", minimum_number),
    "max": ("float16 bfloat16 int32 uint32", maximum_number),
    "and": ("int32 uint32 int64 uint64", np.bitwise_and),
    "or": ("int32 uint32 int64 uint64", np.bitwise_or),
    "xor": ("int32 uint32 int64 uint64", np.bitwise_xor),
}
"""Element types and meaning of every reduction that a bulk copy makes (PTX ISA, `cp.reduce.async.bulk.tensor`)."""


def reduction_rule(operator: str, element: dtype) -> Callable[[Array, Array], Array]:
    """What a reduction does to elements; `ValueError` for a type that has none such."""
    names, function = REDUCTIONS[operator]
    if element.long_name not in names.split():
        raise ValueError(
            f"unsupported reduce kind {operator} for element type '{element}': a bulk copy has it for {names}"
        )
    return function


def same_elements(first: ScalarType, second: ScalarType) -> bool:
    """Whether a block of one element type can lie in a view of the other; signs of integers do not matter."""
    if isinstance(first, dtype) and isinstance(second, dtype) and first.is_int() and second.is_int():
        return first.primitive_bitwidth == second.primitive_bitwidth
    return first == second


def descriptor_type(operation: Operation) -> tensor_descriptor_type:
    """The descriptor that an operation copies through."""
    kind = operation.operands[0].type
    if not isinstance(kind, tensor_descriptor_type):
        raise fault(operation, f"needs a tensor descriptor, not {kind}")
    return kind


def _check_block(operation: Operation) -> None:
    kind, view = descriptor_type(operation), view_type(operation, operation.operands[1])
    if view.numel != kind.numel or not same_elements(view.element_ty, kind.element_ty):
        raise fault(operation, f"moves a block of {kind}, not {view}")


def _check_load(operation: Operation) -> None:
    attributes, rank = operation.attributes, descriptor_type(operation).rank
    expect_counts(operation, 3 + rank + attributes["offsets"] + int(attributes["predicated"]), 0)
    _check_block(operation)
    check_word(operation, 2)
    coordinates = operation.operands[3 : 3 + rank]
    offsets = operation.operands[3 + rank : 3 + rank + attributes["offsets"]]
    if any(value.type != int32 for value in coordinates) or any(value.type != int16 for value in offsets):
        raise fault(operation, "needs int32 scalars as coordinates and int16 scalars as offsets")
    if attributes["predicated"] and not is_boolean(operation.operands[-1].type.scalar):
        raise fault(operation, f"needs an int1 scalar as predicate, not {operation.operands[-1].type}")


def _check_store(operation: Operation) -> None:
    kind = descriptor_type(operation)
    expect_counts(operation, 2 + kind.rank, 0)
    _check_block(operation)
    if any(value.type != int32 for value in operation.operands[2:]):
        raise fault(operation, "needs int32 scalars as coordinates")
    if (operator := operation.attributes["reduction"]) is not None:
        try:
            reduction_rule(operator, kind.element_ty)
        except ValueError as error:
            raise VerificationError(str(error), operation.location) from error


def _numbers(operands: Sequence[TileArray]) -> list[int]:
    return [int(operand.values) for operand in operands]


def _block(
    operation: Operation, tensor: TensorMap, places: list[int], taps: list[int], *, store: bool = False
) -> tuple[Array, Array]:
    """The addresses of a block's elements, in its shape, and which are in bounds."""
    kind = descriptor_type(operation)
    boxes = boxes_of(kind)
    addresses, inside = np.zeros(kind.block_shape, np.int64), np.zeros(kind.block_shape, bool)
    for begin, place in itertools.product(parts_of(kind), boxes.starts):
        start = [sum(pair) for pair in zip(begin, place, strict=True)]
        first = list(places)
        if kind.im2col:
            first[-1] += start[-1]
        else:
            first = [place + moved for place, moved in zip(places, start, strict=True)]
        offsets, within = tensor.elements([first], [taps], store=store)
        part = tuple(slice(begin, begin + side) for begin, side in zip(start, boxes.shape, strict=True))
        addresses[part] = tensor.base + offsets.reshape(boxes.shape) * tensor.item_bytes
        inside[part] = within.reshape(boxes.shape)
    return addresses, inside


def _stored_at(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> list[int]:
    """Where a store begins; `OutOfBoundsError` for negative coordinates, which no hardware takes."""
    places = _numbers(operands[2:])
    if min(places) < 0:
        raise OutOfBoundsError(
            f"a bulk store cannot start at negative coordinates, and {places} (outermost first) are; loads can "
            f"(program {machine.program})",
            operation.location,
            index=tuple(places),
        )
    return places


def _load(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    if operation.attributes["predicated"] and not bool(operands[-1].values):
        return []
    kind = descriptor_type(operation)
    tensor, view, word = machine.tensor_maps[int(operands[0].values)], operands[1], operands[2]
    places = _numbers(operands[3 : 3 + kind.rank + operation.attributes["offsets"]])
    addresses, inside = _block(operation, tensor, places[: kind.rank], places[kind.rank :])
    element = numpy_type(kind.element_ty)
    values = np.full(kind.block_shape, np.nan if tensor.fill == "nan" else 0).astype(element)
    access = Access("bulk_load", operation.location, machine.program)
    values[inside] = tensor.as_loaded(machine.memory.load(access, addresses[inside], element))
    machine.arena.store(operation, view.values.reshape(kind.block_shape), values, None)
    word_of(machine, operation, word).receive(kind.nbytes_per_cta)
    return []


def _store(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    kind = descriptor_type(operation)
    tensor, view = machine.tensor_maps[int(operands[0].values)], operands[1]
    addresses, inside = _block(operation, tensor, _stored_at(machine, operation, operands), [], store=True)
    element = numpy_type(kind.element_ty)
    values, _ = machine.arena.load(operation, view.values.reshape(kind.block_shape), element)
    access = Access("bulk_store", operation.location, machine.program)
    chosen = values[inside]
    if (operator := operation.attributes["reduction"]) is not None:
        there = machine.memory.load(access, addresses[inside], element)
        chosen = reduction_rule(operator, kind.element_ty)(there, chosen).astype(element)
    machine.memory.store(access, addresses[inside], chosen)
    return []


def _nothing(_: Machine, __: Operation, ___: Sequence[TileArray]) -> Sequence[TileArray]:
    return []


def _check_bare(operation: Operation) -> None:
    expect_counts(operation, 0, 0)


BULK_COPY_OPERATIONS: tuple[OperationDefinition, ...] = (
    OperationDefinition(
        "bulk_load",
        "A view gets the block of a tensor at coordinates, and an mbarrier the bytes as they come.",
        _check_load,
        _load,
        effects=Effects(reads_global=True, writes_shared=True),
        pure=False,
        attributes=frozenset({"offsets", "predicated", "multicast", "cache_policy"}),
    ),
    OperationDefinition(
        "bulk_store",
        "The block of a tensor at coordinates gets a view's elements, or is combined with them.",
        _check_store,
        _store,
        effects=Effects(writes_global=True, reads_shared=True),
        pure=False,
        attributes=frozenset({"reduction", "cache_policy"}),
    ),
    OperationDefinition(
        "bulk_wait",
        "All bulk stores but the latest `pending` have read shared memory, or are done altogether.",
        _check_bare,
        _nothing,
        pure=False,
        attributes=frozenset({"pending", "read_only"}),
    ),
    OperationDefinition(
        "proxy_fence",
        "What threads did to shared memory comes before what asynchronous units do with it.",
        _check_bare,
        _nothing,
        pure=False,
        attributes=frozenset({"cluster"}),
    ),
)
