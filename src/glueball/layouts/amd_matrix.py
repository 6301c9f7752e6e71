"""Fragments of AMD's matrix instructions (MFMA of CDNA, WMMA of RDNA and gfx1250): accumulators and operands."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from glueball.errors import LayoutError
from glueball.layouts import normalise
from glueball.layouts.base import DistributedLayout
from glueball.layouts.linear import LinearLayout, log2_exact
from glueball.layouts.normalise import Vector, require
from glueball.layouts.tiles import cga_bases, fit, joined, joined_vectors, shape_per_cta, steps, unit

MFMA_SHAPES = ((32, 32), (16, 16), (64, 4), (4, 64))
MFMA_LANES, WMMA_LANES = 64, 32
WMMA_K_WIDTHS = {1: (8, 16), 2: (4, 8, 16), 3: (1, 2, 4, 8, 16, 32)}
# For each version, the extents K of an instruction, by its M and N.
WMMA_SHAPES: dict[int, dict[tuple[int, int], tuple[int, ...]]] = {
    1: {(16, 16): (16,)},
    2: {(16, 16): (16, 32)},
    3: {(16, 16): (4, 32, 64, 128), (32, 16): (64, 128)},
}


@dataclass(frozen=True, slots=True)
class AMDMFMALayout(DistributedLayout):
    """The accumulator of an MFMA instruction of 64 lanes; versions 1 to 4 are gfx908, gfx90a, gfx942 and gfx950.

    `instr_shape` is [M, N, K]. `transposed` exchanges the instruction's operands, so that a lane holds neighbours along
    N. A warp owns `tiles_per_warp` adjacent tiles; warps walk the last dimension first.

    Raises LayoutError (also an AssertionError) for a version, shape or element width that does not exist, and where
    lengths disagree.
    """

    version: int
    instr_shape: Vector
    transposed: bool
    warps_per_cta: Vector
    element_bitwidth: int = 32
    tiles_per_warp: Vector = ()
    cga_layout: tuple[Vector, ...] = ()

    def __init__(
        self,
        version: int,
        instr_shape: Iterable[int],
        transposed: bool,
        warps_per_cta: Iterable[int],
        element_bitwidth: int | None = None,
        tiles_per_warp: Iterable[int] | None = None,
        cga_layout: Iterable[Iterable[int]] = (),
    ) -> None:
        width, tiles = normalise.unwrap(element_bitwidth), normalise.unwrap(tiles_per_warp)
        object.__setattr__(self, "version", normalise.integer(version, "version"))
        object.__setattr__(self, "instr_shape", normalise.integers(instr_shape, "instr_shape"))
        object.__setattr__(self, "transposed", bool(normalise.unwrap(transposed)))
        object.__setattr__(self, "warps_per_cta", normalise.integers(warps_per_cta, "warps_per_cta"))
        bits = 32 if width is None else normalise.integer(width, "element_bitwidth")
        object.__setattr__(self, "element_bitwidth", bits)
        repeats = (1,) * self.rank if tiles is None else normalise.integers(tiles, "tiles_per_warp")
        object.__setattr__(self, "tiles_per_warp", repeats)
        object.__setattr__(self, "cga_layout", cga_bases(cga_layout, self.rank))
        require(self.version in range(1, 5), f"version must be in the [1, 4] range, not {self.version}")
        require(
            len(self.instr_shape) == 3, f"instr_shape must follow the (M, N, K) format, not {list(self.instr_shape)}"
        )
        require(self.instr_shape[:2] in MFMA_SHAPES, f"invalid intrinsic shape {list(self.instr_shape)}")
        require(bits in (32, 64), f"element bitwidth must be 32 or 64, not {bits}")
        require(self.rank in (2, 3), f"warps_per_cta {list(self.warps_per_cta)} must have 2 or 3 entries")
        require(len(repeats) == self.rank, f"tiles_per_warp {list(repeats)} must have {self.rank} entries")

    @property
    def rank(self) -> int:
        """Number of tensor dimensions."""
        return len(self.warps_per_cta)

    @property
    def lanes(self) -> int:
        """Number of lanes of a warp that the layout is made for."""
        return MFMA_LANES

    @property
    def warps(self) -> int:
        """Number of warps of a CTA that the layout is made for."""
        return math.prod(self.warps_per_cta)

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        fields = (
            self.version,
            joined(self.instr_shape),
            self.transposed,
            joined(self.warps_per_cta),
            self.element_bitwidth,
            joined(self.tiles_per_warp),
        )
        return f"MFMA_{'__'.join(map(str, fields))}_{joined_vectors(self.cga_layout)}_MFMA"

    def warp_tile(self, extents: list[int], missing: int | None = None) -> tuple[list[Vector], list[Vector]]:
        """Register bases of further tiles of a warp, and warp bases, behind a tile of `extents`, which grow."""
        levels: tuple[list[Vector], list[Vector]] = ([], [])
        for level, counts in zip(levels, (self.tiles_per_warp, self.warps_per_cta), strict=True):
            for axis in reversed(range(self.rank)):
                for _ in range(log2_exact(counts[axis], "an entry of warps_per_cta or tiles_per_warp")):
                    if axis != missing:
                        level.append(unit(axis, extents[axis], self.rank))
                        extents[axis] *= 2
                    elif level is levels[1]:
                        level.append((0,) * self.rank)
        return levels

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        rank = self.rank
        # Lanes run along one dimension of the tile, registers along the other one, which the lanes left over complete.
        along, across = (rank - 2, rank - 1) if self.transposed else (rank - 1, rank - 2)
        extents = [1] * (rank - 2) + list(self.instr_shape[:2])
        lane = steps(along, 1, extents[along], rank)
        left = MFMA_LANES // extents[along] if extents[along] < MFMA_LANES else 1
        run = 1 if self.element_bitwidth == 64 else min(4, extents[across])
        register = steps(across, 1, run, rank)
        lane += steps(across, run, run * left, rank)
        register += steps(across, run * left, extents[across], rank)
        tiles, warp = self.warp_tile(extents)
        # All tiles along N come before those along M. They are counted in the whole tensor, so that a CTA which holds
        # only a part of N has copies.
        repeats = steps(rank - 1, extents[rank - 1], shape[rank - 1], rank)
        register += [basis for basis in tiles if basis[rank - 1]] + repeats
        register += [basis for basis in tiles if not basis[rank - 1]]
        extents[rank - 1] = max(extents[rank - 1], shape[rank - 1])
        order = tuple(reversed(range(rank)))
        return fit((register, lane, warp), extents, shape, order, self.cga_layout)


@dataclass(frozen=True, slots=True)
class AMDWMMALayout(DistributedLayout):
    """The accumulator of a WMMA instruction of 32 lanes; versions 1 to 3 are RDNA 3, RDNA 4 and gfx1250.

    `instr_shape` is [M, N, K]. `transposed` exchanges the instruction's operands, with M and N. `warp_bases` and
    `reg_bases`, in units of instruction tiles, say which tiles the warps and the registers of a warp take.

    Raises LayoutError (also an AssertionError) for a version that does not exist and where lengths disagree; `linear`
    raises it for shapes that do not exist.
    """

    version: int
    transposed: bool
    warp_bases: tuple[Vector, ...]
    reg_bases: tuple[Vector, ...] = ()
    instr_shape: Vector = (16, 16, 16)
    cga_layout: tuple[Vector, ...] = ()
    rank: int = 2

    def __init__(
        self,
        version: int,
        transposed: bool,
        warp_bases: Iterable[Iterable[int]],
        reg_bases: Iterable[Iterable[int]] | None = None,
        instr_shape: Iterable[int] | None = None,
        cga_layout: Iterable[Iterable[int]] = (),
        rank: int | None = None,
    ) -> None:
        given, shape = normalise.unwrap(rank), normalise.unwrap(instr_shape)
        object.__setattr__(self, "version", normalise.integer(version, "version"))
        object.__setattr__(self, "transposed", bool(normalise.unwrap(transposed)))
        object.__setattr__(self, "rank", 2 if given is None else normalise.integer(given, "rank"))
        object.__setattr__(self, "warp_bases", cga_bases(warp_bases, self.rank, "warp_bases"))
        object.__setattr__(self, "reg_bases", cga_bases(reg_bases, self.rank, "reg_bases"))
        dimensions = (16, 16, 16) if shape is None else normalise.integers(shape, "instr_shape")
        object.__setattr__(self, "instr_shape", dimensions)
        object.__setattr__(self, "cga_layout", cga_bases(cga_layout, self.rank))
        require(self.version in range(1, 4), f"version must be in the [1, 3] range, not {self.version}")
        require(self.rank in (2, 3), f"the rank must be 2 or 3, not {self.rank}")
        require(len(dimensions) == 3, f"instr_shape must follow the (M, N, K) format, not {list(dimensions)}")

    @property
    def lanes(self) -> int:
        """Number of lanes of a warp that the layout is made for."""
        return WMMA_LANES

    @property
    def warps(self) -> int:
        """Number of warps of a CTA that the layout is made for."""
        return 1 << len(self.warp_bases)

    def mangle(self) -> str:
        """Text that identifies the layout, for a specialised function's name."""
        vectors = "__".join(map(joined_vectors, (self.warp_bases, self.reg_bases, self.cga_layout)))
        return f"WMMA_{self.version}_{self.transposed}_{vectors}_{joined(self.instr_shape)}_{self.rank}_WMMA"

    def tile_shape(self) -> tuple[int, int]:
        """Rows and columns of one instruction's result, exchanged where it is transposed.

        Raises LayoutError for an instruction that no version has.
        """
        rows, columns, depth = self.instr_shape
        if depth not in WMMA_SHAPES[self.version].get((rows, columns), ()):
            raise LayoutError(f"invalid WMMA v{self.version} instruction shape {list(self.instr_shape)}")
        return (columns, rows) if self.transposed else (rows, columns)

    def scaled(self, bases: Iterable[Vector], missing: int | None = None) -> list[Vector]:
        """Bases in units of instruction tiles as coordinates, zero along a dimension that is missing."""
        sizes = [1] * (self.rank - 2) + list(self.tile_shape())
        if missing is not None:
            sizes[missing] = 0
        return [tuple(value * size for value, size in zip(basis, sizes, strict=True)) for basis in bases]

    def covered(self, missing: int | None = None) -> list[int]:
        """The extents of the tile of all registers and warps, with 1 along a dimension that is missing."""
        sizes = [1] * (self.rank - 2) + list(self.tile_shape())
        tiles = (*self.reg_bases, *self.warp_bases)
        counts = [max((1 << basis[axis].bit_length() for basis in tiles), default=1) for axis in range(self.rank)]
        return [1 if axis == missing else size * counts[axis] for axis, size in enumerate(sizes)]

    def _map(self, shape: tuple[int, ...]) -> LinearLayout:
        rank = self.rank
        along, across = (rank - 2, rank - 1) if self.transposed else (rank - 1, rank - 2)
        extent = ((1,) * (rank - 2) + self.tile_shape())[across]
        lane = steps(along, 1, 16, rank)
        if self.version == 1:
            lane.append(unit(across, 1, rank))
            register = steps(across, 2, 16, rank)
        else:
            lane.append(unit(across, 8, rank))
            register = steps(across, 1, 8, rank) + steps(across, 16, extent, rank)
        register += self.scaled(self.reg_bases)
        levels = (register, lane, self.scaled(self.warp_bases))
        return fit(levels, self.covered(), shape, tuple(reversed(range(rank))), self.cga_layout)


def mfma_operand_map(
    operand_index: int, parent: AMDMFMALayout, k_width: int, cga_layout: tuple[Vector, ...], shape: tuple[int, ...]
) -> LinearLayout:
    """The map of operand 0 (M x K) or 1 (K x N): lanes along M or N, the rest of them along K in runs of `k_width`."""
    log2_exact(k_width, "k_width")
    rank = parent.rank
    outer, inner = (rank - 2, rank - 1) if operand_index == 0 else (rank - 1, rank - 2)
    size = parent.instr_shape[operand_index]
    extents = [1] * rank
    extents[outer] = size
    run = k_width * (MFMA_LANES // size)
    # All of K comes before further tiles of the warp, so the tile extends over all of it. Both operands take the same
    # part of K at least: that of the one whose lanes have more left for it.
    least = k_width * (MFMA_LANES // min(parent.instr_shape[:2]))
    extents[inner] = max(least, shape_per_cta(shape, cga_layout)[inner])
    register = steps(inner, 1, k_width, rank) + steps(inner, run, extents[inner], rank)
    lane = steps(outer, 1, size, rank) + steps(inner, k_width, run, rank)
    tiles, warp = parent.warp_tile(extents, missing=inner)
    order = (outer, *reversed(range(rank - 2)))
    return fit((register + tiles, lane, warp), extents, shape, order, cga_layout)


def wmma_operand_map(
    operand_index: int, parent: AMDWMMALayout, k_width: int, cga_layout: tuple[Vector, ...], shape: tuple[int, ...]
) -> LinearLayout:
    """The map of operand 0 (M x K) or 1 (K x N): lanes along M or N and, but for version 1, along K.

    In version 1 both halves of a warp hold the same elements.
    """
    if k_width not in WMMA_K_WIDTHS[parent.version]:
        widths = " or ".join(map(str, WMMA_K_WIDTHS[parent.version]))
        raise LayoutError(f"the k_width of an operand of WMMA version {parent.version} is {widths}, not {k_width}")
    rank = parent.rank
    outer, inner = (rank - 2, rank - 1) if operand_index == 0 else (rank - 1, rank - 2)
    lane = steps(outer, 1, 16, rank)
    groups = 1 if parent.version == 1 else 2
    lane.append(unit(inner, k_width if groups == 2 else 0, rank))
    extents = parent.covered(missing=inner)
    extents[inner] = k_width if groups == 1 else max(parent.instr_shape[2], groups * k_width)
    register = steps(inner, 1, k_width, rank) + steps(inner, groups * k_width, extents[inner], rank)
    register += steps(outer, 16, parent.tile_shape()[operand_index], rank)
    further = parent.scaled(parent.reg_bases, missing=inner)
    register += [basis for basis, own in zip(further, parent.reg_bases, strict=True) if any(basis) or not any(own)]
    levels = (register, lane, parent.scaled(parent.warp_bases, missing=inner))
    order = (inner, outer, *reversed(range(rank - 2)))
    return fit(levels, extents, shape, order, cga_layout)
