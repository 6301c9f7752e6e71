"""The lines that `explain` names are those that the machine code's line table gives."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import glueball
from glueball.cli.doctor import _disassembler
from glueball.codegen.disassembly import line_table
from glueball.explain import explain
from glueball.kernels.ladder import RUNGS, tensors

OPCODES = {"LDG": "load", "STG": "store", "STS": "convert", "LDS": "convert", "LDSM": "convert", "BAR": "barrier"}


@pytest.mark.skipif(importlib.util.find_spec("cuda") is None, reason="no assembler")
@pytest.mark.skipif(_disassembler() is None, reason="no disassembler")
@pytest.mark.parametrize("name", ["b4", "c", "f-converted", "g-opposite"])
def test_explained_lines_are_those_of_the_machine_code(name: str) -> None:
    (rung,) = (rung for rung in RUNGS if rung.name == name)
    launch = rung.launch(*tensors(rung.view, lambda shape: np.zeros(shape, np.float32), 256, 256), 32)
    report = explain(launch.kernel, launch.arguments, launch.keywords, target="sm_90a")
    kernel = glueball.compile_only(launch.kernel, *launch.arguments, target="sm_90a", **launch.keywords)
    found = set()
    for instruction in line_table(kernel.asm["cubin"]):
        words = [word for word in instruction.text.split() if not word.startswith("@")]
        kind = OPCODES.get(words[0].split(".")[0]) if words else None
        if kind is not None:
            found.add((kind, instruction.line))
    expected = {(row.kind, (row.location.file, row.location.line)) for row in report.rows}
    assert found == expected
