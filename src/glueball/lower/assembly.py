"""The author's own assembly on registers, narrow ones packed into words where several fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glueball.lower.context import Context, lowers
from glueball.lower.expanded import as_words, from_words
from glueball.lower.regions import columns
from glueball.lower.terms import Term, materialize_all, register_count, register_type
from glueball.thread import assembly
from glueball.thread.builder import Builder
from glueball.thread.ir import BITS, Value
from glueball.tile.ir import Operation
from glueball.tile.operations.assembly import packed_words
from glueball.tile.operations.definition import numpy_type
from glueball.tile.types import TileType, element_of


def _packed(builder: Builder, values: Sequence[Value], per_word: int) -> list[Value]:
    if per_word == 1:
        return list(values)
    return [
        as_words(builder, values[start : start + per_word], max(8, BITS[values[0].type]))[0]
        for start in range(0, len(values), per_word)
    ]


def _emit(
    context: Context, operation: Operation, operands: Sequence[Value], inputs: Any, outputs: Any, kinds: Sequence[str]
) -> tuple[Value, ...]:
    attributes = operation.attributes
    record = assembly.PURE_ASSEMBLY if attributes["is_pure"] else assembly.ASSEMBLY
    return context.builder.emit(
        record,
        operands,
        {
            "assembly": attributes["assembly"],
            "constraints": attributes["constraints"],
            "simulate": attributes["simulate"],
            "inputs": tuple(inputs),
            "outputs": tuple(outputs),
            "types": tuple(kinds),
        },
    )


def _words(value_type: TileType, pack: int) -> tuple[str, int, int]:
    """Register type of an element, elements in a word, and words of `pack` elements."""
    words = packed_words(value_type, pack)
    return register_type(element_of(value_type)), words[0].count, len(words)


def _word_type(kind: str, per_word: int) -> str:
    return kind if per_word == 1 else "i32"


@lowers("assembly_elementwise")
def assembly_elementwise(context: Context, operation: Operation) -> None:
    """One block for each group of registers."""
    builder, pack = context.builder, operation.attributes["pack"]
    held = columns(context, [context.terms(operand) for operand in operation.operands])
    shapes = [(_words(value.type, pack), numpy_type(value.type)) for value in operation.operands]
    results = [(_words(value.type, pack), numpy_type(value.type)) for value in operation.results]
    inputs = [(element, per_word) for (_, per_word, count), element in shapes for _ in range(count)]
    outputs = [(element, per_word) for (_, per_word, count), element in results for _ in range(count)]
    kinds = [_word_type(kind, per_word) for (kind, per_word, count), _ in results for _ in range(count)]
    found: list[list[Term]] = [[] for _ in operation.results]
    for start in range(0, len(held), pack):
        group = held[start : start + pack]
        words: list[Value] = []
        for position, ((_, per_word, _), _) in enumerate(shapes):
            words += _packed(builder, [register[position] for register in group], per_word)
        given = list(_emit(context, operation, words, inputs, outputs, kinds))
        for terms, ((kind, per_word, count), _) in zip(found, results, strict=True):
            for word in (given.pop(0) for _ in range(count)):
                if per_word == 1:
                    terms.append(Term(word))
                else:
                    bits = max(8, BITS[kind])
                    terms += [Term(value) for value in from_words(builder, [word], kind, bits, per_word)]
    for result, terms in zip(operation.results, found, strict=True):
        context.bind(result, tuple(terms))


@lowers("assembly")
def whole_assembly(context: Context, operation: Operation) -> None:
    """One block for a thread, with all its registers."""
    builder = context.builder
    operands, inputs = [], []
    for value in operation.operands:
        registers = materialize_all(builder, context.terms(value))
        operands += registers
        inputs += [(numpy_type(value.type), 1)] * len(registers)
    counts = [register_count(result.type) for result in operation.results]
    outputs = [
        (numpy_type(value.type), 1)
        for value, count in zip(operation.results, counts, strict=True)
        for _ in range(count)
    ]
    kinds = [
        register_type(element_of(value.type))
        for value, count in zip(operation.results, counts, strict=True)
        for _ in range(count)
    ]
    found = list(_emit(context, operation, operands, inputs, outputs, kinds))
    for result, count in zip(operation.results, counts, strict=True):
        context.bind(result, tuple(Term(found.pop(0)) for _ in range(count)))
