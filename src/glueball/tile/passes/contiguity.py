"""What is known of the elements of a tile side by side: how far they go up by ones, or stay equal, and what divides
them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from glueball.tile.ir import Operation, TileFunction, Value
from glueball.tile.types import pointer_type

ANY = 1 << 30
"""Stands for a divisor of zero, and the like."""

Extents = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Runs:
    """Along each dimension, elements go up by ones in runs of `contiguity` and stay equal in runs of `constancy`.

    The first of each such run is a multiple of `divisibility` (a pointer: that many bytes).
    """

    contiguity: Extents
    constancy: Extents
    divisibility: int

    @classmethod
    def unknown(cls, rank: int) -> Runs:
        """Nothing is known."""
        return cls((1,) * rank, (1,) * rank, 1)


def runs_of(function: TileFunction) -> dict[Value, Runs]:
    """What is known of every integer and pointer that is not carried by control flow."""
    found: dict[Value, Runs] = {}
    for argument, facts in zip(function.arguments, function.facts, strict=True):
        found[argument] = Runs((), (), facts.divisibility)
    for operation in function.body.walk():
        rule = RULES.get(operation.opcode)
        for result in operation.results:
            known = None if rule is None else rule(operation, found)
            found[result] = known or Runs.unknown(len(result.type.shape))
    return found


def _get(found: Mapping[Value, Runs], value: Value) -> Runs:
    return found.get(value) or Runs.unknown(len(value.type.shape))


def _power(number: int) -> int:
    return number & -number if number else ANY


def _constant(operation: Operation, _: Mapping[Value, Runs]) -> Runs:
    value = operation.attributes["value"]
    return Runs((), (), _power(value) if isinstance(value, int) else 1)


def _range(operation: Operation, _: Mapping[Value, Runs]) -> Runs:
    return Runs(operation.result.type.shape, (1,), _power(operation.attributes["start"]))


def _splat(operation: Operation, found: Mapping[Value, Runs]) -> Runs:
    shape = operation.result.type.shape
    return Runs((1,) * len(shape), shape, _get(found, operation.operands[0]).divisibility)


def _expand(operation: Operation, found: Mapping[Value, Runs]) -> Runs:
    runs, axis = _get(found, operation.operands[0]), operation.attributes["axis"]
    contiguity, constancy = ((*extents[:axis], 1, *extents[axis:]) for extents in (runs.contiguity, runs.constancy))
    return Runs(contiguity, constancy, runs.divisibility)


def _broadcast(operation: Operation, found: Mapping[Value, Runs]) -> Runs:
    (source,) = operation.operands
    runs, shape = _get(found, source), operation.result.type.shape
    constancy = tuple(
        wide if narrow != wide else known
        for narrow, wide, known in zip(source.type.shape, shape, runs.constancy, strict=True)
    )
    return Runs(runs.contiguity, constancy, runs.divisibility)


def _sum(left: Runs, right: Runs, *, subtracting: bool = False) -> Runs:
    mixed = zip(left.contiguity, left.constancy, right.contiguity, right.constancy, strict=True)
    contiguity = tuple(
        max(math.gcd(going, equal), 1 if subtracting else math.gcd(also_equal, also_going))
        for going, also_equal, also_going, equal in mixed
    )
    constancy = tuple(map(math.gcd, left.constancy, right.constancy))
    return Runs(contiguity, constancy, math.gcd(left.divisibility, right.divisibility))


def _add(operation: Operation, found: Mapping[Value, Runs]) -> Runs:
    left, right = (_get(found, operand) for operand in operation.operands)
    return _sum(left, right, subtracting=operation.opcode == "sub")


def _multiply(operation: Operation, found: Mapping[Value, Runs]) -> Runs:
    left, right = (_get(found, operand) for operand in operation.operands)
    ones = (1,) * len(left.contiguity)
    first, second = (_every(runs) for runs in (left, right))
    constancy = tuple(map(math.gcd, left.constancy, right.constancy))
    return Runs(ones, constancy, min(first * second, ANY))


def _every(runs: Runs) -> int:
    """What divides every element, not only the first of each run."""
    return 1 if any(length > 1 for length in runs.contiguity) else runs.divisibility


def _pointer_add(operation: Operation, found: Mapping[Value, Runs]) -> Runs:
    pointer, offset = (_get(found, operand) for operand in operation.operands)
    kind = operation.operands[0].type.scalar
    assert isinstance(kind, pointer_type)
    return _sum(pointer, replace(offset, divisibility=min(offset.divisibility * kind.element_ty.itemsize, ANY)))


def _same(operation: Operation, found: Mapping[Value, Runs]) -> Runs:
    return _get(found, operation.operands[0])


def _hint(operation: Operation, found: Mapping[Value, Runs]) -> Runs:
    runs = _get(found, operation.operands[0])
    attributes, rank = operation.attributes, len(runs.contiguity)
    contiguity, constancy = (
        tuple(map(max, known, attributes.get(name) or (1,) * rank))
        for name, known in (("contiguity", runs.contiguity), ("constancy", runs.constancy))
    )
    divisor = _power(min(attributes.get("divisibility") or (1,)))
    return Runs(contiguity, constancy, max(runs.divisibility, divisor))


RULES: dict[str, Callable[[Operation, Mapping[Value, Runs]], Runs]] = {
    "add": _add,
    "broadcast": _broadcast,
    "cast": _same,
    "constant": _constant,
    "convert_layout": _same,
    "expand_dims": _expand,
    "hint": _hint,
    "make_range": _range,
    "mul": _multiply,
    "pointer_add": _pointer_add,
    "set_auto_layout": _same,
    "splat": _splat,
    "sub": _add,
}
