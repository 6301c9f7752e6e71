"""Structured control flow. The printer flattens it and the simulator turns it into Python; neither uses a template.

`if`: condition; regions then and else. `for`: lower, upper, step, initial values...; one region whose arguments are
the induction register and the carried ones; `step_negative` tells which way the comparison goes. `while`: initial
values...; regions condition (yields the condition, then the values) and body. `yield` ends a region.
"""

from __future__ import annotations

from collections.abc import Sequence

from glueball.thread.ir import Attributes, Record


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
