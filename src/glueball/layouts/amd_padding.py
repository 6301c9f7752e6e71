"""Padded shared memory for the operands of CDNA4's matrix instructions, written by direct copies from global memory.

A wave's direct copy writes 64 lanes of 16 bytes, 1024 bytes without a gap; so padding goes between intervals of 1024
bytes. The rows of a tile, runs of its contiguous dimension, are put in an order such that an interval has rows in it
that no read takes together, and the rows that one read takes together lie in different intervals, each moved on by the
padding to other banks. Rows 1, 2, 4 and 8 apart are read together; those inside an interval are then 16 apart and more,
or, where a tile has too few rows for that, as near to it as the banks allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glueball.layouts.amd_matrix import AMDMFMALayout
from glueball.layouts.linear import log2_exact
from glueball.layouts.matrix import DotOperandLayout
from glueball.layouts.normalise import require
from glueball.layouts.padded import PaddedSharedLayout

INTERVAL_BYTES = 1024
NEAR_BITS = 4
LEAST_EXTENT = 16
CDNA4 = 4


@dataclass(frozen=True, slots=True)
class _Reads:
    """What reading asks for: the padding in bytes, and which rows may share an interval.

    `near` are the row bits that a read takes together, in their order. For tiles with too few rows to keep all of them
    outside an interval: `end` is where the bits inside one end at the latest, `first` where they begin at the latest,
    and `bits` the fewest bits of rows; fewer will do if `last` where the inside begins with the last near bit. `least`
    is the least extent along the contiguous dimension. `swapped` tells which of three or more rows inside an interval
    changes places with the first one.
    """

    padding: int
    end: int
    bits: int
    last: bool = True
    near: tuple[int, ...] = (0, 1, 2, 3)
    first: int = 3
    least: int = LEAST_EXTENT
    swapped: int | None = None


# Reads of 8 bytes a lane; others by bytes of an element, rows of the instruction, k_width and whether K is contiguous.
# Where it is not, the read transposes.
_NARROW = _Reads(8, end=7, bits=6)
_READS = {
    (2, 16, 8, True): _Reads(32, end=5, bits=5),
    (2, 32, 8, True): _Reads(16, end=6, bits=6, last=False, swapped=-1),
    (1, 16, 16, True): _Reads(32, end=5, bits=5, least=32),
    (1, 32, 16, True): _Reads(16, end=6, bits=6, last=False, swapped=-2),
    (2, 16, 4, False): _Reads(32, end=5, bits=4),
    (2, 16, 8, False): _Reads(32, end=5, bits=4, near=(0, 1, 3, 2)),
    (2, 16, 16, False): _Reads(32, end=5, bits=4),
    (2, 32, 4, False): _Reads(64, end=4, bits=4, first=2, least=32),
    (2, 32, 8, False): _Reads(64, end=4, bits=4, first=2, least=32),
    (2, 32, 16, False): _Reads(64, end=4, bits=4, first=2, least=32),
    (1, 16, 8, False): _Reads(16, end=6, bits=5),
    (1, 16, 16, False): _Reads(16, end=6, bits=5, last=False, near=(0, 1, 2, 4)),
    (1, 32, 8, False): _Reads(32, end=5, bits=4, least=32),
    (1, 32, 16, False): _Reads(32, end=5, bits=4, least=32),
}
_K_WIDTHS = (4, 8, 16)


def efficient_padded_shared_layout(
    operand: DotOperandLayout, shape: Sequence[int], element_bits: int, k_contiguous: bool = True
) -> PaddedSharedLayout | None:
    """The padded layout in which direct copies write an operand of [M, K] or [K, N] whole and reads meet no conflict.

    None for what there is none for: elements of other than 8 or 16 bits, k_width other than 4, 8 and 16, instructions
    other than 16 x 16 and 32 x 32, tiles too small, clusters of CTAs. Raises LayoutError (also an AssertionError) where
    the parent is no MFMA layout of version 4, and LayoutError for an extent that is no power of two.
    """
    parent = operand.parent
    require(
        isinstance(parent, AMDMFMALayout) and parent.version == CDNA4,
        f"an efficient padded layout is for an operand of an MFMA layout of version {CDNA4}, not of {parent}",
    )
    assert isinstance(parent, AMDMFMALayout)
    extents = tuple(int(extent) for extent in shape)
    bits = [log2_exact(extent, f"extent of dimension {axis} of {list(extents)}") for axis, extent in enumerate(extents)]
    rows, columns = parent.instr_shape[:2]
    if len(extents) != 2 or rows != columns or rows not in (16, 32) or operand.k_width not in _K_WIDTHS:
        return None
    if element_bits not in (8, 16) or min(extents) < LEAST_EXTENT or parent.cga_layout:
        return None
    element_bytes = element_bits // 8
    reads = _READS.get((element_bytes, rows, operand.k_width, k_contiguous), _NARROW)
    along = operand.inner if k_contiguous else 1 - operand.inner
    if extents[along] < reads.least:
        return None
    interval = INTERVAL_BYTES // element_bytes
    order = _row_order(reads, bits[1 - along], max(0, log2_exact(interval, "interval") - bits[along]))
    if order is None:
        return None

    def basis(axis: int, bit: int) -> tuple[int, ...]:
        return tuple(1 << bit if other == axis else 0 for other in range(2))

    offsets = [*(basis(along, bit) for bit in range(bits[along])), *(basis(1 - along, bit) for bit in order)]
    return PaddedSharedLayout([(interval, reads.padding // element_bytes)], offsets, (), extents)


def _row_order(reads: _Reads, bits: int, inside: int) -> list[int] | None:
    """The row bits in the order of their offsets, `inside` of them within an interval; None where reads conflict."""
    natural = [*reads.near, *(bit for bit in range(bits) if bit not in reads.near)]
    if len(natural) > bits:
        return None
    if bits >= NEAR_BITS + inside:
        start = NEAR_BITS
    else:
        start = min(bits, reads.end) - inside
        if start < 0 or (bits < reads.bits and not (reads.last and start == NEAR_BITS - 1)):
            return None
        start = min(start, reads.first)
    within = natural[start : start + inside]
    if reads.swapped is not None and start == NEAR_BITS and inside >= NEAR_BITS - 1:
        within[0], within[reads.swapped] = within[reads.swapped], within[0]
    return [*within, *natural[:start], *natural[start + inside :]]
