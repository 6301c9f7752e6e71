"""Gives reductions and scans an order that neither their layout nor the number of warps decides.

Where the launch option `deterministic` asks for it, what they combine is first brought to a layout in which the order
follows from the shape alone. A reduction combines the two halves of an axis element by element, then the halves of what
that gives, and so on. A scan has one lane for each run of elements of an axis, and no warps along it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from glueball.layouts import DistributedLinearLayout, LinearLayout
from glueball.targets import Target
from glueball.tile.ir import Operation, TileFunction, Value
from glueball.tile.operations.reductions import reduced_type
from glueball.tile.passes.rewriting import Sequel, rewrite
from glueball.tile.types import TileType, distributed_type


def order_reductions(function: TileFunction, _: Target) -> None:
    """Converts the operands of every `reduce` and `associative_scan`, and their results back."""
    counts = (function.lanes, function.num_warps, function.num_ctas)
    lanes, warps, ctas = (count.bit_length() - 1 for count in counts)

    def reduce(operation: Operation, sequel: Sequel) -> Sequence[Value]:
        axis, kinds = operation.attributes["axis"], _kinds(operation)
        layout = _layout(kinds[0].shape, axis, lanes, warps, ctas, halves_first=True)
        types: list[TileType] = [reduced_type(_in(kind, layout), axis) for kind in kinds]
        return _converted(operation, sequel, layout, types)

    def scan(operation: Operation, sequel: Sequel) -> Sequence[Value]:
        kinds = _kinds(operation)
        layout = _layout(kinds[0].shape, operation.attributes["axis"], lanes, warps, ctas, halves_first=False)
        return _converted(operation, sequel, layout, [_in(kind, layout) for kind in kinds])

    rewrite(function, {"reduce": reduce, "associative_scan": scan})


def _kinds(operation: Operation) -> list[distributed_type]:
    return [operand.type for operand in operation.operands if isinstance(operand.type, distributed_type)]


def _in(kind: distributed_type, layout: DistributedLinearLayout) -> distributed_type:
    return distributed_type(kind.element_ty, kind.shape, layout)


def _converted(
    operation: Operation, sequel: Sequel, layout: DistributedLinearLayout, types: Sequence[TileType]
) -> list[Value]:
    operands = [
        sequel.convert(value, _in(kind, layout))
        for value, kind in zip(operation.operands, _kinds(operation), strict=True)
    ]
    found = sequel.add(operation.opcode, operands, types, operation.regions, **operation.attributes)
    return [sequel.convert(value, result.type) for value, result in zip(found, operation.results, strict=True)]


def _layout(
    shape: Sequence[int], axis: int, lanes: int, warps: int, ctas: int, *, halves_first: bool
) -> DistributedLinearLayout:
    """The layout for a shape, given the bits of a lane's, a warp's and a CTA's number. All CTAs hold the same.

    Bits of the axis are taken in order, greatest first with `halves_first`, by registers, then lanes, then warps; what
    is left over of lanes and warps goes across the axis, and beyond that holds copies.
    """
    inner, bits = math.prod(shape[axis + 1 :]), (shape[axis] - 1).bit_length()
    along = [inner << bit for bit in (reversed(range(bits)) if halves_first else range(bits))]
    across = [1 << bit for bit in range((math.prod(shape) - 1).bit_length()) if not inner <= 1 << bit < inner << bits]
    spread = max(0, min(warps - len(across), bits - lanes)) if halves_first else 0
    in_lanes = min(lanes, bits - spread)
    own = bits - spread - in_lanes
    rest = iter(across)

    def filled(taken: list[int], count: int) -> list[int]:
        return taken + [next(rest, 0) for _ in range(count - len(taken))]

    bases = {
        "lane": filled(along[own : own + in_lanes], lanes),
        "warp": filled(along[own + in_lanes :], warps),
        "block": [0] * ctas,
    }
    bases["register"] = [*along[:own], *rest]
    return DistributedLinearLayout.from_linear(LinearLayout.from_flat_bases(bases, shape))
