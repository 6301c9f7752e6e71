"""8 x 8 matrices of 16 bits between shared memory and the registers of a warp (PTX ISA, `ldmatrix` and `stmatrix`).

Operands are the byte offset, of which lane 8 m + r gives that of row r of matrix m, then the mask if `masked` (equal
in all lanes of a warp), then the elements to store. Attributes: `allocation`, `type`, `matrices` (1, 2 or 4), `offset`
(bytes, immediate) and `transposed`. Results and elements to store come matrix by matrix: those of a 32-bit word each.
"""

from __future__ import annotations

from collections.abc import Sequence

from glueball.thread.ir import BITS, Attributes, Effect, Emitter, Instruction, Record, Scope, Value
from glueball.thread.words import llvm_type, pack, unpack

ROW_BYTES = 16
ROWS = 8
WORD_BITS = 32
STORE_VERSION = 78


def elements(attributes: Attributes) -> int:
    """Elements that one lane gets or gives."""
    return int(attributes["matrices"]) * WORD_BITS // BITS[attributes["type"]]


def _moved_bytes(attributes: Attributes) -> int:
    return int(attributes["matrices"]) * WORD_BITS // 8


def _mnemonic(name: str, attributes: Attributes) -> str:
    transposed = ".trans" if attributes["transposed"] else ""
    return f"{name}.sync.aligned.m8n8.x{attributes['matrices']}{transposed}.shared.b16"


def _registers(first: int, count: int) -> str:
    return "{" + ", ".join(f"${index}" for index in range(first, first + count)) + "}"


def _emit_load(instruction: Instruction, emitter: Emitter) -> None:
    attributes, results = instruction.attributes, instruction.results
    count = attributes["matrices"]
    address = emitter.shared_address(instruction, instruction.operands[0])
    text = f"{_mnemonic('ldmatrix', attributes)} {_registers(0, count)}, [${count} + {attributes['offset']}];"
    constraints = ",".join(["=r"] * count + ["r"])
    kind = "i32" if count == 1 else "{" + ", ".join(["i32"] * count) + "}"
    loaded = emitter.fresh()
    emitter.line(f'{loaded} = call {kind} asm sideeffect "{text}", "{constraints}"(i32 {address}) convergent')
    words = [loaded] if count == 1 else [emitter.fresh() for _ in range(count)]
    if count > 1:
        for index, word in enumerate(words):
            emitter.line(f"{word} = extractvalue {kind} {loaded}, {index}")
    if len(results) > count:
        unpack(emitter, words, WORD_BITS, results)
        return
    for word, result in zip(words, results, strict=True):
        emitter.line(f"{emitter.name(result)} = bitcast i32 {word} to {llvm_type(result.type)}")


def _words(emitter: Emitter, values: Sequence[Value], count: int) -> list[str]:
    packed = pack(emitter, values, WORD_BITS, count)
    if len(values) > count or values[0].type == "i32":
        return packed
    words = []
    for word, value in zip(packed, values, strict=True):
        words.append(emitter.fresh())
        emitter.line(f"{words[-1]} = bitcast {llvm_type(value.type)} {word} to i32")
    return words


def _emit_store(instruction: Instruction, emitter: Emitter) -> None:
    emitter.require_version(STORE_VERSION)
    attributes = instruction.attributes
    count, masked = attributes["matrices"], bool(attributes.get("masked"))
    address = emitter.shared_address(instruction, instruction.operands[0])
    words = _words(emitter, instruction.operands[2 if masked else 1 :], count)
    guard = f"@${count + 1} " if masked else ""
    text = f"{guard}{_mnemonic('stmatrix', attributes)} [$0 + {attributes['offset']}], {_registers(1, count)};"
    constraints = ",".join(["r"] * (count + 1) + ["b"] * masked)
    arguments = [f"i32 {address}", *(f"i32 {word}" for word in words)]
    if masked:
        arguments.append(f"i1 {emitter.name(instruction.operands[1])}")
    emitter.line(f'call void asm sideeffect "{text}", "{constraints}"({", ".join(arguments)}) convergent')


LOAD_MATRIX = Record(
    name="load_matrix",
    result_types=lambda _, attributes: (attributes["type"],) * elements(attributes),
    llvm={"nvidia": _emit_load},
    issue=lambda machine, attributes, offset: machine.load_matrix(attributes, offset),
    pure=False,
    scope=Scope.WARP,
    effects=(Effect("shared", "read", _moved_bytes),),
    convergent=True,
    targets=frozenset({"load_matrix"}),
)
STORE_MATRIX = Record(
    name="store_matrix",
    result_types=lambda _, __: (),
    llvm={"nvidia": _emit_store},
    issue=lambda machine, attributes, *operands: machine.store_matrix(attributes, *operands),
    pure=False,
    scope=Scope.WARP,
    effects=(Effect("shared", "write", _moved_bytes),),
    convergent=True,
    targets=frozenset({"store_matrix"}),
)
