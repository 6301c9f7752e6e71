"""Text and constraints of assembly: blocks, declarations, predicates, vectors, tied operands, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from glueball.ptx import Interpretation, Uninterpreted, Word
from glueball.ptx.program import parse

X = np.array([1, 2, 0xFFFFFFFF, 0x80000000], np.uint32)
Y = np.array([5, 0, 3, 0x12345678], np.uint32)


def run(assembly, constraints, *words):
    return parse(assembly, constraints).run(words)


def test_blocks_declarations_comments_and_order():
    (found,) = run(
        """
        { // a comment; with a semicolon
            .reg .b32 a, t<3>; /* and
            another */ add.u32 a, $1, 1;
            { .reg .b32 a; mov.u32 a, 7; xor.b32 t2, a, $2; }
            sub.u32 $0, t2, a;
        }
        """,
        "=r,r,r", X, Y,
    )  # fmt: skip
    np.testing.assert_array_equal(found, (Y ^ 7) - (X + 1))


def test_predicates_choose_lanes():
    (found,) = run(
        "{ .reg .pred p; setp.lt.s32 p, $1, 0; mov.u32 $0, 10; @p add.u32 $0, $0, $2; @!p mov.u32 $0, $1; }",
        "=r,r,r",
        X,
        Y,
    )
    np.testing.assert_array_equal(found, np.where(X.view(np.int32) < 0, 10 + Y, X))


def test_vectors_pack_and_unpack():
    low, high = run("mov.b64 {$0, $1}, $2;", "=r,=r,l", X.astype(np.uint64) << np.uint64(32) | Y)
    np.testing.assert_array_equal((low, high), (Y, X))
    (upper,) = run("{ .reg .b16 h; mov.b32 {_, h}, $1; mov.b32 $0, {h, 0x12}; }", "=r,r", X)
    np.testing.assert_array_equal(upper, (X >> 16) | 0x120000)


def test_tied_operands_clobbers_and_escapes():
    (found,) = run("add.u32 $0, ${2:r}, $1;", "=&r,0,r,~{memory}", X, Y)
    np.testing.assert_array_equal(found, X + Y)
    (kept,) = run("", "=r,0", X)
    np.testing.assert_array_equal(kept, X)


@pytest.mark.parametrize(
    ("written", "bits"),
    [
        ("0f3F800000", 0x3F800000),
        ("1.5", 0x3FC00000),
        ("-2.0", 0xC0000000),
        ("1e-3", 0x3A83126F),
        ("0d3FF0000000000000", 0x3F800000),
    ],
)
def test_written_floats(written, bits):
    (found,) = run(f"mov.f32 $0, {written};", "=f")
    assert int(found) == bits


@pytest.mark.parametrize(("written", "value"), [("0x10", 16), ("0b101", 5), ("017", 15), ("-1", 2**32 - 1), ("5U", 5)])
def test_written_integers(written, value):
    (found,) = run(f"mov.b32 $0, {written};", "=r")
    assert int(found) == value


def test_elements_are_packed_into_registers():
    octet, half = np.dtype(np.uint8), np.dtype(np.uint16)
    words = (Word(octet, 4), Word(octet, 4)), (Word(half, 2), Word(half, 2))
    planes = Interpretation("prmt.b32 $0, $2, $3, 0x5140; prmt.b32 $1, $2, $3, 0x7362;", "=r,=r,r,r", *words)
    low, high = np.arange(8, dtype=np.uint8).reshape(4, 2), np.arange(100, 108, dtype=np.uint8).reshape(4, 2)
    found = planes(*low, *high)
    np.testing.assert_array_equal(found, low.astype(np.uint16) | high.astype(np.uint16) << 8)


@pytest.mark.parametrize(
    ("assembly", "constraints", "message"),
    [
        ("ld.global.u32 $0, [$1];", "=r,l", r"`ld.global.u32 \$0, \[\$1\]` is not interpreted"),
        ("mov.u32 $0, %laneid;", "=r", "`%laneid` is a special register, which exists on a GPU only"),
        ("bar.sync 0;", "", "`bar.sync` is not in the table"),
        ("add.u32 $0, $1, t;", "=r,r", "`t` is no register of it"),
        ("{ .reg .b32 t; add.u32 $0, $1, t; }", "=r,r", "nothing has written `t`"),
        ("add.u32 $0, $1, $2;", "=r,r,h", "`u32` asks for registers of 32 bits, not of 16"),
        ("add.u32 $0, $1;", "=r,r", "`add.u32` has other operands"),
        ("add.f32 $0, $1, 1;", "=f,f", "`1` is no float"),
        ("add.u32 $0, $1, 1.5;", "=r,r", "is no integer of 32 bits"),
        ("add.u32 $0, $1, 1", "=r,r", "does not end in `;`"),
        ("again: add.u32 $0, $1, 1;", "=r,r", "is no instruction"),
        (".reg .q t;", "", "is no type of registers"),
        ("{ mov.u32 $0, $1;", "=r,r", "a `{` is not closed"),
        ("", "=r,r", r"nothing writes `\$0`"),
        ("", "=v,v", "the constraint `v` asks for no register of PTX"),
        ("add.u32 7, $1, $1;", "=r,r", "it has no register to write"),
        ("add.u32 $0, !$1, $1;", "=r,r", "only predicates are negated"),
        ("trap;", "", "`trap` is not in the table"),
    ],
)  # fmt: skip
def test_refused(assembly, constraints, message):
    with pytest.raises(Uninterpreted, match=message):
        parse(assembly, constraints)


def test_numbers_of_operands_and_widths_are_checked():
    word = Word(np.dtype(np.uint32), 1)
    with pytest.raises(Uninterpreted, match="has 2 operands, not 1"):
        Interpretation("add.u32 $0, $1, $2;", "=r,r,r", (word,), (word,))(X)
    with pytest.raises(Uninterpreted, match="32 bits do not fit the registers of 16 bits"):
        Interpretation("mov.b16 $0, $1;", "=h,h", (word,), (word,))(X)
