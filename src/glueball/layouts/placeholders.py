"""Layouts that stand for one that is inferred later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from glueball.errors import LayoutError
from glueball.layouts.base import DistributedLayout


class PlaceholderLayout(DistributedLayout):
    """Base of the placeholders, which have no rank, no lanes and no map until they are resolved."""

    __slots__ = ()

    @property
    def rank(self) -> int:
        """Raises LayoutError."""
        raise self._unresolved("rank")

    @property
    def cga_layout(self) -> NoReturn:
        """Raises LayoutError."""
        raise self._unresolved("cga_layout")

    @property
    def lanes(self) -> int:
        """Raises LayoutError."""
        raise self._unresolved("number of lanes")

    @property
    def warps(self) -> int:
        """Raises LayoutError."""
        raise self._unresolved("number of warps")

    def linear(self, shape: Sequence[int]) -> NoReturn:
        """Raises LayoutError."""
        raise self._unresolved("map")

    def format_tensor_view(self, shape: Sequence[int]) -> NoReturn:
        """Raises LayoutError."""
        raise LayoutError(f"{type(self).__name__} cannot be visualized")

    def format_hardware_view(self, shape: Sequence[int]) -> NoReturn:
        """Raises LayoutError."""
        raise LayoutError(f"{type(self).__name__} cannot be visualized")

    def _map(self, shape: tuple[int, ...]) -> NoReturn:
        raise self._unresolved("map")

    def _unresolved(self, what: str) -> LayoutError:
        return LayoutError(f"{type(self).__name__} has no {what}")


@dataclass(frozen=True, slots=True)
class AutoLayout(PlaceholderLayout):
    """The layout that follows from how the tensor is used."""

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        return "AL"


@dataclass(frozen=True, slots=True)
class CoalescedLayout(PlaceholderLayout):
    """The layout that suits the memory access that the tensor feeds."""

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        return "CL"
