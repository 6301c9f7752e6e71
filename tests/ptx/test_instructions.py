"""Every row of the table of instructions against what the ISA says of it, number by number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from glueball.ptx.instruction import form_of
from glueball.ptx.program import parse
from glueball.ptx.table import TABLE
from glueball.ptx.types import TYPES, register
from tests.ptx.assembly import program_of
from tests.ptx.cases import CASES, PACKED, Case
from tests.ptx.numbers import FORMATS

SPECIAL = {
    16: [0, 0x8000, 1, 0x7FFF, 0xFFFF, 0x7C00, 0xFC00, 0x3C00, 0x7BFF, 0x03FF, 0x7F80, 0x7F7F, 0x3F80, 0x7E00, 0x8001],
    32: [
        *(0, 0x80000000, 1, 0x80000001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800000, 0xFF800000, 0x3F800000, 0x7F7FFFFF),
        *(0x007FFFFF, 0x00800000, 0x3F000000, 0xBFC00000, 0x47800000, 0x43E00000, 0x40200000, 0x7FC00000, 31, 32, 33),
    ],
    64: [
        *(0, 1 << 63, 1, (1 << 63) - 1, (1 << 64) - 1, 0x7FF << 52, 0xFFF << 52, 0x3FF << 52, (0x7FF << 52) - 1),
        *((1 << 52) - 1, 1 << 52, 0x3FE << 52, 0x41E << 52, 0x43F << 52, 0x47F << 52, (0x7FF << 52) + 1, 1 << 53),
    ],
}


def words(kind: str) -> st.SearchStrategy[int]:
    """Bits of a source: special ones, any, and floats near 1."""
    bits = TYPES[kind].bits
    if bits < 16:
        return st.integers(0, (1 << bits) - 1)
    element = PACKED.get(kind, (kind, 0))[0]
    found = [st.sampled_from(SPECIAL[bits]), st.integers(0, (1 << bits) - 1)]
    if element in FORMATS and kind not in PACKED:
        form = FORMATS[kind if kind != "tf32" else "f32"]
        found.append(
            st.tuples(st.booleans(), st.integers(-8, 8), st.integers(0, (1 << form.fraction) - 1)).map(
                lambda parts: parts[0] << bits - 1 | form.bias + parts[1] << form.fraction | parts[2]
            )
        )
    elif not element.startswith(("f", "bf")):
        found.append(st.integers(0, 80))
    return st.one_of(found)


def same(case: Case, kind: str, found: int, expected: int) -> bool:
    if found == expected:
        return True
    element, shift = PACKED.get(kind, (kind, 0))
    if element not in FORMATS:
        return False
    form = FORMATS["f32" if element == "tf32" else element]
    mask = (1 << form.bits) - 1
    for place in (0, shift) if shift else (0,):
        one, other = form.decode(found >> place & mask), form.decode(expected >> place & mask)
        if one.nan != other.nan or (not one.nan and not near(case, one, other)):
            return False
    return True


def near(case: Case, one, other) -> bool:
    if one == other:
        return True
    if not case.tolerance or not (one.finite and other.finite):
        return False
    return math.isclose(float(one.value), float(other.value), rel_tol=case.tolerance, abs_tol=2.0**-126)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.opcode)
def test_values(case):
    _, outs, ins = case.types()
    sources = [
        st.just(case.constants[index]) if index in case.constants else words(kind) for index, kind in enumerate(ins)
    ]
    text, constraints = program_of(case)
    program = parse(text, constraints)

    @settings(max_examples=8, phases=(Phase.generate,), deadline=None, derandomize=True, database=None)
    @given(st.lists(st.tuples(*sources), min_size=12, max_size=24))
    def check(rows):
        columns = [np.array(column, np.uint64) for column in zip(*rows, strict=True)]
        arrays = [column for index, column in enumerate(columns) if index not in case.constants]
        found = program.run(
            [array.astype(register(bits)) for array, bits in zip(arrays, program.constraints.operands, strict=True)]
        )
        for place, given_row in enumerate(rows):
            expected = case.expected(list(given_row))
            for kind, result, bits in zip(outs, found, expected, strict=False):
                got = int(np.broadcast_to(result, len(rows))[place])
                assert same(case, kind, got, bits), (case.opcode, list(map(hex, given_row)), hex(got), hex(bits))

    check()


def test_every_row_has_a_case():
    tested = {id(case.types()[0]) for case in CASES}
    missing = [row.syntax for rows in TABLE.values() for row in rows if id(row) not in tested]
    assert not missing


def test_forms():
    form = form_of("cvt.rzi.ftz.s32.f32")
    assert form.modifiers == ("rzi", "ftz") and [kind.name for kind in form.types] == ["s32", "f32"]
    assert form.rounding == "zero" and "ftz" in form and "sat" not in form
