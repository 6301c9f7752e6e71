"""The text of assembly as statements: operands of LLVM's, comments, blocks, declarations, predicates.

PTX ISA, chapter "Syntax", and LLVM's language reference, "Inline Assembler Expressions".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from glueball.ptx.types import Uninterpreted

NAME = r"[A-Za-z_$%][\w$%]*"


@dataclass(frozen=True, slots=True)
class Register:
    """A register by its name as written; `_` is none."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number; `bits` is how wide it is where its bits are written, as `0f3F800000` is."""

    number: int | float
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class Several:
    """Operands in one place: the parts of a vector in braces, lowest first, or two predicates, `p|q`."""

    parts: tuple[Register | Immediate, ...]
    is_vector: bool


Operand = Register | Immediate | Several


@dataclass(frozen=True, slots=True)
class Declaration:
    """Names of registers, and the type of their declaration."""

    type: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Brace:
    """Where a block of names begins or ends."""

    opens: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """One instruction as written: its predicate, opcode and the text of its operands."""

    text: str
    guard: Register | None
    opcode: str
    operands: str


def statements(assembly: str) -> Iterator[Declaration | Brace | Statement]:
    """What stands in assembly, in order. Errors: `Uninterpreted` for what has no meaning here, such as labels."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", assembly, flags=re.DOTALL)
    text = re.sub(r"\$\{(\d+)(?::\w+)?\}|\$(\$)", lambda found: "$" + (found[1] or ""), text)
    *ended, rest = re.split(r";", text)
    for chunk in ended:
        body = chunk.strip()
        while body[:1] in ("{", "}") and body:
            yield Brace(body[0] == "{")
            body = body[1:].strip()
        if body:
            yield _statement(" ".join(body.split()))
    for character in rest.strip():
        if character not in "{}" and not character.isspace():
            raise Uninterpreted(f"`{' '.join(rest.split())}` does not end in `;`")
        if not character.isspace():
            yield Brace(character == "{")


def _statement(text: str) -> Declaration | Statement:
    if text.startswith(".reg"):
        return _declaration(text)
    found = re.fullmatch(rf"(?:@\s*(!?)\s*({NAME})\s+)?([a-z][\w.:]*)\s*(.*)", text)
    if found is None or re.match(rf"{NAME}\s*:(?!:)", text):
        raise Uninterpreted(f"`{text}` is no instruction")
    negated, guard, opcode, operands = found.groups()
    return Statement(text, None if guard is None else Register(guard, negated == "!"), opcode, operands)


def _declaration(text: str) -> Declaration:
    found = re.fullmatch(r"\.reg\s+\.(\w+)\s+(.*)", text)
    names: list[str] = []
    for each in found[2].split(",") if found else []:
        name = re.fullmatch(rf"({NAME})(?:<(\d+)>)?", each.strip())
        if name is None:
            break
        names += [name[1]] if name[2] is None else [f"{name[1]}{index}" for index in range(int(name[2]))]
    else:
        if found is not None:
            return Declaration(found[1], tuple(names))
    raise Uninterpreted(f"`{text}` declares no registers")


def operands(text: str) -> list[Operand]:
    """The operands of a statement. Errors: `Uninterpreted` for what is none, such as an address."""
    if not text:
        return []
    return [_operand(each.strip()) for each in re.findall(r"(?:\{[^}]*\}|[^,{])+", text)]


def _operand(text: str) -> Operand:
    if text.startswith("{") and text.endswith("}"):
        return Several(tuple(_simple(each.strip()) for each in text[1:-1].split(",")), is_vector=True)
    if "|" in text:
        return Several(tuple(_simple(each.strip()) for each in text.split("|")), is_vector=False)
    return _simple(text)


def _simple(text: str) -> Register | Immediate:
    if found := re.fullmatch(rf"(!?)\s*({NAME})", text):
        return Register(found[2], found[1] == "!")
    if found := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})", text):
        return Immediate(int(found[1] or found[2], 16), 32 if found[1] else 64)
    if found := re.fullmatch(r"([+-]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9]\d*)U?", text):
        digits = found[2]
        magnitude = int(digits, 8) if re.fullmatch(r"0\d+", digits) else int(digits, 0)
        return Immediate(-magnitude if found[1] == "-" else magnitude)
    if re.fullmatch(r"[+-]?\d+\.\d*(?:[eE][+-]?\d+)?|[+-]?\d+[eE][+-]?\d+", text):
        return Immediate(float(text))
    raise Uninterpreted(f"`{text}` is neither a register nor a number")


def written_float(immediate: Immediate) -> float:
    """The float that an immediate stands for: of its bits, or of its digits."""
    if immediate.bits is None:
        return float(immediate.number)
    kind, word = ("<f", "<I") if immediate.bits == 32 else ("<d", "<Q")
    return float(struct.unpack(kind, struct.pack(word, immediate.number))[0])
