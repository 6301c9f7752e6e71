"""What every layout is: an immutable value that gives, for a shape, its linear map from hardware to coordinates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from glueball.errors import LayoutError
from glueball.layouts import display, normalise
from glueball.layouts.linear import LinearLayout, log2_exact
from glueball.layouts.normalise import Vector

HARDWARE = ("register", "lane", "warp", "block")


@dataclass(frozen=True, slots=True)
class LayoutType:
    """The type of a layout that is passed as a compile-time value: equal exactly where the layouts are equal."""

    value: Layout

    def mangle(self) -> str:
        """Text for a specialised function's name."""
        return self.value.mangle()


class Layout(ABC):
    """Base of all layouts, which compare and hash by their fields, whichever containers they were written with."""

    __slots__ = ()

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number of tensor dimensions."""

    @property
    @abstractmethod
    def cga_layout(self) -> tuple[Vector, ...]:
        """For each bit of the CTA rank, the tile coordinates that it selects, in units of one CTA's tile."""

    @abstractmethod
    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""

    @abstractmethod
    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        """The map for a shape whose rank and extents have been checked."""

    @property
    def ctas(self) -> int:
        """Number of CTAs that share a tensor of this layout."""
        return 1 << len(self.cga_layout)

    @property
    def type(self) -> LayoutType:
        """The layout's type as a compile-time value."""
        return LayoutType(self)

    def linear(self, shape: Sequence[int]) -> LinearLayout:
        """The map from hardware index bits to coordinates for a tensor of `shape`.

        Raises LayoutError where the layout is malformed, the rank differs, an extent is no power of two, or some
        element would be held nowhere.
        """
        return _cached_map(self, tuple(shape))

    def _repr_html_(self) -> str | None:
        """The layout in a notebook: its spelling, a picture of one tile, and what it costs."""
        from glueball.layouts.representation import document

        return document(self)

    def _repr_svg_(self) -> str | None:
        """A picture of one tile of the layout."""
        from glueball.layouts.representation import picture

        return picture(self)


@lru_cache(maxsize=4096)
def _cached_map(layout: Layout, shape: tuple[int, ...]) -> LinearLayout:
    if len(shape) != layout.rank:
        raise LayoutError(f"a tensor of shape {list(shape)} has rank {len(shape)}, its layout {layout.rank}: {layout}")
    for axis, extent in enumerate(shape):
        log2_exact(extent, f"extent of dimension {axis} of {list(shape)}")
    result = layout._map(shape)
    if not result.is_surjective():
        raise LayoutError(f"a layout is expected to be surjective, this one leaves out elements: {layout}\n{result}")
    return result


class DistributedLayout(Layout):
    """Base of the layouts of tensors in registers, whose maps are from (register, lane, warp, block)."""

    __slots__ = ()

    @property
    @abstractmethod
    def lanes(self) -> int:
        """Number of lanes of a warp that the layout is made for."""

    @property
    @abstractmethod
    def warps(self) -> int:
        """Number of warps of a CTA that the layout is made for."""

    def format_tensor_view(self, shape: Sequence[int]) -> str:
        """The tensor as text, each element with its holders `T<thread>:<register>`."""
        return display.tensor_view(self.linear(normalise.integers(shape, "shape")))

    def format_hardware_view(self, shape: Sequence[int]) -> str:
        """The hardware as text: warp by warp, one line per register with the elements that the lanes hold."""
        return display.hardware_view(self.linear(normalise.integers(shape, "shape")))


class ParentedLayout(DistributedLayout):
    """Base of the layouts that follow from a parent's, for the same lanes and warps."""

    __slots__ = ()
    parent: DistributedLayout

    @property
    def lanes(self) -> int:
        """Number of lanes of a warp that the layout is made for."""
        return self.parent.lanes

    @property
    def warps(self) -> int:
        """Number of warps of a CTA that the layout is made for."""
        return self.parent.warps


class SharedLayout(Layout):
    """Base of the layouts of tensors in shared memory, whose maps are from (offset, block); offsets are in elements."""

    __slots__ = ()

    @property
    @abstractmethod
    def alignment(self) -> int:
        """Bytes of which the address of a tensor of this layout must be a multiple."""

    def format_tensor_view(self, shape: Sequence[int]) -> str:
        """The memory as text, in rows as long as the tensor's, each cell with the coordinates stored there."""
        return display.shared_tensor_view(self.linear(normalise.integers(shape, "shape")))

    def format_hardware_view(self, shape: Sequence[int]) -> str:
        """The memory as text: one line per offset with the coordinates stored there."""
        return display.shared_hardware_view(self.linear(normalise.integers(shape, "shape")))
