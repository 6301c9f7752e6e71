"""Packing of registers into the words that vector memory instructions move."""

from __future__ import annotations

from collections.abc import Sequence

from glueball.thread.ir import BITS, Emitter, Value

LLVM_TYPES = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}


def llvm_type(kind: str) -> str:
    """A register type as LLVM spells it."""
    return LLVM_TYPES.get(kind, kind)


def word_shape(kind: str, count: int) -> tuple[int, int]:
    """Bits of a word and number of words that hold `count` elements: 32-bit words unless more or fewer bits need be."""
    total = BITS[kind] * count
    if BITS[kind] == 64:
        return 64, count
    return (32, total // 32) if total >= 32 else (total, 1)


def word_type(kind: str, bits: int) -> str:
    """LLVM type of a word: the element's own where one fills it, else an integer."""
    return llvm_type(kind) if BITS[kind] == bits else f"i{bits}"


def word_names(emitter: Emitter, results: Sequence[Value], bits: int, count: int) -> list[str]:
    """Names for the words of some results; those of the results themselves where one fills a word."""
    if len(results) == count and BITS[results[0].type] == bits:
        return [emitter.name(result) for result in results]
    return [emitter.fresh() for _ in range(count)]


def unpack(emitter: Emitter, words: Sequence[str], bits: int, results: Sequence[Value]) -> None:
    """Takes the results out of words that hold several each."""
    spelled, per_word = llvm_type(results[0].type), len(results) // len(words)
    for index, word in enumerate(words):
        emitter.remember(results[index * per_word : (index + 1) * per_word], word)
        vector = emitter.fresh()
        emitter.line(f"{vector} = bitcast i{bits} {word} to <{per_word} x {spelled}>")
        for element, result in enumerate(results[index * per_word : (index + 1) * per_word]):
            emitter.line(f"{emitter.name(result)} = extractelement <{per_word} x {spelled}> {vector}, i32 {element}")


def vector_of(emitter: Emitter, values: Sequence[Value]) -> str:
    """A vector register of several elements, or the only element itself."""
    if len(values) == 1:
        return emitter.name(values[0])
    spelled = llvm_type(values[0].type)
    shape, vector = f"<{len(values)} x {spelled}>", "poison"
    for index, value in enumerate(values):
        inserted = emitter.fresh()
        emitter.line(f"{inserted} = insertelement {shape} {vector}, {spelled} {emitter.name(value)}, i32 {index}")
        vector = inserted
    return vector


def pack(emitter: Emitter, values: Sequence[Value], bits: int, count: int) -> list[str]:
    """Words that hold the values in order; one that values were taken out of in this order is used as it is."""
    per_word = len(values) // count
    if per_word == 1:
        return [emitter.name(value) for value in values]
    words, shape = [], f"<{per_word} x {llvm_type(values[0].type)}>"
    for start in range(0, len(values), per_word):
        together = values[start : start + per_word]
        word = emitter.word_of(together)
        if word is None:
            vector, word = vector_of(emitter, together), emitter.fresh()
            emitter.line(f"{word} = bitcast {shape} {vector} to i{bits}")
        words.append(word)
    return words
