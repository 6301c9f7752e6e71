"""Layouts of the scales of AMD's block-scaled products, and tiles in partitions of shared memory that suit them."""

from __future__ import annotations

from collections.abc import Sequence

from glueball.errors import LayoutError
from glueball.layouts.amd_matrix import AMDMFMALayout, AMDWMMALayout, mfma_operand_map
from glueball.layouts.base import SharedLayout
from glueball.layouts.distributed import DistributedLinearLayout
from glueball.layouts.matrix import DotOperandLayout
from glueball.layouts.normalise import Vector
from glueball.layouts.padded import PartitionedSharedLayout
from glueball.layouts.tiles import fit, steps, unit

SCALE_FACTOR = 32
LANE_ROWS = 16


def mfma_scale_layout(
    operand: DotOperandLayout, shape: Sequence[int], scale_factor: int = SCALE_FACTOR
) -> DistributedLinearLayout:
    """The layout of scales of `shape`, [rows of A or columns of B, K / 32], for an operand of a scaled MFMA product.

    Raises LayoutError for another factor, or a parent that is no AMDMFMALayout.
    """
    parent = operand.parent
    if not isinstance(parent, AMDMFMALayout):
        raise LayoutError(f"the scales of an MFMA product need an AMDMFMALayout as parent: {operand}")
    if scale_factor != SCALE_FACTOR:
        raise LayoutError(f"Only scale factor {SCALE_FACTOR} is supported for CDNA4 Scaled MFMA, not {scale_factor}")
    rows, groups = shape
    # A scale serves one lane's run along K, so scales lie as elements of an operand do whose runs have one element.
    extents = (rows, groups) if operand.operand_index == 0 else (groups, rows)
    layout = mfma_operand_map(operand.operand_index, parent, 1, operand.cga_layout, extents)
    return DistributedLinearLayout.from_linear(layout if operand.operand_index == 0 else layout.transpose([1, 0]))


def wmma_scale_layout(
    operand: DotOperandLayout, shape: Sequence[int], scale_factor: int = SCALE_FACTOR
) -> DistributedLinearLayout:
    """The layout of scales of `shape`, [rows of A or columns of B, K / factor], for a scaled WMMA product's operand.

    A lane holds all scales of a row along K; the upper 16 lanes hold those of the next 16 rows that the warp has.
    Raises LayoutError for a factor other than 16 and 32, or a parent that is no AMDWMMALayout.
    """
    parent, outer = operand.parent, operand.operand_index
    if not isinstance(parent, AMDWMMALayout):
        raise LayoutError(f"the scales of a WMMA product need an AMDWMMALayout as parent: {operand}")
    if scale_factor not in (16, SCALE_FACTOR):
        raise LayoutError(f"the scale factor of a WMMA product is 16 or 32, not {scale_factor}")
    rows, groups = shape
    tile = parent.tile_shape()[outer]
    covered = parent.covered(missing=1 - outer)[outer]
    further = [tile * basis[outer] for basis in parent.reg_bases if basis[outer]]
    row_bases = steps(0, LANE_ROWS, tile, 2) + [unit(0, value, 2) for value in further] + steps(0, covered, rows, 2)
    # The halves of a warp share a register only where every instruction's rows fill both.
    upper: Vector = (0, 0)
    if row_bases and tile == max(parent.instr_shape[:2]):
        upper = row_bases.pop(0)
    depth = max(groups, parent.instr_shape[2] // scale_factor)
    register = steps(1, 1, depth, 2) + row_bases
    lane = [*steps(0, 1, LANE_ROWS, 2), upper]
    warp = [unit(0, tile * basis[outer], 2) for basis in parent.warp_bases]
    cga = tuple((basis[outer], 0) for basis in operand.cga_layout)
    extents = (max(rows, covered), depth)
    return DistributedLinearLayout.from_linear(fit((register, lane, warp), extents, (rows, groups), (1, 0), cga))


def partitioned_matrix_layouts(
    block: tuple[int, int],
    shared: tuple[SharedLayout, SharedLayout],
    num_warps: int,
    instr_shape: Sequence[int],
    *,
    slices: tuple[int, int] | None = None,
    transposed: tuple[bool, bool] = (False, False),
    result_transposed: bool = True,
) -> tuple[PartitionedSharedLayout, PartitionedSharedLayout, AMDWMMALayout]:
    """Operands of a product of `block` (M, N) in two partitions of shared memory, and an accumulator to match.

    `shared` places the pieces of A and B, `slices` (M, N) are the extents of one product where the block is worked off
    in parts, and `transposed` says of A and B that M or N, not K, comes last. Warps are placed such that at any time
    half of them read either partition. Raises LayoutError for another number of warps than 4 or 8, and slices of fewer
    than 4 x 2 instructions.
    """
    if num_warps not in (4, 8):
        raise LayoutError(f"Only 4 or 8 warps are currently supported, not {num_warps}")
    rows, columns = slices or block
    shape = AMDWMMALayout(3, result_transposed, [], [], instr_shape).tile_shape()
    down, across = rows // shape[0] // 4, columns // shape[1] // 2
    if down < 1 or across < 1:
        raise LayoutError(f"a product of {rows} x {columns} has fewer than 4 x 2 instructions of {list(shape)}")
    warp_bases = [(2 * down, across), (down, 0)] + ([(2 * down, 0)] if num_warps == 8 else [])
    reg_bases = steps(1, 1, across, 2) + steps(0, 1, down, 2) + ([(2 * down, 0)] if num_warps == 4 else [])
    layout = AMDWMMALayout(3, result_transposed, warp_bases, reg_bases, instr_shape)
    axes = (1 if transposed[0] else 0, 0 if transposed[1] else 1)
    groups = (block[0] // rows, block[1] // columns)
    a, b = (
        PartitionedSharedLayout(2, group, axis, inner) for group, axis, inner in zip(groups, axes, shared, strict=True)
    )
    return a, b, layout
