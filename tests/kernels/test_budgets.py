"""What the rungs of the ladder may cost in instructions, so that shared addresses and masks stay shared."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import glueball
from glueball.codegen import disassembly
from glueball.kernels.ladder import RUNGS, Launch, Rung, tensors
from glueball.runtime.kernel import CompiledKernel
from glueball.targets import TARGETS
from tests.kernels.machine_code import needs_disassembler

TARGET = TARGETS["sm_90a"]
TOLERANCE = 1.05

INSTRUCTIONS: dict[str, tuple[int, int]] = {
    "a": (44, 16),
    "b1": (74, 16),
    "b2": (43, 16),
    "b4": (27, 16),
    "b8": (23, 16),
    "b16": (21, 16),
    "c": (100, 16),
    "d-wrong": (220, 16),
    "d-right": (100, 16),
    "e-plain": (100, 16),
    "e-trick": (26, 4),
    "f-rows": (162, 16),
    "f-columns": (177, 16),
    "f-converted": (1040, 128),
    "f-along": (1800, 128),
    "g-1d": (15, 4),
    "g-opposite": (119, 8),
}
"""Instructions of the thread IR as measured, and how many elements they copy, of aligned float32 tensors."""

ISSUED_PER_ELEMENT_BY_THE_LOOP = 2.64
WIDTH_OF_ACCESSES = {
    "b1": "",
    "b2": ".64",
    "b4": ".128",
    "b8": ".128",
    "b16": ".128",
    "e-trick": ".128",
    "g-1d": ".128",
}

every_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))


def launch(rung: Rung) -> Launch:
    """A launch on tensors that the tiles divide; nothing touches their memory."""
    source, destination = tensors(rung.view, lambda shape: np.empty(shape, np.float32), 2048, 2048)
    return rung.launch(source, destination, TARGET.lanes)


def compiled(copy: Launch) -> CompiledKernel:
    return glueball.compile_only(copy.kernel, *copy.arguments, target=TARGET, **copy.keywords)


@every_rung
def test_thread_instructions(rung: Rung) -> None:
    copy = launch(rung)
    measured, elements = INSTRUCTIONS[rung.name]
    tile = copy.keywords["XBLOCK"] * copy.keywords.get("YBLOCK", 1)
    assert tile // (copy.keywords["num_warps"] * TARGET.lanes) == elements
    found = Counter(each.record.name for each in compiled(copy).thread.body.walk())
    total = found.total()
    assert total <= measured * TOLERANCE, f"{total / elements:.2f} instructions per element: {found.most_common()}"


def test_instructions_that_the_scalar_loop_issues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    source, destination = np.zeros(4096, np.float32), np.zeros(4096, np.float32)
    copy = RUNGS[0].launch(source, destination, TARGET.lanes)
    report = copy.run().report
    issued = sum(each.issued for each in report.instructions) / copy.keywords["num_warps"]
    assert issued / source.size <= ISSUED_PER_ELEMENT_BY_THE_LOOP * TOLERANCE


@needs_disassembler
@every_rung
def test_nothing_spills(rung: Rung) -> None:
    kernel = compiled(launch(rung))
    assert kernel.n_spills == 0
    assert kernel.n_regs is not None
    assert kernel.n_regs <= TARGET.registers // (kernel.threads * 2)
    local = [
        each.text
        for each in disassembly.line_table(kernel.machine_code.binary)
        if re.search(r"\b(LDL|STL)\b", each.text)
    ]
    assert not local


def opcodes(kernel: CompiledKernel) -> Counter[str]:
    """Memory instructions and barriers of the machine code, by opcode with its width."""
    texts = [each.text for each in disassembly.line_table(kernel.machine_code.binary)]
    found = [re.search(r"\b(LDG|STG|LDS|STS)\b[.\w]*", text) for text in texts]
    return Counter(re.sub(r"\.(E|CONSTANT|STRONG|GPU|EF|EL|NA)\b", "", match[0]) for match in found if match)


@needs_disassembler
@pytest.mark.parametrize(("name", "width"), WIDTH_OF_ACCESSES.items())
def test_machine_code_accesses_are_as_wide_as_the_layout(name: str, width: str) -> None:
    (rung,) = (rung for rung in RUNGS if rung.name == name)
    copy = launch(rung)
    elements = INSTRUCTIONS[name][1]
    per_access = int(width[1:] or 32) // 32
    assert opcodes(compiled(copy)) == {f"LDG{width}": elements // per_access, f"STG{width}": elements // per_access}


@needs_disassembler
def test_machine_code_converts_through_wide_shared_accesses() -> None:
    (rung,) = (rung for rung in RUNGS if rung.name == "f-converted")
    assert opcodes(compiled(launch(rung))) == {"LDG": 128, "STG": 128, "STS.128": 32, "LDS.128": 32}
