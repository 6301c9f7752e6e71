"""Structured control flow. The printer flattens it and the simulator turns it into Python; neither uses a template.

`if`: condition; regions then and else. `for`: lower, upper, step, initial values...; one region whose arguments are
the induction register and the carried ones; `step_negative` tells which way the comparison goes. `while`: initial
values...; regions condition (yields the condition, then the values) and body. `yield` ends a region.

`partitions`: what the workers capture...; regions default and worker 1 to n. The block's own warps execute the default
region and its results are what that yields; a worker runs on further warps and has its captures as arguments, copied
when it starts, one after the other's in the operands. All have ended where the instruction ends. Attributes, one for
each region: `warps`, `first_warp` (in the block) and `registers` (per thread, `None` to leave them).
"""

from __future__ import annotations

from collections.abc import Sequence

from glueball.thread.ir import Attributes, Function, Record


def _result_types(_: Sequence[str], attributes: Attributes) -> tuple[str, ...]:
    return tuple(attributes.get("types", ()))


def _structural(*_: object) -> None:
    raise NotImplementedError("structured control flow is translated by each executor, not issued")


def _control(name: str) -> Record:
    return Record(name=name, result_types=_result_types, llvm={"any": ""}, issue=_structural, pure=False)


IF = _control("if")
FOR = _control("for")
WHILE = _control("while")
YIELD = _control("yield")
RETURN = _control("return")
PARTITIONS = _control("partitions")
GROUP = 4
"""Warps that start and, on NVIDIA GPUs, share what `setmaxnreg` sets (PTX ISA)."""
CAPTURES = "partition_captures"
"""The allocation through which workers are told what to run, and get what they capture."""


def launched_warps(function: Function) -> int:
    """Warps of a block: the kernel's own and, in whole groups of four, those of its workers."""
    ends = [
        first + warps
        for instruction in function.body.walk()
        if instruction.record is PARTITIONS
        for first, warps in zip(instruction.attributes["first_warp"], instruction.attributes["warps"], strict=True)
    ]
    workers = int(max([function.num_warps, *ends])) - function.num_warps
    return function.num_warps + -(-workers // GROUP) * GROUP
