"""The table of promotions, and what literals become."""

from __future__ import annotations

import math

import pytest

import glueball.language as gl
from glueball.language.function import JITCallable
from glueball.language.promotion import IncompatibleTypeError, check_literal, literal_type, promote
from tests.frontend.harness import build_kernel, operations

H, B, F, D = gl.float16, gl.bfloat16, gl.float32, gl.float64


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (gl.int8, gl.uint8, gl.uint8), (gl.int32, gl.uint32, gl.uint32), (gl.int64, gl.uint32, gl.int64),
        (gl.uint8, gl.int32, gl.int32), (gl.int8, gl.uint16, gl.uint16), (gl.int1, gl.int1, gl.int1),
        (gl.int1, gl.int8, gl.int8), (gl.int16, gl.int64, gl.int64), (H, B, H), (H, gl.int32, H), (B, B, B),
        (B, gl.int64, F), (B, gl.int1, F), (H, F, F), (D, H, D), (D, gl.int8, D), (F, gl.uint64, F),
        (gl.float8e5, gl.float8e5, gl.float8e5), (gl.float8e5, gl.float8e4nv, H), (gl.float8e5, H, H),
        (gl.float8e5, B, F),
    ],
)  # fmt: skip
def test_run_time_values(left, right, result):
    assert promote(left, right) == result
    assert promote(right, left) == result


@pytest.mark.parametrize(
    ("tensor", "literal", "result"),
    [
        (gl.int8, 1, gl.int8), (gl.int1, 1, gl.int32), (gl.int8, True, gl.int8), (H, 1.0, H), (F, 1e300, F),
        (gl.int32, 1.0, F), (gl.int8, 1.5, F), (gl.int32, 1e300, D), (B, 3, B), (gl.uint8, 2, gl.uint8),
    ],
)  # fmt: skip
def test_literals_adopt_the_type_of_a_tensor_of_their_kind(tensor, literal, result):
    assert promote(tensor, literal_type(literal), right_literal=True) == result
    assert promote(literal_type(literal), tensor, left_literal=True) == result


@pytest.mark.parametrize(("left", "right", "result"), [(H, H, F), (B, B, F), (D, H, D), (gl.int8, H, F)])
def test_division_of_floats_is_wide(left, right, result):
    assert promote(left, right, dividing=True) == result


def test_division_of_different_signedness_is_refused():
    with pytest.raises(TypeError, match="different signedness"):
        promote(gl.int32, gl.uint32, dividing=True)


def test_pointers_and_narrow_floats_with_integers_do_not_mix():
    with pytest.raises(IncompatibleTypeError, match="invalid operands of type"):
        promote(gl.pointer_type(F), gl.int32)
    with pytest.raises(IncompatibleTypeError, match="fp8e5"):
        promote(gl.float8e5, gl.int32)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, gl.int1), (0, gl.int32), (2**31 - 1, gl.int32), (-(2**31), gl.int32), (2**31, gl.uint32),
        (2**32, gl.int64), (-(2**31) - 1, gl.int64), (2**63, gl.uint64), (1.0, F), (0.0, F), (math.inf, F),
        (math.nan, F), (1e-40, D), (1e40, D), (2.0**-126, F),
    ],
)  # fmt: skip
def test_types_of_literals(value, kind):
    assert literal_type(value) == kind


def test_literals_that_do_not_fit():
    with pytest.raises(ValueError, match="Nonrepresentable integer of 20001 bits"):
        literal_type(1 << 20000)
    with pytest.raises(ValueError, match="Nonrepresentable integer"):
        literal_type(2**64)
    with pytest.raises(TypeError, match="cannot convert 'a' of type str to tensor"):
        literal_type("a")
    with pytest.raises(ValueError, match="300 is out of range for type int8"):
        check_literal(300, gl.int8)
    with pytest.raises(ValueError, match="between an unsigned tensor and a negative scalar"):
        check_literal(-1, gl.uint8)


@JITCallable
def quotient(p, x):
    gl.store(p, x / 2)


@JITCallable
def remainder(p, x):
    gl.store(p, x % 3)


@JITCallable
def choice(p, x):
    gl.static_assert(gl.where(x > 0, 1, 0.0).dtype == gl.float32)
    gl.static_assert(gl.where(x > 0, 1, 2).dtype == gl.int32)
    gl.store(p, x)


@pytest.mark.parametrize(
    ("kernel", "opcode", "kind", "result"),
    [
        (quotient, "div", gl.int8, F),
        (quotient, "div", H, F),
        (remainder, "rem", gl.int8, gl.int8),
        (remainder, "rem", H, F),
    ],
)
def test_operations_compute_in_the_promoted_type(kernel, opcode, kind, result):
    tile = build_kernel(kernel, p=gl.pointer_type(F), x=kind)
    (operation,) = operations(tile, opcode)
    assert operation.result.type == result


def test_where_promotes_literals():
    build_kernel(choice, p=gl.pointer_type(F), x=gl.int32)
