"""Functions of numbers: one instruction each, or as `glueball.mathematics` writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glueball.lower.context import Context, lowers
from glueball.lower.floats import fused, magnitude, sign_changed
from glueball.lower.registers import Register, RegisterAlgebra
from glueball.lower.terms import Term, element_type, materialize
from glueball.mathematics import FUNCTIONS
from glueball.thread import arithmetic, conversion, mathematics
from glueball.thread.builder import Builder
from glueball.thread.ir import Record, Value
from glueball.tile.ir import Operation
from glueball.tile.types import dtype

LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453
WHOLE: dict[str, Record] = {
    "floor": mathematics.FLOOR,
    "ceil": mathematics.CEIL,
    "round_to_zero": mathematics.ROUND_TO_ZERO,
    "round_even": mathematics.ROUND_EVEN,
    "sqrt": mathematics.SQRT,
}
APPROXIMATE: dict[str, Record] = {
    "exp2": mathematics.EXP2_APPROXIMATE,
    "log2": mathematics.LOG2_APPROXIMATE,
    "sin": mathematics.SIN_APPROXIMATE,
    "cos": mathematics.COS_APPROXIMATE,
    "sqrt": mathematics.SQRT_APPROXIMATE,
    "rsqrt": mathematics.RSQRT_APPROXIMATE,
    "divide": mathematics.DIVIDE_APPROXIMATE,
}


def _map(context: Context, operation: Operation, rule: Callable[..., Value]) -> None:
    """A rule of registers, applied to each row of the operands'; equal rows are computed once by the builder."""
    columns = [[materialize(context.builder, term) for term in context.terms(each)] for each in operation.operands]
    context.bind(operation.result, tuple(Term(rule(*row)) for row in zip(*columns, strict=True)))


@lowers("fma")
def fma(context: Context, operation: Operation) -> None:
    """Multiply and add, rounded once."""
    element = element_type(operation.result.type)
    _map(context, operation, lambda *operands: fused(context, element, operands))


@lowers("umulhi")
def umulhi(context: Context, operation: Operation) -> None:
    """The upper half of a product."""
    signed = element_type(operation.result.type).signed
    record = mathematics.MUL_HIGH_SIGNED if signed else mathematics.MUL_HIGH_UNSIGNED
    _map(context, operation, lambda *operands: context.builder.binary(record, *operands))


@lowers("absolute")
def absolute(context: Context, operation: Operation) -> None:
    """The value without its sign."""
    builder, element = context.builder, element_type(operation.result.type)
    if element.is_fp8():
        _map(context, operation, lambda value: sign_changed(builder, value, element, "and"))
    elif element.is_floating():
        _map(context, operation, lambda value: magnitude(builder, value))
    else:
        _map(context, operation, lambda value: _absolute_integer(builder, value, element))


def _absolute_integer(builder: Builder, value: Value, element: dtype) -> Value:
    if not element.signed:
        return value
    zero = builder.constant(value.type, 0)
    negative = builder.compare(arithmetic.COMPARE_SIGNED, "lt", value, zero)
    return builder.select(negative, builder.sub(zero, value), value)


@lowers(*WHOLE)
def whole(context: Context, operation: Operation) -> None:
    """An exact function of one float."""
    _map(context, operation, lambda value: context.builder.emit(WHOLE[operation.opcode], (value,))[0])


@lowers("approximate")
def approximate(context: Context, operation: Operation) -> None:
    """What the hardware has; the other exponential and logarithm by a product."""
    builder, name = context.builder, operation.attributes["function"]

    def rule(*operands: Value) -> Value:
        if name == "exp":
            scaled = builder.emit(arithmetic.FMUL, (operands[0], builder.constant("f32", LOG2_E)))
            return builder.emit(APPROXIMATE["exp2"], scaled)[0]
        if name == "log":
            logarithm = builder.emit(APPROXIMATE["log2"], operands)[0]
            return builder.emit(arithmetic.FMUL, (logarithm, builder.constant("f32", LN_2)))[0]
        return builder.emit(APPROXIMATE[name], operands)[0]

    _map(context, operation, rule)


@lowers("function")
def function(context: Context, operation: Operation) -> None:
    """A function of our own in float64; float32 goes through it and is rounded once."""
    builder, element = context.builder, element_type(operation.result.type)
    compute, algebra = FUNCTIONS[operation.attributes["function"]].compute, RegisterAlgebra(builder)

    def rule(*operands: Value) -> Value:
        wide: Sequence[Value] = [builder.convert(conversion.FLOAT_EXTEND, operand, "f64") for operand in operands]
        result = compute(algebra, *(Register(builder, value) for value in wide)).value
        return builder.convert(conversion.FLOAT_TRUNCATE, result, "f32") if element.is_fp32() else result

    _map(context, operation, rule)
