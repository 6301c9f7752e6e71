"""Atomic changes of shared memory, one element a thread.

Operands are the byte offset in the allocation, the mask if `masked`, then the value. Attributes: `allocation`,
`operation` (one of `glueball.thread.atomics`), `type`, `offset` (bytes, immediate), and `result`: whether the old value
is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

from glueball.thread.atomics import LLVM_NAMES, ptx_operation
from glueball.thread.ir import BITS, Attributes, Effect, Emitter, Instruction, Record
from glueball.thread.memory import (
    CONSTRAINTS,
    access_bytes,
    guarded,
    merge_guarded,
    rejoin,
    shared_pointer,
    split_operands,
)
from glueball.thread.words import llvm_type


def _result_types(_: Sequence[str], attributes: Attributes) -> tuple[str, ...]:
    return (attributes["type"],) if attributes["result"] else ()


def _nvidia(instruction: Instruction, emitter: Emitter) -> None:
    """An exchange always has a result; it goes to a register of its own where nobody wants it."""
    attributes, (mask, (value,)) = instruction.attributes, split_operands(instruction)
    kind, bits = attributes["type"], BITS[attributes["type"]]
    wanted = bool(instruction.results)
    first = int(wanted)
    guard = f"@${first + 2} " if mask is not None else ""
    place = f"[${first} + {attributes['offset']}], ${first + 1};"
    if wanted:
        text = f"mov.b{bits} $0, 0; " if mask is not None else ""
        text += f"{guard}atom.shared.{ptx_operation(attributes, emitter)} $0, {place}"
    else:
        text = f"{{ .reg .b{bits} old; {guard}atom.shared.{ptx_operation(attributes, emitter)} old, {place} }}"
    letter, spelled = CONSTRAINTS[llvm_type(kind)], llvm_type(kind)
    constraints = [*([f"=&{letter}"] if wanted else []), "r", letter, *(["b"] if mask is not None else []), "~{memory}"]
    address = emitter.shared_address(instruction, instruction.operands[0])
    arguments = [f"i32 {address}", f"{spelled} {emitter.name(value)}"]
    arguments += [f"i1 {emitter.name(mask)}"] if mask is not None else []
    call = f'asm sideeffect "{text}", "{",".join(constraints)}"({", ".join(arguments)})'
    result = f"{emitter.name(instruction.results[0])} = call {spelled} " if wanted else "call void "
    emitter.line(result + call)


def _amd(instruction: Instruction, emitter: Emitter) -> None:
    attributes, (mask, (value,)) = instruction.attributes, split_operands(instruction)
    kind = llvm_type(attributes["type"])
    pointer = shared_pointer(emitter, instruction)
    name = LLVM_NAMES.get(attributes["operation"]) or ("fadd" if attributes["type"].startswith("f") else "add")
    guard, old = guarded(emitter, mask), emitter.fresh()
    place = f"ptr addrspace(3) {pointer}, {kind} {emitter.name(value)}"
    emitter.line(f'{old} = atomicrmw {name} {place} syncscope("workgroup") monotonic')
    rejoin(emitter, guard)
    if not instruction.results:
        return
    result = emitter.name(instruction.results[0])
    if guard is None:
        emitter.line(f"{result} = select i1 true, {kind} {old}, {kind} {old}")
    else:
        merge_guarded(emitter, guard, result, kind, old)


SHARED_ATOMIC = Record(
    name="shared_atomic",
    result_types=_result_types,
    llvm={"nvidia": _nvidia, "amd": _amd},
    issue=lambda machine, attributes, *operands: machine.shared_atomic(attributes, *operands),
    pure=False,
    effects=(Effect("shared", "read", access_bytes), Effect("shared", "write", access_bytes)),
)
