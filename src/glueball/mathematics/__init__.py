"""Mathematical functions of our own: one text each, for arrays and for the registers of a thread.

A function of float32 is that of float64, rounded once at the end. `FUNCTIONS` says how far each may be off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glueball.mathematics import exponential, other, trigonometric
from glueball.mathematics.algebra import Algebra, ArrayAlgebra, Number


@dataclass(frozen=True, slots=True)
class Function:
    """A function of `operands` numbers; its float64 values are at most `bound` units in the last place off."""

    name: str
    compute: Callable[..., Number]
    operands: int
    bound: float


FLOAT32_BOUND = 0.51
"""Units in the last place by which the float32 values of every function may be off."""

FUNCTIONS: dict[str, Function] = {
    name: Function(name, compute, operands, bound)
    for name, compute, operands, bound in (
        ("exp", exponential.exp, 1, 1.0),
        ("exp2", exponential.exp2, 1, 1.0),
        ("exp10", exponential.exp10, 1, 1.0),
        ("expm1", exponential.expm1, 1, 1.5),
        ("log", exponential.log, 1, 1.0),
        ("log2", exponential.log2, 1, 1.0),
        ("log10", exponential.log10, 1, 1.0),
        ("log1p", exponential.log1p, 1, 1.0),
        ("pow", exponential.power, 2, 1.0),
        ("sinh", exponential.sinh, 1, 3.0),
        ("cosh", exponential.cosh, 1, 3.0),
        ("tanh", exponential.tanh, 1, 3.0),
        ("sin", trigonometric.sin, 1, 1.0),
        ("cos", trigonometric.cos, 1, 1.0),
        ("tan", trigonometric.tan, 1, 2.5),
        ("atan", trigonometric.atan, 1, 2.0),
        ("atan2", trigonometric.atan2, 2, 2.0),
        ("erf", other.erf, 1, 1.5),
        ("rsqrt", other.rsqrt, 1, 1.0),
        ("cbrt", other.cbrt, 1, 1.0),
        ("hypot", other.hypot, 2, 1.0),
        ("ldexp", other.ldexp, 2, 0.5),
    )
}


def on_arrays(name: str, *operands: NDArray[Any]) -> NDArray[Any]:
    """A function of float32 or float64 arrays of one shape and type."""
    with np.errstate(all="ignore"):
        wide = [np.asarray(operand).astype(np.float64) for operand in operands]
        result: NDArray[Any] = np.asarray(FUNCTIONS[name].compute(ArrayAlgebra, *wide))
        return result.astype(np.asarray(operands[0]).dtype)


__all__ = ["FLOAT32_BOUND", "FUNCTIONS", "Algebra", "Function", "on_arrays"]
