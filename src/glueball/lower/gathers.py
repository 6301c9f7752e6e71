"""Gathers within a warp, and functions applied to registers."""

from __future__ import annotations

from glueball.layouts.gathers import WarpGather
from glueball.lower.context import Context, lowers
from glueball.lower.linear import lane_id, linear_combination
from glueball.lower.regions import columns, exchanged, inlined
from glueball.lower.terms import Term, materialize, materialize_all
from glueball.thread import arithmetic
from glueball.thread.builder import Builder
from glueball.thread.ir import Value
from glueball.tile.ir import Operation


@lowers("gather_warp")
def gather_warp(context: Context, operation: Operation) -> None:
    """The index tells lane and register; all registers it may be are fetched from there, then one is chosen."""
    builder, plan = context.builder, operation.attributes["plan"]
    assert isinstance(plan, WarpGather)
    held = materialize_all(builder, context.terms(operation.operands[0]))
    own = builder.logical_and(lane_id(builder), builder.constant("i32", plan.keep))
    found = []
    for term, sources in zip(context.terms(operation.operands[1]), plan.sources, strict=True):
        index = materialize(builder, term)
        lane = builder.logical_or(own, linear_combination(builder, index, plan.lanes, whole=False))
        candidates = [register for (register,) in exchanged(builder, [[held[source]] for source in sources], lane)]
        number = linear_combination(builder, index, plan.registers, whole=False)
        found.append(Term(_chosen(builder, candidates, number)))
    context.bind(operation.result, tuple(found))


def _chosen(builder: Builder, candidates: list[Value], number: Value) -> Value:
    """The candidate with a number, by selects bit by bit."""
    bit = 0
    while len(candidates) > 1:
        part = builder.logical_and(number, builder.constant("i32", 1 << bit))
        is_set = builder.compare(arithmetic.COMPARE_SIGNED, "ne", part, builder.constant("i32", 0))
        pairs = zip(candidates[1::2], candidates[::2], strict=True)
        candidates = [builder.select(is_set, odd, even) for odd, even in pairs]
        bit += 1
    return candidates[0]


@lowers("map_elementwise")
def map_elementwise(context: Context, operation: Operation) -> None:
    """The region laid out once for each group of registers."""
    (region,), pack = operation.regions, operation.attributes["pack"]
    held = columns(context, [context.terms(operand) for operand in operation.operands])
    found: list[list[Term]] = [[] for _ in operation.results]
    for start in range(0, len(held), pack):
        group = held[start : start + pack]
        arguments = [register[position] for position in range(len(operation.operands)) for register in group]
        results = inlined(context, region, arguments)
        for position, terms in enumerate(found):
            terms += [Term(value) for value in results[position * pack : (position + 1) * pack]]
    for result, terms in zip(operation.results, found, strict=True):
        context.bind(result, tuple(terms))
