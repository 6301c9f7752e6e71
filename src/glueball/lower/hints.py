"""Promises about values: divisors that the builder remembers, and runs of registers that share a base."""

from __future__ import annotations

from collections.abc import Iterator

from glueball.lower.context import Context, lowers
from glueball.lower.runs import run_step, runs_along
from glueball.lower.terms import Registers, Term, element_type, materialize, normalized
from glueball.thread import promises
from glueball.thread.builder import Builder, power_of_two_in
from glueball.thread.ir import Value
from glueball.tile.ir import Operation
from glueball.tile.ir import Value as TileValue
from glueball.tile.types import distributed_type


@lowers("assume")
def assume(context: Context, operation: Operation) -> None:
    """The simulator checks it; `x % c == 0` outside of control flow makes the divisor of `x` known from here on."""
    builder = context.builder
    (condition,) = operation.operands
    builder.emit(promises.ASSUME, (materialize(builder, context.term(condition)),))
    if builder.depth > 0:
        return
    for value, divisor in _divisors(condition):
        context.bind(value, (Term(known_multiple(builder, materialize(builder, context.term(value)), divisor)),))


def _divisors(condition: TileValue) -> Iterator[tuple[TileValue, int]]:
    """What a condition says of the divisors of scalars: from `x % c == 0`, and from both sides of an `and`."""
    operation = condition.operation
    if operation is None:
        return
    if operation.opcode == "and":
        for operand in operation.operands:
            yield from _divisors(operand)
    if operation.opcode != "compare" or operation.attributes["predicate"] != "eq":
        return
    for left, right in (operation.operands, operation.operands[::-1]):
        remainder = left.operation
        if remainder is not None and remainder.opcode == "rem" and _literal(right) == 0:
            divisor = _literal(remainder.operands[1])
            if divisor and element_type(left.type).is_int():
                yield remainder.operands[0], divisor


def _literal(value: TileValue) -> int | None:
    operation = value.operation
    if operation is None or operation.opcode != "constant" or isinstance(value.type, distributed_type):
        return None
    number = operation.attributes["value"]
    return number if type(number) is int else None


def known_multiple(builder: Builder, value: Value, divisor: int) -> Value:
    """The register, known to be a multiple of the power of two in a number."""
    power = min(power_of_two_in(divisor), 1 << 30)
    if value.divisibility >= power:
        return value
    return builder.emit(promises.KNOWN_MULTIPLE, (value,), {"divisor": power}, divisibility=power)[0]


@lowers("hint")
def hint(context: Context, operation: Operation) -> None:
    """Registers of a run become the first one plus a constant; the first one of a run, or a scalar, a multiple."""
    terms = context.terms(operation.operands[0])
    kind, attributes = operation.result.type, operation.attributes
    divisibility = attributes.get("divisibility")
    if isinstance(kind, distributed_type):
        for name, step in (("constancy", 0), ("contiguity", run_step(kind))):
            for axis, length in enumerate(attributes.get(name) or ()):
                divisor = divisibility[axis] if divisibility is not None and step else 1
                terms = _runs(context.builder, kind, terms, axis, length, step, divisor)
    elif divisibility is not None:
        value = known_multiple(context.builder, materialize(context.builder, terms[0]), divisibility[0])
        terms = (normalized(context.builder, value, 0),)
    context.bind(operation.result, terms)


def _runs(
    builder: Builder, kind: distributed_type, terms: Registers, axis: int, length: int, step: int, divisor: int
) -> Registers:
    """Every register expressed by one of its run, where the same thread holds that one."""
    along = runs_along(kind, axis, power_of_two_in(length))
    if all(place == 0 for _, place in along.places):
        return terms
    if along.alignment < length:
        # A part of a run starts some parts after the run.
        divisor = min(power_of_two_in(divisor), along.alignment * max(step, 1))
    firsts: dict[int, Value] = {}
    result = []
    for first, place in along.places:
        if first not in firsts:
            firsts[first] = known_multiple(builder, materialize(builder, terms[first]), divisor)
        result.append(normalized(builder, firsts[first], place * step))
    return tuple(result)
