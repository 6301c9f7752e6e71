"""Conversions of floats: to and from the precision that arithmetic runs in, between all kinds, with every rounding."""

from __future__ import annotations

from collections.abc import Sequence

from glueball.lower.context import Context
from glueball.lower.terms import Term, materialize, register_type
from glueball.thread import arithmetic, conversion, float8, mathematics
from glueball.thread.builder import Builder
from glueball.thread.ir import BITS, Value
from glueball.tile.types import dtype, float32


def widened(builder: Builder, value: Value, element: dtype) -> Value:
    """A float in the precision that arithmetic runs in: narrow floats compute in float32, which rounds once."""
    if element.is_fp8():
        return builder.emit(float8.FLOAT8_EXTEND, (value,), {"format": element.name})[0]
    return builder.convert(conversion.FLOAT_EXTEND, value, "f32") if element.primitive_bitwidth == 16 else value


def narrowed(builder: Builder, value: Value, element: dtype) -> Value:
    """Back from the precision of `widened`, to nearest even."""
    if element.is_fp8():
        return builder.emit(float8.FLOAT8_ROUND, (value,), {"format": element.name, "rounding": "nearest"})[0]
    if element.primitive_bitwidth == 16:
        return builder.convert(conversion.FLOAT_TRUNCATE, value, register_type(element))
    return value


def narrowed_exactly(builder: Builder, value: Value, element: dtype) -> Value:
    """The same for a value that the narrow type has, infinity included, which `narrowed` saturates."""
    if element.name != "fp8e5":
        return narrowed(builder, value, element)
    # The upper half of a float16 is a float of this kind.
    half = builder.convert(conversion.FLOAT_TRUNCATE, value, "f16")
    bits = builder.shift_right(builder.convert(conversion.BITCAST, half, "i16"), 8)
    return builder.convert(conversion.TRUNCATE, bits, "i8")


def sign_changed(builder: Builder, value: Value, element: dtype, record_of: str) -> Value:
    """An 8-bit float negated (`xor`) or without its sign (`and`); what has no negative zero keeps zero and NaN."""
    negative = builder.constant("i8", -128)
    if record_of == "xor":
        changed = builder.logical_xor(value, negative)
    else:
        changed = builder.logical_and(value, builder.constant("i8", 127))
    if float8.FORMATS[element.name].signed_zero:
        return changed
    magnitude = builder.logical_and(value, builder.constant("i8", 127))
    kept = builder.compare(arithmetic.COMPARE_SIGNED, "eq", magnitude, builder.constant("i8", 0))
    return builder.select(kept, value, changed)


def float_to_float(context: Context, terms: Sequence[Term], source: dtype, target: dtype, rounding: str) -> list[Value]:
    """Every register of one float type as another, rounded once."""
    builder = context.builder
    values = [materialize(builder, term) for term in terms]
    pairs = context.target.supports("float8_pairs") and len(values) > 1
    if pairs and source.name in float8.PAIRED:
        return [_from_half(builder, half, target) for half in _pairs(builder, values, source, extend=True)]
    wide = [_shared_precision(builder, value, source, target) for value in values]
    if pairs and target.name in float8.PAIRED and rounding == "nearest":
        return _pairs(builder, wide, target, extend=False)
    rounded = source.primitive_bitwidth > target.primitive_bitwidth
    return [_narrow(builder, value, target, rounding if rounded else "nearest") for value in wide]


def _pairs(builder: Builder, values: Sequence[Value], element: dtype, *, extend: bool) -> list[Value]:
    """Converts two registers at a time; equal ones once."""
    record = float8.FLOAT8_EXTEND_PAIR if extend else float8.FLOAT8_ROUND_PAIR
    distinct = list({id(value): value for value in values}.values())
    converted: dict[int, Value] = {}
    for start in range(0, len(distinct), 2):
        pair = (distinct[start], distinct[min(start + 1, len(distinct) - 1)])
        results = builder.emit(record, pair, {"format": element.name})
        converted.update(zip(map(id, pair), results, strict=True))
    return [converted[id(value)] for value in values]


def _from_half(builder: Builder, half: Value, target: dtype) -> Value:
    if target.is_fp16():
        return half
    if target.is_fp64():
        return builder.convert(conversion.FLOAT_EXTEND, half, "f64")
    return _narrow(builder, builder.convert(conversion.FLOAT_EXTEND, half, "f32"), target, "nearest")


def _shared_precision(builder: Builder, value: Value, source: dtype, target: dtype) -> Value:
    """A register in float32 or float64 from which one rounding gives the target."""
    if not source.is_fp64():
        return widened(builder, value, source)
    return odd_float32(builder, value) if target.is_fp8() else value


def odd_float32(builder: Builder, value: Value) -> Value:
    """A float64 as a float32 that is odd where it is inexact, so that rounding it again rounds as if once."""
    truncated = _toward_zero(builder, value, float32)
    back = builder.convert(conversion.FLOAT_EXTEND, truncated, "f64")
    inexact = builder.compare(arithmetic.COMPARE_FLOAT, "ne", back, value)
    ordered = builder.compare(arithmetic.COMPARE_FLOAT, "eq", value, value)
    sticky = builder.convert(conversion.ZERO_EXTEND, builder.logical_and(inexact, ordered), "i32")
    bits = builder.logical_or(builder.convert(conversion.BITCAST, truncated, "i32"), sticky)
    return builder.convert(conversion.BITCAST, bits, "f32")


def _narrow(builder: Builder, value: Value, target: dtype, rounding: str) -> Value:
    """A float32 or float64 as another float."""
    if target.is_fp8():
        return builder.emit(float8.FLOAT8_ROUND, (value,), {"format": target.name, "rounding": rounding})[0]
    kind = register_type(target)
    if BITS[kind] > BITS[value.type]:
        return builder.convert(conversion.FLOAT_EXTEND, value, kind)
    if rounding == "zero" and kind != value.type:
        return _toward_zero(builder, value, target)
    return builder.convert(conversion.FLOAT_TRUNCATE, value, kind)


def _toward_zero(builder: Builder, value: Value, target: dtype) -> Value:
    """One step down in magnitude where rounding to nearest went up: one less in the bits."""
    kind, wide = register_type(target), value.type
    nearest = builder.convert(conversion.FLOAT_TRUNCATE, value, kind)
    back = builder.convert(conversion.FLOAT_EXTEND, nearest, wide)
    up = builder.compare(arithmetic.COMPARE_FLOAT, "gt", *(magnitude(builder, each) for each in (back, value)))
    word = f"i{BITS[kind]}"
    bits = builder.convert(conversion.BITCAST, nearest, word)
    less = builder.sub(bits, builder.convert(conversion.ZERO_EXTEND, up, word))
    return builder.convert(conversion.BITCAST, less, kind)


def magnitude(builder: Builder, value: Value) -> Value:
    """A float without its sign bit."""
    word = f"i{BITS[value.type]}"
    bits = builder.convert(conversion.BITCAST, value, word)
    kept = builder.logical_and(bits, builder.constant(word, (1 << (BITS[word] - 1)) - 1))
    return builder.convert(conversion.BITCAST, kept, value.type)


def fused(context: Context, element: dtype, operands: Sequence[Value]) -> Value:
    """`x * y + z` rounded once."""
    builder = context.builder
    if not element.is_fp8() and (not element.is_bf16() or context.target.supports("bfloat16_fma")):
        return builder.emit(mathematics.FMA, operands)[0]
    wide = [builder.convert(conversion.FLOAT_EXTEND, widened(builder, each, element), "f64") for each in operands]
    product = builder.emit(arithmetic.FMUL, wide[:2])[0]
    return narrowed(builder, odd_float32(builder, odd_sum(builder, product, wide[2])), element)


def odd_sum(builder: Builder, x: Value, y: Value) -> Value:
    """The sum of two float64, made odd where it is inexact."""
    total = builder.emit(arithmetic.FADD, (x, y))[0]
    of_y = builder.emit(arithmetic.FSUB, (total, x))[0]
    of_x = builder.emit(arithmetic.FSUB, (total, of_y))[0]
    lost_x = builder.emit(arithmetic.FSUB, (x, of_x))[0]
    lost_y = builder.emit(arithmetic.FSUB, (y, of_y))[0]
    lost = builder.emit(arithmetic.FADD, (lost_x, lost_y))[0]
    zero, one = builder.constant("f64", 0.0), builder.constant("i64", 1)
    bits = builder.convert(conversion.BITCAST, total, "i64")
    # What was lost is NaN where the sum is not finite, so neither holds there.
    above, below = (builder.compare(arithmetic.COMPARE_FLOAT, name, lost, zero) for name in ("gt", "lt"))
    positive = builder.compare(arithmetic.COMPARE_FLOAT, "gt", total, zero)
    even = builder.compare(arithmetic.COMPARE_SIGNED, "eq", builder.logical_and(bits, one), builder.constant("i64", 0))
    inexact = builder.logical_and(builder.logical_or(above, below), even)
    step = builder.select(builder.logical_xor(above, positive), builder.constant("i64", -1), one)
    moved = builder.select(inexact, builder.add(bits, step), bits)
    return builder.convert(conversion.BITCAST, moved, "f64")
