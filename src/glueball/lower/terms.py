"""What a tile becomes in one thread: one term per register, with the constant part of every index kept apart.

A `Term` is `base + offset`: integers count in their own width (modulo 2^bits), addresses in bytes. Registers that
differ by a constant share the base, so an index tensor costs one register and the constants end up as immediates of
the memory instructions. Everything that is no integer has offset 0. A mask keeps its conjuncts apart until an access
needs the predicate, so that the two halves of a two-dimensional mask are computed once per row and once per column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from glueball.errors import CompilationError
from glueball.thread import arithmetic, conversion
from glueball.thread.builder import Builder, power_of_two_in, wrapped
from glueball.thread.ir import BITS, Value
from glueball.tile.types import (
    ScalarType,
    TileType,
    distributed_type,
    dtype,
    element_of,
    shared_memory_descriptor_type,
    tensor_descriptor_type,
)


class Term(NamedTuple):
    """One register as `base + offset`, or as the conjunction of `base` and `also` for masks."""

    base: Value
    offset: int = 0
    also: tuple[Value, ...] = ()


Registers = tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A tile (or scalar) of one thread: its type, and a term per register in the order of the layout's registers."""

    type: TileType
    terms: Registers


def register_type(element: ScalarType) -> str:
    """The thread IR type that holds an element; narrow floats are held as their bits."""
    if not isinstance(element, dtype):
        return "i64"
    if element.is_int():
        return f"i{element.primitive_bitwidth}"
    if element.is_fp8():
        return "i8"
    return {"fp16": "f16", "bf16": "bf16", "fp32": "f32", "fp64": "f64"}[element.name]


def register_count(value_type: TileType) -> int:
    """Registers of one thread, replicas included."""
    return len(register_types(value_type))


def register_types(value_type: TileType) -> list[str]:
    """The thread IR types of the registers of one thread.

    A view of shared memory has its base and its offset, a tensor descriptor its address.
    """
    if isinstance(value_type, shared_memory_descriptor_type):
        return ["i32", "i32"]
    if isinstance(value_type, tensor_descriptor_type):
        return ["i64"]
    count = value_type.linear.size("register") if isinstance(value_type, distributed_type) else 1
    return [register_type(element_of(value_type))] * count


def materialize(builder: Builder, term: Term) -> Value:
    """The term as one register."""
    if term.also:
        value = term.base
        for conjunct in term.also:
            value = builder.logical_and(value, conjunct)
        return value
    if term.offset == 0:
        return term.base
    return builder.add(term.base, builder.constant(term.base.type, term.offset))


def materialize_all(builder: Builder, terms: Sequence[Term]) -> list[Value]:
    """One register per term."""
    return [materialize(builder, term) for term in terms]


def add_terms(builder: Builder, left: Term, right: Term, *, no_wrap: bool) -> Term:
    """Sum of two integer terms."""
    kind = left.base.type
    if no_wrap and not _fits(left.offset + right.offset, kind):
        return Term(builder.add(materialize(builder, left), materialize(builder, right), no_wrap=True))
    base = builder.add(left.base, right.base, no_wrap=no_wrap)
    return normalized(builder, base, int(wrapped(left.offset + right.offset, kind)))


def subtract_terms(builder: Builder, left: Term, right: Term) -> Term:
    """Difference of two integer terms."""
    kind = left.base.type
    return normalized(builder, builder.sub(left.base, right.base), int(wrapped(left.offset - right.offset, kind)))


def multiply_terms(builder: Builder, left: Term, right: Term, *, no_wrap: bool) -> Term:
    """Product of two integer terms; a literal factor keeps the constant part apart, unless that part overflows."""
    if left.base.constant is not None:
        left, right = right, left
    if right.base.constant is not None:
        factor = int(right.base.constant) + right.offset
        if no_wrap and not _fits(left.offset * factor, left.base.type):
            whole = materialize(builder, left)
            return Term(builder.mul(whole, builder.constant(left.base.type, factor), no_wrap=True))
        base = builder.mul(left.base, builder.constant(left.base.type, factor), no_wrap=no_wrap)
        return normalized(builder, base, int(wrapped(left.offset * factor, left.base.type)))
    product = builder.mul(materialize(builder, left), materialize(builder, right), no_wrap=no_wrap)
    return Term(product)


def _fits(number: int, kind: str) -> bool:
    return int(wrapped(number, kind)) == number


def normalized(builder: Builder, base: Value, offset: int) -> Term:
    """A term whose literal base, if it is one, has been moved into the offset."""
    if base.constant is not None:
        return Term(builder.constant(base.type, 0), int(wrapped(int(base.constant) + offset, base.type)))
    return Term(base, offset)


def divisibility(term: Term) -> int:
    """A power of two that divides the term."""
    return min(term.base.divisibility, power_of_two_in(term.offset))


def extend_offset(builder: Builder, term: Term, element: dtype, *, index: bool) -> Term:
    """An integer term widened to 64 bits.

    An index that feeds an address must not wrap in its own width, so its constant part stays apart; any other value
    is widened exactly.
    """
    record = conversion.SIGN_EXTEND if element.signed else conversion.ZERO_EXTEND
    if element.primitive_bitwidth == 64:
        return term
    if index or term.offset == 0:
        return Term(builder.convert(record, term.base, "i64"), term.offset)
    return Term(builder.convert(record, materialize(builder, term), "i64"))


def compare_terms(builder: Builder, predicate: str, left: Term, right: Term, *, signed: bool) -> Value:
    """An integer comparison in the form that the most registers share.

    With g dividing the base of the left side and all of the right side, `base + c < right` equals
    `base + g * floor(c / g) < right`, also under wrap-around if g divides 2^(bits - 1). So registers that an access
    moves together get the same mask register.
    """
    record = arithmetic.COMPARE_SIGNED if signed else arithmetic.COMPARE_UNSIGNED
    if left.base.constant is not None and right.base.constant is None:
        mirrored = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(predicate, predicate)
        return compare_terms(builder, mirrored, right, left, signed=signed)
    bound = materialize(builder, right)
    offset = left.offset
    if predicate in ("lt", "ge"):
        step = min(left.base.divisibility, bound.divisibility, 1 << min(16, BITS[bound.type] - 1))
        offset -= offset % step
    return builder.compare(record, predicate, materialize(builder, Term(left.base, offset)), bound)


def conjunction(left: Term, right: Term) -> Term:
    """Both masks, conjuncts apart and without repetition; literal truth vanishes."""
    conjuncts: dict[int, Value] = {}
    for value in (left.base, *left.also, right.base, *right.also):
        if value.constant is False:
            return Term(value)
        if value.constant is not True:
            conjuncts[id(value)] = value
    if not conjuncts:
        return left
    ordered = sorted(conjuncts.values(), key=lambda value: value.number)
    return Term(ordered[0], 0, tuple(ordered[1:]))


def missing(what: str) -> CompilationError:
    """The error for something the compiler does not have yet; the caller's location is added on the way out."""
    return CompilationError(f"{what} is not there yet")


def element_type(value_type: TileType) -> dtype:
    """The element type of a tile of numbers."""
    element = element_of(value_type)
    assert isinstance(element, dtype)
    return element
