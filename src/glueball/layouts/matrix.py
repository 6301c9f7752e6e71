"""Operands of a matrix product in registers, whichever instruction computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from glueball.errors import LayoutError
from glueball.layouts import normalise
from glueball.layouts.amd_matrix import AMDMFMALayout, AMDWMMALayout, mfma_operand_map, wmma_operand_map
from glueball.layouts.base import DistributedLayout, ParentedLayout
from glueball.layouts.distributed import BlockedLayout
from glueball.layouts.linear import LinearLayout
from glueball.layouts.normalise import Vector
from glueball.layouts.nvidia_matrix import NVMMADistributedLayout, nvidia_operand_map
from glueball.layouts.tiles import fit, shape_per_cta, unit

Accumulator: TypeAlias = BlockedLayout | NVMMADistributedLayout | AMDMFMALayout | AMDWMMALayout


@dataclass(frozen=True, slots=True)
class DotOperandLayout(ParentedLayout):
    """Operand 0 (M x K) or 1 (K x N) of a product whose accumulator has the layout `parent`.

    Each thread holds runs of `k_width` elements along K. A BlockedLayout as parent, whose product is computed by
    multiply-adds, takes a `k_width` of 0: a thread holds all of K for each of its rows or columns.

    Raises LayoutError for another operand index, or a parent that is no accumulator.
    """

    operand_index: int
    parent: Accumulator
    k_width: int

    def __init__(self, operand_index: int, parent: DistributedLayout, k_width: int) -> None:
        index, layout = normalise.integer(operand_index, "operand_index"), normalise.unwrap(parent)
        if index not in (0, 1):
            raise LayoutError(f"operand_index must be 0 or 1, not {index}")
        if not isinstance(layout, Accumulator):
            raise LayoutError(f"the parent of a DotOperandLayout must be the layout of an accumulator, not {layout!r}")
        object.__setattr__(self, "operand_index", index)
        object.__setattr__(self, "parent", layout)
        object.__setattr__(self, "k_width", normalise.integer(k_width, "k_width"))
        if isinstance(layout, BlockedLayout) and self.k_width != 0:
            raise LayoutError(
                "kWidth parameter is not supported when the parent is a blocked layout: k_width must be 0"
            )

    @property
    def rank(self) -> int:
        """Number of tensor dimensions."""
        return self.parent.rank

    @property
    def inner(self) -> int:
        """The dimension K of this operand."""
        return self.rank - 1 if self.operand_index == 0 else self.rank - 2

    @property
    def cga_layout(self) -> tuple[Vector, ...]:
        """The parent's, zero along K: CTAs that differ only there hold copies."""
        bases = (
            [0 if axis == self.inner else value for axis, value in enumerate(basis)] for basis in self.parent.cga_layout
        )
        return normalise.vectors(bases, "cga_layout")

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        return f"DO{self.operand_index}_{self.parent.mangle()}_{self.k_width}DO"

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        match self.parent:
            case BlockedLayout():
                return self._blocked_map(self.parent, shape)
            case NVMMADistributedLayout():
                return nvidia_operand_map(self.operand_index, self.parent, self.k_width, self.cga_layout, shape)
            case AMDMFMALayout():
                return mfma_operand_map(self.operand_index, self.parent, self.k_width, self.cga_layout, shape)
            case AMDWMMALayout():
                return wmma_operand_map(self.operand_index, self.parent, self.k_width, self.cga_layout, shape)

    def _blocked_map(self, parent: BlockedLayout, shape: tuple[int, ...]) -> LinearLayout:
        parent.check()
        if self.rank < 2:
            raise LayoutError(f"an operand of a matrix product has at least two dimensions: {self}")
        sizes = list(parent.size_per_thread)
        sizes[self.inner] = shape_per_cta(shape, self.cga_layout)[self.inner]
        extents = [1] * self.rank
        levels: list[list[Vector]] = []
        for counts in (sizes, parent.threads_per_warp, parent.warps_per_cta):
            level = []
            for axis in parent.order:
                for _ in range(counts[axis].bit_length() - 1):
                    copies = axis == self.inner and counts is not sizes
                    level.append(unit(axis, 0 if copies else extents[axis], self.rank))
                    extents[axis] *= 1 if copies else 2
            levels.append(level)
        register, lane, warp = levels
        return fit((register, lane, warp), extents, shape, parent.order, self.cga_layout)
