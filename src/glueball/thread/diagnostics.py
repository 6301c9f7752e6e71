"""What a running kernel tells its host: printed lines, and assertions that fail.

NVIDIA GPUs call the driver's `vprintf` and `__assertfail`; AMD GPUs have no such call, so assertions only trap there.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from glueball.thread.ir import BITS, Attributes, Emitter, Instruction, Record
from glueball.thread.words import llvm_type

ESCAPED = b'"\\'


def _nothing(_: Sequence[str], __: Attributes) -> tuple[str, ...]:
    return ()


def _text(emitter: Emitter, text: str) -> str:
    """A generic pointer to a text that ends in a zero byte."""
    data = text.encode() + b"\0"
    name = f"@text_{zlib.crc32(data):08x}"
    spelled = "".join(chr(byte) if 32 <= byte < 127 and byte not in ESCAPED else f"\\{byte:02X}" for byte in data)
    emitter.declare(f'{name} = private unnamed_addr addrspace(1) constant [{len(data)} x i8] c"{spelled}"')
    pointer = emitter.fresh()
    emitter.line(f"{pointer} = addrspacecast ptr addrspace(1) {name} to ptr")
    return pointer


def _print_nvidia(instruction: Instruction, emitter: Emitter) -> None:
    """Arguments lie in local memory one after the other, each aligned to its own size."""
    text = _text(emitter, instruction.attributes["format"])
    offset, places = 0, []
    for value in instruction.operands:
        size = BITS[value.type] // 8
        offset = -(-offset // size) * size
        places.append(offset)
        offset += size
    buffer = emitter.fresh()
    emitter.entry(f"{buffer} = alloca [{max(8, offset)} x i8], align 8")
    for value, place in zip(instruction.operands, places, strict=True):
        pointer = emitter.fresh()
        emitter.line(f"{pointer} = getelementptr i8, ptr {buffer}, i32 {place}")
        emitter.line(
            f"store {llvm_type(value.type)} {emitter.name(value)}, ptr {pointer}, align {BITS[value.type] // 8}"
        )
    emitter.declare("declare i32 @vprintf(ptr, ptr)")
    emitter.line(f"{emitter.fresh()} = call i32 @vprintf(ptr {text}, ptr {buffer})")


def _fail_nvidia(instruction: Instruction, emitter: Emitter) -> None:
    attributes, where = instruction.attributes, instruction.location
    message, file, function = (
        _text(emitter, text)
        for text in (attributes["message"] or "assertion failed", where.file, where.function or "kernel")
    )
    emitter.declare("declare void @__assertfail(ptr, ptr, i32, ptr, i64)")
    emitter.line(f"call void @__assertfail(ptr {message}, ptr {file}, i32 {where.line}, ptr {function}, i64 1)")


def _fail_amd(_: Instruction, emitter: Emitter) -> None:
    emitter.declare("declare void @llvm.trap()")
    emitter.line("call void @llvm.trap()")


def _print(machine: Any, attributes: Attributes, *operands: Any) -> None:
    machine.print_lines(attributes, operands)


def _fail(machine: Any, attributes: Attributes) -> None:
    machine.fail(attributes["message"])


WHERE_DEFINED = Record(
    name="where_defined",
    result_types=lambda types, _: (types[0],),
    llvm={"any": "{r} = freeze {t} {0}"},
    issue=lambda _, __, condition: condition,
)
"""The condition, which the simulator takes for false where it is undefined."""

PRINT = Record(name="print", result_types=_nothing, llvm={"nvidia": _print_nvidia}, issue=_print, pure=False)
FAIL = Record(
    name="fail", result_types=_nothing, llvm={"nvidia": _fail_nvidia, "amd": _fail_amd}, issue=_fail, pure=False
)
