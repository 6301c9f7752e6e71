"""Reductions within a warp: registers of a thread first, then lanes, each exchanging with one at a time."""

from __future__ import annotations

from glueball.layouts.reductions import WarpReduction
from glueball.lower.context import Context, lowers
from glueball.lower.linear import lane_id
from glueball.lower.regions import Combine, Registers, columns, combination, exchanged
from glueball.lower.terms import Term
from glueball.tile.ir import Operation


@lowers("reduce_warp")
def reduce_warp(context: Context, operation: Operation) -> None:
    """Each group of registers in a balanced tree, then a butterfly over the lanes that move along the axis."""
    builder, plan = context.builder, operation.attributes["plan"]
    assert isinstance(plan, WarpReduction)
    combine = combination(context, operation.regions[0])
    held = columns(context, [context.terms(operand) for operand in operation.operands])
    totals = [_tree([held[register] for register in group], combine) for group in plan.groups]
    for mask in plan.lanes:
        received = exchanged(builder, totals, mask)
        totals = [combine(own, other) for own, other in zip(totals, received, strict=True)]
    if plan.broadcast and plan.lanes:
        keep = ~sum(plan.lanes)
        totals = exchanged(builder, totals, builder.logical_and(lane_id(builder), builder.constant("i32", keep)))
    for position, result in enumerate(operation.results):
        context.bind(result, tuple(Term(totals[group][position]) for group in plan.copies))


def _tree(elements: list[Registers], combine: Combine) -> Registers:
    """A balanced tree over neighbours, depth first, so that few intermediate results wait."""
    if len(elements) == 1:
        return elements[0]
    half = len(elements) // 2
    return combine(_tree(elements[:half], combine), _tree(elements[half:], combine))
