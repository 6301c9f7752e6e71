"""Barriers and exchange between lanes. Execution and ordering are separate records."""

from __future__ import annotations

from glueball.thread.ir import Emitter, Instruction, Record, Scope

ONLY_LOCAL_MEMORY = 0xC07F
"""Operand of `s_waitcnt` with the local memory counter 0 and the others at their greatest (no wait)."""


def _barrier_nvidia(instruction: Instruction, emitter: Emitter) -> None:
    """The whole block's barrier, a partition's own one, or a warp's where that is the partition."""
    attributes = instruction.attributes
    if "identifier" not in attributes:
        emitter.declare("declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)")
        emitter.line("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")
    elif attributes["threads"] == emitter.target.lanes:
        emitter.declare("declare void @llvm.nvvm.bar.warp.sync(i32)")
        emitter.line("call void @llvm.nvvm.bar.warp.sync(i32 -1)")
    else:
        identifier, threads = attributes["identifier"], attributes["threads"]
        emitter.declare("declare void @llvm.nvvm.barrier.cta.sync.aligned.count(i32, i32)")
        emitter.line(f"call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 {identifier}, i32 {threads})")


def _keep_order(emitter: Emitter) -> None:
    """Nothing at all, which LLVM may not move accesses across; of its own barriers and waits it knows no such thing."""
    emitter.line('call void asm sideeffect "", "~{memory}"()')


def _barrier_amd(_: Instruction, emitter: Emitter) -> None:
    _keep_order(emitter)
    if emitter.target.lanes == 64:
        emitter.declare("declare void @llvm.amdgcn.s.barrier()")
        emitter.line("call void @llvm.amdgcn.s.barrier()")
    else:
        emitter.declare("declare void @llvm.amdgcn.s.barrier.signal(i32)")
        emitter.declare("declare void @llvm.amdgcn.s.barrier.wait(i16)")
        emitter.line("call void @llvm.amdgcn.s.barrier.signal(i32 -1)")
        emitter.line("call void @llvm.amdgcn.s.barrier.wait(i16 -1)")
    _keep_order(emitter)


def _order_amd(_: Instruction, emitter: Emitter) -> None:
    """Waits until this wave's accesses to local memory are done; the older encoding holds all counters at once."""
    _keep_order(emitter)
    if emitter.target.lanes == 64:
        emitter.declare("declare void @llvm.amdgcn.s.waitcnt(i32)")
        emitter.line(f"call void @llvm.amdgcn.s.waitcnt(i32 {ONLY_LOCAL_MEMORY})")
    else:
        emitter.declare("declare void @llvm.amdgcn.s.wait.dscnt(i16)")
        emitter.line("call void @llvm.amdgcn.s.wait.dscnt(i16 0)")
    _keep_order(emitter)


def _shuffle_nvidia(instruction: Instruction, emitter: Emitter) -> None:
    value, lane = (emitter.name(operand) for operand in instruction.operands)
    emitter.declare("declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32)")
    result = emitter.name(instruction.results[0])
    emitter.line(f"{result} = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 {value}, i32 {lane}, i32 31)")


def _shuffle_amd(instruction: Instruction, emitter: Emitter) -> None:
    value, lane = (emitter.name(operand) for operand in instruction.operands)
    address = emitter.fresh()
    emitter.declare("declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)")
    emitter.line(f"{address} = shl i32 {lane}, 2")
    result = emitter.name(instruction.results[0])
    emitter.line(f"{result} = call i32 @llvm.amdgcn.ds.bpermute(i32 {address}, i32 {value})")


BARRIER = Record(
    name="barrier",
    result_types=lambda _, __: (),
    llvm={"nvidia": _barrier_nvidia, "amd": _barrier_amd},
    issue=lambda machine, attributes: machine.barrier(attributes),
    pure=False,
    scope=Scope.CTA,
    convergent=True,
)
ORDER_SHARED = Record(
    name="order_shared",
    result_types=lambda _, __: (),
    llvm={"nvidia": lambda _, __: None, "amd": _order_amd},
    issue=lambda _, __: None,
    pure=False,
)
SHUFFLE = Record(
    name="shuffle",
    result_types=lambda _, __: ("i32",),
    llvm={"nvidia": _shuffle_nvidia, "amd": _shuffle_amd},
    issue=lambda machine, _, value, lane: machine.shuffle(value, lane),
    pure=False,
    scope=Scope.WARP,
    convergent=True,
)
