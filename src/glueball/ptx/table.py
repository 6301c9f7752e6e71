"""The table of instructions that are interpreted, one row for each spelling of an opcode with its operands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from glueball.ptx.bits import BITS
from glueball.ptx.comparisons import COMPARISONS
from glueball.ptx.conversions import CONVERSIONS
from glueball.ptx.floats import FLOATS
from glueball.ptx.instruction import Instruction
from glueball.ptx.integers import INTEGERS

TABLE: Mapping[str, Sequence[Instruction]] = {
    "Moves, logic and shifts": BITS,
    "Integers": INTEGERS,
    "Floats": FLOATS,
    "Comparisons and selections": COMPARISONS,
    "Conversions": CONVERSIONS,
}
"""Every row, by family."""


def _by_name() -> Mapping[str, Sequence[Instruction]]:
    found: dict[str, list[Instruction]] = defaultdict(list)
    for rows in TABLE.values():
        for row in rows:
            found[row.name].append(row)
    return dict(found)


_BY_NAME = _by_name()


def instructions(opcode: str) -> Sequence[Instruction]:
    """The rows whose name an opcode begins with."""
    return _BY_NAME.get(opcode.partition(".")[0], ())
