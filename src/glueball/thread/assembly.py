"""The author's own assembly: text and constraints as LLVM takes them, and what stands for it where it cannot run.

Operands and results are words of registers. Attributes: `assembly`, `constraints`, `types` (of the results),
`inputs` and `outputs` (for each word, the NumPy element type and how many elements it holds) and `simulate`, which for
the author's line and one array for each element of the operands gives one for each element of the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glueball.thread.conversion import NUMPY
from glueball.thread.ir import Attributes, Emitter, Instruction, Record
from glueball.thread.words import llvm_type

NARROW = ("i1", "i8")


def _result_types(_: Sequence[str], attributes: Attributes) -> tuple[str, ...]:
    kinds: tuple[str, ...] = attributes["types"]
    return kinds


def _escaped(text: str) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode())


def _wide(kind: str, constraint: str) -> str:
    """The type in which a register goes in or out: those of 8 bits or fewer go in the register of their constraint."""
    return kind if kind not in NARROW or "b" in constraint else "i32" if "r" in constraint else "i16"


def _emit(instruction: Instruction, emitter: Emitter, effects: str) -> None:
    attributes, results = instruction.attributes, instruction.results
    constraints = attributes["constraints"].split(",") if attributes["constraints"] else []
    padded = [*constraints, *[""] * (len(results) + len(instruction.operands))]
    outputs = [_wide(result.type, padded[index]) for index, result in enumerate(results)]
    arguments = []
    for value, constraint in zip(instruction.operands, padded[len(results) :], strict=False):
        kind, name = _wide(value.type, constraint), emitter.name(value)
        if kind != value.type:
            name = emitter.fresh()
            emitter.line(f"{name} = zext {value.type} {emitter.name(value)} to {kind}")
        arguments.append(f"{llvm_type(kind)} {name}")
    spelled = [llvm_type(kind) for kind in outputs]
    given = "void" if not results else spelled[0] if len(results) == 1 else f"{{ {', '.join(spelled)} }}"
    call = f'call {given} asm {effects}"{_escaped(attributes["assembly"])}", "{_escaped(attributes["constraints"])}"'
    call = f"{call}({', '.join(arguments)})"
    if not results:
        emitter.line(call)
        return
    whole = emitter.fresh()
    emitter.line(f"{whole} = {call}")
    for index, result in enumerate(results):
        part = whole
        if len(results) > 1:
            part = emitter.fresh()
            emitter.line(f"{part} = extractvalue {given} {whole}, {index}")
        if outputs[index] != result.type:
            emitter.line(f"{emitter.name(result)} = trunc {outputs[index]} {part} to {result.type}")
        else:
            emitter.line(f"{emitter.name(result)} = bitcast {spelled[index]} {part} to {spelled[index]}")


def _issue(machine: Any, attributes: Attributes, *operands: Any) -> Any:
    arrays = []
    for operand, (kind, count) in zip(operands, attributes["inputs"], strict=True):
        elements = np.ascontiguousarray(operand)[..., None].view(kind)
        arrays += [elements[..., index] for index in range(count)]
    found = attributes["simulate"](machine.location, arrays)
    results, position = [], 0
    for (kind, count), word in zip(attributes["outputs"], attributes["types"], strict=True):
        parts = np.broadcast_arrays(*(np.asarray(each, kind) for each in found[position : position + count]))
        position += count
        results.append(np.ascontiguousarray(np.stack(parts, axis=-1)).view(NUMPY[word])[..., 0])
    return results[0] if len(results) == 1 else tuple(results)


def _record(name: str, *, pure: bool) -> Record:
    effects = "" if pure else "sideeffect "
    return Record(
        name=name,
        result_types=_result_types,
        llvm={"any": lambda instruction, emitter: _emit(instruction, emitter, effects)},
        issue=_issue,
        pure=pure,
    )


PURE_ASSEMBLY = _record("pure_assembly", pure=True)
ASSEMBLY = _record("assembly", pure=False)
