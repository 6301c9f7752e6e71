"""What is launched as `this[grid](...)`: one callable per grid, kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from glueball.runtime.grid import Grid, normalise_grid

LAUNCHER_LIMIT = 1024
"""Callables that are kept, one per grid; at the limit all are forgotten."""


class Launchable(ABC):
    """Something with a launcher for each grid."""

    def __init__(self) -> None:
        self._launchers: dict[Any, Callable[..., Any]] = {}

    @abstractmethod
    def _make_launcher(self, grid: Grid) -> Callable[..., Any]:
        """A callable that launches on a grid."""

    def _computed_launcher(self, grid: Callable[..., Any]) -> Callable[..., Any]:
        """A callable that launches on the grid that `grid` gives for its arguments."""
        raise TypeError(f"the grid of {self!r} is given by numbers, not by {grid!r}")

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        try:
            launcher = self._launchers[grid]
            for extent in grid:  # to Python (1.0,) and (True,) are (1,)
                if type(extent) is not int:
                    break
            else:
                return launcher
        except (KeyError, TypeError):
            pass
        return self._find_launcher(grid)

    def _find_launcher(self, grid: Any) -> Callable[..., Any]:
        if callable(grid):
            return self._computed_launcher(grid)
        extents = normalise_grid(grid)
        launcher = self._launchers.get(extents)
        if launcher is None:
            launcher = self._make_launcher(extents)
            self._keep(extents, launcher)
        if type(grid) is tuple and len(grid) < 3 and all(type(extent) is int for extent in grid):
            self._keep(grid, launcher)
        return launcher

    def _keep(self, grid: tuple[int, ...], launcher: Callable[..., Any]) -> None:
        if len(self._launchers) >= LAUNCHER_LIMIT:
            self._launchers.clear()
        self._launchers[grid] = launcher


KernelInterface = Launchable
