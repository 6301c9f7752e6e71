"""Moves, logic and shifts. PTX ISA, sections "Logic and Shift Instructions" and "Data Movement ... Instructions"."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from glueball import numerics
from glueball.ptx.instruction import Form, Instruction
from glueball.ptx.types import Array


def _table(form: Form, x: Array, y: Array, z: Array, table: Array) -> Array:
    """Any function of three bits: bit `4x + 2y + z` of `table` is its value."""
    result = np.zeros(np.broadcast_shapes(x.shape, y.shape, z.shape, table.shape), x.dtype)
    for index in range(8):
        chosen = (x if index & 4 else ~x) & (y if index & 2 else ~y) & (z if index & 1 else ~z)
        result |= np.where(table >> np.uint32(index) & np.uint32(1), chosen, np.uint32(0))
    return result


def _funnel(form: Form, low: Array, high: Array, amount: Array) -> Array:
    """32 of the 64 bits of `high` and `low`, shifted."""
    amount = amount & np.uint32(31) if "wrap" in form else np.minimum(amount, np.uint32(32))
    whole = high.astype(np.uint64) << np.uint64(32) | low
    amount = amount.astype(np.uint64)
    return (whole << amount >> np.uint64(32) if "l" in form else whole >> amount).astype(np.uint32)


_CHOICES: Mapping[str, Callable[[int, Array], Array]] = {
    "f4e": lambda place, start: place + start,
    "b4e": lambda place, start: start - place & np.uint32(7),
    "rc8": lambda place, start: start,
    "ecl": lambda place, start: np.maximum(start, np.uint32(place)),
    "ecr": lambda place, start: np.minimum(start, np.uint32(place)),
    "rc16": lambda place, start: (start & np.uint32(1)) * np.uint32(2) + np.uint32(place & 1),
}
"""For each special mode which of the eight bytes a place of the result takes."""


def _permute(form: Form, x: Array, y: Array, selector: Array) -> Array:
    """Four of the eight bytes of two words, each as it is or, in the plain mode, only its sign."""
    eight = y.astype(np.uint64) << np.uint64(32) | x
    choice = next((_CHOICES[mode] for mode in form.modifiers), None)
    result = np.zeros(np.broadcast(eight, selector).shape, np.uint32)
    for place in range(4):
        if choice is None:
            nibble = selector >> np.uint32(4 * place)
            taken, signs = nibble & np.uint32(7), nibble & np.uint32(8)
        else:
            taken, signs = choice(place, selector & np.uint32(3)), np.zeros_like(selector)
        octet = eight >> (taken.astype(np.uint64) * np.uint64(8)) & np.uint64(0xFF)
        octet = np.where(signs, np.where(octet & np.uint64(0x80), np.uint64(0xFF), np.uint64(0)), octet)
        result |= octet.astype(np.uint32) << np.uint32(8 * place)
    return result


BITS = (
    Instruction("mov.pred|scalar|f16|bf16|f16x2|bf16x2", "t=t", lambda form, x: x),
    Instruction("and.any_bits", "t=tt", lambda form, x, y: x & y),
    Instruction("or.any_bits", "t=tt", lambda form, x, y: x | y),
    Instruction("xor.any_bits", "t=tt", lambda form, x, y: x ^ y),
    Instruction("not.any_bits", "t=t", lambda form, x: ~x),
    Instruction("cnot.bits", "t=t", lambda form, x: x == 0),
    Instruction("lop3.b32", "t=tttu", _table),
    Instruction("shl.bits", "t=tu", lambda form, x, amount: numerics.shift_left(x, amount)),
    Instruction("shr.bits|integer", "t=tu", lambda form, x, amount: numerics.shift_right(x, amount)),
    Instruction("shf.l|r.wrap|clamp.b32", "t=ttu", _funnel),
    Instruction("prmt.b32[.f4e|b4e|rc8|ecl|ecr|rc16]", "t=ttu", _permute),
)
