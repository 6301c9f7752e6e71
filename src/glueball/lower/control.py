"""Structured control flow: tiles that cross a region's edge are carried register by register."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from glueball.lower.carried import Edge
from glueball.lower.context import Context, lowers
from glueball.lower.terms import Term, materialize
from glueball.thread import arithmetic, control
from glueball.thread.ir import Region, Value
from glueball.tile.ir import Operation
from glueball.tile.ir import Region as TileRegion
from glueball.tile.operations import TILE_OPERATIONS
from glueball.tile.types import distributed_type

SHORT_BODY = 16
ROUNDS_AT_ONCE = 8
LONGEST_STEP = 1 << 16


def _fill(context: Context, region: Region, body: TileRegion, edge: Edge) -> None:
    with context.builder.inside(region):
        context.builder.yield_values(edge.registers(context.lower_region(context, body)))


@contextmanager
def only_where(context: Context, condition: Term) -> Iterator[None]:
    """What is emitted inside is done by the threads for which a condition holds; it must give no values."""
    builder = context.builder
    inside, outside = builder.new_region(), builder.new_region()
    with builder.inside(inside):
        yield
        builder.yield_values([])
    with builder.inside(outside):
        builder.yield_values([])
    builder.structured(control.IF, (materialize(builder, condition),), (inside, outside), [])


@lowers("if")
def lower_if(context: Context, operation: Operation) -> None:
    """Two regions of which one runs."""
    condition = materialize(context.builder, context.term(operation.operands[0]))
    regions, edge = [], Edge(context, operation.results)
    for body in operation.regions:
        region = context.builder.new_region()
        _fill(context, region, body, edge)
        regions.append(region)
    edge.bind(operation.results, context.builder.structured(control.IF, (condition,), regions, edge.kinds))


@lowers("for")
def lower_for(context: Context, operation: Operation) -> None:
    """A counted loop. Several rounds of a short body are laid out one after the other, the rest in a second loop."""
    builder, bounds = context.builder, operation.operands[:3]
    lower, upper, step = (materialize(builder, context.term(bound)) for bound in bounds)
    edge = Edge(context, operation.results)
    carried = edge.registers(operation.operands[3:])
    rounds = _rounds_at_once(operation, step)
    if rounds > 1:
        assert step.constant is not None
        ahead = builder.constant(step.type, (rounds - 1) * step.constant)
        last = builder.binary(arithmetic.MIN_SIGNED, builder.sub(upper, ahead), upper)
        stride = builder.constant(step.type, rounds * step.constant)
        carried = _loop(context, operation, edge, (lower, last, stride), carried, rounds)
        lower = carried.pop(0)
    edge.bind(operation.results, _loop(context, operation, edge, (lower, upper, step), carried, 1))


def _rounds_at_once(operation: Operation, step: Value) -> int:
    """How many rounds of a loop to lay out together: only short bodies of scalars that count upwards."""
    (body,) = operation.regions
    short = len(body.operations) <= SHORT_BODY and all(
        not inner.regions and not _synchronizes(inner) and _is_scalar(inner) for inner in body.operations
    )
    return ROUNDS_AT_ONCE if short and step.constant is not None and 0 < step.constant <= LONGEST_STEP else 1


def _synchronizes(operation: Operation) -> bool:
    effects = TILE_OPERATIONS[operation.opcode].effects
    return effects.synchronises or effects.reads_shared or effects.writes_shared


def _is_scalar(operation: Operation) -> bool:
    return all(not isinstance(value.type, distributed_type) for value in (*operation.operands, *operation.results))


def _loop(
    context: Context,
    operation: Operation,
    edge: Edge,
    bounds: tuple[Value, Value, Value],
    carried: Sequence[Value],
    rounds: int,
) -> list[Value]:
    """One loop instruction; with several rounds at once, where it stopped comes before the carried results."""
    builder, (body,) = context.builder, operation.regions
    lower, upper, step = bounds
    counters = [lower.type] if rounds > 1 else []
    region = builder.new_region([lower.type, *counters, *edge.kinds])
    region.arguments[0].divisibility = min(lower.divisibility, step.divisibility)
    induction, *values = body.arguments
    current = region.arguments[1 + len(counters) :]
    with builder.inside(region, loop=True):
        for index in range(rounds):
            assert rounds == 1 or step.constant is not None
            context.bind(induction, (Term(region.arguments[0], index * (step.constant or 0) // rounds),))
            edge.bind(values, current)
            current = edge.registers(context.lower_region(context, body))
        stopped = [builder.add(region.arguments[0], step)] if counters else []
        builder.yield_values([*stopped, *current])
    start = [lower] if counters else []
    negative = step.constant is not None and step.constant < 0
    return list(
        builder.structured(
            control.FOR,
            [lower, upper, step, *start, *carried],
            (region,),
            [*counters, *edge.kinds],
            {"step_negative": negative},
        )
    )


@lowers("while")
def lower_while(context: Context, operation: Operation) -> None:
    """A loop on a condition."""
    builder, (condition, body) = context.builder, operation.regions
    around, passed = Edge(context, condition.arguments), Edge(context, body.arguments)
    regions = [builder.new_region(around.kinds), builder.new_region(passed.kinds)]
    operands = around.registers(operation.operands)
    around.bind(condition.arguments, regions[0].arguments)
    with builder.inside(regions[0], loop=True):
        decision, *values = context.lower_region(context, condition)
        builder.yield_values([materialize(builder, context.term(decision)), *passed.registers(values)])
    passed.bind(body.arguments, regions[1].arguments)
    with builder.inside(regions[1], loop=True):
        builder.yield_values(around.registers(context.lower_region(context, body)))
    passed.bind(operation.results, builder.structured(control.WHILE, operands, regions, passed.kinds))


@lowers("return")
def lower_return(context: Context, operation: Operation) -> None:
    """The end of the kernel; a kernel's value goes nowhere."""
