"""Floating-point arithmetic. PTX ISA, sections "Floating-Point Instructions", "Half Precision ..." and "Mixed ...".

Results that are NaN have the bits that the ISA calls canonical. Approximations are the true value, rounded once, as
those of the language are on a CPU; a GPU may differ within the bound that the ISA states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glueball import numerics
from glueball.ptx.instruction import Compute, Form, Instruction
from glueball.ptx.rounding import rounded
from glueball.ptx.types import Array

_LEAST_NORMAL = {np.dtype(np.float16): 2.0**-14, numerics.BFLOAT16: 2.0**-126, np.dtype(np.float32): 2.0**-126}
_CANONICAL_NAN = {
    np.dtype(np.float16): np.uint16(0x7FFF).view(np.float16),
    numerics.BFLOAT16: np.uint16(0x7FFF).view(numerics.BFLOAT16),
    np.dtype(np.float32): np.uint32(0x7FFFFFFF).view(np.float32),
    np.dtype(np.float64): np.float64(np.nan),
}


def flushed(form: Form, values: Array) -> Array:
    """With `.ftz`, floats with subnormal ones replaced by zeros of their sign."""
    if "ftz" not in form or values.dtype not in _LEAST_NORMAL:
        return values
    small = np.abs(values.astype(np.float32)) < np.float32(_LEAST_NORMAL[values.dtype])
    return np.where(small, np.copysign(values.dtype.type(0), values), values)


def finished(form: Form, values: Array) -> Array:
    """A result after `.ftz`, `.sat` (to [0, 1], NaN to 0), `.relu` and `.satfinite`; NaN is canonical."""
    values, zero = flushed(form, values), values.dtype.type(0)
    nan = np.isnan(values)
    if "sat" in form:
        inside = np.clip(values, zero, values.dtype.type(1))
        return np.where(nan | (values <= 0), zero, inside)
    if "relu" in form:
        values = np.where(values <= 0, zero, values)
    if "satfinite" in form:
        greatest = _greatest(values.dtype)
        values = np.clip(values, -greatest, greatest)
    return np.where(nan, _CANONICAL_NAN[values.dtype], values)


def _greatest(kind: np.dtype[Any]) -> Array:
    """The greatest finite value: one less than infinity, also in the bits."""
    infinite = np.asarray(np.inf, kind).view(f"u{kind.itemsize}")
    return np.asarray(infinite - infinite.dtype.type(1)).view(kind)


def _exact(name: str) -> Compute:
    """An operation that is rounded once."""

    def compute(form: Form, *operands: Array) -> Array:
        return finished(form, rounded(name, [flushed(form, each) for each in operands], form.rounding))

    return compute


def _reciprocal(form: Form, x: Array) -> Array:
    return np.asarray(_exact("div")(form, np.ones_like(x), x))


def _approximate(function: Callable[..., Array]) -> Compute:
    """A function of float64, rounded once."""

    def compute(form: Form, *operands: Array) -> Array:
        wide = [flushed(form, each).astype(np.float64) for each in operands]
        return finished(form, numerics.round_float(np.asarray(function(*wide)), operands[0].dtype))

    return compute


def _divide_approximate(form: Form, x: Array, y: Array) -> Array:
    """By what is greater than 2^126 the approximation divides with a reciprocal of zero."""
    beyond = np.isfinite(y) & (np.abs(y) > 2.0**126)
    divisor = np.where(beyond, np.copysign(np.float32(np.inf), y), y)
    return np.asarray(_approximate(np.divide)(form, x, divisor))


def _signs(function: Callable[[Array], Array]) -> Compute:
    return lambda form, x: flushed(form, np.asarray(function(x)))


def _choice(function: Callable[[Array, Array], Array]) -> Compute:
    """The lesser or greater of two or three: with `.NaN` any NaN is the result, else only if all are."""
    choose = numerics.choosing(function)

    def compute(form: Form, *operands: Array) -> Array:
        operands = tuple(flushed(form, each) for each in operands)
        given = tuple(map(np.abs, operands)) if "abs" in form else operands
        result = given[0]
        for other in given[1:]:
            result = choose(result, other)
        if "NaN" in form:
            some = np.logical_or.reduce(np.broadcast_arrays(*map(np.isnan, operands)))
            result = np.where(some, result.dtype.type(np.nan), result)
        if "xorsign" in form:
            negative = np.signbit(operands[0]) ^ np.signbit(operands[1])
            result = np.where(negative, -result, result)
        return finished(form, result)

    return compute


def _arithmetic(name: str, operands: str) -> tuple[Instruction, ...]:
    """Sum, difference and product."""
    compute = _exact(name)
    return (
        Instruction(f"{name}[.rnd][.ftz][.sat].f32", operands, compute),
        Instruction(f"{name}[.rnd].f64", operands, compute),
        Instruction(f"{name}[.rnd][.ftz].f32x2", operands, compute),
        Instruction(f"{name}[.rn][.ftz][.sat].f16|f16x2", operands, compute),
        Instruction(f"{name}[.rn].bf16|bf16x2", operands, compute),
    )


def _each_sign(name: str, function: Callable[[Array], Array]) -> tuple[Instruction, ...]:
    return (
        Instruction(f"{name}[.ftz].f32|f16|f16x2", "t=t", _signs(function)),
        Instruction(f"{name}.f64|bf16|bf16x2", "t=t", _signs(function)),
    )


def _each_choice(name: str, function: Callable[[Array, Array], Array]) -> tuple[Instruction, ...]:
    compute = _choice(function)
    return (
        Instruction(f"{name}[.ftz][.NaN][.xorsign_abs].f32|f16|f16x2", "t=tt", compute),
        Instruction(f"{name}[.ftz][.NaN][.abs].f32", "t=ttt", compute),
        Instruction(f"{name}[.NaN][.xorsign_abs].bf16|bf16x2", "t=tt", compute),
        Instruction(f"{name}.f64", "t=tt", compute),
    )


FLOATS = (
    *_arithmetic("add", "t=tt"),
    *_arithmetic("sub", "t=tt"),
    *_arithmetic("mul", "t=tt"),
    Instruction("fma.rnd[.ftz][.sat].f32", "t=ttt", _exact("fma")),
    Instruction("fma.rnd.f64", "t=ttt", _exact("fma")),
    Instruction("fma.rnd[.ftz].f32x2", "t=ttt", _exact("fma")),
    Instruction("fma.rn[.ftz][.sat].f16|f16x2", "t=ttt", _exact("fma")),
    Instruction("fma.rn[.ftz].relu.f16|f16x2", "t=ttt", _exact("fma")),
    Instruction("fma.rn[.relu].bf16|bf16x2", "t=ttt", _exact("fma")),
    Instruction("mad.rnd[.ftz][.sat].f32", "t=ttt", _exact("fma")),
    Instruction("mad.rnd.f64", "t=ttt", _exact("fma")),
    Instruction("div.rnd[.ftz].f32", "t=tt", _exact("div")),
    Instruction("div.rnd.f64", "t=tt", _exact("div")),
    Instruction("div.approx[.ftz].f32", "t=tt", _divide_approximate),
    Instruction("div.full[.ftz].f32", "t=tt", _approximate(np.divide)),
    Instruction("rcp.rnd[.ftz].f32", "t=t", _reciprocal),
    Instruction("rcp.rnd.f64", "t=t", _reciprocal),
    Instruction("rcp.approx[.ftz].f32", "t=t", _approximate(np.reciprocal)),
    Instruction("sqrt.rnd[.ftz].f32", "t=t", _exact("sqrt")),
    Instruction("sqrt.rnd.f64", "t=t", _exact("sqrt")),
    Instruction("sqrt.approx[.ftz].f32", "t=t", _approximate(np.sqrt)),
    Instruction("rsqrt.approx[.ftz].f32", "t=t", _approximate(lambda x: 1.0 / np.sqrt(x))),
    Instruction("ex2.approx[.ftz].f32", "t=t", _approximate(np.exp2)),
    Instruction("ex2.approx.f16|f16x2", "t=t", _approximate(np.exp2)),
    Instruction("ex2.approx.ftz.bf16|bf16x2", "t=t", _approximate(np.exp2)),
    Instruction("lg2.approx[.ftz].f32", "t=t", _approximate(np.log2)),
    Instruction("sin.approx[.ftz].f32", "t=t", _approximate(np.sin)),
    Instruction("cos.approx[.ftz].f32", "t=t", _approximate(np.cos)),
    Instruction("tanh.approx.f32|half", "t=t", _approximate(np.tanh)),
    *_each_sign("neg", np.negative),
    *_each_sign("abs", np.abs),
    *_each_choice("min", numerics.minimum_number),
    *_each_choice("max", numerics.maximum_number),
    Instruction("copysign.f32|f64", "t=tt", lambda form, sign, x: np.copysign(x, sign)),
)
