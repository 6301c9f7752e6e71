"""Matrix products by multiply-adds: all operands are in registers, and the steps are unrolled."""

from __future__ import annotations

from collections.abc import Sequence

from glueball.lower.context import Context, lowers
from glueball.lower.floats import float_to_float, fused
from glueball.lower.shape import register_images
from glueball.lower.terms import Term, element_type, materialize_all, register_type
from glueball.thread import conversion
from glueball.thread.ir import Value
from glueball.tile.ir import Operation
from glueball.tile.ir import Value as TileValue
from glueball.tile.types import distributed_type, dtype


@lowers("dot_fma")
def dot_fma(context: Context, operation: Operation) -> None:
    """One multiply-add for each accumulator and step; a step goes over all accumulators, whose chains are apart."""
    left, right, accumulator = operation.operands
    kind = operation.result.type
    assert isinstance(kind, distributed_type)
    element = element_type(kind)
    totals = materialize_all(context.builder, context.terms(accumulator))
    rows, columns = (_held(context, operand, element) for operand in (left, right))
    # Replicas of an element are one chain: equal instructions are shared.
    places = [kind.linear.unflatten(image) for image in register_images(kind.linear)]
    for k in range(left.type.shape[-1]):
        for register, place in enumerate(places):
            factors = (rows[*place[:-1], k], columns[*place[:-2], k, place[-1]])
            totals[register] = _multiply_add(context, element, *factors, totals[register])
    context.bind(operation.result, tuple(map(Term, totals)))


def _held(context: Context, operand: TileValue, element: dtype) -> dict[tuple[int, ...], Value]:
    """An operand's registers in the type of the accumulator, by where in the thread's part of the tile they are."""
    kind = operand.type
    assert isinstance(kind, distributed_type)
    values = _converted(context, operand, element)
    images = register_images(kind.linear)
    return {tuple(kind.linear.unflatten(image)): value for image, value in zip(images, values, strict=True)}


def _converted(context: Context, operand: TileValue, element: dtype) -> Sequence[Value]:
    source, terms = element_type(operand.type), context.terms(operand)
    if source.is_floating() and source != element:
        return float_to_float(context, terms, source, element, "nearest")
    values = materialize_all(context.builder, terms)
    if source.is_floating():
        return values
    record = conversion.SIGN_EXTEND if source.signed else conversion.ZERO_EXTEND
    return [context.builder.convert(record, value, register_type(element)) for value in values]


def _multiply_add(context: Context, element: dtype, left: Value, right: Value, total: Value) -> Value:
    if element.is_floating():
        return fused(context, element, (left, right, total))
    return context.builder.add(context.builder.mul(left, right), total)
