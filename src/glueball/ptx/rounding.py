"""Floats rounded once, in each of the four directions, by whole arrays.

The nearest value comes first; where the direction asks for another, the sign of what rounding lost tells its neighbour.
That sign is exact: of float32 in float64, where products are exact and sums can be made odd, of float64 in fractions.
PTX ISA, section "Rounding Modifiers".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from glueball import numerics
from glueball.ptx.types import Array


@dataclass(frozen=True, slots=True)
class Operation:
    """Its value rounded to the nearest, and terms whose sum has the sign of what that lost (of float32: at most 3)."""

    nearest: Callable[..., Array]
    lost: Callable[..., Sequence[Any]]


OPERATIONS: Mapping[str, Operation] = {
    "add": Operation(np.add, lambda result, x, y: (x, y, -result)),
    "sub": Operation(np.subtract, lambda result, x, y: (x, -y, -result)),
    "mul": Operation(np.multiply, lambda result, x, y: (x * y, -result)),
    "fma": Operation(numerics.fused_multiply_add, lambda result, x, y, z: (x * y, z, -result)),
    "div": Operation(np.divide, lambda result, x, y: (x * _sign(y), -result * y * _sign(y))),
    "sqrt": Operation(np.sqrt, lambda result, x: (x, -result * result)),
}


def _sign(values: Array) -> Array:
    return np.where(values < 0, -1, 1)


def rounded(name: str, operands: Sequence[Array], rounding: str) -> Array:
    """The value of an operation of floats of one type, rounded once."""
    operation, operands = OPERATIONS[name], np.broadcast_arrays(*operands)
    kind = operands[0].dtype
    with np.errstate(all="ignore"):
        if rounding == "nearest":
            if kind.itemsize >= 4 or name == "fma":
                return np.asarray(operation.nearest(*operands))
            return numerics.rounding_once(operation.nearest)(*operands)
        result = np.asarray(operation.nearest(*operands))
        lost = _lost(operation, result, operands, name)
        result = step(result, lost, rounding)
        if rounding == "down" and name in ("add", "sub", "fma"):
            return _negative_zero(name, result, operands, lost)
        return result


def _lost(operation: Operation, result: Array, operands: Sequence[Array], name: str) -> Array:
    """The sign of the exact value less the rounded one; 0 where nothing was rounded."""
    finite = np.logical_and.reduce([np.isfinite(operand) for operand in operands]) & ~np.isnan(result)
    if name == "div":
        finite &= operands[1] != 0
    overflowed = finite & np.isinf(result)
    inside = [np.where(finite & ~overflowed, each, each.dtype.type(0)) for each in (result, *operands)]
    if result.dtype == np.float64:
        exact = np.frompyfunc(Fraction, 1, 1)
        total = sum(operation.lost(*(np.asarray(exact(each), object) for each in inside)))
    else:
        terms = operation.lost(*(each.astype(np.float64) for each in inside))
        total = terms[0] + terms[1] if len(terms) == 2 else numerics.odd_sum(terms[0], terms[1]) + terms[2]
    signs = np.asarray(np.asarray(total > 0, np.int8) - np.asarray(total < 0, np.int8))
    return np.where(overflowed, np.where(result > 0, -1, 1), signs)


def step(nearest: Array, lost: Array, rounding: str) -> Array:
    """The float beside the nearest one where a direction asks for it; `lost` has the sign of what rounding lost."""
    match rounding:
        case "nearest":
            return nearest
        case "up":
            moves, toward = lost > 0, np.inf
        case "down":
            moves, toward = lost < 0, -np.inf
        case _:
            moves, toward = lost * np.where(np.signbit(nearest), -1, 1) < 0, 0.0
    with np.errstate(all="ignore"):
        return np.where(moves, np.nextafter(nearest, nearest.dtype.type(toward)), nearest)


def _negative_zero(name: str, result: Array, operands: Sequence[Array], lost: Array) -> Array:
    """Toward minus infinity the exact zero that is a sum of unlike signs is -0."""
    first, second = operands if name != "fma" else (operands[0] * operands[1], operands[2])
    alike = np.signbit(first) == (np.signbit(second) ^ (name == "sub"))
    return np.where((result == 0) & (lost == 0) & ~alike & ~np.signbit(result), -result, result)


def round_to(values: Array, kind: np.dtype[Any], rounding: str) -> Array:
    """Floats to another float type, rounded once; to the nearest, float16 and wider become infinite beyond the end."""
    if rounding in ("nearest", "zero"):
        return numerics.round_float(values, kind, rounding)
    nearest = numerics.round_float(values, kind)
    with np.errstate(all="ignore"):
        lost = values.astype(np.float64) - nearest.astype(np.float64)
    return step(nearest, lost, rounding)
