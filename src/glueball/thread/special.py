"""Constants and the coordinates of a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glueball.thread.ir import Emitter, Instruction, Record, Value

AXES = "xyz"


def _index_type(*_: Any) -> tuple[str, ...]:
    return ("i32",)


def _call(emitter: Emitter, result: str, symbol: str, kind: str = "i32") -> None:
    emitter.declare(f"declare {kind} {symbol}()")
    emitter.line(f"{result} = call {kind} {symbol}()")


def _per_axis(prefix: str) -> Callable[[Instruction, Emitter], None]:
    def emit(instruction: Instruction, emitter: Emitter) -> None:
        (result,) = instruction.results
        _call(emitter, emitter.name(result), f"@{prefix}.{AXES[instruction.attributes['axis']]}")

    return emit


def _programs_on_amd(instruction: Instruction, emitter: Emitter) -> None:
    """The grid's extent in blocks is at the start of the implicit arguments (code object version 5)."""
    pointer, place, result = emitter.fresh(), emitter.fresh(), emitter.name(instruction.results[0])
    _call(emitter, pointer, "@llvm.amdgcn.implicitarg.ptr", "ptr addrspace(4)")
    offset = 4 * instruction.attributes["axis"]
    emitter.line(f"{place} = getelementptr i8, ptr addrspace(4) {pointer}, i32 {offset}")
    emitter.line(f"{result} = load i32, ptr addrspace(4) {place}, align 4, !invariant.load !{{}}")


def thread_index(emitter: Emitter) -> str:
    """The number of the thread in its block, as a new LLVM register."""
    name = emitter.fresh()
    symbol = {"nvidia": "@llvm.nvvm.read.ptx.sreg.tid.x", "amd": "@llvm.amdgcn.workitem.id.x"}[emitter.target.family]
    _call(emitter, name, symbol)
    return name


def lane_index(emitter: Emitter) -> str:
    """The number of the lane in its warp, as a new LLVM register."""
    thread, lane = thread_index(emitter), emitter.fresh()
    emitter.line(f"{lane} = and i32 {thread}, {emitter.target.lanes - 1}")
    return lane


def _emit_lane(instruction: Instruction, emitter: Emitter) -> None:
    thread = thread_index(emitter)
    emitter.line(f"{emitter.name(instruction.results[0])} = and i32 {thread}, {emitter.target.lanes - 1}")


def _emit_warp(instruction: Instruction, emitter: Emitter) -> None:
    """The partition's warps count from its first one."""
    thread, result = thread_index(emitter), emitter.name(instruction.results[0])
    shift = emitter.target.lanes.bit_length() - 1
    if not emitter.first_warp:
        emitter.line(f"{result} = lshr i32 {thread}, {shift}")
        return
    warp = emitter.fresh()
    emitter.line(f"{warp} = lshr i32 {thread}, {shift}")
    emitter.line(f"{result} = sub i32 {warp}, {emitter.first_warp}")


CONSTANT = Record(
    name="constant",
    result_types=lambda _, attributes: (attributes["type"],),
    llvm={"any": ""},
    issue=lambda _, attributes: attributes["value"],
)
PROGRAM_ID = Record(
    name="program_id",
    result_types=_index_type,
    llvm={"nvidia": _per_axis("llvm.nvvm.read.ptx.sreg.ctaid"), "amd": _per_axis("llvm.amdgcn.workgroup.id")},
    issue=lambda machine, attributes: machine.program_id(attributes["axis"]),
)
NUM_PROGRAMS = Record(
    name="num_programs",
    result_types=_index_type,
    llvm={"nvidia": _per_axis("llvm.nvvm.read.ptx.sreg.nctaid"), "amd": _programs_on_amd},
    issue=lambda machine, attributes: machine.num_programs(attributes["axis"]),
)
LANE_ID = Record(
    name="lane_id", result_types=_index_type, llvm={"any": _emit_lane}, issue=lambda machine, _: machine.lane_id()
)
WARP_ID = Record(
    name="warp_id", result_types=_index_type, llvm={"any": _emit_warp}, issue=lambda machine, _: machine.warp_id()
)


def is_zero(value: Value) -> bool:
    """Whether a register is the constant zero (or false)."""
    return value.constant is not None and value.constant == 0
