"""Asynchronous copies from global to shared memory, tracked by commit groups (PTX ISA, `cp.async`).

Operands of a copy: the global address, the byte offset in the allocation, and the mask if `masked`; where it does not
hold, nothing is read and zeros are written. Attributes: `allocation`, `bytes` (4, 8 or 16), `offset` and
`source_offset` (bytes, immediate), `cache` (a cache modifier such as `.cg`, or nothing), `cache_policy` (an eviction
policy or `None`) and `prefetch` (bytes that the second-level cache fetches, or `None`).
"""

from __future__ import annotations

from glueball.thread.ir import Attributes, Completion, Effect, Emitter, Instruction, Record
from glueball.thread.nvidia.cache_hints import HINT_VERSION, hint_words, in_policy_scope


def _bytes(attributes: Attributes) -> int:
    return int(attributes["bytes"])


def _emit_copy(instruction: Instruction, emitter: Emitter) -> None:
    """Only 16 bytes can go past the first-level cache."""
    attributes, (source, offset, *mask) = instruction.attributes, instruction.operands
    size, policy = attributes["bytes"], attributes.get("cache_policy")
    destination = emitter.shared_address(instruction, offset)
    shared = f"[$0 + {attributes.get('offset', 0)}]"
    operands = f"{shared}, [$1 + {attributes.get('source_offset', 0)}], {size}"
    constraints, arguments = "r,l", f"i32 {destination}, i64 {emitter.name(source)}"
    if mask:
        taken = emitter.fresh()
        emitter.line(f"{taken} = select i1 {emitter.name(mask[0])}, i32 {size}, i32 0")
        operands, constraints, arguments = f"{operands}, $2", f"{constraints},r", f"{arguments}, i32 {taken}"
    prefetch = attributes.get("prefetch")
    if policy is not None or prefetch:
        emitter.require_version(HINT_VERSION)
    level = "cg" if size == 16 and attributes.get("cache") != ".ca" else "ca"
    hint, operand = hint_words(policy)
    fetched = f".L2::{prefetch}B" if prefetch else ""
    text = in_policy_scope(policy, f"cp.async.{level}.shared.global{hint}{fetched} {operands}{operand};")
    emitter.line(f'call void asm sideeffect "{text}", "{constraints},~{{memory}}"({arguments})')


COPY_ASYNC = Record(
    name="copy_async",
    result_types=lambda _, __: (),
    llvm={"nvidia": _emit_copy},
    issue=lambda machine, attributes, *operands: machine.copy_async(attributes, *operands),
    complete=lambda machine, pending: machine.complete_copy(pending),
    pure=False,
    effects=(Effect("global", "read", _bytes), Effect("shared", "write", _bytes)),
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
