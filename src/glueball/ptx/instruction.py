"""What a row of the table of instructions says: how opcodes are spelled, their operands, and what they compute."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from glueball.ptx.types import TYPES, RegisterType

GROUPS: Mapping[str, tuple[str, ...]] = {
    "integer": ("u16", "u32", "u64", "s16", "s32", "s64"),
    "any_integer": ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"),
    "signed": ("s16", "s32", "s64"),
    "bits": ("b16", "b32", "b64"),
    "any_bits": ("pred", "b16", "b32", "b64"),
    "half": ("f16", "f16x2", "bf16", "bf16x2"),
    "float": ("f16", "bf16", "f32", "f64"),
    "scalar": ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"),
    "rnd": ("rn", "rz", "rm", "rp"),
    "to_integer": ("rni", "rzi", "rmi", "rpi"),
    "comparison": (
        *("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"),
        *("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"),
    ),
    "combination": ("and", "or", "xor"),
    "wider": ("f32.f16", "f32.bf16", "f64.f16", "f64.bf16", "f64.f32"),
    "narrower": ("f16.f32", "f16.f64", "bf16.f32", "bf16.f64", "f32.f64", "f16.bf16", "bf16.f16"),
    "xorsign_abs": ("xorsign.abs",),
    "same": ("f16.f16", "bf16.bf16", "f32.f32", "f64.f64"),
    "fp8x2": ("e4m3x2", "e5m2x2"),
    "fp6x2": ("e2m3x2", "e3m2x2"),
}
"""Names that stand for several in the syntax of instructions."""

ROUNDINGS = {
    "rn": "nearest",
    "rz": "zero",
    "rm": "down",
    "rp": "up",
    "rni": "nearest",
    "rzi": "zero",
    "rmi": "down",
    "rpi": "up",
}


@dataclass(frozen=True, slots=True)
class Form:
    """An opcode as an author wrote it: its modifiers and its types, each in their order."""

    opcode: str
    modifiers: tuple[str, ...]
    types: tuple[RegisterType, ...]

    @property
    def rounding(self) -> str:
        """`nearest`, `zero`, `down` or `up`; the nearest where the opcode says nothing."""
        return next((ROUNDINGS[each] for each in self.modifiers if each in ROUNDINGS), "nearest")

    def __contains__(self, modifier: str) -> bool:
        return modifier in self.modifiers


def form_of(opcode: str) -> Form:
    """The parts of an opcode."""
    parts = opcode.split(".")[1:]
    modifiers = tuple(part for part in parts if part not in TYPES)
    return Form(opcode, modifiers, tuple(TYPES[part] for part in parts if part in TYPES))


Compute = Callable[..., Any]
"""Gives, of a form and one array for each source, the array of the destination, or a tuple of two."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One row of the table.

    `syntax` spells opcodes as the ISA does: `[.x]` may be left out, `a|b` is either, a name of `GROUPS` any of its
    names. `operands` has one letter for each operand, destinations before the `=`: `t` is of the opcode's last type,
    `0` and `1` of its first and second, `w` twice as wide as the last, `b` the bits as wide as the last, and those of
    `LETTERS` are always of one type. With `extends` registers may be wider than the opcode's integer types.
    """

    syntax: str
    operands: str
    compute: Compute
    extends: bool = False

    @property
    def name(self) -> str:
        """The first word of its opcodes."""
        return _name(self.syntax)

    def matches(self, opcode: str) -> bool:
        """Whether an opcode is spelled so."""
        return _pattern(self.syntax).fullmatch(opcode) is not None

    def operand_types(self, form: Form) -> tuple[list[RegisterType], list[RegisterType]]:
        """Types of the destinations and of the sources of an opcode."""
        destinations, sources = self.operands.split("=")
        return [_type(letter, form) for letter in destinations], [_type(letter, form) for letter in sources]


LETTERS: Mapping[str, str] = {"u": "u32", "s": "s32", "x": "b32", "p": "pred"}


def _type(letter: str, form: Form) -> RegisterType:
    if letter in LETTERS:
        return TYPES[LETTERS[letter]]
    last = form.types[-1]
    match letter:
        case "w":
            return TYPES[f"{last.name[0]}{2 * last.bits}"]
        case "b":
            return TYPES[f"b{last.bits}"]
        case "t":
            return last
    return form.types[int(letter)]


def _name(syntax: str) -> str:
    return re.split(r"[.\[]", syntax, maxsplit=1)[0]


@cache
def _pattern(syntax: str) -> re.Pattern[str]:
    text = name = _name(syntax)
    for optional, words in re.findall(r"(\[?)\.([\w|]+)", syntax[len(name) :]):
        spelled = [word for each in words.split("|") for word in GROUPS.get(each, (each,))]
        choice = "|".join(rf"\.{re.escape(word)}" for word in spelled)
        text += f"(?:{choice}){'?' if optional else ''}"
    return re.compile(text)
