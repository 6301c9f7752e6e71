"""Layouts in which registers read and write tensor memory, one instruction's pattern at a time."""

from __future__ import annotations

from collections.abc import Sequence

from glueball.errors import LayoutError
from glueball.layouts.distributed import DistributedLinearLayout
from glueball.layouts.linear import log2_exact
from glueball.layouts.normalise import Vector
from glueball.layouts.tensor_memory import TensorMemoryLayout

CELL_BITS = 32
SPLIT = "_splitn"
# By pattern: the lane bits, and the registers that come first and last. `c` counts bits of a 32-bit column, `r` of a
# row within the 32 that a warp reads.
PATTERNS = {
    "32x32b": ("r0 r1 r2 r3 r4", "", ""),
    "16x64b": ("r3 c0 r0 r1 r2", "", "r4"),
    "16x128b": ("c0 c1 r0 r1 r2", "r3", "r4"),
    "16x256b": ("c1 c2 r0 r1 r2", "c0 r3", "r4"),
}


def tensor_memory_register_layout(
    layout: TensorMemoryLayout,
    shape: Sequence[int],
    element_bits: int,
    num_warps: int,
    variant: str = "32x32b",
) -> DistributedLinearLayout:
    """The layout of registers with which an instruction reads or writes a tensor of `shape` in tensor memory.

    `variant` is 32x32b, 16x64b, 16x128b or 16x256b, or 32x32b_splitn, which keeps the two halves of N in one thread.
    Warp w accesses rows 32 (w % 4) .. + 31; further warps take a part of the columns each. Raises LayoutError for other
    variants, fewer than 4 warps, or a tensor that is too narrow.
    """
    pattern = PATTERNS.get(variant.removesuffix(SPLIT))
    if variant == "16x32bx2":
        raise LayoutError("Atom 16x32bx2 is inferred implicitly and cannot be requested explicitly")
    if pattern is None or (variant.endswith(SPLIT) and variant != "32x32b" + SPLIT):
        raise LayoutError(f"unknown instr_variant {variant!r}; there are {', '.join(PATTERNS)} and 32x32b{SPLIT}")
    if num_warps < 4 or num_warps & (num_warps - 1):
        raise LayoutError(f"num_warps must be a power of two and >= 4, not {num_warps}")
    bases = {name: [tuple(basis) for basis in vectors] for name, vectors in layout.linear(shape).bases.items()}
    rows = bases["row"]
    columns = [basis for basis in bases["column"] if any(basis)]
    packed = log2_exact(CELL_BITS // element_bits, "32 over element_bits") if layout.col_stride == 1 else 0
    cells = columns[packed:]
    lane_names, first, last = (group.split() for group in pattern)
    named = {f"r{bit}": basis for bit, basis in enumerate(rows[:5])}
    taken = [name for name in (*lane_names, *first) if name.startswith("c")]
    named |= {f"c{bit}": basis for bit, basis in enumerate(cells[: len(taken)])}
    rest = cells[len(taken) :]
    halves = 1 if variant.endswith(SPLIT) else 0
    # Where a warp has 16 rows only, the other lanes of this pattern take the second half of the columns.
    spread = int(not any(rows[4]) and variant.startswith("32x32b"))
    further = num_warps.bit_length() - 3
    if len(cells) < len(taken) or len(rest) < halves + spread + further:
        raise LayoutError(f"TMEM layout '{variant}' unsupported for shape {list(shape)} and {num_warps} warps")
    kept: list[Vector] = [rest.pop()] if halves else []
    if spread:
        named["r4"] = rest.pop()
    warp = [*rows[5:7], *reversed([rest.pop() for _ in range(further)])]
    register = [*columns[:packed], *(named[name] for name in first), *rest, *kept]
    register += [named[name] for name in last if any(named[name])]
    lane = [named[name] for name in lane_names]
    return DistributedLinearLayout(register, lane, warp, bases["block"], shape)
