"""Regions of scalars laid out inline, on the registers of a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glueball.lower.context import Context
from glueball.lower.expanded import WORD, as_words, from_words, shuffled
from glueball.lower.terms import Term, materialize
from glueball.thread import synchronization
from glueball.thread.builder import Builder
from glueball.thread.ir import BITS, Attributes, Value
from glueball.tile.ir import Region

Registers = list[Value]
Combine = Callable[[Sequence[Value], Sequence[Value]], Registers]


def inlined(context: Context, region: Region, arguments: Sequence[Value]) -> Registers:
    """What a region gives for some registers."""
    for argument, register in zip(region.arguments, arguments, strict=True):
        context.bind(argument, (Term(register),))
    yielded = context.lower_region(context, region)
    return [materialize(context.builder, context.term(value)) for value in yielded]


def combination(context: Context, region: Region) -> Combine:
    """A region that combines two elements, as a function of registers."""
    return lambda left, right: inlined(context, region, [*left, *right])


def columns(context: Context, operands: Sequence[Sequence[Term]]) -> list[Registers]:
    """The registers of several tiles, one list for each register number."""
    rows = [[materialize(context.builder, term) for term in terms] for terms in operands]
    return [list(column) for column in zip(*rows, strict=True)]


def exchanged(builder: Builder, values: Sequence[Registers], source: Value | int) -> list[Registers]:
    """All registers fetched from another lane, narrow ones of one type together; `source` as for `shuffled`."""
    result = [list(each) for each in values]
    for position in range(len(values[0])):
        column = [each[position] for each in values]
        pack = max(1, WORD // max(8, BITS[column[0].type]))
        for start in range(0, len(column), pack):
            for index, value in enumerate(shuffled(builder, column[start : start + pack], source)):
                result[start + index][position] = value
    return result


def shifted_lanes(builder: Builder, values: Registers, attributes: Attributes) -> tuple[Registers, Value]:
    """Registers fetched from the lane that stands before by as much as `shift` says, and whether there is one."""
    found: Registers = []
    present: Value | None = None
    for value in values:
        words = []
        for word in as_words(builder, [value], max(8, BITS[value.type])):
            moved, present = builder.emit(synchronization.SHIFT, (word,), attributes)
            words.append(moved)
        found += from_words(builder, words, value.type, max(8, BITS[value.type]), 1)
    assert present is not None
    return found, present


def chosen(builder: Builder, condition: Value, left: Sequence[Value], right: Sequence[Value]) -> Registers:
    """The left registers where a condition holds, else the right ones."""
    return [builder.select(condition, *pair) for pair in zip(left, right, strict=True)]
