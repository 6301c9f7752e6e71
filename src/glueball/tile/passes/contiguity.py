"""What is known of the elements of a tile side by side: how far they go up by ones, or stay equal, and what divides
them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

from glueball.tile.ir import Operation, Region, TileFunction, Value
from glueball.tile.types import (
    element_of,
    pointer_type,
    shared_memory_descriptor_type,
    tensor_descriptor_type,
)

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


Known = dict[Value, Runs]


def runs_of(function: TileFunction) -> dict[Value, Runs]:
    """What is known of every integer and pointer.

    Of what loops carry, that which holds of the first value is assumed and then weakened until every round keeps it.
    """
    found: dict[Value, Runs] = {}
    for argument, facts in zip(function.arguments, function.facts, strict=True):
        found[argument] = Runs((), (), facts.divisibility)
    _follow(function.body, found)
    return found


def _follow(region: Region, found: Known) -> None:
    for operation in region.operations:
        if operation.opcode in CONTROL:
            CONTROL[operation.opcode](operation, found)
            continue
        for inner in operation.regions:
            _follow(inner, found)
        rule = RULES.get(operation.opcode)
        for result in operation.results:
            if _is_followed(result):
                known = None if rule is None else rule(operation, found)
                found[result] = known or Runs.unknown(len(result.type.shape))


def _is_followed(value: Value) -> bool:
    if isinstance(value.type, shared_memory_descriptor_type | tensor_descriptor_type):
        return False
    element = element_of(value.type)
    return isinstance(element, pointer_type) or element.is_int()


def _yielded(region: Region) -> Sequence[Value]:
    last = region.operations[-1:]
    return last[0].operands if last and last[0].opcode == "yield" else ()


def _meet(found: Known, values: Iterable[Value], sources: Sequence[Iterable[Value]]) -> bool:
    """Lets each value be known as what all its sources are; says whether anything changed."""
    changed = False
    for value, *each in zip(values, *sources, strict=True):
        if _is_followed(value):
            known = reduce(partial(_both, step=step_of(value)), [_get(found, source) for source in each])
            changed |= found.get(value) != known
            found[value] = known
    return changed


def _follow_if(operation: Operation, found: Known) -> None:
    for region in operation.regions:
        _follow(region, found)
    _meet(found, operation.results, [_yielded(region) for region in operation.regions])


def _follow_for(operation: Operation, found: Known) -> None:
    (body,) = operation.regions
    lower, _, step, *initial = operation.operands
    induction, *carried = body.arguments
    found[induction] = Runs((), (), math.gcd(_get(found, lower).divisibility, _get(found, step).divisibility))
    _meet(found, carried, [initial])
    while True:
        _follow(body, found)
        if not _meet(found, carried, [carried, _yielded(body)]):
            break
    _meet(found, operation.results, [carried])


def _follow_while(operation: Operation, found: Known) -> None:
    condition, body = operation.regions
    _meet(found, condition.arguments, [operation.operands])
    while True:
        _follow(condition, found)
        passed = _yielded(condition)[1:]
        _meet(found, body.arguments, [passed])
        _follow(body, found)
        if not _meet(found, condition.arguments, [condition.arguments, _yielded(body)]):
            break
    _meet(found, operation.results, [passed])


def _get(found: Known, value: Value) -> Runs:
    return found.get(value) or Runs.unknown(len(value.type.shape))


def _power(number: int) -> int:
    return number & -number if number else ANY


def step_of(value: Value) -> int:
    """How far apart the elements of a run are: one, of pointers the bytes of what they point to."""
    element = element_of(value.type)
    return element.element_ty.itemsize if isinstance(element, pointer_type) else 1


def _divisor(divisibility: int, runs: Sequence[Runs], contiguity: Extents, step: int) -> int:
    """What still divides the first of each run where runs were cut into shorter ones."""
    for each in runs:
        for before, after in zip(each.contiguity, contiguity, strict=True):
            if before > after:
                divisibility = math.gcd(divisibility, after * step)
    return divisibility


def _both(left: Runs, right: Runs, step: int) -> Runs:
    """What holds of either."""
    contiguity = tuple(map(math.gcd, left.contiguity, right.contiguity))
    constancy = tuple(map(math.gcd, left.constancy, right.constancy))
    divisibility = math.gcd(left.divisibility, right.divisibility)
    return Runs(contiguity, constancy, _divisor(divisibility, (left, right), contiguity, step))


def _constant(operation: Operation, _: Known) -> Runs:
    value = operation.attributes["value"]
    return Runs((), (), _power(value) if isinstance(value, int) else 1)


def _range(operation: Operation, _: Known) -> Runs:
    return Runs(operation.result.type.shape, (1,), _power(operation.attributes["start"]))


def _splat(operation: Operation, found: Known) -> Runs:
    shape = operation.result.type.shape
    return Runs((1,) * len(shape), shape, _get(found, operation.operands[0]).divisibility)


def _expand(operation: Operation, found: Known) -> Runs:
    runs, axis = _get(found, operation.operands[0]), operation.attributes["axis"]
    contiguity, constancy = ((*extents[:axis], 1, *extents[axis:]) for extents in (runs.contiguity, runs.constancy))
    return Runs(contiguity, constancy, runs.divisibility)


def _broadcast(operation: Operation, found: Known) -> Runs:
    (source,) = operation.operands
    runs, shape = _get(found, source), operation.result.type.shape
    constancy = tuple(
        wide if narrow != wide else known
        for narrow, wide, known in zip(source.type.shape, shape, runs.constancy, strict=True)
    )
    return Runs(runs.contiguity, constancy, runs.divisibility)


def _sum(left: Runs, right: Runs, step: int = 1, *, subtracting: bool = False) -> Runs:
    mixed = zip(left.contiguity, left.constancy, right.contiguity, right.constancy, strict=True)
    contiguity = tuple(
        max(math.gcd(going, equal), 1 if subtracting else math.gcd(also_equal, also_going))
        for going, also_equal, also_going, equal in mixed
    )
    constancy = tuple(map(math.gcd, left.constancy, right.constancy))
    divisibility = math.gcd(left.divisibility, right.divisibility)
    return Runs(contiguity, constancy, _divisor(divisibility, (left, right), contiguity, step))


def _add(operation: Operation, found: Known) -> Runs:
    left, right = (_get(found, operand) for operand in operation.operands)
    return _sum(left, right, subtracting=operation.opcode == "sub")


def _multiply(operation: Operation, found: Known) -> Runs:
    for factor, other in (operation.operands, operation.operands[::-1]):
        if _literal(factor) == 1:
            return _get(found, other)
    left, right = (_get(found, operand) for operand in operation.operands)
    return _equal(left, right, min(_every(left) * _every(right), ANY))


def _literal(value: Value) -> object:
    operation = value.operation
    while operation is not None and operation.opcode in ("splat", "broadcast", "expand_dims", "cast"):
        operation = operation.operands[0].operation
    return operation.attributes["value"] if operation is not None and operation.opcode == "constant" else None


def _equal(left: Runs, right: Runs, divisibility: int) -> Runs:
    """Elements that go up by ones no more, but are equal where those of both are."""
    constancy = tuple(map(math.gcd, left.constancy, right.constancy))
    return Runs((1,) * len(constancy), constancy, divisibility)


def _every(runs: Runs) -> int:
    """What divides every element, not only the first of each run."""
    return 1 if any(length > 1 for length in runs.contiguity) else runs.divisibility


def _either(operation: Operation, found: Known) -> Runs:
    """The smaller, the larger or the chosen one of two."""
    first, *others = (_get(found, operand) for operand in operation.operands)
    constancy = first
    for other in others:
        constancy = _equal(constancy, other, 1)
    divisors = (_every(runs) for runs in (first, *others)[-2:])
    return replace(constancy, contiguity=(1,) * len(first.contiguity), divisibility=math.gcd(*divisors))


def _and(operation: Operation, found: Known) -> Runs:
    left, right = (_get(found, operand) for operand in operation.operands)
    return _equal(left, right, max(_every(left), _every(right)))


def _remainder(operation: Operation, found: Known) -> Runs:
    """Of indices, runs as long as divide both sides.

    Below zero a run could start with zero and go on with negative numbers; for signed indices the simulator looks.
    """
    left, right = (_get(found, operand) for operand in operation.operands)
    equal = _equal(left, right, math.gcd(_every(left), _every(right)))
    element = element_of(operation.result.type)
    if isinstance(element, pointer_type) or (element.is_int_signed() and not operation.attributes.get("index")):
        return equal
    shared = math.gcd(left.divisibility, _every(right))
    contiguity = tuple(
        math.gcd(going, along, shared) for going, along in zip(left.contiguity, right.constancy, strict=True)
    )
    if all(length == 1 for length in contiguity):
        return equal
    return Runs(contiguity, equal.constancy, _divisor(shared, (left,), contiguity, 1))


def _cast(operation: Operation, found: Known) -> Runs | None:
    """A run that starts at a multiple of its length does not wrap around either, so it outlasts a wider type."""
    (source,) = operation.operands
    before, after = element_of(source.type), element_of(operation.result.type)
    runs = _get(found, source)
    if isinstance(before, pointer_type) and isinstance(after, pointer_type):
        return runs if before.element_ty.itemsize == after.element_ty.itemsize else _apart(runs, step_of(source))
    if not _is_followed(source) or isinstance(before, pointer_type) or isinstance(after, pointer_type):
        return None
    if after.is_bool():
        return None
    if after.primitive_bitwidth < before.primitive_bitwidth:
        return _apart(runs, 1)
    contiguity = tuple(math.gcd(length, runs.divisibility) for length in runs.contiguity)
    return Runs(contiguity, runs.constancy, _divisor(runs.divisibility, (runs,), contiguity, 1))


def _apart(runs: Runs, step: int) -> Runs:
    """The same without runs of elements that go up by ones."""
    ones = (1,) * len(runs.contiguity)
    return Runs(ones, runs.constancy, _divisor(runs.divisibility, (runs,), ones, step))


def _shift(operation: Operation, found: Known) -> Runs | None:
    amount = _literal(operation.operands[1])
    if type(amount) is not int or not 0 <= amount < ANY.bit_length():
        return None
    runs = _get(found, operation.operands[0])
    return replace(_apart(runs, 1), divisibility=min(_every(runs) << amount, ANY))


def _pointer_add(operation: Operation, found: Known) -> Runs:
    pointer, offset = (_get(found, operand) for operand in operation.operands)
    step = step_of(operation.operands[0])
    return _sum(pointer, replace(offset, divisibility=min(offset.divisibility * step, ANY)), step)


def _same(operation: Operation, found: Known) -> Runs:
    return _get(found, operation.operands[0])


def _hint(operation: Operation, found: Known) -> Runs:
    runs = _get(found, operation.operands[0])
    attributes, rank = operation.attributes, len(runs.contiguity)
    contiguity, constancy = (
        tuple(map(max, known, attributes.get(name) or (1,) * rank))
        for name, known in (("contiguity", runs.contiguity), ("constancy", runs.constancy))
    )
    divisor = _power(min(attributes.get("divisibility") or (1,)))
    return Runs(contiguity, constancy, max(runs.divisibility, divisor))


RULES: dict[str, Callable[[Operation, Known], Runs | None]] = {
    "add": _add,
    "and": _and,
    "bitcast": _cast,
    "broadcast": _broadcast,
    "cast": _cast,
    "constant": _constant,
    "convert_layout": _same,
    "expand_dims": _expand,
    "hint": _hint,
    "maximum": _either,
    "minimum": _either,
    "make_range": _range,
    "mul": _multiply,
    "pointer_add": _pointer_add,
    "rem": _remainder,
    "select": _either,
    "set_auto_layout": _same,
    "shl": _shift,
    "splat": _splat,
    "sub": _add,
}

CONTROL: dict[str, Callable[[Operation, Known], None]] = {
    "for": _follow_for,
    "if": _follow_if,
    "while": _follow_while,
}

SHARING = frozenset({*CONTROL, "rem"})
"""Operations that let registers of a run share one, where lowering knows the runs of their results."""
