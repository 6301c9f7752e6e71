"""Expands reductions and scans: threads and warps combine what they hold, scratch memory brings warps together."""

from __future__ import annotations

from collections.abc import Sequence

from glueball.layouts import DistributedLinearLayout, LinearLayout, f2
from glueball.layouts.reductions import (
    axis_spread,
    gathered,
    plan_warp_reduction,
    separated,
    warp_partials,
    without_dimension,
)
from glueball.layouts.scans import (
    ScanOrder,
    Segment,
    blocks_layout,
    gathered_totals,
    plan_thread_scan,
    scan_layout,
    scan_order,
    totals_layout,
)
from glueball.targets import Target
from glueball.tile.ir import Operation, TileFunction, Value
from glueball.tile.operations.regions import is_commutative
from glueball.tile.passes.rewriting import Sequel, rewrite
from glueball.tile.types import TileType, distributed_type


def expand_reductions(function: TileFunction, _: Target) -> None:
    """Replaces every `reduce` and `associative_scan`; what has to change threads is left to `convert_layout`."""
    rewrite(function, {"reduce": _reduce, "associative_scan": _scan})


def _source(operation: Operation) -> distributed_type:
    source = operation.operands[0].type
    assert isinstance(source, distributed_type)
    return source


def in_map(value: Value, linear: LinearLayout) -> distributed_type:
    """The type of a tile of a value's elements that has a given map."""
    layout = DistributedLinearLayout.from_linear(linear)
    return distributed_type(value.type.scalar, linear.shape, layout)


def _moved(sequel: Sequel, values: Sequence[Value], linear: LinearLayout) -> list[Value]:
    """Tiles in the layout of a map; those of one placement as they are."""
    result = []
    for value in values:
        assert isinstance(value.type, distributed_type)
        same = value.type.linear == linear
        result.append(value if same else sequel.convert(value, in_map(value, linear)))
    return result


def _element_bytes(values: Sequence[Value]) -> int:
    return max(value.type.scalar.itemsize for value in values)


def _reduce(operation: Operation, sequel: Sequel) -> Sequence[Value]:
    axis = operation.attributes["axis"]
    wanted = [result.type for result in operation.results]
    linear = separated(_source(operation).linear, axis)
    values = _moved(sequel, operation.operands, linear)
    spread = axis_spread(linear, axis)
    while spread.warps or spread.blocks:
        partials = warp_partials(spread)
        plan = plan_warp_reduction(spread, partials, broadcast=False)
        types: list[TileType] = [in_map(value, partials) for value in values]
        values = sequel.add("reduce_warp", values, types, operation.regions, axis=axis, plan=plan)
        together = gathered(partials, axis, _element_bytes(values), lanes=True)
        values = _moved(sequel, values, together)
        spread = axis_spread(together, axis)
    broadcast = not is_commutative(operation.regions[0])
    result = without_dimension(warp_partials(spread), axis)
    if not result.shape:
        plan = plan_warp_reduction(spread, None, broadcast=broadcast)
        return sequel.add("reduce_warp", values, wanted, operation.regions, axis=axis, plan=plan)
    types = _placed(result, wanted) or [in_map(value, result) for value in values]
    assert isinstance(types[0], distributed_type)
    plan = plan_warp_reduction(spread, types[0].linear, broadcast=broadcast)
    values = sequel.add("reduce_warp", values, types, operation.regions, axis=axis, plan=plan)
    return [sequel.convert(*pair) for pair in zip(values, wanted, strict=True)]


def _placed(found: LinearLayout, wanted: Sequence[TileType]) -> list[TileType] | None:
    """The wanted types where their threads hold what those of a map do, so that registers are only renamed."""
    first = wanted[0]
    assert isinstance(first, distributed_type)
    linear = first.linear
    if any(linear.flat_bases(name) != found.flat_bases(name) for name in ("lane", "warp", "block")):
        return None
    held = [f2.reduced(each.flat_bases("register")) for each in (linear, found)]
    return list(wanted) if held[0] == held[1] else None


def _scan(operation: Operation, sequel: Sequel) -> Sequence[Value]:
    axis, reverse = operation.attributes["axis"], operation.attributes["reverse"]
    wanted = [result.type for result in operation.results]
    linear = scan_layout(_source(operation).linear, axis)
    values = _moved(sequel, operation.operands, linear)
    order = scan_order(linear, axis)
    if not order.warps:
        values = _scan_warp(operation, sequel, values, order.below, exclusive=False)
    else:
        groups = _scan_blocks(operation, sequel, values, order)
        together = gathered_totals(totals_layout(order), order)
        segments = (Segment("register", tuple(range(len(order.warps)))), *_shifted(order))
        gathered_values = _moved(sequel, groups.pop(), together)
        before = _scan_warp(operation, sequel, gathered_values, segments, exclusive=True)
        before = _moved(sequel, before, totals_layout(order))
        types = [value.type for value in values]
        operands = [*before, *(value for group in reversed(groups) for value in group)]
        values = sequel.add("scan_finish", operands, types, operation.regions, axis=axis, reverse=reverse)
    return [sequel.convert(*pair) for pair in zip(values, wanted, strict=True)]


def _scan_warp(
    operation: Operation, sequel: Sequel, values: Sequence[Value], segments: tuple[Segment, ...], *, exclusive: bool
) -> list[Value]:
    """Scans the lowest bits along the axis."""
    axis, source = operation.attributes["axis"], values[0].type
    assert isinstance(source, distributed_type)
    plan = plan_thread_scan(source.linear, axis, segments)
    return sequel.add(
        "scan_warp", values, [value.type for value in values], operation.regions, axis=axis, plan=plan,
        reverse=operation.attributes["reverse"], exclusive=exclusive,
    )  # fmt: skip


def _scan_blocks(operation: Operation, sequel: Sequel, values: Sequence[Value], order: ScanOrder) -> list[list[Value]]:
    """What lies below the warps scanned: each thread's elements, what comes before those, and the totals.

    There is nothing between where a thread's own elements are all that a warp holds along the axis.
    """
    axis = operation.attributes["axis"]
    maps = [order.linear, totals_layout(order)]
    before = None
    if order.own != order.below:
        before = blocks_layout(order, order.own)
        maps.insert(1, before)
    types: list[TileType] = [in_map(value, linear) for linear in maps for value in values]
    types[: len(values)] = [value.type for value in values]
    results = sequel.add(
        "scan_warp", values, types, operation.regions, axis=axis,
        plan=plan_thread_scan(order.linear, axis, order.below, maps[-1], before),
        reverse=operation.attributes["reverse"], exclusive=False,
    )  # fmt: skip
    return [results[start : start + len(values)] for start in range(0, len(results), len(values))]


def _shifted(order: ScanOrder) -> list[Segment]:
    """The segments above the warps, with the register bits that they have among the gathered totals."""
    linear = totals_layout(order)
    removed = sum(len(segment.bits) for segment in order.below)
    shift = linear.shifts()[order.axis]
    together = gathered_totals(linear, order)
    segments = []
    for segment in order.above:
        bits = []
        for bit in segment.bits:
            name = segment.level
            along = order.linear.bases[name][bit][order.axis] >> removed
            bits.append(bit if name == "lane" else together.flat_bases(name).index(along << shift))
        segments.append(Segment(segment.level, tuple(bits)))
    return segments
