"""References made of functions of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glueball import numerics
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Array, Machine, Reference, TileArray


def joined_poison(arrays: Sequence[TileArray]) -> Any:
    """Which elements are poison in any of the arrays; None where none is."""
    masks = [array.poison for array in arrays if array.poison is not None]
    return np.logical_or.reduce(masks) if masks else None


def applying(function: Callable[..., Array]) -> Reference:
    """A function of arrays as a reference: an element is poison where an operand's is."""

    def reference(_: Machine, __: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
        values = np.asarray(function(*(operand.values for operand in operands)))
        return [TileArray(values, joined_poison(operands))]

    return reference


def on_numbers(
    on_integers: Callable[..., Array], on_floats: Callable[..., Array] | None = None, *, choosing: bool = False
) -> Reference:
    """A reference that goes by kind of number; booleans count as integers of one bit.

    Narrow floats compute in float32 and are rounded once, unless the function only chooses between its operands.
    """
    on_narrow_floats = (numerics.choosing if choosing else numerics.rounding_once)(on_floats or on_integers)

    def function(*operands: Array) -> Array:
        kind = operands[0].dtype.kind
        if kind == "b":
            bits = on_integers(*(operand.view(np.uint8) for operand in operands))
            return np.asarray(bits & 1).astype(np.bool_)
        return on_integers(*operands) if kind in "iu" else on_narrow_floats(*operands)

    return applying(function)
