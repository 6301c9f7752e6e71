"""Layouts that suit a target's matrix instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glueball.errors import LayoutError
from glueball.layouts.amd_matrix import AMDMFMALayout, AMDWMMALayout
from glueball.layouts.banks import SharedMemory, tile_access
from glueball.layouts.base import DistributedLayout, SharedLayout
from glueball.layouts.linear import log2_exact
from glueball.layouts.matrix import DotOperandLayout
from glueball.layouts.nvidia_matrix import NVMMADistributedLayout
from glueball.layouts.shared import SWIZZLES, NVMMASharedLayout, SwizzledSharedLayout
from glueball.layouts.tensor_memory import TensorMemoryLayout
from glueball.layouts.tensor_memory_access import tensor_memory_register_layout
from glueball.targets import Target

WORD_BITS = 32
VECTOR_BITS = 128
LINE_BITS = 1024
# Depth K of an instruction and consecutive elements of a lane, by generation and element width.
MFMA_DEPTHS = {942: {8: (32, 8), 16: (16, 4), 32: (4, 1)}, 950: {8: (128, 32), 16: (32, 8), 32: (4, 1)}}
WMMA_DEPTHS = {8: (64, 16), 16: (32, 8), 32: (4, 2)}


@dataclass(frozen=True, slots=True)
class MatrixLayouts:
    """Where the operands and the result of an M x N x K product live.

    `accumulator` is the result in registers, `shared_a` (M x K) and `shared_b` (K x N) the operands in shared memory,
    both contiguous along K; `operand_a` and `operand_b` are the operands in registers where the instruction reads them
    there, and `tensor_memory` is the result where the instruction leaves it in tensor memory.
    """

    accumulator: DistributedLayout
    shared_a: SharedLayout
    shared_b: SharedLayout
    operand_a: DotOperandLayout | None = None
    operand_b: DotOperandLayout | None = None
    tensor_memory: TensorMemoryLayout | None = None


def matrix_layouts(target: Target, shape: Sequence[int], element_bits: int, num_warps: int) -> MatrixLayouts:
    """Layouts for a product of `shape` (M, N, K), per CTA, with operands of 8, 16 or 32 bits and 32-bit results.

    Raises LayoutError where the shape has another rank, a size is no power of two, or the target has no such
    instruction.
    """
    if len(shape) != 3:
        raise LayoutError(f"the shape of a product is (M, N, K), not {list(shape)}")
    rows, columns, depth = shape
    for name, value in (("M", rows), ("N", columns), ("K", depth), ("num_warps", num_warps)):
        log2_exact(value, name)
    if element_bits not in (8, 16, 32):
        raise LayoutError(f"matrix operands have 8, 16 or 32 bits, not {element_bits}")
    if target.family == "amd":
        return _amd(target, (rows, columns, depth), element_bits, num_warps)
    if target.generation // 10 == 9:
        return _hopper((rows, columns, depth), element_bits, num_warps)
    if target.generation // 10 == 10:
        return _blackwell((rows, columns, depth), element_bits, num_warps)
    return _ampere((rows, columns, depth), element_bits, num_warps)


def _ampere(shape: tuple[int, int, int], element_bits: int, num_warps: int) -> MatrixLayouts:
    rows, columns, depth = shape
    warps = spread_warps(num_warps, (rows, columns), (16, 8))
    accumulator = NVMMADistributedLayout([2, 0], warps, [16, 8])
    a, b = (DotOperandLayout(index, accumulator, WORD_BITS // element_bits) for index in (0, 1))
    shared_a, shared_b = (_swizzled_rows(depth, element_bits, order) for order in ((1, 0), (0, 1)))
    return MatrixLayouts(accumulator, shared_a, shared_b, a, b)


def _hopper(shape: tuple[int, int, int], element_bits: int, num_warps: int) -> MatrixLayouts:
    rows, columns, _ = shape
    if num_warps % 4:
        raise LayoutError(f"warp-group products need a multiple of 4 warps, not {num_warps}")
    if rows < 64 or columns < 8:
        raise LayoutError(f"warp-group products have at least 64 x 8 elements, not {rows} x {columns}")
    down = min(num_warps, rows // 16)
    across = num_warps // down
    instruction = [16, max(8, min(256, columns // across)), 256 // element_bits]
    accumulator = NVMMADistributedLayout([3, 0], [down, across], instruction)
    return MatrixLayouts(accumulator, *_bulk_tiles(shape, element_bits))


def _blackwell(shape: tuple[int, int, int], element_bits: int, num_warps: int) -> MatrixLayouts:
    rows, columns, _ = shape
    if rows < 128 or num_warps not in (4, 8):
        raise LayoutError(f"these products have at least 128 rows and 4 or 8 warps, not {rows} and {num_warps}")
    tensor_memory = TensorMemoryLayout([128, min(256, columns)], 1)
    accumulator = tensor_memory_register_layout(tensor_memory, [rows, columns], WORD_BITS, num_warps)
    return MatrixLayouts(accumulator, *_bulk_tiles(shape, element_bits), tensor_memory=tensor_memory)


def _amd(target: Target, shape: tuple[int, int, int], element_bits: int, num_warps: int) -> MatrixLayouts:
    rows, columns, depth = shape
    warps = spread_warps(num_warps, (rows, columns), (16, 16))
    accumulator: AMDMFMALayout | AMDWMMALayout
    if target.generation in MFMA_DEPTHS:
        instruction_depth, width = MFMA_DEPTHS[target.generation][element_bits]
        version = 3 if target.generation == 942 else 4
        accumulator = AMDMFMALayout(version, [16, 16, instruction_depth], True, warps)
    else:
        instruction_depth, width = WMMA_DEPTHS[element_bits]
        down, across = (count.bit_length() - 1 for count in warps)
        bases = [[0, 1 << bit] for bit in range(across)] + [[1 << bit, 0] for bit in range(down)]
        accumulator = AMDWMMALayout(3, True, bases, [], [16, 16, instruction_depth])
    a, b = (DotOperandLayout(index, accumulator, width) for index in (0, 1))
    memory = SharedMemory.of(target)
    shared_a, shared_b = (
        _conflict_free_rows(operand, extents, element_bits, memory)
        for operand, extents in ((a, (rows, depth)), (b, (depth, columns)))
    )
    return MatrixLayouts(accumulator, shared_a, shared_b, a, b)


def _conflict_free_rows(
    operand: DotOperandLayout, extents: tuple[int, int], element_bits: int, memory: SharedMemory
) -> SwizzledSharedLayout:
    """Rows along K with the first swizzle, widest vectors first, whose reads have the fewest bank conflicts."""
    order = (operand.inner, 1 - operand.inner)
    vectors = [1 << bit for bit in reversed(range((VECTOR_BITS // element_bits).bit_length()))]
    candidates = [
        SwizzledSharedLayout(vector, per_phase, phases, order)
        for vector in vectors
        for phases in (1, 2, 4, 8, 16)
        for per_phase in (1, 2, 4, 8)
        if vector * phases <= extents[operand.inner] and (phases > 1 or per_phase == 1)
    ]
    best, fewest = candidates[0], None
    for candidate in candidates:
        wavefronts = tile_access(operand, candidate, extents, element_bits, memory=memory).wavefronts
        if fewest is None or wavefronts < fewest:
            best, fewest = candidate, wavefronts
    return best


def spread_warps(num_warps: int, extents: tuple[int, int], instruction: tuple[int, int]) -> list[int]:
    """Warps along M and N such that each has a part as square as possible."""
    warps = [1, 1]
    while warps[0] * warps[1] < num_warps:
        left = [extents[axis] // warps[axis] for axis in (0, 1)]
        full = [left[axis] <= instruction[axis] for axis in (0, 1)]
        axis = 0 if full[1] or (not full[0] and left[0] >= left[1]) else 1
        warps[axis] *= 2
    return warps


def _bulk_tiles(shape: tuple[int, int, int], element_bits: int) -> tuple[NVMMASharedLayout, NVMMASharedLayout]:
    rows, columns, depth = shape
    row_bytes = depth * element_bits // 8
    swizzle = next((width for width in SWIZZLES if row_bytes % width == 0), None)
    if swizzle is None or min(rows, columns) < 8:
        raise LayoutError(f"operands of these products have rows of at least 32 bytes, and 8 rows; not {list(shape)}")
    a, b = (NVMMASharedLayout(swizzle, element_bits, 2, transposed) for transposed in (False, True))
    return a, b


def _swizzled_rows(depth: int, element_bits: int, order: tuple[int, int]) -> SwizzledSharedLayout:
    """Rows along K whose 16-byte columns are XORed such that eight of them, one below another, lie in all banks."""
    vector = VECTOR_BITS // element_bits
    per_phase = max(1, LINE_BITS // (depth * element_bits))
    phases = max(1, min(8 // per_phase if per_phase < 8 else 1, depth // vector))
    return SwizzledSharedLayout(vector, per_phase, phases, order)
