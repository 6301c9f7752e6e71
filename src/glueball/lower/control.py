"""Structured control flow: tiles that cross a region's edge are carried register by register."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from glueball.lower.context import Context, lowers
from glueball.lower.terms import Term, materialize, register_count, register_types
from glueball.thread import arithmetic, control
from glueball.thread.ir import Region, Value
from glueball.tile.ir import Operation
from glueball.tile.ir import Region as TileRegion
from glueball.tile.ir import Value as TileValue
from glueball.tile.operations import TILE_OPERATIONS
from glueball.tile.types import distributed_type

SHORT_BODY = 16
ROUNDS_AT_ONCE = 8
LONGEST_STEP = 1 << 16


def flatten(context: Context, values: Iterable[TileValue]) -> list[Value]:
    """The registers of tile values, one after another."""
    return [materialize(context.builder, term) for value in values for term in context.terms(value)]


def kinds_of(values: Sequence[TileValue]) -> list[str]:
    """The types of those registers."""
    return [kind for value in values for kind in register_types(value.type)]


def bind_all(context: Context, values: Sequence[TileValue], registers: Sequence[Value]) -> None:
    """Records which of the registers every tile value became."""
    position = 0
    for value in values:
        count = register_count(value.type)
        context.bind(value, tuple(Term(register) for register in registers[position : position + count]))
        position += count


def _fill(context: Context, region: Region, body: TileRegion, *, loop: bool) -> None:
    with context.builder.inside(region, loop=loop):
        yielded = context.lower_region(context, body)
        context.builder.yield_values(flatten(context, yielded))


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
    regions = []
    for body in operation.regions:
        region = context.builder.new_region()
        _fill(context, region, body, loop=False)
        regions.append(region)
    results = context.builder.structured(control.IF, (condition,), regions, kinds_of(operation.results))
    bind_all(context, operation.results, results)


@lowers("for")
def lower_for(context: Context, operation: Operation) -> None:
    """A counted loop. Several rounds of a short body are laid out one after the other, the rest in a second loop."""
    builder, bounds = context.builder, operation.operands[:3]
    lower, upper, step = (materialize(builder, context.term(bound)) for bound in bounds)
    carried = flatten(context, operation.operands[3:])
    rounds = _rounds_at_once(operation, step)
    if rounds > 1:
        assert step.constant is not None
        ahead = builder.constant(step.type, (rounds - 1) * step.constant)
        last = builder.binary(arithmetic.MIN_SIGNED, builder.sub(upper, ahead), upper)
        stride = builder.constant(step.type, rounds * step.constant)
        carried = _loop(context, operation, (lower, last, stride), carried, rounds)
        lower = carried.pop(0)
    results = _loop(context, operation, (lower, upper, step), carried, 1)
    bind_all(context, operation.results, results)


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
    context: Context, operation: Operation, bounds: tuple[Value, Value, Value], carried: Sequence[Value], rounds: int
) -> list[Value]:
    """One loop instruction; with several rounds at once, where it stopped comes before the carried results."""
    builder, (body,) = context.builder, operation.regions
    lower, upper, step = bounds
    kinds = kinds_of(operation.results)
    counters = [lower.type] if rounds > 1 else []
    region = builder.new_region([lower.type, *counters, *kinds])
    region.arguments[0].divisibility = min(lower.divisibility, step.divisibility)
    induction, *values = body.arguments
    current = region.arguments[1 + len(counters) :]
    with builder.inside(region, loop=True):
        for index in range(rounds):
            assert rounds == 1 or step.constant is not None
            context.bind(induction, (Term(region.arguments[0], index * (step.constant or 0) // rounds),))
            bind_all(context, values, current)
            current = flatten(context, context.lower_region(context, body))
        stopped = [builder.add(region.arguments[0], step)] if counters else []
        builder.yield_values([*stopped, *current])
    start = [lower] if counters else []
    negative = step.constant is not None and step.constant < 0
    return list(
        builder.structured(
            control.FOR,
            [lower, upper, step, *start, *carried],
            (region,),
            [*counters, *kinds],
            {"step_negative": negative},
        )
    )


@lowers("while")
def lower_while(context: Context, operation: Operation) -> None:
    """A loop on a condition."""
    kinds = kinds_of(operation.results)
    operands = flatten(context, operation.operands)
    regions = []
    for body in operation.regions:
        region = context.builder.new_region(kinds)
        bind_all(context, body.arguments, region.arguments)
        _fill(context, region, body, loop=True)
        regions.append(region)
    results = context.builder.structured(control.WHILE, operands, regions, kinds)
    bind_all(context, operation.results, results)


@lowers("return")
def lower_return(context: Context, operation: Operation) -> None:
    """The end of the kernel; a kernel's value goes nowhere."""
