"""Barriers in shared memory that count arrivals and bytes (PTX ISA, `mbarrier`).

Operands: the byte offset of the word in its allocation (`i32`), for a wait the phase (`i32`, 0 or 1), then the
predicate (`i1`): only lanes where it holds act. Attributes: `allocation` and `offset` (bytes, immediate) name the
64-bit word; `count` are arrivals, `bytes` what an arrival announces. `increment` says whether an arrival of copies
first makes one more arrival due, so that the two cancel out. An arrival in another CTA of the cluster has `remote` and
the rank (`i32`) as its last operand. With `cluster` what was written before the arrival is seen after the wait in every
CTA, else in that of the thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glueball.thread.ir import Attributes, Completion, Effect, Emitter, Instruction, Record, Template, Value
from glueball.thread.nvidia.remote import remote_address

WORD_BYTES = 8
GREATEST_COUNT = (1 << 20) - 1
"""Arrivals that a phase may need, and bytes that it may miss, at the most."""
PAUSE_NANOSECONDS = 20
PARITY_VERSION = 71
COUNT_VERSION = 78
CLUSTER_VERSION = 80


def _word(_: Attributes) -> int:
    return WORD_BYTES


def guarded(predicate: Value, position: int, emitter: Emitter) -> tuple[str, str, str]:
    """The guard of an instruction, its constraint and its argument; nothing where the predicate always holds."""
    if predicate.constant is not None and predicate.constant:
        return "", "", ""
    return f"@${position} ", ",b", f", i1 {emitter.name(predicate)}"


def _place(attributes: Attributes) -> str:
    return f"[$0 + {attributes['offset']}]"


def _init_text(guard: str, attributes: Attributes) -> str:
    return f"{guard}mbarrier.init.shared.b64 {_place(attributes)}, {attributes['count']};"


def _invalidate_text(guard: str, attributes: Attributes) -> str:
    return f"{guard}mbarrier.inval.shared.b64 {_place(attributes)};"


def _release(attributes: Attributes) -> str:
    return ".release.cluster" if attributes["cluster"] else ""


def _expect_text(guard: str, attributes: Attributes) -> str:
    if attributes.get("remote"):
        operation = f"{guard}mbarrier.arrive.expect_tx{_release(attributes)}.shared::cluster.b64"
        return f"{operation} _, {_place(attributes)}, {attributes['bytes']};"
    operation = f"{guard}mbarrier.arrive.expect_tx.shared.b64"
    return f"{{ .reg .b64 state; {operation} state, {_place(attributes)}, {attributes['bytes']}; }}"


def _emitting(text: Callable[[str, Attributes], str]) -> Callable[[Instruction, Emitter], None]:
    """An emitter of one instruction on a word, `$0` being its address, under a guard."""

    def emit(instruction: Instruction, emitter: Emitter) -> None:
        attributes, (offset, predicate, *rank) = instruction.attributes, instruction.operands
        address = emitter.shared_address(instruction, offset)
        if rank:
            emitter.require_version(CLUSTER_VERSION)
            address = remote_address(emitter, address, rank[0])
        guard, constraint, argument = guarded(predicate, 1, emitter)
        call = f'asm sideeffect "{text(guard, attributes)}", "r{constraint},~{{memory}}"'
        emitter.line(f"call void {call}(i32 {address}{argument})")

    return emit


def _arrive_text(guard: str, attributes: Attributes) -> str:
    count = f", {attributes['count']}" if attributes["count"] > 1 else ""
    if attributes.get("remote"):
        return f"{guard}mbarrier.arrive{_release(attributes)}.shared::cluster.b64 _, {_place(attributes)}{count};"
    return f"{{ .reg .b64 state; {guard}mbarrier.arrive.shared.b64 state, {_place(attributes)}{count}; }}"


def _single_arrivals_text(guard: str, attributes: Attributes) -> str:
    return _arrive_text(guard, {**attributes, "count": 1}) * int(attributes["count"])


def _emit_arrive(instruction: Instruction, emitter: Emitter) -> None:
    """Arrivals are counted by one instruction where it can count."""
    counts = emitter.target.supports("bulk_copy")
    if counts and instruction.attributes["count"] > 1:
        emitter.require_version(COUNT_VERSION)
    _emitting(_arrive_text if counts else _single_arrivals_text)(instruction, emitter)


def _emit_wait(instruction: Instruction, emitter: Emitter) -> None:
    """All lanes spin; the hardware suspends them for a while where it has `try_wait`."""
    offset, phase, predicate = instruction.operands
    address = emitter.shared_address(instruction, offset)
    suspends = emitter.target.supports("bulk_copy")
    emitter.require_version(COUNT_VERSION if suspends else PARITY_VERSION)
    attempt = "try_wait" if suspends else "test_wait"
    space = "shared"
    if instruction.attributes.get("cluster"):
        emitter.require_version(CLUSTER_VERSION)
        space = "acquire.cluster.shared::cta"
    test = f"mbarrier.{attempt}.parity.{space}.b64 passed, {_place(instruction.attributes)}, $1; @passed bra done;"
    pause = "" if suspends else f" nanosleep.u32 {PAUSE_NANOSECONDS};"
    _, constraint, argument = guarded(predicate, 2, emitter)
    skip = " @!$2 bra done;" if constraint else ""
    text = f"{{ .reg .pred passed;{skip} again: {test}{pause} bra again; done: }}"
    call = f'asm sideeffect "{text}", "r,r{constraint},~{{memory}}"'
    emitter.line(f"call void {call}(i32 {address}, i32 {emitter.name(phase)}{argument})")


def _emit_copy_arrive(instruction: Instruction, emitter: Emitter) -> None:
    kind = "" if instruction.attributes["increment"] else ".noinc"
    address = emitter.shared_address(instruction, instruction.operands[0])
    text = f"cp.async.mbarrier.arrive{kind}.shared.b64 {_place(instruction.attributes)};"
    emitter.line(f'call void asm sideeffect "{text}", "r,~{{memory}}"(i32 {address})')


def _record(name: str, template: Template, issue: Callable[..., Any], feature: str = "nvidia", **more: Any) -> Record:
    return Record(
        name=name,
        result_types=lambda _, __: (),
        llvm={"nvidia": template},
        issue=issue,
        pure=False,
        effects=(Effect("shared", "read", _word), Effect("shared", "write", _word)),
        targets=frozenset({feature}),
        **more,
    )


MBARRIER_INIT = _record(
    "mbarrier_init",
    _emitting(_init_text),
    lambda machine, attributes, *operands: machine.barriers.initialize(attributes, *operands),
)
MBARRIER_INVALIDATE = _record(
    "mbarrier_invalidate",
    _emitting(_invalidate_text),
    lambda machine, attributes, *operands: machine.barriers.invalidate(attributes, *operands),
)
MBARRIER_ARRIVE = _record(
    "mbarrier_arrive",
    _emit_arrive,
    lambda machine, attributes, *operands: machine.barriers.arrive(attributes, *operands),
)
MBARRIER_EXPECT = _record(
    "mbarrier_expect",
    _emitting(_expect_text),
    lambda machine, attributes, *operands: machine.barriers.expect(attributes, *operands),
    "bulk_copy",
)
MBARRIER_WAIT = _record(
    "mbarrier_wait",
    _emit_wait,
    lambda machine, attributes, *operands: machine.barriers.wait(attributes, *operands),
    complete=lambda machine, wait: machine.barriers.complete(wait),
    blocking=True,
)
MBARRIER_COPY_ARRIVE = _record(
    "mbarrier_copy_arrive",
    _emit_copy_arrive,
    lambda machine, attributes, offset: machine.barriers.copy_arrive(attributes, offset),
    completion=Completion.MBARRIER,
)
