"""Shared-memory tiles that a writer and a reader, each with its own layout, both access without bank conflicts.

After "Linear Layouts" (arXiv 2505.23819), section on optimal swizzling. Offsets into the tile are split, lowest bits
first, into the elements of one vector access, the remaining elements of one row of all banks, and the row number. Two
lanes of a wavefront conflict exactly where they meet in a bank but not in the row. So row bits are wanted that span
a subspace H which meets neither the span of the writer's vectors and lanes nor that of the reader's. Where E and F
extend the common part of those two spans to each of them, and C extends their sum to everything, the vectors
E_i + F_i together with C span such an H, of the greatest possible dimension. H must also leave the vectors whole:
modulo the threads of the side that has the wider ones, it may not meet them. Where that H does, one is grown instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

from glueball.layouts import f2
from glueball.layouts.memory import VECTOR_BYTES, WORD_BYTES, merges_loads

MOST_CHOICES = 40
"""Choices of a vector that are tried where the first one leaves conflicts."""


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


def as_served(reader: Side, banks: int) -> Iterator[Side]:
    """A reader as it is, then, where two phases of its loads are served at once, with the lanes of both in its phase.

    So they are where one of its lowest two lane bits moves nothing (see `memory.merges`). Without that bit, as many
    lane bits span both phases as span one of other readers.
    """
    yield reader
    if merges_loads(1 << len(reader.lanes), banks) and 0 in reader.lanes[:2]:
        idle = reader.lanes.index(0)
        yield replace(reader, lanes=(*reader.lanes[:idle], *reader.lanes[idle + 1 :]))


def common_vector(writer: Side, reader: Side, element_bytes: int) -> tuple[int, ...]:
    """Bases that both sides hold in registers and no thread bit touches, up to 16 bytes' worth."""
    limit = _log2(VECTOR_BYTES // element_bytes)
    shared = f2.intersection(writer.registers, reader.registers)
    return tuple(f2.independent(shared, (*writer.threads, *reader.threads))[:limit])


def extra_vector(side: Side, other: Side, common: Sequence[int], element_bytes: int) -> tuple[int, ...]:
    """Further register bases of one side, up to 16 bytes' worth together with the common ones."""
    return next(extra_vectors(side, other, common, element_bytes))


def extra_vectors(side: Side, other: Side, common: Sequence[int], element_bytes: int) -> Iterator[tuple[int, ...]]:
    """Choices of further register bases of one side, up to 16 bytes' worth together with the common ones.

    The first is of the bases as they are; where there are more than fit, or sums of them, others follow.
    """
    limit = _log2(VECTOR_BYTES // element_bytes) - len(common)
    basis = f2.independent(side.registers, (*common, *side.threads))
    first = _apart(basis[:limit], side, other, common)
    yield first
    pool = [*basis, *(one ^ two for one, two in combinations(f2.independent(side.registers), 2))]
    for chosen in islice(combinations(pool, len(first)), MOST_CHOICES):
        if len(f2.independent(chosen, (*common, *side.threads))) == len(first):
            yield _apart(chosen, side, other, common)


def _apart(vectors: Sequence[int], side: Side, other: Side, common: Sequence[int]) -> tuple[int, ...]:
    """Vectors without the common one that, with threads, adds up to them: it then stays apart from both."""
    span = f2.Echelon((*common, *side.threads, *other.threads))
    mask = (1 << len(common)) - 1
    result = []
    for vector in vectors:
        apart = vector ^ f2.apply(common, (span.solve(vector) or 0) & mask)
        span.add(apart)
        result.append(apart)
    return tuple(result)


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
        if not _disjoint(low, owner.threads):
            return None
        high = _grown((owner_span, other_span), (low, owner.threads), beyond, wanted)
    if len(high) < wanted:
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


def _grown(
    avoided: tuple[Sequence[int], ...], apart: tuple[Sequence[int], Sequence[int]], basis: Sequence[int], wanted: int
) -> list[int]:
    """Vectors of a basis and sums of two, one by one, whose span meets no avoided one and keeps two others apart."""
    chosen: list[int] = []
    for vector in (*basis, *(one ^ two for one, two in combinations(basis, 2))):
        if len(chosen) == wanted:
            break
        larger = [*chosen, vector]
        if (
            f2.rank(larger) == len(larger)
            and all(_disjoint(larger, span) for span in avoided)
            and _disjoint(apart[0], [*larger, *apart[1]])
        ):
            chosen = larger
    return chosen


def _disjoint(first: Sequence[int], second: Sequence[int]) -> bool:
    return f2.rank([*first, *second]) == f2.rank(first) + f2.rank(second)


def _log2(value: int) -> int:
    return value.bit_length() - 1
