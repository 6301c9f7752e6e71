"""Constraints of inline assembly: which registers hold operands, how wide they are, and which are one.

LLVM's language reference, "Inline Asm Constraint String"; its letters for NVPTX.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from glueball.ptx.types import Uninterpreted

BITS = {"b": 1, "c": 8, "h": 16, "r": 32, "f": 32, "l": 64, "d": 64}
"""Bits of the register that each letter asks for."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """Bits of the registers of results and of operands; `tied` has the operands that start in a result's register."""

    results: tuple[int, ...]
    operands: tuple[int, ...]
    tied: tuple[tuple[int, int], ...]


def parse_constraints(text: str) -> Constraints:
    """What a constraint string says. Errors: `Uninterpreted` for letters that are not those of registers of PTX."""
    results: list[int] = []
    operands: list[int] = []
    tied: list[tuple[int, int]] = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        if each.startswith("~"):
            continue
        if found := re.fullmatch(r"=&?(\w)", each):
            results.append(_bits(found[1]))
        elif each.isdigit() and int(each) < len(results):
            tied.append((len(operands), int(each)))
            operands.append(results[int(each)])
        else:
            operands.append(_bits(each))
    return Constraints(tuple(results), tuple(operands), tuple(tied))


def _bits(letter: str) -> int:
    if letter not in BITS:
        raise Uninterpreted(f"the constraint `{letter}` asks for no register of PTX")
    return BITS[letter]
