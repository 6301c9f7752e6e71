"""Registers that a loop carries: narrow ones that an access takes from one word are carried as that word.

The assembler gives every register of 16 bits one of 32, so a loop that carried each of them alone would need twice the
registers, and would take words apart and put them together in every turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from glueball.thread.ir import BITS, Emitter, Instruction, Region, Value
from glueball.thread.memory import split_operands
from glueball.thread.words import llvm_type, pack, unpack, word_shape

WORD_BITS = 32
WORD = "i32"
BOUNDS = 3
"""Operands of a counted loop before the initial values of what it carries."""

PRODUCTS = ("mma_sync", "warpgroup_mma", "warpgroup_wait")

Places = tuple[int, ...]
"""Positions, among what a loop carries, of one register or of those of a word, lowest bits first."""


class Carried:
    """Prints the phi nodes of what a loop carries. The calls follow the order of the text."""

    def __init__(self, emitter: Emitter, arguments: Sequence[Value], body: Region, words: Sequence[Places]) -> None:
        self._emitter = emitter
        self._arguments = arguments
        last = body.instructions[-1] if body.instructions else None
        self._yielded = last.operands if last is not None and last.record.name == "yield" else ()
        together = {place for places in words for place in places}
        self._places = [*((place,) for place in range(len(arguments)) if place not in together), *words]
        self._held = [self._name(arguments, places) for places in self._places]
        self._again = [self._name(self._yielded, places) if self._yielded else "poison" for places in self._places]
        self._entering: list[str] = []

    def enter(self, initial: Sequence[Value]) -> None:
        """Before the loop."""
        self._entering = [self._packed(initial, places) for places in self._places]

    def open(self, before: str, latch: str) -> None:
        """At the start of the block that `before` and `latch` lead to."""
        for places, held, first, again in zip(self._places, self._held, self._entering, self._again, strict=True):
            self._phi(places, held, f"[ {first}, %{before} ], [ {again}, %{latch} ]")
        self._unpack(self._arguments, self._held)

    def turn(self) -> None:
        """At the end of the body."""
        for places, again in zip(self._places, self._again, strict=True):
            if len(places) > 1:
                self._emitter.line(f"{again} = bitcast {WORD} {self._packed(self._yielded, places)} to {WORD}")

    def leave(self, results: Sequence[Value], header: str) -> None:
        """At the start of the block after the loop: the results are what was carried last."""
        names = [self._name(results, places) for places in self._places]
        for places, name, held in zip(self._places, names, self._held, strict=True):
            self._phi(places, name, f"[ {held}, %{header} ]")
        self._unpack(results, names)

    def _phi(self, places: Places, name: str, sources: str) -> None:
        kind = llvm_type(self._arguments[places[0]].type) if len(places) == 1 else WORD
        self._emitter.line(f"{name} = phi {kind} {sources}")

    def _name(self, values: Sequence[Value], places: Places) -> str:
        return self._emitter.name(values[places[0]]) if len(places) == 1 else self._emitter.fresh()

    def _packed(self, values: Sequence[Value], places: Places) -> str:
        if len(places) == 1:
            return self._emitter.name(values[places[0]])
        return pack(self._emitter, [values[place] for place in places], WORD_BITS, 1)[0]

    def _unpack(self, values: Sequence[Value], names: Sequence[str]) -> None:
        for places, name in zip(self._places, names, strict=True):
            if len(places) > 1:
                unpack(self._emitter, [name], WORD_BITS, [values[place] for place in places])


def carried_words(loop: Instruction) -> list[Places]:
    """The words that a counted loop carries: what its accesses take from one word each, or load as one for later."""
    (region,) = loop.regions
    last = region.instructions[-1] if region.instructions else None
    yielded = last.operands if last is not None and last.record.name == "yield" else ()
    found: dict[int, Places] = {}
    for values, words in ((region.arguments[1:], _words), (yielded, _loaded_words)):
        position = {value: index for index, value in enumerate(values)}
        for instruction in region.walk():
            for word in words(instruction):
                places = tuple(position[value] for value in word if value in position)
                if len(set(places)) == len(word) and found.keys().isdisjoint(places):
                    found.update(dict.fromkeys(places, places))
    return list(dict.fromkeys(found.values()))


def _loaded_words(instruction: Instruction) -> Iterator[Sequence[Value]]:
    """The registers that an instruction loads as one word each."""
    if instruction.record.name in ("global_load", "shared_load", "load_matrix"):
        yield from _narrow_words(instruction.results)


def _words(instruction: Instruction) -> Iterator[Sequence[Value]]:
    """The registers that an instruction takes from one word each."""
    if instruction.record.name == "for":
        initial = instruction.operands[BOUNDS:]
        for places in carried_words(instruction):
            yield [initial[place] for place in places]
    elif instruction.record.name in ("global_store", "shared_store", "store_matrix"):
        _, values = split_operands(instruction)
        size = len(values) // word_shape(instruction.attributes["type"], len(values))[1]
        if size > 1 and all(BITS[value.type] * size == WORD_BITS for value in values):
            for start in range(0, len(values), size):
                yield values[start : start + size]
    elif instruction.record.name in PRODUCTS:
        yield from _narrow_words(instruction.operands)


def _narrow_words(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """Narrow registers in the order in which an instruction takes or gives them, word by word."""
    for bits, group in groupby(values, key=lambda value: BITS[value.type]):
        together = list(group)
        size = WORD_BITS // bits
        if bits > 1 and size > 1 and len(together) % size == 0:
            for start in range(0, len(together), size):
                yield together[start : start + size]
