"""Linear maps over bits as instructions: the coordinates that lane and warp contribute."""

from __future__ import annotations

from collections.abc import Sequence

from glueball.thread import special
from glueball.thread.builder import Builder
from glueball.thread.ir import Value
from glueball.thread.nvidia import cluster


def linear_combination(builder: Builder, source: Value, bases: Sequence[int], *, whole: bool = True) -> Value:
    """The exclusive or of `bases[i]` over the set bits i of an i32 register.

    Bits that move by the same distance go together, so a plain layout costs one `and` and one shift. `whole` says
    that the register has no further bits than there are bases.
    """
    by_distance: dict[int, int] = {}
    for position, basis in enumerate(bases):
        for bit in range(basis.bit_length()):
            if basis >> bit & 1:
                by_distance[bit - position] = by_distance.get(bit - position, 0) | (1 << position)
    every_bit = (1 << len(bases)) - 1
    result = builder.constant("i32", 0)
    for distance, mask in sorted(by_distance.items()):
        part = source if whole and mask == every_bit else builder.logical_and(source, builder.constant("i32", mask))
        part = builder.shift_left(part, distance) if distance >= 0 else builder.shift_right(part, -distance)
        result = _combined(builder, result, part, _overlap(by_distance))
    return result


def thread_offset(
    builder: Builder, lane_bases: Sequence[int], warp_bases: Sequence[int], cta_bases: Sequence[int] = ()
) -> Value:
    """What lane, warp and CTA contribute to a linear map, as one i32 register."""
    total, bits = builder.constant("i32", 0), 0
    for identifier, bases in ((lane_id, lane_bases), (warp_id, warp_bases), (cta_rank, cta_bases)):
        if any(bases):
            part = linear_combination(builder, identifier(builder), bases)
            total = _combined(builder, total, part, bool(bits & span(bases)))
            bits |= span(bases)
    return total


def span(bases: Sequence[int]) -> int:
    """Every bit that some basis can set."""
    bits = 0
    for basis in bases:
        bits |= basis
    return bits


def split_constant(constant: int, variable_bits: int) -> tuple[int, int]:
    """A register's constant as (part to exclusive-or into the thread's offset, part to add as an immediate)."""
    return constant & variable_bits, constant & ~variable_bits


def lane_id(builder: Builder) -> Value:
    """Index of the lane in its warp."""
    return builder.emit(special.LANE_ID)[0]


def warp_id(builder: Builder) -> Value:
    """Index of the warp in its block."""
    return builder.emit(special.WARP_ID)[0]


def cta_rank(builder: Builder) -> Value:
    """Number of the CTA in its cluster."""
    return builder.emit(cluster.CTA_RANK)[0]


def _overlap(by_distance: dict[int, int]) -> bool:
    seen = 0
    for distance, mask in by_distance.items():
        bits = mask << distance if distance >= 0 else mask >> -distance
        if seen & bits:
            return True
        seen |= bits
    return False


def _combined(builder: Builder, left: Value, right: Value, overlapping: bool) -> Value:
    """Exclusive or; a sum where no bit can be set on both sides, which address arithmetic folds better."""
    return builder.logical_xor(left, right) if overlapping else builder.add(left, right)
