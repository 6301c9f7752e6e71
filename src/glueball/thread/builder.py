"""Builds thread IR: folds constants, shares equal pure instructions, and keeps what divides each register."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from glueball.location import UNKNOWN_LOCATION
from glueball.thread import arithmetic, control, conversion, special
from glueball.thread.ir import BITS, Attributes, Instruction, Record, Region, Value

GREATEST_DIVISIBILITY = 1 << 62

MOST_HOISTED = 64
"""Instructions moved out of one loop at the most: their results stay in registers while it runs."""

_NO_ATTRIBUTES: Attributes = {}
_CHOOSING = frozenset({"min_signed", "max_signed", "min_unsigned", "max_unsigned"})
"""Operations that give one of their operands."""


def power_of_two_in(number: int) -> int:
    """The greatest power of two that divides a number; for 0 the greatest we speak of."""
    return number & -number if number else GREATEST_DIVISIBILITY


def wrapped(number: int, kind: str) -> int | bool:
    """A Python integer as the signed value that a register of that type holds."""
    bits = BITS[kind]
    if bits == 1:
        return bool(number & 1)
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


@dataclass(slots=True)
class _Frame:
    """An open region. Pure instructions move out of it down to level `floor`, at most `hoistable` of them.

    In a `sealed` one registers of the regions around it are out of reach.
    """

    region: Region
    floor: int
    hoistable: int
    sealed: bool = False
    known: dict[Any, tuple[Value, ...]] = field(default_factory=dict)


class Builder:
    """Appends instructions to the innermost open region.

    Pure instructions are shared: an equal one in this region or an enclosing one is used again. In a loop they go to
    the outermost region that has their operands, so that nothing is computed again in every round.
    """

    def __init__(self, region: Region) -> None:
        self.location = UNKNOWN_LOCATION
        self._frames = [_Frame(region, 0, 0)]
        self._constants: dict[tuple[str, Any], Value] = {}
        self._count = 0

    def new_value(self, kind: str, divisibility: int = 1) -> Value:
        """A register of the current region that nobody has written yet, such as a kernel parameter."""
        return self._value(kind, divisibility, len(self._frames) - 1)

    def new_region(self, kinds: Sequence[str] = ()) -> Region:
        """A region to be nested in the current one, with arguments of the given types."""
        return Region([self._value(kind, 1, len(self._frames)) for kind in kinds])

    def _value(self, kind: str, divisibility: int, level: int) -> Value:
        self._count += 1
        return Value(kind, self._count, divisibility, level=level)

    def constant(self, kind: str, number: Any) -> Value:
        """A literal; integers wrap to the type."""
        if kind[0] == "i":
            number = wrapped(int(number), kind)
            key: Any = number
        else:
            number = float(number)
            key = "nan" if math.isnan(number) else (number, math.copysign(1.0, number))
        value = self._constants.get((kind, key))
        if value is None:
            divisibility = power_of_two_in(number) if kind[0] == "i" else 1
            value = self._constants[kind, key] = Value(kind, 0, divisibility, number)
        return value

    def emit(
        self,
        record: Record,
        operands: Sequence[Value] = (),
        attributes: Attributes = _NO_ATTRIBUTES,
        regions: Sequence[Region] = (),
        divisibility: int = 1,
    ) -> tuple[Value, ...]:
        """One instruction; a pure one that is already there gives the earlier results."""
        level, key = len(self._frames) - 1, None
        if record.pure:
            key = (record.name, *map(id, operands), *(sorted(attributes.items()) if attributes else ()))
            for frame in reversed(self._frames):
                if (found := frame.known.get(key)) is not None:
                    return found
                if frame.sealed:
                    break
            level = self._outermost(operands)
        kinds = record.result_types([operand.type for operand in operands], attributes)
        results = tuple(self._value(kind, divisibility, level) for kind in kinds)
        frame = self._frames[level]
        frame.region.instructions.append(Instruction(record, operands, results, attributes, self.location, regions))
        if key is not None:
            frame.known[key] = results
        return results

    def _outermost(self, operands: Sequence[Value]) -> int:
        """The level at which a pure instruction of these operands goes."""
        current = len(self._frames) - 1
        level = max([self._frames[current].floor, *[operand.level for operand in operands]])
        for outer in range(current, level, -1):
            if self._frames[outer].hoistable == 0:
                return outer
        for outer in range(current, level, -1):
            self._frames[outer].hoistable -= 1
        return level

    @property
    def depth(self) -> int:
        """How many nested regions are open."""
        return len(self._frames) - 1

    @contextmanager
    def inside(self, region: Region, *, loop: bool = False, sealed: bool = False) -> Iterator[None]:
        """Appends to a nested region for the time being; out of a loop, invariant instructions are moved.

        A `sealed` region is for other threads, which have the registers of the regions around it only as arguments.
        """
        floor = self._frames[-1].floor if loop else len(self._frames)
        self._frames.append(_Frame(region, floor, MOST_HOISTED, sealed))
        try:
            yield
        finally:
            self._frames.pop()

    def binary(self, record: Record, left: Value, right: Value) -> Value:
        """A two-operand instruction, folded where both are literals."""
        if left.constant is not None and right.constant is not None and left.type[0] == "i":
            return self.constant(record.result_types([left.type], _NO_ATTRIBUTES)[0], _fold(record, left, right))
        divisibility = min(left.divisibility, right.divisibility) if record.name in _CHOOSING else 1
        return self.emit(record, (left, right), divisibility=divisibility)[0]

    def add(self, left: Value, right: Value, *, no_wrap: bool = False) -> Value:
        """Integer sum; `no_wrap` for index arithmetic whose overflow is the author's error."""
        if left.constant is not None:
            left, right = right, left
        if special.is_zero(right):
            return left
        if left.constant is not None:
            return self.constant(left.type, left.constant + right.constant)
        record = arithmetic.ADD_NO_WRAP if no_wrap else arithmetic.ADD
        divisibility = min(left.divisibility, right.divisibility)
        return self.emit(record, _ordered(left, right), divisibility=divisibility)[0]

    def sub(self, left: Value, right: Value) -> Value:
        """Integer difference."""
        if right.constant is not None:
            return self.add(left, self.constant(right.type, -int(right.constant)))
        if left is right:
            return self.constant(left.type, 0)
        divisibility = min(left.divisibility, right.divisibility)
        return self.emit(arithmetic.SUB, (left, right), divisibility=divisibility)[0]

    def mul(self, left: Value, right: Value, *, no_wrap: bool = False) -> Value:
        """Integer product."""
        if left.constant is not None:
            left, right = right, left
        if left.constant is not None:
            return self.constant(left.type, left.constant * right.constant)
        if special.is_zero(right):
            return right
        if right.constant == 1:
            return left
        record = arithmetic.MUL_NO_WRAP if no_wrap else arithmetic.MUL
        divisibility = min(left.divisibility * right.divisibility, GREATEST_DIVISIBILITY)
        return self.emit(record, _ordered(left, right), divisibility=divisibility)[0]

    def logical_and(self, left: Value, right: Value) -> Value:
        """Bitwise and; a literal all-ones or zero folds."""
        if left.constant is not None:
            left, right = right, left
        if left is right:
            return left
        if right.constant is not None:
            if special.is_zero(right):
                return right
            if right.constant is True or right.constant == -1:
                return left
        if left.constant is not None and right.constant is not None:
            return self.constant(left.type, left.constant & right.constant)
        divisibility = max(left.divisibility, right.divisibility)
        return self.emit(arithmetic.AND, _ordered(left, right), divisibility=divisibility)[0]

    def logical_or(self, left: Value, right: Value) -> Value:
        """Bitwise or."""
        if special.is_zero(right):
            return left
        if special.is_zero(left):
            return right
        divisibility = min(left.divisibility, right.divisibility)
        return self.emit(arithmetic.OR, _ordered(left, right), divisibility=divisibility)[0]

    def logical_xor(self, left: Value, right: Value) -> Value:
        """Bitwise exclusive or."""
        if special.is_zero(right):
            return left
        if special.is_zero(left):
            return right
        if left.constant is not None and right.constant is not None:
            return self.constant(left.type, left.constant ^ right.constant)
        divisibility = min(left.divisibility, right.divisibility)
        return self.emit(arithmetic.XOR, _ordered(left, right), divisibility=divisibility)[0]

    def shift_left(self, value: Value, amount: int) -> Value:
        """A shift by a literal."""
        if amount == 0 or special.is_zero(value):
            return value
        if value.constant is not None:
            return self.constant(value.type, value.constant << amount)
        divisibility = min(value.divisibility << amount, GREATEST_DIVISIBILITY)
        return self.emit(arithmetic.SHL, (value, self.constant(value.type, amount)), divisibility=divisibility)[0]

    def shift_right(self, value: Value, amount: int) -> Value:
        """An unsigned shift by a literal."""
        if amount == 0:
            return value
        if value.constant is not None:
            return self.constant(value.type, (value.constant % (1 << BITS[value.type])) >> amount)
        operands, divisibility = (value, self.constant(value.type, amount)), max(1, value.divisibility >> amount)
        return self.emit(arithmetic.SHR_UNSIGNED, operands, divisibility=divisibility)[0]

    def compare(self, record: Record, predicate: str, left: Value, right: Value) -> Value:
        """A comparison, folded where both are integer literals."""
        attributes = {"predicate": predicate}
        if left.constant is not None and right.constant is not None and left.type[0] == "i":
            sides = (left.constant, right.constant)
            if record is arithmetic.COMPARE_UNSIGNED:
                sides = tuple(side % (1 << BITS[left.type]) for side in sides)
            return self.constant("i1", arithmetic.PREDICATES[predicate](*sides))
        return self.emit(record, (left, right), attributes)[0]

    def select(self, condition: Value, left: Value, right: Value) -> Value:
        """`left` where the condition holds, else `right`."""
        if condition.constant is not None:
            return left if condition.constant else right
        if left is right:
            return left
        divisibility = min(left.divisibility, right.divisibility)
        return self.emit(arithmetic.SELECT, (condition, left, right), divisibility=divisibility)[0]

    def convert(self, record: Record, value: Value, kind: str) -> Value:
        """A conversion to another register type; widening and cutting of literals fold."""
        if value.type == kind:
            return value
        if value.constant is not None and record in (
            conversion.SIGN_EXTEND,
            conversion.ZERO_EXTEND,
            conversion.TRUNCATE,
        ):
            number = int(value.constant)
            if record is conversion.ZERO_EXTEND:
                number %= 1 << BITS[value.type]
            return self.constant(kind, number)
        keeps = record in (conversion.SIGN_EXTEND, conversion.ZERO_EXTEND)
        return self.emit(record, (value,), {"to": kind}, divisibility=value.divisibility if keeps else 1)[0]

    def program_id(self, axis: int) -> Value:
        """Index of this program along an axis."""
        return self.emit(special.PROGRAM_ID, (), {"axis": axis})[0]

    def yield_values(self, values: Sequence[Value]) -> None:
        """Ends a region with the values its parent takes."""
        self.emit(control.YIELD, values)

    def structured(self, record: Record, operands: Sequence[Value], regions: Sequence[Region], kinds: Sequence[str],
                   attributes: Mapping[str, Any] = _NO_ATTRIBUTES) -> tuple[Value, ...]:  # fmt: skip
        """An `if`, `for` or `while` with results of the given types."""
        return self.emit(record, operands, {**attributes, "types": tuple(kinds)}, regions)


def _ordered(left: Value, right: Value) -> tuple[Value, Value]:
    """Operands of a commutative instruction in one order, literals last, so that equal ones are found equal."""
    if right.constant is None and right.number < left.number:
        return right, left
    return left, right


def _fold(record: Record, left: Value, right: Value) -> int | bool:
    """The value of an integer instruction on literals, by the record's own meaning."""
    kind = conversion.NUMPY[left.type]
    result = record.issue(None, _NO_ATTRIBUTES, kind.type(left.constant), kind.type(right.constant))
    return int(result)
