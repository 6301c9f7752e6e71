"""Integer arithmetic and bit fields. PTX ISA, sections "Integer Arithmetic Instructions"."""

from __future__ import annotations

from typing import Any

import numpy as np

from glueball import numerics
from glueball.ptx.instruction import Compute, Form, Instruction
from glueball.ptx.types import Array, RegisterType


def _double(kind: RegisterType, values: Array) -> Array:
    """Integers of a type of at most 32 bits as those of twice its width."""
    return np.asarray(values).astype(f"{kind.element.kind}{kind.bits // 4}")


def _high(form: Form, x: Array, y: Array) -> Array:
    kind = form.types[-1]
    if kind.bits > 16:
        return numerics.high_product(x, y)
    product = _wide(form, x, y)
    return np.asarray((product >> product.dtype.type(16)).astype(kind.element))


def _wide(form: Form, x: Array, y: Array) -> Array:
    kind = form.types[-1]
    return np.asarray(_double(kind, x) * _double(kind, y))


def _saturating(sign: int) -> Compute:
    def compute(form: Form, x: Array, y: Array) -> Array:
        ends = np.iinfo(form.types[-1].element)
        return np.asarray(np.clip(x.astype(np.int64) + sign * y.astype(np.int64), ends.min, ends.max))

    return compute


def _difference(form: Form, x: Array, y: Array, z: Array) -> Array:
    return np.asarray(z + np.where(x < y, y - x, x - y))


def _clamped(choose: Compute) -> Compute:
    """The lesser or the greater; with `.relu` nothing below 0."""
    return lambda form, x, y: np.maximum(choose(x, y), x.dtype.type(0)) if "relu" in form else choose(x, y)


def _leading(form: Form, x: Array) -> Array:
    """Zeros before the highest set bit, of unsigned integers."""
    width = x.dtype.itemsize * 8
    found, rest = np.zeros(x.shape, np.uint32), x
    for shift in (32, 16, 8, 4, 2, 1):
        if shift < width:
            upper = rest >> x.dtype.type(shift)
            found = found + np.where(upper != 0, np.uint32(shift), np.uint32(0))
            rest = np.where(upper != 0, upper, rest)
    return np.where(x == 0, np.uint32(width), np.uint32(width - 1) - found)


def _find(form: Form, x: Array) -> Array:
    """The place of the highest bit that is no sign; with `.shiftamt` how far it is from the highest place."""
    unsigned = np.where(x < 0, ~x, x).view(f"u{x.dtype.itemsize}") if x.dtype.kind == "i" else x
    leading = _leading(form, unsigned)
    place = leading if "shiftamt" in form else np.uint32(x.dtype.itemsize * 8 - 1) - leading
    return np.where(unsigned == 0, np.uint32(0xFFFFFFFF), place)


def _reverse(form: Form, x: Array) -> Array:
    octets = np.ascontiguousarray(x[..., None]).view(np.uint8)
    bits = np.unpackbits(octets, axis=-1, bitorder="little")[..., ::-1]
    return np.packbits(bits, axis=-1, bitorder="little").view(x.dtype)[..., 0]


def _ones(count: Array, kind: np.dtype[Any]) -> Array:
    """Unsigned integers whose lowest bits are set, `count` of them."""
    return np.asarray(numerics.shift_left(np.ones(count.shape, kind), count) - kind.type(1))


def _extract(form: Form, x: Array, place: Array, length: Array) -> Array:
    """Bits from `place` on, `length` of them; of signed types the field's highest bit goes on upwards."""
    place, length, width = place & np.uint32(0xFF), length & np.uint32(0xFF), np.uint32(x.dtype.itemsize * 8)
    unsigned = x.view(f"u{x.dtype.itemsize}")
    held = _ones(np.minimum(length, width - np.minimum(place, width)), unsigned.dtype)
    field = numerics.shift_right(unsigned, place) & held
    if x.dtype.kind == "i":
        last = np.minimum(place + length - np.uint32(1), width - np.uint32(1))
        negative = (length != 0) & (numerics.shift_right(x, last) & x.dtype.type(1) != 0)
        field = np.where(negative, field | ~held, field)
    return field.view(x.dtype)


def _insert(form: Form, x: Array, y: Array, place: Array, length: Array) -> Array:
    """`y` with `length` bits from `place` on replaced by the lowest ones of `x`."""
    place, mask = place & np.uint32(0xFF), _ones(length & np.uint32(0xFF), x.dtype)
    return (y & ~numerics.shift_left(mask, place)) | numerics.shift_left(x & mask, place)


def _parts(kind: RegisterType, size: int, word: Array) -> Array:
    """The integers of `size` bytes in words, as int64, along a new last axis."""
    return np.ascontiguousarray(word[..., None]).view(f"{kind.element.kind}{size}").astype(np.int64)


def _dot4(form: Form, x: Array, y: Array, z: Array) -> Array:
    products = _parts(form.types[0], 1, x) * _parts(form.types[1], 1, y)
    return np.asarray(products.sum(-1) + z).astype(np.uint32)


def _dot2(form: Form, x: Array, y: Array, z: Array) -> Array:
    half = slice(2, 4) if "hi" in form else slice(0, 2)
    products = _parts(form.types[0], 2, x) * _parts(form.types[1], 1, y)[..., half]
    return np.asarray(products.sum(-1) + z).astype(np.uint32)


INTEGERS = (
    Instruction("add.integer|u16x2|s16x2", "t=tt", lambda form, x, y: x + y),
    Instruction("add.sat.s32", "t=tt", _saturating(1)),
    Instruction("sub.integer", "t=tt", lambda form, x, y: x - y),
    Instruction("sub.sat.s32", "t=tt", _saturating(-1)),
    Instruction("mul.lo.integer", "t=tt", lambda form, x, y: x * y),
    Instruction("mul.hi.integer", "t=tt", _high),
    Instruction("mul.wide.u16|s16|u32|s32", "w=tt", _wide),
    Instruction("mad.lo.integer", "t=ttt", lambda form, x, y, z: x * y + z),
    Instruction("mad.hi.integer", "t=ttt", lambda form, x, y, z: _high(form, x, y) + z),
    Instruction("mad.wide.u16|s16|u32|s32", "w=ttw", lambda form, x, y, z: _wide(form, x, y) + z),
    Instruction("sad.integer", "t=ttt", _difference),
    Instruction("div.integer", "t=tt", lambda form, x, y: numerics.divide(x, y)),
    Instruction("rem.integer", "t=tt", lambda form, x, y: numerics.remainder(x, y)),
    Instruction("abs.signed", "t=t", lambda form, x: np.abs(x)),
    Instruction("neg.signed", "t=t", lambda form, x: -x),
    Instruction("min.integer|u16x2|s16x2", "t=tt", _clamped(np.minimum)),
    Instruction("min.relu.s32|s16x2", "t=tt", _clamped(np.minimum)),
    Instruction("max.integer|u16x2|s16x2", "t=tt", _clamped(np.maximum)),
    Instruction("max.relu.s32|s16x2", "t=tt", _clamped(np.maximum)),
    Instruction("popc.b32|b64", "u=t", lambda form, x: np.bitwise_count(x)),
    Instruction("clz.b32|b64", "u=t", _leading),
    Instruction("bfind[.shiftamt].u32|u64|s32|s64", "u=t", _find),
    Instruction("brev.b32|b64", "t=t", _reverse),
    Instruction("bfe.u32|u64|s32|s64", "t=tuu", _extract),
    Instruction("bfi.b32|b64", "t=ttuu", _insert),
    Instruction("dp4a.u32|s32.u32|s32", "x=xxx", _dot4),
    Instruction("dp2a.lo|hi.u32|s32.u32|s32", "x=xxx", _dot2),
)
