"""The assembly of one instruction, with operands in registers of 16, 32 and 64 bits."""

from __future__ import annotations

from glueball.ptx.types import TYPES
from tests.ptx.cases import Case

LETTERS = {16: "h", 32: "r", 64: "l"}


def program_of(case: Case) -> tuple[str, str]:
    """Text and constraints. Predicates are words other than 0, bytes the lowest ones of words."""
    _, outs, ins = case.types()
    lines, names, constraints = ["{"], [], []
    for index, kind in enumerate(outs):
        bits = TYPES[kind].bits
        constraints.append("=" + LETTERS.get(bits, "r"))
        names.append(f"${index}" if bits >= 16 or kind in ("u8", "s8") else f"out{index}")
        if bits == 1:
            lines.append(f".reg .pred out{index};")
        elif kind == "e2m1x2":
            lines.append(f".reg .b8 out{index};")
    place = len(outs)
    for index, kind in enumerate(ins):
        if index in case.constants:
            names.append(hex(case.constants[index]))
            continue
        bits, operand = TYPES[kind].bits, f"${place}"
        constraints.append(LETTERS.get(bits, "r"))
        if bits == 1:
            lines.append(f".reg .pred in{index}; setp.ne.u32 in{index}, {operand}, 0;")
        elif kind == "e2m1x2":
            lines.append(f".reg .b8 in{index}; mov.b32 {{in{index}, _, _, _}}, {operand};")
        names.append(operand if bits >= 16 or kind in ("u8", "s8") else f"in{index}")
        place += 1
    targets = "|".join(names[: len(outs)])
    lines.append(f"{case.opcode} {', '.join([targets, *names[len(outs) :]])};")
    for index, kind in enumerate(outs):
        if TYPES[kind].bits == 1:
            lines.append(f"selp.u32 ${index}, 1, 0, out{index};")
        elif kind == "e2m1x2":
            lines.append(f"mov.b32 ${index}, {{out{index}, 0, 0, 0}};".replace(", 0", f", out{index}"))
    return "\n".join([*lines, "}"]), ",".join(constraints)
