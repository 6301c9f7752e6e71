"""Conversions in place: those whose result goes on, register by register, as their own source, as in a loop.

An access of 16 bytes takes registers that are neighbours in the register file, and elements narrower than a word share
one. So where the registers of a write were read together, and in the same order, nothing has to be moved between a
read and the next write. That is a matter of register numbers alone: what a thread holds in registers of the same
numbers before and after may be the vector of both sides, and matrices may be made of the registers whose numbers are
those of the other side's vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from glueball.layouts import f2
from glueball.layouts.linear import LinearLayout
from glueball.layouts.matrix_moves import Matrices, matrices_of, word_bits
from glueball.layouts.memory import WORD_BYTES

Words = tuple[tuple[int, ...], ...]
"""The registers in each 32-bit word of one access."""


def partner(own: LinearLayout, other: LinearLayout, vector: int) -> int | None:
    """What `own` holds in the register in which `other` holds `vector`; None where no register does."""
    number = f2.Echelon(other.flat_bases("register")).solve(vector)
    if number is None or number >> own.bits("register"):
        return None
    return f2.apply(own.flat_bases("register"), number)


def resting_vector(
    source: LinearLayout, destination: LinearLayout, threads: Sequence[int], most: int
) -> tuple[int, ...]:
    """Up to `most` bases that both sides hold in registers and no thread bit touches, fewest moved registers first.

    First come those of the same register number on both sides; then those that only exchange registers near one
    another in the vector, halves of a word before words.
    """
    held, wanted = (f2.Echelon(layout.flat_bases("register")) for layout in (source, destination))
    common = f2.intersection(source.flat_bases("register"), destination.flat_bases("register"))

    def change(vector: int) -> int:
        return (held.solve(vector) or 0) ^ (wanted.solve(vector) or 0)

    fixed = [f2.apply(common, combination) for combination in f2.kernel([change(vector) for vector in common])]
    chosen = f2.independent(fixed, threads)[:most]
    pool = [*common, *(one ^ two for one, two in combinations(common, 2))]
    while len(chosen) < most:
        free = f2.Echelon((*threads, *chosen))
        numbers = f2.Echelon([held.solve(vector) or 0 for vector in chosen])
        found = [(numbers.solve(change(vector)), vector) for vector in pool if vector not in free]
        if not found:
            break
        chosen.append(min(found, key=lambda each: (each[0] is None, each[0] or 0))[1])
    return tuple(chosen)


def resting_matrices(
    own: LinearLayout, other: LinearLayout, registers: Sequence[int], threads: Sequence[int], element_bytes: int
) -> Iterator[Matrices]:
    """Matrices of one side whose accesses take the registers that the other side's vector of a row has.

    `registers` are what may be in one 32-bit word, independent of the threads of this side.
    """
    bits = word_bits(element_bytes)

    def partners(row: Sequence[int]) -> list[int]:
        found: list[int] = []
        for vector in row:
            held = partner(own, other, vector)
            if held is None:
                break
            found.append(held)
        return found

    for first in (partners(own.flat_bases("lane")[2:]), resting_vector(own, other, threads, bits)):
        word = f2.independent((*first[:bits], *registers), threads)
        for matrices in matrices_of(own, word, element_bytes):
            yield replace(matrices, together=tuple(partners(matrices.row)[bits:]))


def moved(write: Sequence[Sequence[int]], read: Sequence[Sequence[int]], element_bytes: int) -> tuple[int, int]:
    """Written accesses that are not just what a read one has brought, and words that have another place in them."""
    written, found = ([_words(group, element_bytes) for group in groups] for groups in (write, read))
    size = min(len(written[0]), len(found[0]))
    brought = {register: part for part in _parts(found, size) for word in part for register in word}
    accesses = words = 0
    for part in _parts(written, size):
        sources = {brought.get(register, ()) for word in part for register in word}
        kept = max(sum(one == two for one, two in zip(part, source, strict=False)) for source in sources)
        accesses += kept < size
        words += size - kept
    return accesses, words


def _words(group: Sequence[int], element_bytes: int) -> Words:
    size = max(1, WORD_BYTES // element_bytes)
    return tuple(tuple(group[start : start + size]) for start in range(0, len(group), size))


def _parts(groups: Sequence[Words], size: int) -> list[Words]:
    return [group[start : start + size] for group in groups for start in range(0, len(group), size)]
