"""The check that a debugged kernel makes of integer arithmetic."""

from __future__ import annotations

from glueball.lower.context import Context, lowers
from glueball.lower.terms import element_type, materialize_all, register_type
from glueball.thread import arithmetic, control, conversion, diagnostics
from glueball.thread.builder import Builder
from glueball.thread.ir import Value
from glueball.tile.ir import Operation
from glueball.tile.operations.overflow import overflow_message
from glueball.tile.types import dtype


@lowers("check_overflow")
def check_overflow(context: Context, operation: Operation) -> None:
    """Registers are checked together: a thread fails if one of them does."""
    builder, name = context.builder, operation.attributes["operation"]
    element = element_type(operation.operands[0].type)
    left, right = (materialize_all(builder, context.terms(operand)) for operand in operation.operands)
    failed = builder.constant("i1", False)
    for pair in zip(left, right, strict=True):
        (wrapped,) = builder.emit(diagnostics.WHERE_DEFINED, (_overflows(builder, name, pair, element),))
        failed = builder.logical_or(failed, wrapped)
    failing, passing = builder.new_region(), builder.new_region()
    with builder.inside(failing):
        builder.emit(diagnostics.FAIL, (), {"message": overflow_message(operation)})
        builder.yield_values([])
    with builder.inside(passing):
        builder.yield_values([])
    builder.structured(control.IF, (failed,), (failing, passing), [])


def _overflows(builder: Builder, name: str, pair: tuple[Value, Value], element: dtype) -> Value:
    """Whether the result in twice the width is another number than what is left of it in the type's own."""
    wide, extend = "i64", conversion.SIGN_EXTEND if element.signed else conversion.ZERO_EXTEND
    left, right = (builder.convert(extend, value, wide) for value in pair)
    exact = {"add": builder.add, "sub": builder.sub, "mul": builder.mul}[name](left, right)
    kept = builder.convert(conversion.TRUNCATE, exact, register_type(element))
    return builder.compare(arithmetic.COMPARE_SIGNED, "ne", builder.convert(extend, kept, wide), exact)
