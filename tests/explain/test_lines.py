"""The lines that `explain` names are those that the machine code's line table gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glueball
from glueball.codegen.disassembly import line_table
from glueball.explain import explain
from glueball.kernels.ladder import RUNGS, tensors
from tests.kernels.machine_code import needs_disassembler

OPCODES = {"LDG": "load", "STG": "store", "STS": "convert", "LDS": "convert", "LDSM": "convert", "BAR": "barrier"}


@needs_disassembler
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("name", ["b4", "c", "e-trick", "f-rows", "f-columns", "f-converted", "g-opposite"])
def test_explained_lines_are_those_of_the_machine_code(
    name: str, target: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))
    (rung,) = (rung for rung in RUNGS if rung.name == name)
    launch = rung.launch(*tensors(rung.view, lambda shape: np.zeros(shape, np.float32), 256, 256), 32)
    report = explain(launch.kernel, launch.arguments, launch.keywords, target=target)
    kernel = glueball.compile_only(launch.kernel, *launch.arguments, target=target, **launch.keywords)
    found = set()
    for instruction in line_table(kernel.asm["cubin"]):
        words = [word for word in instruction.text.split() if not word.startswith("@")]
        kind = OPCODES.get(words[0].split(".")[0]) if words else None
        if kind is not None:
            found.add((kind, instruction.line))
    expected = {(row.kind, (row.location.file, row.location.line)) for row in report.rows}
    assert found == expected
