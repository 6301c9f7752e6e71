"""The chapter on asynchronous copies: its examples run, and its faults are those that are found."""

from __future__ import annotations

import doctest
import json
import os
import re
import runpy
from pathlib import Path

import pytest

from glueball.errors import ByteCountError, DeadlockError, OverwriteInFlightError, ReadBeforeWaitError, SimulationError
from scripts import asynchronous_tables

REPOSITORY = Path(__file__).parent.parent
CHAPTER = REPOSITORY / "docs" / "asynchronous.md"


def test_the_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", os.environ.get("GLUEBALL_EXECUTOR", "sim"))
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")
    blocks = re.findall(r"```pycon\n(.*?)```", CHAPTER.read_text(encoding="utf-8"), re.DOTALL)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, CHAPTER.name, str(CHAPTER), 0)
    assert len(examples.examples) > 8
    said: list[str] = []
    results = doctest.DocTestRunner().run(examples, out=said.append)
    assert results.failed == 0, "".join(said)


FAULTS = {
    "wait": ReadBeforeWaitError,
    "phase": DeadlockError,
    "bytes": ByteCountError,
    "refill": OverwriteInFlightError,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")
    run = runpy.run_path(str(REPOSITORY / asynchronous_tables.EXAMPLE))["run"]
    assert set(FAULTS) == set(asynchronous_tables.FAULTS)
    with pytest.raises(FAULTS[fault]) as caught:
        run(fault)
    assert isinstance(caught.value, SimulationError) and "bulk_ring.py" in str(caught.value)


def test_the_ring_is_clean_under_every_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")
    run = runpy.run_path(str(REPOSITORY / asynchronous_tables.EXAMPLE))["run"]
    for schedule, seed in [("in_order", 0), ("late", 0), ("random", 1), ("random", 2)]:
        monkeypatch.setenv("GLUEBALL_SCHEDULE", schedule)
        monkeypatch.setenv("GLUEBALL_SEED", str(seed))
        run("")


def test_measurements_are_those_of_the_results_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bulk.json"
    monkeypatch.setattr(asynchronous_tables, "RESULTS", path)
    assert asynchronous_tables.measurements() == asynchronous_tables.NO_RESULTS
    sides = {side: {"median": median} for side, median in (("glueball", 4.16), ("gluon", 3.6), ("copy", 4.25))}
    row = {"name": "add ring", "sides": sides, "ratios": {"gluon": 1.1556, "copy": 0.979}}
    path.write_text(json.dumps({"device": "NVIDIA H200", "date": "2026-01-02", "rows": [row]}))
    lines = asynchronous_tables.measurements().splitlines()
    assert lines[0].startswith("NVIDIA H200, 2026-01-02")
    assert lines[-1] == "| add ring | 4.16 | 3.6 |  | 4.25 | 1.16 | 0.98 |"
