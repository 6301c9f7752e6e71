"""Shared-memory tiles that a writer and a reader, each with its own layout, both access without bank conflicts.

After "Linear Layouts" (arXiv 2505.23819), section on optimal swizzling. Offsets into the tile are split, lowest bits
first, into the elements of one vector access, the remaining elements of one row of all banks, and the row number. Two
lanes of a wavefront conflict exactly where they meet in a bank but not in the row. So row bits are wanted that span
a subspace H which meets neither the span of the writer's vectors and lanes nor that of the reader's. Where E and F
extend the common part of those two spans to each of them, and C extends their sum to everything, the vectors
E_i + F_i together with C span such an H, of the greatest possible dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glueball.layouts import f2
from glueball.layouts.memory import VECTOR_BYTES, WORD_BYTES


@dataclass(frozen=True, slots=True)
class Side:
    """Who writes or reads a tile, as flat bases: registers, lanes (zero where idle), and all threads that take part."""

    registers: tuple[int, ...]
    lanes: tuple[int, ...]
    threads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Vectors:
    """The lowest offset bits of a tile: `common` ones are one access of both sides, `extra` ones of one side only."""

    common: tuple[int, ...]
    extra: tuple[int, ...]


def common_vector(writer: Side, reader: Side, element_bytes: int) -> tuple[int, ...]:
    """Bases that both sides hold in registers and no thread bit touches, up to 16 bytes' worth."""
    limit = _log2(VECTOR_BYTES // element_bytes)
    shared = f2.intersection(writer.registers, reader.registers)
    return tuple(f2.independent(shared, (*writer.threads, *reader.threads))[:limit])


def extra_vector(side: Side, common: Sequence[int], element_bytes: int) -> tuple[int, ...]:
    """Further register bases of one side, up to 16 bytes' worth together with the common ones."""
    limit = _log2(VECTOR_BYTES // element_bytes) - len(common)
    return tuple(f2.independent(side.registers, (*common, *side.threads))[:limit])


def swizzle(
    owner: Side, other: Side, vectors: Vectors, generators: Sequence[int], element_bytes: int, banks: int
) -> tuple[int, ...] | None:
    """Flat coordinates of each offset bit of a tile spanned by the independent `generators`, lowest bit first.

    `owner` is the side whose accesses take the extra vector bits. None where the extra bits cannot be had together
    with whole vectors for both sides.
    """
    low = (*vectors.common, *vectors.extra)
    word_bits = _log2(max(1, WORD_BYTES // element_bytes))
    row_bits = _log2(banks * WORD_BYTES // element_bytes)
    words = max(0, word_bits - len(low))
    rows = max(0, len(generators) - row_bits)
    # Everything but the common vector bits is chosen in one complement of them that has all threads in it.
    beyond = f2.independent((*owner.threads, *other.threads, *vectors.extra))
    if not _disjoint(vectors.common, beyond):
        return None
    beyond += f2.independent(generators, (*vectors.common, *beyond))
    owner_span = [*_wavefront_lanes(owner, len(low), element_bytes, banks), *vectors.extra]
    other_span = [
        *_wavefront_lanes(other, len(vectors.common), element_bytes, banks),
        *vectors.extra[: max(0, word_bits - len(vectors.common))],
    ]
    inside = f2.Echelon(beyond)
    candidates = [*(vector for vector in generators if vector in inside), *beyond]
    wanted = rows + words if rows else 0
    high = _avoiding(owner_span, other_span, candidates, owner.threads)[:wanted]
    if len(high) < wanted or not _disjoint(low, [*high, *owner.threads]):
        return None
    rest = list(high)
    rest += f2.independent(owner.threads, rest)
    rest += f2.independent(other.threads, (*vectors.extra, *rest))
    rest += f2.independent(generators, (*low, *rest))
    return (*low, *high[:words], *rest[len(high) :], *high[words:])


def _wavefront_lanes(side: Side, vector_bits: int, element_bytes: int, banks: int) -> tuple[int, ...]:
    access_bytes = max(WORD_BYTES, element_bytes << vector_bits)
    return side.lanes[: _log2(banks * WORD_BYTES // access_bytes)]


def _avoiding(first: list[int], second: list[int], candidates: Sequence[int], threads: Sequence[int]) -> list[int]:
    """Independent vectors whose span meets neither of two spans, as many as there can be, unmixed ones before sums."""
    common = f2.intersection(first, second)
    only_first = f2.independent(first, common)
    only_second = f2.independent(second, common)
    # The vector bits, last in `first`, go with partners that are no thread bits of the same side, if they can.
    span = f2.Echelon(threads)
    only_second.sort(key=lambda vector: vector not in span)
    only_second = only_second[max(0, len(only_second) - len(only_first)) :]
    outside = f2.independent(candidates, (*first, *second))
    return outside + [one ^ two for one, two in zip(only_first, only_second, strict=False)]


def _disjoint(first: Sequence[int], second: Sequence[int]) -> bool:
    return f2.rank([*first, *second]) == f2.rank(first) + f2.rank(second)


def _log2(value: int) -> int:
    return value.bit_length() - 1
