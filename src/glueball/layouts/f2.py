"""Linear algebra over F2 on vectors held as Python integers (bit i is coordinate i; addition is XOR).

A list of vectors is also a matrix, given by its columns; a *combination* is a mask that selects columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def apply(columns: Sequence[int], vector: int) -> int:
    """The matrix with these columns times `vector`."""
    result = 0
    while vector:
        low = vector & -vector
        result ^= columns[low.bit_length() - 1]
        vector ^= low
    return result


class Echelon:
    """A span that grows vector by vector and can tell which combination of them gives a member.

    A vector that depends on earlier ones never enters a combination, so the order of insertion states a preference.
    """

    __slots__ = ("_count", "_kernel", "_pivots")

    def __init__(self, vectors: Iterable[int] = ()) -> None:
        self._pivots: dict[int, tuple[int, int]] = {}
        self._kernel: list[int] = []
        self._count = 0
        for vector in vectors:
            self.add(vector)

    @property
    def rank(self) -> int:
        """Dimension of the span."""
        return len(self._pivots)

    @property
    def kernel(self) -> tuple[int, ...]:
        """A basis of the combinations of the inserted vectors that give zero."""
        return tuple(self._kernel)

    def add(self, vector: int) -> bool:
        """Insert a vector; whether it enlarged the span."""
        remainder, combination = self._reduce(vector)
        combination ^= 1 << self._count
        self._count += 1
        if remainder == 0:
            self._kernel.append(combination)
            return False
        self._pivots[remainder.bit_length()] = (remainder, combination)
        return True

    def solve(self, vector: int) -> int | None:
        """The combination of inserted vectors that gives `vector`, or None where it lies outside the span."""
        remainder, combination = self._reduce(vector)
        return None if remainder else combination

    def __contains__(self, vector: int) -> bool:
        return self._reduce(vector)[0] == 0

    def _reduce(self, vector: int) -> tuple[int, int]:
        combination = 0
        rest = vector
        remainder = 0
        while rest:
            length = rest.bit_length()
            pivot = self._pivots.get(length)
            if pivot is None:
                remainder ^= 1 << (length - 1)
                rest ^= 1 << (length - 1)
            else:
                rest ^= pivot[0]
                combination ^= pivot[1]
        return remainder, combination


def rank(vectors: Iterable[int]) -> int:
    """Dimension of the span."""
    return Echelon(vectors).rank


def independent(vectors: Iterable[int], modulo: Iterable[int] = ()) -> list[int]:
    """The vectors that are not in the span of the ones before them and of `modulo`."""
    span = Echelon(modulo)
    return [vector for vector in vectors if span.add(vector)]


def kernel(columns: Sequence[int]) -> list[int]:
    """A basis of the combinations of columns that give zero."""
    return list(Echelon(columns).kernel)


def intersection(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """A basis of the intersection of two spans; vectors that are listed in both come first, as they stand."""
    first, second = independent(first), independent(second)
    shared = set(second)
    basis = Echelon()
    common = [vector for vector in first if vector in shared and basis.add(vector)]
    mask = (1 << len(first)) - 1
    for combination in kernel([*first, *second]):
        vector = apply(first, combination & mask)
        if basis.add(vector):
            common.append(vector)
    return common


def reduced(vectors: Iterable[int]) -> list[int]:
    """The fully reduced basis of the span, smallest vector first; equal spans give equal lists."""
    basis: list[int] = []
    for vector in vectors:
        rest = vector
        for other in basis:
            rest = min(rest, rest ^ other)
        if rest:
            basis = sorted([*(min(other, other ^ rest) for other in basis), rest], reverse=True)
    return basis[::-1]
