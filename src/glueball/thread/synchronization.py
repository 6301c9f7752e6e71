"""Barriers and exchange between lanes. Execution and ordering are separate records."""

from __future__ import annotations

from typing import Any

import numpy as np

from glueball.thread.ir import Attributes, Emitter, Instruction, Record, Scope
from glueball.thread.special import lane_index

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
    """Lanes that differ from their partners in the same bits need no register for the partner's index."""
    value, lane = (emitter.name(operand) for operand in instruction.operands)
    kind, source = ("bfly", mask) if (mask := instruction.attributes.get("mask")) else ("idx", lane)
    emitter.declare(f"declare i32 @llvm.nvvm.shfl.sync.{kind}.i32(i32, i32, i32, i32)")
    result = emitter.name(instruction.results[0])
    emitter.line(f"{result} = call i32 @llvm.nvvm.shfl.sync.{kind}.i32(i32 -1, i32 {value}, i32 {source}, i32 31)")


def _shuffle_amd(instruction: Instruction, emitter: Emitter) -> None:
    value, lane = (emitter.name(operand) for operand in instruction.operands)
    address = emitter.fresh()
    emitter.declare("declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)")
    emitter.line(f"{address} = shl i32 {lane}, 2")
    result = emitter.name(instruction.results[0])
    emitter.line(f"{result} = call i32 @llvm.amdgcn.ds.bpermute(i32 {address}, i32 {value})")


def _shift_nvidia(instruction: Instruction, emitter: Emitter) -> None:
    """The hardware takes what lies outside a segment of lanes, whose upper bits are masked, for absent."""
    value, attributes = emitter.name(instruction.operands[0]), instruction.attributes
    kind, clamp = ("down", 31) if attributes["reverse"] else ("up", 0)
    control = (-1 << attributes["mask"].bit_length() & 31) << 8 | clamp
    both = emitter.fresh()
    emitter.declare(f"declare {{i32, i1}} @llvm.nvvm.shfl.sync.{kind}.i32p(i32, i32, i32, i32)")
    operands = f"i32 -1, i32 {value}, i32 {attributes['distance']}, i32 {control}"
    emitter.line(f"{both} = call {{i32, i1}} @llvm.nvvm.shfl.sync.{kind}.i32p({operands})")
    for index, result in enumerate(instruction.results):
        emitter.line(f"{emitter.name(result)} = extractvalue {{i32, i1}} {both}, {index}")


def _shift_amd(instruction: Instruction, emitter: Emitter) -> None:
    attributes = instruction.attributes
    value, (result, present) = emitter.name(instruction.operands[0]), map(emitter.name, instruction.results)
    lane, part, moved, source, address = lane_index(emitter), *(emitter.fresh() for _ in range(4))
    mask, distance = attributes["mask"], attributes["distance"]
    emitter.line(f"{part} = and i32 {lane}, {mask}")
    if attributes["reverse"]:
        emitter.line(f"{present} = icmp ule i32 {part}, {mask - distance}")
    else:
        emitter.line(f"{present} = icmp uge i32 {part}, {distance}")
    emitter.line(f"{moved} = add i32 {lane}, {distance if attributes['reverse'] else -distance}")
    emitter.line(f"{source} = select i1 {present}, i32 {moved}, i32 {lane}")
    emitter.declare("declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)")
    emitter.line(f"{address} = shl i32 {source}, 2")
    emitter.line(f"{result} = call i32 @llvm.amdgcn.ds.bpermute(i32 {address}, i32 {value})")


def _shift(machine: Any, attributes: Attributes, value: Any) -> tuple[Any, Any]:
    """What each lane gets, and whether there is a lane that far before it; elsewhere it gets what it has."""
    lane, mask, distance = machine.lane_id(), attributes["mask"], attributes["distance"]
    part = lane & mask
    present = part <= mask - distance if attributes["reverse"] else part >= distance
    source = np.where(present, lane + (distance if attributes["reverse"] else -distance), lane)
    return machine.shuffle(value, source), present


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
"""A word from another lane of the warp. `mask`, where there is one, says in which bits every lane's partner differs."""
SHIFT = Record(
    name="shift",
    result_types=lambda _, __: ("i32", "i1"),
    llvm={"nvidia": _shift_nvidia, "amd": _shift_amd},
    issue=_shift,
    pure=False,
    scope=Scope.WARP,
    convergent=True,
)
"""A word from the lane `distance` before (after with `reverse`) among those that differ in the bits of `mask`.

The bits of the mask are neighbours, and the distance a multiple of the lowest. The second result says whether there is
such a lane; where there is none, the word is the lane's own.
"""
