"""Conversions. PTX ISA, sections "Data Movement and Conversion Instructions: cvt" and "cvt.pack"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from glueball import numerics
from glueball.ptx.floats import finished, flushed
from glueball.ptx.instruction import Form, Instruction
from glueball.ptx.rounding import round_to, step
from glueball.ptx.types import Array

_WHOLE = {"nearest": np.rint, "zero": np.trunc, "down": np.floor, "up": np.ceil}


def _integer_to_integer(form: Form, x: Array) -> Array:
    kind = form.types[0].element
    if "sat" in form:
        ends, held = np.iinfo(kind), np.iinfo(x.dtype)
        x = np.clip(x, max(ends.min, held.min), min(ends.max, held.max))
    return x.astype(kind)


def _float_to_integer(form: Form, x: Array) -> Array:
    """Out of range gives the nearest end. NaN gives 0, but only the highest bit where either type has 64 bits."""
    to, source = form.types
    wide = flushed(form, x).astype(np.float64)
    found = numerics.float_to_integer(_WHOLE[form.rounding](wide), to.element)
    if source.name != "f64" and to.bits < 64:
        return found
    highest = np.asarray(1 << (to.bits - 1), f"u{to.bits // 8}").view(to.element)
    return np.where(np.isnan(wide), highest, found)


def _integer_to_float(form: Form, x: Array) -> Array:
    """Rounded once: by way of a float64 that is exact, or odd where it is not."""
    nearest, kind = x.astype(np.float64), form.types[0].element
    if x.dtype.itemsize < 8:
        return finished(form, round_to(nearest, kind, form.rounding))
    exact = np.asarray(x.astype(object) - np.asarray(np.frompyfunc(int, 1, 1)(nearest), object), object)
    lost = np.asarray(exact > 0, np.int8) - np.asarray(exact < 0, np.int8)
    if kind.itemsize == 8:
        return finished(form, step(nearest, lost, form.rounding))
    odd = np.asarray(step(nearest, lost, "zero")).view(np.uint64) | (lost != 0).astype(np.uint64)
    return finished(form, round_to(odd.view(np.float64), kind, form.rounding))


def _float_to_float(form: Form, x: Array) -> Array:
    return finished(form, round_to(flushed(form, x), form.types[0].element, form.rounding))


def _float_to_whole(form: Form, x: Array) -> Array:
    return finished(form, numerics.choosing(_WHOLE[form.rounding])(flushed(form, x)))


def _same(form: Form, x: Array) -> Array:
    return finished(form, flushed(form, x))


def _tensor_float(form: Form, x: Array) -> Array:
    """The 19 bits of tf32, in place; `.rna` rounds ties away from zero."""
    bits = x.view(np.uint32)
    odd = bits >> np.uint32(13) & np.uint32(1)
    added: Mapping[str, Array | np.uint32] = {
        "rna": np.uint32(0x1000),
        "rn": np.uint32(0xFFF) + odd,
        "rz": np.uint32(0),
    }
    rounding = next(each for each in form.modifiers if each in added)
    values = ((bits + added[rounding]) & np.uint32(0xFFFFE000)).view(np.float32)
    values = finished(form, np.where(np.isnan(x) | np.isinf(x), x, values))
    return np.where(np.isnan(values), values, (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32))


def _pair(form: Form, high: Array, low: Array) -> Array:
    """Two floats in one register, the first operand in the upper half."""
    both = np.stack(np.broadcast_arrays(low, high), axis=-1)
    return finished(form, round_to(both, form.types[0].element, form.rounding))


@dataclass(frozen=True, slots=True)
class Narrow:
    """A float of 8 bits or fewer: NumPy's type, its greatest value, and what NaN becomes."""

    element: np.dtype[Any]
    greatest: float
    nan: int

    def encode(self, form: Form, values: Array) -> Array:
        """Codes of floats, rounded to the nearest, the greatest value beyond the end."""
        values = numerics.widen(values)
        nan = np.isnan(values)
        if "relu" in form:
            values = np.where(values <= 0, values.dtype.type(0), values)
        inside = np.where(nan, 0, np.clip(values, -self.greatest, self.greatest)).astype(values.dtype)
        return np.where(nan, np.uint8(self.nan), inside.astype(self.element).view(np.uint8))

    def decode(self, form: Form, codes: Array) -> Array:
        """Codes as float16, which holds each of them."""
        return finished(form, codes.view(self.element).astype(np.float32).astype(np.float16))


NARROW: Mapping[str, Narrow] = {
    "e4m3x2": Narrow(numerics.FLOAT8_E4M3FN, 448.0, 0x7F),
    "e5m2x2": Narrow(numerics.FLOAT8_E5M2, 57344.0, 0x7F),
    "e2m3x2": Narrow(np.dtype(ml_dtypes.float6_e2m3fn), 7.5, 0x1F),
    "e3m2x2": Narrow(np.dtype(ml_dtypes.float6_e3m2fn), 28.0, 0x1F),
    "e2m1x2": Narrow(np.dtype(ml_dtypes.float4_e2m1fn), 6.0, 0x7),
}
"""The narrow floats, by the names of their pairs; those without NaN take its greatest value for it."""


def _encode_two(form: Form, high: Array, low: Array) -> Array:
    return NARROW[form.types[0].name].encode(form, np.stack(np.broadcast_arrays(low, high), axis=-1))


def _encode_pair(form: Form, both: Array) -> Array:
    return NARROW[form.types[0].name].encode(form, both)


def _encode_nibbles(form: Form, high: Array, low: Array) -> Array:
    codes = _encode_two(form, high, low)
    return codes[..., 1] << np.uint8(4) | codes[..., 0]


def _decode_pair(form: Form, codes: Array) -> Array:
    mask = np.uint8(0x3F if form.types[1].name in ("e2m3x2", "e3m2x2") else 0xFF)
    return NARROW[form.types[1].name].decode(form, codes & mask)


def _decode_nibbles(form: Form, codes: Array) -> Array:
    return NARROW["e2m1x2"].decode(form, np.stack([codes & np.uint8(0xF), codes >> np.uint8(4)], axis=-1))


def _encode_scale(form: Form, values: Array) -> Array:
    """Powers of two, down or up, as their biased exponents; the sign is left out. Codes of bfloat16 or float32."""
    wide = np.abs(values.astype(np.float64))
    mantissa, exponent = np.frexp(wide)
    exponent = exponent + 126 + ((mantissa > 0.5) & ("rp" in form))
    beyond = np.isinf(wide) | (exponent > 254)
    code = np.where(wide == 0, 0, np.clip(exponent, 0, 254))
    return np.where(np.isnan(wide), 255, np.where(beyond, 254 if "satfinite" in form else 255, code)).astype(np.uint8)


def _scales(form: Form, high: Array, low: Array) -> Array:
    return _encode_scale(form, np.stack(np.broadcast_arrays(low, high), axis=-1))


def _decode_scale(form: Form, codes: Array) -> Array:
    values = np.exp2(codes.astype(np.float64) - 127).astype(numerics.BFLOAT16)
    return finished(form, np.where(codes == 255, numerics.BFLOAT16.type(np.nan), values))


def _packed_integers(form: Form, high: Array, low: Array, *above: Array) -> Array:
    """Two integers saturated and side by side, the first operand above; 8-bit ones below the lower half of a third."""
    kind = form.types[0]
    ends = np.iinfo(kind.element)
    parts = [
        np.clip(each, ends.min, ends.max).astype(np.uint32) & np.uint32((1 << kind.bits) - 1) for each in (high, low)
    ]
    word = parts[0] << np.uint32(kind.bits) | parts[1]
    return word if not above else word | above[0] << np.uint32(16)


CONVERSIONS = (
    Instruction("cvt[.sat].any_integer.any_integer", "0=1", _integer_to_integer, extends=True),
    Instruction("cvt.to_integer[.ftz][.sat].any_integer.float", "0=1", _float_to_integer, extends=True),
    Instruction("cvt.rnd[.sat].float.any_integer", "0=1", _integer_to_float, extends=True),
    Instruction("cvt[.ftz][.sat].wider", "0=1", _float_to_float),
    Instruction("cvt.rnd[.ftz][.sat].narrower", "0=1", _float_to_float),
    Instruction("cvt.rn|rz[.relu][.satfinite].f16|bf16.f32", "0=1", _float_to_float),
    Instruction("cvt.to_integer[.ftz][.sat].same", "0=1", _float_to_whole),
    Instruction("cvt[.ftz][.sat].same", "0=1", _same),
    Instruction("cvt.rna[.satfinite].tf32.f32", "0=1", _tensor_float),
    Instruction("cvt.rn|rz[.satfinite][.relu].tf32.f32", "0=1", _tensor_float),
    Instruction("cvt.rn|rz[.relu][.satfinite].f16x2|bf16x2.f32", "0=11", _pair),
    Instruction("cvt.rn.satfinite[.relu].fp8x2|fp6x2.f32", "0=11", _encode_two),
    Instruction("cvt.rn.satfinite[.relu].e2m1x2.f32", "0=11", _encode_nibbles),
    Instruction("cvt.rn.satfinite[.relu].fp8x2.f16x2", "0=1", _encode_pair),
    Instruction("cvt.rn[.relu].f16x2.fp8x2|fp6x2", "0=1", _decode_pair),
    Instruction("cvt.rn[.relu].f16x2.e2m1x2", "0=1", _decode_nibbles),
    Instruction("cvt.rz|rp[.satfinite].ue8m0x2.f32", "0=11", _scales),
    Instruction("cvt.rz|rp[.satfinite].ue8m0x2.bf16x2", "0=1", _encode_scale),
    Instruction("cvt.rn.bf16x2.ue8m0x2", "0=1", _decode_scale),
    Instruction("cvt.pack.sat.u16|s16.s32", "x=ss", _packed_integers),
    Instruction("cvt.pack.sat.u8|s8.s32.b32", "x=ssx", _packed_integers),
)
