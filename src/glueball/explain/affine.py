"""Integers and addresses as `explain` knows them: by what the compiler is told, and by what one launch passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

UNBOUNDED = 1 << 62
"""The divisibility of zero, and any other bound that nothing limits."""
GREATEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Number:
    """An integer, or an address in bytes.

    `constant` and `divisibility` (a power of two) are what the compiler knows; `values` is what a launch makes of it,
    one per program or one for all, `None` where that is not known.
    """

    values: Array | None
    constant: int | None = None
    divisibility: int = 1

    @property
    def is_zero(self) -> bool:
        """Whether the compiler knows it to be zero."""
        return self.constant == 0

    @property
    def value(self) -> int | None:
        """The value that all programs agree on, if they do."""
        if self.values is None or self.values.size == 0:
            return None
        first = int(self.values.flat[0])
        return first if bool((self.values == first).all()) else None

    def __add__(self, other: Number) -> Number:
        return _combine(np.add, min(self.divisibility, other.divisibility), self, other)

    def __sub__(self, other: Number) -> Number:
        return _combine(np.subtract, min(self.divisibility, other.divisibility), self, other)

    def __mul__(self, other: Number) -> Number:
        return _combine(np.multiply, min(UNBOUNDED, self.divisibility * other.divisibility), self, other)


def known(value: int) -> Number:
    """A constant; of one that 64 bits do not hold at most a divisor is known."""
    if abs(value) > GREATEST:
        return unknown(min(power_of_two_in(value), UNBOUNDED))
    return Number(np.asarray(value, np.int64), value, power_of_two_in(value))


def unknown(divisibility: int = 1) -> Number:
    """A number of which at most a divisor is known."""
    return Number(None, None, divisibility)


def power_of_two_in(value: int) -> int:
    """The largest power of two that divides an integer."""
    return value & -value if value else UNBOUNDED


def evaluate(function: Callable[..., Array], operands: tuple[Number, ...], divisibility: int = 1) -> Number:
    """A function of whole arrays, applied to what is known of the operands."""
    return _combine(function, divisibility, *operands)


def _combine(function: Callable[..., Array], divisibility: int, *operands: Number) -> Number:
    constants = [operand.constant for operand in operands]
    if None not in constants:
        return known(int(function(*(np.asarray(constant, np.int64) for constant in constants))))
    values = [operand.values for operand in operands if operand.values is not None]
    result = np.asarray(function(*values)).astype(np.int64) if len(values) == len(operands) else None
    return Number(result, None, divisibility)


ZERO = known(0)


@dataclass(frozen=True, slots=True)
class Affine:
    """A tile of integers or addresses, `base + sum(strides[d] * coordinate_d) + sum(steps[l] * iteration_l)`.

    A scalar has no strides. `steps` belong to the loops around it, by number. `argument` names the kernel argument
    that an address comes from.
    """

    base: Number
    strides: tuple[Number, ...] = ()
    steps: tuple[tuple[int, Number], ...] = ()
    argument: str | None = None

    @property
    def is_uniform(self) -> bool:
        """Whether all elements are equal, in every iteration."""
        return not self.steps and all(stride.is_zero for stride in self.strides)

    @property
    def alignment(self) -> int:
        """A power of two that divides the base in every iteration, as far as the compiler knows."""
        return min([self.base.divisibility, *(step.divisibility for _, step in self.steps)])

    def plus(self, other: Affine) -> Affine:
        """The sum; of two addresses' arguments the first one counts."""
        return self._merged(other, Number.__add__)

    def minus(self, other: Affine) -> Affine:
        """The difference."""
        return self._merged(other, Number.__sub__)

    def raised(self, distance: int) -> Affine:
        """The sum with a constant."""
        return Affine(self.base + known(distance), self.strides, self.steps, self.argument)

    def times(self, factor: Number) -> Affine:
        """The product with a number."""
        strides = tuple(stride * factor for stride in self.strides)
        steps = tuple((loop, step * factor) for loop, step in self.steps)
        return Affine(self.base * factor, strides, steps, self.argument)

    def _merged(self, other: Affine, combine: Callable[[Number, Number], Number]) -> Affine:
        steps = dict(self.steps)
        for loop, step in other.steps:
            steps[loop] = combine(steps.get(loop, ZERO), step)
        return Affine(
            combine(self.base, other.base),
            tuple(map(combine, self.strides, other.strides)),
            tuple(sorted(steps.items(), key=lambda item: item[0])),
            self.argument or other.argument,
        )


@dataclass(frozen=True, slots=True)
class Mask:
    """A tile of booleans: along dimension d it is constant in aligned runs of `runs[d]` coordinates.

    It holds where all `margins` are above zero; `None` where it is not known to be of that form.
    """

    runs: tuple[int, ...]
    margins: tuple[Affine, ...] | None = None

    def meet(self, other: Mask) -> Mask:
        """The runs of a combination of two masks."""
        return Mask(tuple(map(min, self.runs, other.runs)))

    def both(self, other: Mask) -> Mask:
        """Where both masks hold."""
        margins = None if self.margins is None or other.margins is None else (*self.margins, *other.margins)
        return Mask(self.meet(other).runs, margins)


def compare(predicate: str, left: Affine, right: Affine) -> Mask:
    """The mask of a comparison.

    `base + stride * c < bound` does not change while `c` runs through an aligned block, if the block covers as much as
    a power of two that divides both the bound and everything else on the left side.
    """
    return Mask(_runs(predicate, left, right), _margins(predicate, left, right))


def _runs(predicate: str, left: Affine, right: Affine) -> tuple[int, ...]:
    if left.is_uniform and not right.is_uniform:
        mirrored = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(predicate, predicate)
        return _runs(mirrored, right, left)
    if not right.is_uniform or predicate not in ("lt", "ge"):
        pairs = zip(left.strides, right.strides, strict=True)
        return tuple(UNBOUNDED if one.is_zero and other.is_zero else 1 for one, other in pairs)
    return tuple(_run(left, right.base, axis) for axis in range(len(left.strides)))


def _margins(predicate: str, left: Affine, right: Affine) -> tuple[Affine, ...] | None:
    match predicate:
        case "lt":
            return (right.minus(left),)
        case "gt":
            return (left.minus(right),)
        case "le":
            return (right.minus(left).raised(1),)
        case "ge":
            return (left.minus(right).raised(1),)
    return None


def _run(left: Affine, bound: Number, axis: int) -> int:
    stride = left.strides[axis].constant
    if stride == 0:
        return UNBOUNDED
    if stride is None or stride < 0 or stride & (stride - 1):
        return 1
    others = [other.divisibility for position, other in enumerate(left.strides) if position != axis]
    step: int = reduce(min, others, min(left.alignment, bound.divisibility))
    return max(1, step // stride)
