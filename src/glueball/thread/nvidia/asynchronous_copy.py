"""Asynchronous copies from global to shared memory, tracked by commit groups (PTX ISA, `cp.async`)."""

from __future__ import annotations

from glueball.thread.ir import Attributes, Completion, Effect, Emitter, Instruction, Record


def _bytes(attributes: Attributes) -> int:
    return int(attributes["bytes"])


def _emit_copy(instruction: Instruction, emitter: Emitter) -> None:
    source, offset, *mask = instruction.operands
    destination = emitter.shared_address(instruction, offset)
    size = instruction.attributes["bytes"]
    text = f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global [$0], [$1], {size};"
    constraints, arguments = "r,l", f"i32 {destination}, i64 {emitter.name(source)}"
    if mask:
        text, constraints = f"@$2 {text}", f"{constraints},b"
        arguments += f", i1 {emitter.name(mask[0])}"
    emitter.line(f'call void asm sideeffect "{text}", "{constraints},~{{memory}}"({arguments})')


COPY_ASYNC = Record(
    name="copy_async",
    result_types=lambda _, __: (),
    llvm={"nvidia": _emit_copy},
    issue=lambda machine, attributes, *operands: machine.copy_async(attributes, *operands),
    complete=lambda machine, pending: machine.complete_copy(pending),
    pure=False,
    effects=(Effect("global", "read", _bytes, "async"), Effect("shared", "write", _bytes, "async")),
    completion=Completion.COMMIT_GROUP,
    targets=frozenset({"async_copy"}),
)
COMMIT_GROUP = Record(
    name="commit_group",
    result_types=lambda _, __: (),
    llvm={"nvidia": 'call void asm sideeffect "cp.async.commit_group;", "~{{memory}}"()'},
    issue=lambda machine, _: machine.commit_group(),
    pure=False,
    targets=frozenset({"async_copy"}),
)
WAIT_GROUP = Record(
    name="wait_group",
    result_types=lambda _, __: (),
    llvm={"nvidia": 'call void asm sideeffect "cp.async.wait_group {pending};", "~{{memory}}"()'},
    issue=lambda machine, attributes: machine.wait_group(attributes["pending"]),
    pure=False,
    blocking=True,
    targets=frozenset({"async_copy"}),
)
