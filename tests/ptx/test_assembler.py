"""What is interpreted is what NVIDIA's assembler takes: every case's assembly, in one kernel."""

from __future__ import annotations

import re

import pytest

from glueball.codegen.assembler import assemble
from glueball.targets import TARGETS
from tests.ptx.assembly import LETTERS, program_of
from tests.ptx.cases import CASES


def block(case) -> str:
    text, constraints = program_of(case)
    bits = {letter: width for width, letter in LETTERS.items()}
    letters = [each.strip("=") for each in constraints.split(",")]
    registers = " ".join(f".reg .b{bits[letter]} v{index};" for index, letter in enumerate(letters))
    return f"{{ {registers}\n{re.sub(r'[$]', 'v', text)}\n}}"


def test_every_case_is_assembled():
    pytest.importorskip("cuda.bindings.nvjitlink")
    blocks = "\n".join(block(case) for case in CASES)
    target = TARGETS["sm_100a"]
    assembled = assemble(
        f".version 8.8\n.target {target.name}\n.address_size 64\n.visible .entry kernel() {{\n{blocks}\nret;\n}}\n",
        target,
    )
    assert assembled
