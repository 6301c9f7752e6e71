"""Grids: how many programs run along each of three axes."""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

Grid: TypeAlias = tuple[int, int, int]

AXES = "xyz"
LIMITS: Grid = (2**31 - 1, 65535, 65535)


def normalise_grid(grid: Any) -> Grid:
    """Three extents from an integer or one to three integers.

    `TypeError` for anything else; `ValueError` that names the axis for an extent that is negative or over its limit.
    """
    given = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
    if not 1 <= len(given) <= 3:
        raise ValueError(f"a grid has one to three extents, not {len(given)}: {grid!r}")
    extents = [_extent(grid, axis, value) for axis, value in enumerate(given)]
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def _extent(grid: Any, axis: int, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError  # True is 1 to Python, and a mistake here
        extent = operator.index(value)
    except TypeError:
        raise TypeError(
            f"grid {grid!r}: the extent along {AXES[axis]} must be an integer, not {type(value).__name__}"
        ) from None
    if extent < 0:
        raise ValueError(f"grid {grid!r}: the extent along {AXES[axis]} is {extent}, which is negative")
    if extent > LIMITS[axis]:
        raise ValueError(f"grid {grid!r}: the extent along {AXES[axis]} is {extent}, over the limit of {LIMITS[axis]}")
    return extent
