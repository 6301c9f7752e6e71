"""Assembly as a function of arrays of elements, which it takes packed into registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glueball.ptx.program import parse
from glueball.ptx.types import Array, Uninterpreted, register


@dataclass(frozen=True, slots=True)
class Word:
    """What one register of an operand holds: elements of a type, so many of them, the first in the lowest bits."""

    element: np.dtype[Any]
    count: int

    @property
    def bits(self) -> int:
        """Bits of all its elements."""
        return self.element.itemsize * 8 * self.count

    def pack(self, elements: Sequence[Array]) -> Array:
        """The elements in the lowest bits of 64."""
        bits = self.element.itemsize * 8
        word: Array = np.asarray(np.uint64(0))
        for index, values in enumerate(elements):
            code = np.asarray(values, self.element).view(register(bits)).astype(np.uint64)
            word = word | code << np.uint64(index * bits)
        return word

    def unpack(self, word: Array) -> list[Array]:
        """The elements that a register holds."""
        kind = register(self.element.itemsize * 8)
        codes = [(word >> word.dtype.type(index * kind.itemsize * 8)).astype(kind) for index in range(self.count)]
        if self.element == np.bool_:
            return [(code & kind.type(1)).astype(np.bool_) for code in codes]
        return [code.view(self.element) for code in codes]


@dataclass(frozen=True, slots=True)
class Interpretation:
    """What assembly does, by its text: takes one array for each element of its operands, gives those of its results.

    `operands` and `results` say how elements lie in registers. Errors: `Uninterpreted`.
    """

    assembly: str
    constraints: str
    operands: tuple[Word, ...]
    results: tuple[Word, ...]

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """The elements of the results."""
        program = parse(self.assembly, self.constraints)
        asked = program.constraints
        self._check("results", self.results, asked.results)
        self._check("operands", self.operands, asked.operands)
        elements: Iterator[Array] = iter(arrays)
        words = [word.pack([next(elements) for _ in range(word.count)]) for word in self.operands]
        found = program.run(words)
        return tuple(element for word, bits in zip(self.results, found, strict=True) for element in word.unpack(bits))

    def _check(self, what: str, words: Sequence[Word], asked: Sequence[int]) -> None:
        if len(words) != len(asked):
            raise Uninterpreted(f"`{self.constraints}` has {len(asked)} {what}, not {len(words)}")
        for word, bits in zip(words, asked, strict=True):
            if word.bits > bits and word.element != np.bool_:
                raise Uninterpreted(f"{word.bits} bits do not fit the registers of {bits} bits in `{self.constraints}`")
