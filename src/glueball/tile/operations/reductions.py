"""Reductions and scans along an axis, by a region that combines two elements, in the order that the layout gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glueball.layouts import LinearLayout, slice_layout
from glueball.layouts.reductions import AxisSpread, axis_spread, separated
from glueball.layouts.scans import Segment, scan_layout, scan_order
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Array, Machine, OperationDefinition, TileArray, fault
from glueball.tile.operations.regions import (
    Combine,
    alike_tiles,
    apply_region,
    element_types,
    expect_scalars,
    joined,
    moved,
)
from glueball.tile.operations.rules import expect_counts, same_type
from glueball.tile.types import TileType, distributed_type


def reduced_type(source: distributed_type, axis: int) -> TileType:
    """The type of a tile reduced along an axis, which vanishes; a scalar where no dimension is left."""
    shape = (*source.shape[:axis], *source.shape[axis + 1 :])
    if not shape:
        return source.element_ty
    return distributed_type(source.element_ty, shape, slice_layout(axis, source.layout))


def _check_axis(operation: Operation) -> distributed_type:
    source = alike_tiles(operation)
    axis = operation.attributes["axis"]
    if not 0 <= axis < len(source.shape):
        raise fault(operation, f"has no dimension {axis} in a tile of shape {list(source.shape)}")
    types = element_types(operation)
    expect_scalars(operation, [*types, *types], types)
    return source


def _check_results(operation: Operation, wanted: Sequence[TileType]) -> None:
    found = [result.type for result in operation.results]
    for first, second in zip(found, wanted, strict=True):
        if not same_type(first, second):
            raise fault(operation, f"gives {second}, not {first}")


def _check_reduce(operation: Operation) -> None:
    source = _check_axis(operation)
    expect_counts(operation, len(operation.operands), len(operation.operands))
    axis = operation.attributes["axis"]
    _check_results(
        operation, [reduced_type(source.with_element_ty(element), axis) for element in element_types(operation)]
    )


def _check_scan(operation: Operation) -> None:
    _check_axis(operation)
    expect_counts(operation, len(operation.operands), len(operation.operands))
    _check_results(operation, [operand.type for operand in operation.operands])


def combination(machine: Machine, operation: Operation) -> Combine:
    """The operation's region as a function of arrays."""

    def combine(left: Sequence[TileArray], right: Sequence[TileArray]) -> list[TileArray]:
        return apply_region(machine, operation.regions[0], [*left, *right])

    return combine


def _pick(arrays: Sequence[TileArray], chosen: slice | int) -> list[TileArray]:
    return [moved(array, lambda values: values[..., chosen]) for array in arrays]


def _at(arrays: Sequence[TileArray], places: Array) -> list[TileArray]:
    return [moved(array, lambda values: values[..., places]) for array in arrays]


def _tree(arrays: list[TileArray], combine: Combine, bits: int) -> list[TileArray]:
    """Neighbours along the last dimension combined, `bits` times."""
    for _ in range(bits):
        arrays = combine(_pick(arrays, slice(0, None, 2)), _pick(arrays, slice(1, None, 2)))
    return arrays


def by_slots(spread: AxisSpread, operands: Sequence[TileArray]) -> list[TileArray]:
    """The operands with the axis last and its elements in the order of their slots."""
    slots = spread.slots

    def arranged(values: Array) -> Array:
        return np.moveaxis(values, spread.axis, -1)[..., slots]

    return [moved(operand, arranged) for operand in operands]


def _linear(operation: Operation) -> LinearLayout:
    source = operation.operands[0].type
    assert isinstance(source, distributed_type)
    return source.linear


def _reduce(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    axis = operation.attributes["axis"]
    spread = axis_spread(separated(_linear(operation), axis), axis)
    arrays = by_slots(spread, operands)
    bits = (arrays[0].values.shape[-1] - 1).bit_length()
    return _pick(_tree(arrays, combination(machine, operation), bits), 0)


def _reduce_warp(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    axis = operation.attributes["axis"]
    spread = axis_spread(_linear(operation), axis)
    bits = len(spread.registers) + len(spread.lanes)
    found = _tree(by_slots(spread, operands), combination(machine, operation), bits)
    kept = len(operation.results[0].type.shape) == len(spread.linear.shape)
    return [moved(array, lambda values: np.moveaxis(values, -1, axis)) for array in found] if kept else _pick(found, 0)


def _scan(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    axis, combine = operation.attributes["axis"], combination(machine, operation)
    order = scan_order(scan_layout(_linear(operation), axis), axis)
    arrays = _along(operands, axis, reverse=operation.attributes["reverse"])
    blocks = scan_segments(arrays, order.below, combine)
    before = [blocks.before] if blocks.before else []
    if order.warps:
        gathered = (Segment("register", order.warps), *order.above)
        before.insert(0, scan_segments(blocks.totals, gathered, combine, exclusive=True).before)
    return _back(apply_before(before, blocks.inside, combine), axis, reverse=operation.attributes["reverse"])


def _along(operands: Sequence[TileArray], axis: int, *, reverse: bool) -> list[TileArray]:
    """The operands with the axis last, in the direction of the scan."""
    step = -1 if reverse else 1
    return [moved(operand, lambda values: np.moveaxis(values, axis, -1)[..., ::step]) for operand in operands]


def _back(arrays: Sequence[TileArray], axis: int, *, reverse: bool) -> list[TileArray]:
    step = -1 if reverse else 1
    return [moved(array, lambda values: np.moveaxis(values[..., ::step], -1, axis)) for array in arrays]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks along the last dimension that were scanned.

    `inside` are the elements scanned within the own segment, `before` what comes before each block of that, anything
    for the first in a greater block, and nothing where there is no other segment; `totals` are those of the blocks.
    """

    inside: list[TileArray]
    before: list[TileArray]
    totals: list[TileArray]


def scan_segments(
    arrays: Sequence[TileArray], segments: Sequence[Segment], combine: Combine, *, exclusive: bool = False
) -> Blocks:
    """Blocks along the last dimension scanned by segments; with `exclusive`, no segment is a thread's own."""
    extent = arrays[0].values.shape[-1]
    start, totals = list(arrays), list(arrays)
    levels: list[tuple[list[TileArray], int, int]] = []
    own, step = 1, 1
    for number, segment in enumerate(segments):
        size = 1 << len(segment.bits)
        scan = _serial if segment.level == "register" else _doubling
        inside, before, totals = scan(_folded(totals, size), combine)
        if number == 0 and segment.level == "register" and not exclusive:
            start, own = _flat(inside), size
        else:
            levels.append((_flat(before), step, size))
        step *= size
    if not levels:
        return Blocks(start, [], totals)
    position = np.arange(0, extent, own)
    found: list[TileArray] = []
    present = np.zeros(len(position), np.bool_)
    for before, step, size in reversed(levels):
        here = position // step % size != 0
        spread = _repeated(before, step // own)
        found = _join(found, present, spread, here, combine) if found else spread
        present = present | here
    return Blocks(start, found, totals)


def _repeated(arrays: Sequence[TileArray], step: int) -> list[TileArray]:
    return [moved(array, lambda values: np.repeat(values, step, axis=-1)) for array in arrays]


def _join(
    first: Sequence[TileArray], has_first: Array, second: Sequence[TileArray], has_second: Array, combine: Combine
) -> list[TileArray]:
    """Both combined where both are there, else the one that is."""
    both = combine(first, second)
    only = _choose(has_first, first, second)
    return _choose(has_first & has_second, both, only)


def _choose(condition: Array, left: Sequence[TileArray], right: Sequence[TileArray]) -> list[TileArray]:
    return [joined(pair, lambda values: np.where(condition, *values)) for pair in zip(left, right, strict=True)]


def _folded(arrays: Sequence[TileArray], size: int) -> list[TileArray]:
    return [moved(array, lambda values: values.reshape(*values.shape[:-1], -1, size)) for array in arrays]


def _flat(arrays: Sequence[TileArray]) -> list[TileArray]:
    return [moved(array, lambda values: values.reshape(*values.shape[:-2], -1)) for array in arrays]


Scanned = tuple[list[TileArray], list[TileArray], list[TileArray]]


def _serial(arrays: Sequence[TileArray], combine: Combine) -> Scanned:
    """One after the other: with the element itself, without it, and all."""
    inside = [_pick(arrays, 0)]
    for index in range(1, arrays[0].values.shape[-1]):
        inside.append(combine(inside[-1], _pick(arrays, index)))
    before = [inside[0], *inside[:-1]]
    return _stacked(inside), _stacked(before), inside[-1]


def _doubling(arrays: Sequence[TileArray], combine: Combine) -> Scanned:
    """In steps of one, two, four places: what stands so far before each element, in front of what that has."""
    size = arrays[0].values.shape[-1]
    inside = list(arrays)
    for step in range(size.bit_length() - 1):
        present, earlier = _earlier(inside, 1 << step)
        inside = _choose(present, combine(earlier, inside), inside)
    return inside, _earlier(inside, 1)[1], _pick(inside, -1)


def _earlier(arrays: Sequence[TileArray], distance: int) -> tuple[Array, list[TileArray]]:
    """Where there is an element so many places before, and that one, elsewhere anything."""
    index = np.arange(arrays[0].values.shape[-1])
    present = index >= distance
    return present, _at(arrays, np.where(present, index - distance, index))


def _stacked(parts: Sequence[Sequence[TileArray]]) -> list[TileArray]:
    return [joined(same, lambda values: np.stack(values, axis=-1)) for same in zip(*parts, strict=True)]


def apply_before(
    levels: Sequence[Sequence[TileArray]], inside: Sequence[TileArray], combine: Combine
) -> list[TileArray]:
    """Elements along the last dimension combined with what comes before their blocks, the greatest blocks first.

    Each level has one element for each block of it; the first block within one of the level before stays.
    """
    extent = inside[0].values.shape[-1]
    index, whole = np.arange(extent), extent
    found, present = list(inside), np.zeros(extent, np.bool_)
    for before in levels:
        step = extent // before[0].values.shape[-1]
        here = index % whole >= step
        found = _join(found, present, _repeated(before, step), here, combine)
        present, whole = present | here, step
    return _join(found, present, inside, np.ones(extent, np.bool_), combine)


def _scan_warp(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    axis, reverse, exclusive = (operation.attributes[name] for name in ("axis", "reverse", "exclusive"))
    plan, combine = operation.attributes["plan"], combination(machine, operation)
    blocks = scan_segments(_along(operands, axis, reverse=reverse), plan.segments, combine, exclusive=exclusive)
    if plan.totals:
        found = [*blocks.inside, *blocks.before, *blocks.totals]
    elif exclusive:
        found = blocks.before
    else:
        found = apply_before([blocks.before] if blocks.before else [], blocks.inside, combine)
    return _back(found, axis, reverse=reverse)


def _scan_finish(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    axis, reverse, count = operation.attributes["axis"], operation.attributes["reverse"], len(operation.results)
    arrays = _along(operands, axis, reverse=reverse)
    *before, inside = (arrays[start : start + count] for start in range(0, len(arrays), count))
    return _back(apply_before(before, inside, combination(machine, operation)), axis, reverse=reverse)


def _check_tiles(operation: Operation) -> None:
    if not operation.operands or not isinstance(operation.operands[0].type, distributed_type):
        raise fault(operation, "takes tiles")


REDUCTION_OPERATIONS = (
    OperationDefinition(
        "reduce",
        "The elements along `axis` combined by the region: in a balanced binary tree over register bits, then lane "
        "bits, then warp bits.",
        _check_reduce,
        _reduce,
        attributes=frozenset({"axis"}),
        regions=1,
    ),
    OperationDefinition(
        "associative_scan",
        "Every element combined with all before it (after it with `reverse`) along `axis`.",
        _check_scan,
        _scan,
        attributes=frozenset({"axis", "reverse"}),
        regions=1,
    ),
    OperationDefinition(
        "reduce_warp",
        "What each warp holds along `axis` combined: one element of the axis for each warp along it.",
        _check_tiles,
        _reduce_warp,
        attributes=frozenset({"axis", "plan"}),
        regions=1,
    ),
    OperationDefinition(
        "scan_warp",
        "What each warp holds of the lowest bits along `axis` scanned as `plan` says; or each thread's own elements, "
        "what comes before those, and the totals.",
        _check_tiles,
        _scan_warp,
        attributes=frozenset({"axis", "plan", "reverse", "exclusive"}),
        regions=1,
    ),
    OperationDefinition(
        "scan_finish",
        "Blocks along `axis` that are scanned, combined with what comes before each of them in ever greater blocks.",
        _check_tiles,
        _scan_finish,
        attributes=frozenset({"axis", "reverse"}),
        regions=1,
    ),
)
