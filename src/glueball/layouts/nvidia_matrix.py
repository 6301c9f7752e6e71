"""Fragments of NVIDIA's matrix instructions: accumulators, and operands held in registers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from glueball.errors import LayoutError
from glueball.layouts import normalise
from glueball.layouts.base import DistributedLayout
from glueball.layouts.linear import LinearLayout, log2_exact
from glueball.layouts.normalise import Vector, require
from glueball.layouts.tiles import cga_bases, fit, joined, joined_vectors, steps, unit

AMPERE, HOPPER = 2, 3
MAXIMUM_N = 256


@dataclass(frozen=True, slots=True)
class NVMMADistributedLayout(DistributedLayout):
    """The accumulator of a warp's matrix instruction (version 2) or a warp group's (version 3).

    `instr_shape` is [16, 8] for version 2 ([1, 16, 8] for batches) and [16, N, K] for version 3. A warp holds tiles of
    16 rows: lane 4 g + t has columns 2 t and 2 t + 1 of rows g and g + 8, and again 8 columns further on. Warps tile
    the last dimension first in version 2, the first one first in version 3.

    Raises LayoutError (also an AssertionError) where lengths disagree; `linear` raises it for versions and shapes that
    do not exist.
    """

    version: Vector
    warps_per_cta: Vector
    instr_shape: Vector
    cga_layout: tuple[Vector, ...] = ()

    def __init__(
        self,
        version: Iterable[int],
        warps_per_cta: Iterable[int],
        instr_shape: Iterable[int],
        cga_layout: Iterable[Iterable[int]] = (),
    ) -> None:
        lists = {"version": version, "warps_per_cta": warps_per_cta, "instr_shape": instr_shape}
        for name, values in lists.items():
            object.__setattr__(self, name, normalise.integers(values, name))
        object.__setattr__(self, "cga_layout", cga_bases(cga_layout, self.rank))
        require(len(self.version) == 2, f"version must be [major, minor], not {list(self.version)}")

    @property
    def rank(self) -> int:
        """Number of tensor dimensions."""
        return len(self.warps_per_cta)

    @property
    def lanes(self) -> int:
        """Number of lanes of a warp that the layout is made for."""
        return 32

    @property
    def warps(self) -> int:
        """Number of warps of a CTA that the layout is made for."""
        return math.prod(self.warps_per_cta)

    @property
    def warp_order(self) -> Vector:
        """Dimensions in the order in which warps walk them, fastest first."""
        axes = range(self.rank)
        return tuple(axes) if self.version[0] == HOPPER else tuple(reversed(axes))

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        lists = (self.version, self.warps_per_cta, self.instr_shape)
        return f"MMA_{'__'.join(map(joined, lists))}_{joined_vectors(self.cga_layout)}_MMA"

    def check(self) -> None:
        """Raise LayoutError unless there is such an instruction."""
        for count in self.warps_per_cta:
            log2_exact(count, f"an entry of warps_per_cta {list(self.warps_per_cta)}")
        if self.version[0] == AMPERE:
            expected = (*((1,) * (self.rank - 2)), 16, 8)
            if self.rank not in (2, 3) or self.instr_shape != expected:
                raise LayoutError(f"instr_shape must be [16, 8], or [1, 16, 8] for batches: {self}")
        elif self.version[0] == HOPPER:
            if self.rank != 2 or len(self.instr_shape) != 3 or self.instr_shape[0] != 16:
                raise LayoutError(f"instr_shape must be [16, N, K] and the rank 2: {self}")
            columns = self.instr_shape[1]
            if columns not in (8, 16, 32, 64, 128, MAXIMUM_N):
                raise LayoutError(f"instr_shape N must be a power of two between 8 and {MAXIMUM_N}, not {columns}")
        else:
            raise LayoutError(f"the version of an NVMMADistributedLayout must be 2 or 3, not {self.version[0]}: {self}")

    def warp_bases(self, extents: list[int], missing: int | None = None) -> list[Vector]:
        """The bases of the warps behind a tile of `extents`, which grow; zero along a dimension that is missing."""
        bases = []
        for axis in self.warp_order:
            for _ in range(log2_exact(self.warps_per_cta[axis], "warps_per_cta")):
                bases.append(unit(axis, 0 if axis == missing else extents[axis], self.rank))
                extents[axis] *= 1 if axis == missing else 2
        return bases

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        self.check()
        rows, columns = self.rank - 2, self.rank - 1
        extents = [1] * rows + [16, self.instr_shape[1] if self.version[0] == HOPPER else 8]
        register = [
            unit(columns, 1, self.rank),
            unit(rows, 8, self.rank),
            *steps(columns, 8, extents[columns], self.rank),
        ]
        lane = steps(columns, 2, 8, self.rank) + steps(rows, 1, 8, self.rank)
        warp = self.warp_bases(extents)
        return fit((register, lane, warp), extents, shape, tuple(reversed(range(self.rank))), self.cga_layout)


def nvidia_operand_map(
    operand_index: int,
    parent: NVMMADistributedLayout,
    k_width: int,
    cga_layout: tuple[Vector, ...],
    shape: tuple[int, ...],
) -> LinearLayout:
    """The map of operand 0 (M x K) or 1 (K x N) in registers, each lane holding runs of `k_width` elements along K."""
    parent.check()
    log2_exact(k_width, "k_width")
    if parent.version[0] == HOPPER and operand_index != 0:
        raise LayoutError(
            "operand_index must be 0 for a version 3 parent: its second operand is read from shared memory"
        )
    rank = parent.rank
    outer, inner = (rank - 2, rank - 1) if operand_index == 0 else (rank - 1, rank - 2)
    register = steps(inner, 1, k_width, rank)
    if operand_index == 0:
        register.append(unit(outer, 8, rank))
    register.append(unit(inner, 4 * k_width, rank))
    lane = steps(inner, k_width, 4 * k_width, rank) + steps(outer, 1, 8, rank)
    extents = [1] * rank
    extents[outer], extents[inner] = (16 if operand_index == 0 else 8), 8 * k_width
    warp = parent.warp_bases(extents, missing=inner)
    order = (inner, outer, *reversed(range(rank - 2)))
    return fit((register, lane, warp), extents, shape, order, cga_layout)
