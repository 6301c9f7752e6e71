"""The choice of one lane of a warp (PTX ISA, `elect.sync`)."""

from __future__ import annotations

from glueball.thread.ir import Emitter, Instruction, Record, Scope


def _emit_elect(instruction: Instruction, emitter: Emitter) -> None:
    emitter.declare("declare {i32, i1} @llvm.nvvm.elect.sync(i32)")
    both = emitter.fresh()
    emitter.line(f"{both} = call {{i32, i1}} @llvm.nvvm.elect.sync(i32 -1)")
    emitter.line(f"{emitter.name(instruction.results[0])} = extractvalue {{i32, i1}} {both}, 1")


ELECT = Record(
    name="elect",
    result_types=lambda _, __: ("i1",),
    llvm={"nvidia": _emit_elect},
    issue=lambda machine, _: machine.elect(),
    pure=False,
    scope=Scope.WARP,
    convergent=True,
    targets=frozenset({"bulk_copy"}),
)
"""True in one lane of each warp, always the same one."""
