"""Elementwise tile operations as instructions, one per register that differs."""

from __future__ import annotations

from collections.abc import Callable

from glueball.lower.context import Context, lowers
from glueball.lower.floats import float_to_float, narrowed, narrowed_exactly, sign_changed, widened
from glueball.lower.runs import Leaders
from glueball.lower.terms import (
    Term,
    add_terms,
    compare_terms,
    conjunction,
    element_type,
    extend_offset,
    materialize,
    multiply_terms,
    register_type,
    subtract_terms,
)
from glueball.thread import arithmetic, conversion, mathematics
from glueball.thread.builder import Builder
from glueball.thread.ir import BITS, Record, Value
from glueball.tile.ir import Operation
from glueball.tile.types import dtype, element_of

INTEGER_RECORDS: dict[str, tuple[Record, Record]] = {
    "div": (arithmetic.DIV_SIGNED, arithmetic.DIV_UNSIGNED),
    "minimum": (arithmetic.MIN_SIGNED, arithmetic.MIN_UNSIGNED),
    "maximum": (arithmetic.MAX_SIGNED, arithmetic.MAX_UNSIGNED),
    "or": (arithmetic.OR, arithmetic.OR),
    "and": (arithmetic.AND, arithmetic.AND),
    "xor": (arithmetic.XOR, arithmetic.XOR),
    "shl": (arithmetic.SHL, arithmetic.SHL),
    "shr": (arithmetic.SHR_SIGNED, arithmetic.SHR_UNSIGNED),
}

FLOAT_RECORDS: dict[str, Record] = {
    "add": arithmetic.FADD,
    "sub": arithmetic.FSUB,
    "mul": arithmetic.FMUL,
    "div": arithmetic.FDIV,
    "rem": mathematics.REM_FLOAT,
    "minimum": arithmetic.MIN_FLOAT,
    "maximum": arithmetic.MAX_FLOAT,
}

SHAREABLE = {"add": add_terms, "mul": multiply_terms}


def _zip(context: Context, operation: Operation, rule: Callable[..., Term]) -> None:
    columns = [context.terms(operand) for operand in operation.operands]
    context.bind(operation.result, tuple(rule(*row) for row in zip(*columns, strict=True)))


@lowers("add", "sub", "mul", "div", "and", "or", "xor", "shl", "shr", "minimum", "maximum")
def binary(context: Context, operation: Operation) -> None:
    """Arithmetic on two tiles of the same type."""
    element = element_type(operation.result.type)
    if element.is_floating():
        _zip(context, operation, _float_rule(context.builder, operation.opcode, element))
    elif element.is_bool():
        _zip(context, operation, _boolean_rule(context.builder, operation.opcode))
    else:
        _zip(context, operation, _integer_rule(context.builder, operation, element))


@lowers("rem")
def remainder(context: Context, operation: Operation) -> None:
    """Of integers only the remainders of those registers that the others follow from are computed."""
    element = element_type(operation.result.type)
    if element.is_floating() or element.is_bool():
        binary(context, operation)
        return
    leaders = Leaders.of(context, operation.result)
    record = arithmetic.REM_SIGNED if element.signed else arithmetic.REM_UNSIGNED
    if element.signed and len(leaders.registers) < len(leaders.places):
        record = arithmetic.REM_OF_RUN
    columns = [leaders.chosen(context, context.terms(operand)) for operand in operation.operands]
    found = [context.builder.binary(record, *row) for row in zip(*columns, strict=True)]
    context.bind(operation.result, leaders.all(context, found))


def _boolean_rule(builder: Builder, opcode: str) -> Callable[[Term, Term], Term]:
    """Arithmetic of integers of one bit, which is logic."""
    if opcode in ("and", "mul", "minimum"):
        return conjunction
    inverts = opcode in ("div", "rem", "shl", "shr")
    connect = {"or": builder.logical_or, "maximum": builder.logical_or, "div": builder.logical_or}
    connect |= dict.fromkeys(("xor", "add", "sub"), builder.logical_xor)
    connect |= dict.fromkeys(("rem", "shl", "shr"), builder.logical_and)

    def rule(left: Term, right: Term) -> Term:
        first, second = materialize(builder, left), materialize(builder, right)
        if inverts:
            second = builder.logical_xor(second, builder.constant("i1", True))
        return Term(connect[opcode](first, second))

    return rule


def _integer_rule(builder: Builder, operation: Operation, element: dtype) -> Callable[[Term, Term], Term]:
    opcode = operation.opcode
    if opcode in SHAREABLE:
        no_wrap = bool(operation.attributes.get("index"))
        return lambda left, right: SHAREABLE[opcode](builder, left, right, no_wrap=no_wrap)
    if opcode == "sub":
        return lambda left, right: subtract_terms(builder, left, right)
    record = INTEGER_RECORDS[opcode][0 if element.signed else 1]

    def rule(left: Term, right: Term) -> Term:
        if opcode == "shl" and right.base.constant is not None and 0 <= right.offset < element.primitive_bitwidth:
            factor = Term(builder.constant(left.base.type, 0), 1 << right.offset)
            return multiply_terms(builder, left, factor, no_wrap=False)
        operands = (materialize(builder, left), materialize(builder, right))
        if opcode in ("shl", "shr"):
            return Term(_shift(builder, record, *operands))
        return Term(builder.binary(record, *operands))

    return rule


def _shift(builder: Builder, record: Record, value: Value, amount: Value) -> Value:
    """A shift; by the width or more it gives what shifting one bit at a time would."""
    if amount.constant is not None and 0 <= amount.constant < BITS[value.type]:
        return builder.binary(record, value, amount)
    last = builder.constant(amount.type, BITS[value.type] - 1)
    clamped = builder.binary(arithmetic.MIN_UNSIGNED, amount, last)
    shifted = builder.binary(record, value, clamped)
    if record is arithmetic.SHR_SIGNED:
        return shifted
    inside = builder.compare(arithmetic.COMPARE_UNSIGNED, "le", amount, last)
    return builder.select(inside, shifted, builder.constant(value.type, 0))


def _float_rule(builder: Builder, opcode: str, element: dtype) -> Callable[[Term, Term], Term]:
    record = FLOAT_RECORDS[opcode]
    back = narrowed_exactly if opcode in ("minimum", "maximum") else narrowed

    def rule(left: Term, right: Term) -> Term:
        wide = [widened(builder, term.base, element) for term in (left, right)]
        return Term(back(builder, builder.binary(record, *wide), element))

    return rule


@lowers("negate")
def negate(context: Context, operation: Operation) -> None:
    """Minus, elementwise."""
    builder, element = context.builder, element_type(operation.result.type)
    if element.is_fp8():
        _zip(context, operation, lambda term: Term(sign_changed(builder, term.base, element, "xor")))
    elif element.is_floating():
        _zip(
            context,
            operation,
            lambda term: Term(
                narrowed(builder, builder.emit(arithmetic.FNEG, (widened(builder, term.base, element),))[0], element)
            ),
        )
    elif element.is_bool():
        context.bind(operation.result, context.terms(operation.operands[0]))
    else:
        zero = Term(builder.constant(register_type(element), 0))
        _zip(context, operation, lambda term: subtract_terms(builder, zero, term))


@lowers("compare")
def compare(context: Context, operation: Operation) -> None:
    """A comparison gives a mask."""
    builder, predicate = context.builder, operation.attributes["predicate"]
    element = element_of(operation.operands[0].type)
    if isinstance(element, dtype) and element.is_floating():
        kind = element

        def rule(left: Term, right: Term) -> Term:
            sides = (widened(builder, left.base, kind), widened(builder, right.base, kind))
            return Term(builder.compare(arithmetic.COMPARE_FLOAT, predicate, *sides))
    else:
        signed = isinstance(element, dtype) and element.signed

        def rule(left: Term, right: Term) -> Term:
            return Term(compare_terms(builder, predicate, left, right, signed=signed))

    _zip(context, operation, rule)


@lowers("select")
def select(context: Context, operation: Operation) -> None:
    """One of two values, by a mask."""
    builder = context.builder

    def rule(condition: Term, left: Term, right: Term) -> Term:
        sides = (materialize(builder, left), materialize(builder, right))
        return Term(builder.select(materialize(builder, condition), *sides))

    _zip(context, operation, rule)


@lowers("bitcast")
def bitcast(context: Context, operation: Operation) -> None:
    """The same bits as another type."""
    builder, kind = context.builder, register_type(element_of(operation.result.type))
    _zip(
        context,
        operation,
        lambda term: Term(builder.convert(conversion.BITCAST, materialize(builder, term), kind)),
    )


@lowers("cast")
def cast(context: Context, operation: Operation) -> None:
    """A conversion between numeric types, or between pointers and 64-bit integers."""
    source, target = element_of(operation.operands[0].type), element_of(operation.result.type)
    builder = context.builder
    if not isinstance(source, dtype) or not isinstance(target, dtype):
        _zip(context, operation, lambda term: term)
    elif source.is_int() and target.is_int():
        index = bool(operation.attributes.get("index"))
        _zip(context, operation, lambda term: _integer_cast(builder, term, source, target, index=index))
    elif source.is_int() or target.is_int():
        _zip(
            context,
            operation,
            lambda term: Term(_to_and_from_integer(builder, materialize(builder, term), source, target)),
        )
    else:
        rounding = operation.attributes.get("rounding", "nearest")
        values = float_to_float(context, context.terms(operation.operands[0]), source, target, rounding)
        context.bind(operation.result, tuple(map(Term, values)))


def _integer_cast(builder: Builder, term: Term, source: dtype, target: dtype, *, index: bool) -> Term:
    if target.primitive_bitwidth == source.primitive_bitwidth:
        return term
    if target.primitive_bitwidth == 64 and not source.is_bool():
        return extend_offset(builder, term, source, index=index)
    widen = conversion.SIGN_EXTEND if source.signed else conversion.ZERO_EXTEND
    record = widen if target.primitive_bitwidth > source.primitive_bitwidth else conversion.TRUNCATE
    return Term(builder.convert(record, materialize(builder, term), register_type(target)))


def _to_and_from_integer(builder: Builder, value: Value, source: dtype, target: dtype) -> Value:
    kind = register_type(target)
    if source.is_int():
        record = conversion.SIGNED_TO_FLOAT if source.signed else conversion.UNSIGNED_TO_FLOAT
    else:
        record = conversion.FLOAT_TO_SIGNED if target.signed else conversion.FLOAT_TO_UNSIGNED
    return builder.convert(record, value, kind)
