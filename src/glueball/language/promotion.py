"""Which element type an operation on two element types computes in."""

from __future__ import annotations

import math
from typing import Any

from glueball.tile.types import (
    ScalarType,
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int32,
    int64,
    pointer_type,
    uint32,
    uint64,
)

SMALLEST_NORMAL_FLOAT32 = 2.0**-126
LARGEST_FLOAT32 = (2.0 - 2.0**-23) * 2.0**127
LONGEST_SHOWN_BITS = 512


class IncompatibleTypeError(TypeError):
    """Two types that no operation takes together."""

    def __init__(self, left: ScalarType, right: ScalarType, advice: str = "") -> None:
        if isinstance(left, pointer_type) != isinstance(right, pointer_type):
            other = right if isinstance(left, pointer_type) else left
            whole = isinstance(other, dtype) and other.is_int()
            advice = (
                "; only sums and differences take a pointer" if whole else "; the offset of a pointer is an integer"
            )
        super().__init__(f"invalid operands of type {left} and {right}{advice}")


def literal_type(value: Any) -> dtype:
    """The element type of a Python number that becomes a run-time value.

    `bool` gives int1; `int` the first of int32, uint32, int64, uint64 that holds it (`ValueError` if none does);
    `float` float32 where it is zero, not finite or a normal float32, else float64.
    """
    if isinstance(value, bool):
        return int1
    if isinstance(value, int):
        for candidate in (int32, uint32, int64, uint64):
            if candidate.get_int_min_value() <= value <= candidate.get_int_max_value():
                return candidate
        shown = value if value.bit_length() <= LONGEST_SHOWN_BITS else f"of {value.bit_length()} bits"
        raise ValueError(f"Nonrepresentable integer {shown}")
    if isinstance(value, float):
        if value == 0.0 or not math.isfinite(value) or SMALLEST_NORMAL_FLOAT32 <= abs(value) <= LARGEST_FLOAT32:
            return float32
        return float64
    advice = "; does a function that should give it lack a `return`?" if value is None else ""
    raise TypeError(f"cannot convert {value!r} of type {type(value).__name__} to tensor{advice}")


def _promote_integers(left: dtype, right: dtype) -> dtype:
    """Equal signedness: the wider; else the unsigned type unless the signed one is wider."""
    if left.signed == right.signed:
        return left if left.primitive_bitwidth >= right.primitive_bitwidth else right
    unsigned, signed = (right, left) if left.signed else (left, right)
    return unsigned if unsigned.primitive_bitwidth >= signed.primitive_bitwidth else signed


def _promote_floats(left: dtype, right: dtype) -> dtype:
    """One at least is a float, neither is float64 or float32."""
    pair = (left, right)
    if float16 in pair:
        return float16
    if bfloat16 in pair:
        return bfloat16 if left == right else float32
    if left.is_fp8() and right.is_fp8():
        return left if left == right else float16
    raise IncompatibleTypeError(left, right)


def promote(
    left: ScalarType,
    right: ScalarType,
    *,
    left_literal: bool = False,
    right_literal: bool = False,
    dividing: bool = False,
) -> dtype:
    """The element type in which an operation on two operands computes.

    A literal whose kind (bool < int < float) is not above the other's adopts the other's type; run-time scalars
    promote like tiles. `dividing` says that the operation is a division or remainder.
    Errors: `IncompatibleTypeError` for pointers and for types that do not mix, `TypeError` for divisions of integers
    of different signedness.
    """
    if isinstance(left, pointer_type) or isinstance(right, pointer_type):
        raise IncompatibleTypeError(left, right)
    if left_literal != right_literal:
        literal, other = (left, right) if left_literal else (right, left)
        if literal.kind().value <= other.kind().value:
            return float32 if dividing and other.is_floating() and other != float64 else other
    if float64 in (left, right):
        return float64
    if left.is_floating() or right.is_floating():
        if dividing or float32 in (left, right):
            return float32
        return _promote_floats(left, right)
    if dividing and left.signed != right.signed:
        raise TypeError(
            f"cannot divide {left} and {right}: they have different signedness; cast one of them to the other's"
        )
    return _promote_integers(left, right)


def check_literal(value: Any, target: dtype) -> None:
    """Check that a literal number fits the integer type it adopts; `ValueError` otherwise."""
    if not target.is_int() or target.is_bool() or isinstance(value, bool):
        return
    if value < 0 and not target.signed:
        raise ValueError(
            f"cannot perform a binary operation between an unsigned tensor and a negative scalar ({value}): "
            "cast one of them explicitly"
        )
    if not target.get_int_min_value() <= value <= target.get_int_max_value():
        raise ValueError(f"scalar {value} is out of range for type {target}")
