"""Kernels of a stream that overlap (PTX ISA, `griddepcontrol`; the launch option is `launch_pdl`)."""

from __future__ import annotations

from typing import Any

from glueball.thread.ir import Record


def _record(name: str, action: str) -> Record:
    text = f'call void asm sideeffect "griddepcontrol.{action};", "~{{{{memory}}}}"()'
    more: dict[str, Any] = {"pure": False, "targets": frozenset({"dependent_grids"})}
    return Record(name, result_types=lambda _, __: (), llvm={"nvidia": text}, issue=lambda _, __: None, **more)


WAIT = _record("grid_dependency_wait", "wait")
"""Waits until the kernels before this one have ended and what they wrote can be seen."""
LAUNCH_DEPENDENTS = _record("grid_launch_dependents", "launch_dependents")
"""Lets the next kernel start once all blocks of this one have come here, or ended."""
