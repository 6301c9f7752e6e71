"""What the CTAs of a cluster do together: ranks, barriers, and reads of one another's shared memory (PTX ISA).

A rank is the number of a CTA in its cluster. An allocation lies at the same offset in every CTA of a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from glueball.thread.ir import Attributes, Completion, Effect, Emitter, Instruction, Record, Scope
from glueball.thread.memory import CONSTRAINTS, access_bytes, ptx_load
from glueball.thread.nvidia.remote import remote_address
from glueball.thread.special import thread_index
from glueball.thread.words import pack, word_shape, word_type

WORDS = "cluster_barriers"
"""The allocation of the mbarriers by which partitions of clusters wait for one another; see `barrier_words`."""
WORD_BYTES = 8
ACQUIRE_VERSION, STORE_VERSION = 80, 81


def barrier_words(threads: int, ctas: int) -> tuple[int, int]:
    """The arrivals that the two mbarriers of a partition take, in each CTA.

    On the first one all CTAs arrive in the CTA of rank 0, which then arrives on every other one's second; on that all
    threads of the partition arrive too, only to be told which phase they wait for.
    """
    return ctas, threads + 1


def _rank(instruction: Instruction, emitter: Emitter) -> None:
    symbol = "@llvm.nvvm.read.ptx.sreg.cluster.ctarank"
    emitter.declare(f"declare i32 {symbol}()")
    emitter.line(f"{emitter.name(instruction.results[0])} = call i32 {symbol}()")


def _barrier(instruction: Instruction, emitter: Emitter) -> None:
    """The hardware's barrier, which all threads of all CTAs must take; partitions have mbarriers of their own."""
    if "allocation" in instruction.attributes:
        _barrier_of_partition(instruction, emitter)
        return
    relaxed = ".relaxed" if instruction.attributes["relaxed"] else ""
    for name in (f"arrive{relaxed}", "wait"):
        emitter.declare(f"declare void @llvm.nvvm.barrier.cluster.{name}.aligned()")
        emitter.line(f"call void @llvm.nvvm.barrier.cluster.{name}.aligned()")


def _barrier_of_partition(instruction: Instruction, emitter: Emitter) -> None:
    attributes, (offset, rank) = instruction.attributes, instruction.operands
    emitter.require_version(ACQUIRE_VERSION)
    address, words, thread = emitter.shared_address(instruction, offset), emitter.fresh(), emitter.fresh()
    emitter.line(f"{words} = add i32 {address}, {attributes['offset']}")
    emitter.line(f"{thread} = sub i32 {thread_index(emitter)}, {emitter.first_warp * emitter.target.lanes}")
    told = "".join(
        f"mapa.shared::cluster.u32 there, $0, {cta}; "
        f"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there + {WORD_BYTES}]; "
        for cta in range(attributes["ctas"])
    )
    text = (
        "{ .reg .b64 own, all; .reg .pred passed, other, lead; .reg .b32 there; "
        f"mbarrier.arrive.release.cluster.shared::cta.b64 own, [$0 + {WORD_BYTES}]; "
        "setp.ne.u32 other, $1, 0; @other bra waiting; setp.eq.u32 lead, $2, 0; @lead bra leading; "
        "mapa.shared::cluster.u32 there, $0, 0; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; "
        "bra waiting; leading: mbarrier.arrive.release.cluster.shared::cta.b64 all, [$0]; "
        "gathering: mbarrier.try_wait.acquire.cluster.shared::cta.b64 passed, [$0], all; @!passed bra gathering; "
        f"{told}"
        f"waiting: mbarrier.try_wait.acquire.cluster.shared::cta.b64 passed, [$0 + {WORD_BYTES}], own; "
        "@!passed bra waiting; }"
    )
    call = f'asm sideeffect "{text}", "r,r,r,~{{memory}}"'
    emitter.line(f"call void {call}(i32 {words}, i32 {thread}, i32 {emitter.name(rank)})")


def _init_fence(instruction: Instruction, emitter: Emitter) -> None:
    (predicate,) = instruction.operands
    text = "@$0 fence.mbarrier_init.release.cluster;"
    emitter.line(f'call void asm sideeffect "{text}", "b,~{{memory}}"(i1 {emitter.name(predicate)})')


def _remote_load(instruction: Instruction, emitter: Emitter) -> None:
    offset, rank = instruction.operands[:2]
    address = remote_address(emitter, emitter.shared_address(instruction, offset), rank)
    ptx_load(emitter, instruction, "ld.shared::cluster", f"i32 {address}", "r")


def _store_async(instruction: Instruction, emitter: Emitter) -> None:
    """One store of 4, 8 or 16 bytes; the mbarrier lies in the CTA that the bytes go to."""
    attributes = instruction.attributes
    emitter.require_version(STORE_VERSION)
    offset, rank, barrier, *values = instruction.operands
    guards = [values.pop(0)] if attributes["masked"] else []
    bits, count = word_shape(attributes["type"], attributes["count"])
    packed = pack(emitter, values, bits, count)
    target = remote_address(emitter, emitter.shared_address(instruction, offset), rank)
    word = remote_address(emitter, emitter.shared_address(instruction, barrier, "barrier_allocation"), rank)
    spelled = word_type(attributes["type"], bits)
    names = ", ".join(f"${2 + index}" for index in range(count))
    vector, names = (f".v{count}", f"{{{names}}}") if count > 1 else ("", names)
    opcode = f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{vector}.b{bits}"
    text = f"{opcode} [$0 + {attributes['offset']}], {names}, [$1 + {attributes['barrier_offset']}];"
    text = f"@${2 + count} {text}" if guards else text
    constraints = ["r", "r", *[CONSTRAINTS[spelled]] * count, *["b" for _ in guards], "~{memory}"]
    arguments = [f"i32 {target}", f"i32 {word}", *(f"{spelled} {name}" for name in packed)]
    arguments += [f"i1 {emitter.name(guard)}" for guard in guards]
    emitter.line(f'call void asm sideeffect "{text}", "{",".join(constraints)}"({", ".join(arguments)})')


def _loaded(_: Sequence[str], attributes: Attributes) -> tuple[str, ...]:
    return (attributes["type"],) * int(attributes["count"])


def _nothing(_: Sequence[str], __: Attributes) -> tuple[str, ...]:
    return ()


CLUSTER = frozenset({"cluster"})

CTA_RANK = Record(
    name="cta_rank",
    result_types=lambda _, __: ("i32",),
    llvm={"nvidia": _rank},
    issue=lambda machine, _: machine.cta_rank(),
    targets=CLUSTER,
)
CLUSTER_BARRIER = Record(
    name="cluster_barrier",
    result_types=_nothing,
    llvm={"nvidia": _barrier},
    issue=lambda machine, attributes, *_: machine.cluster_barrier(attributes["relaxed"]),
    complete=lambda _, __: None,
    pure=False,
    scope=Scope.CLUSTER,
    convergent=True,
    blocking=True,
    targets=CLUSTER,
)
"""All threads of all CTAs wait for one another; `relaxed` does not order their accesses.

In a kernel with workers they are those of a partition, `threads` in each of `ctas`; the operands are then the offset of
its mbarriers, which `allocation` and `offset` name further, and the rank.
"""
FENCE_MBARRIER_INIT = Record(
    name="fence_mbarrier_init",
    result_types=_nothing,
    llvm={"nvidia": _init_fence},
    issue=lambda machine, _, predicate: machine.fence_mbarrier_init(predicate),
    pure=False,
    targets=CLUSTER,
)
"""Other CTAs may use the mbarriers that a thread, where the predicate holds, has initialised; once they know of it."""
REMOTE_LOAD = Record(
    name="remote_load",
    result_types=_loaded,
    llvm={"nvidia": _remote_load},
    issue=lambda machine, attributes, *operands: machine.remote_load(attributes, *operands),
    pure=False,
    effects=(Effect("shared", "read", access_bytes),),
    targets=CLUSTER,
)
"""As `shared_load` from the CTA of a rank, which is the second operand; `remote` is true."""
STORE_ASYNC = Record(
    name="store_async",
    result_types=_nothing,
    llvm={"nvidia": _store_async},
    issue=lambda machine, attributes, *operands: machine.store_async(attributes, *operands),
    complete=lambda machine, message: message.land(),
    pure=False,
    effects=(Effect("shared", "write", access_bytes),),
    completion=Completion.MBARRIER,
    in_order=False,
    targets=CLUSTER,
)
"""A store to the CTA of a rank, where an mbarrier counts the bytes.

Operands: offset, rank, offset of the mbarrier, the mask if `masked`, the elements. Attributes: those of a shared store,
`barrier_allocation`, `barrier_offset`, and `remote`, which is true.
"""
