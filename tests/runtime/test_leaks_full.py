"""A hundred thousand launches and five hundred compilations, each kind measured in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parent.parent.parent
RESULTS = REPOSITORY / "tests" / "results" / "leaks.json"
ALLOWED = 50_000_000
FULL = {"sim": 100_000, "gpu": 100_000, "compile": 500}
SHORT = {"sim": 3000, "gpu": 10_000, "compile": 30}

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")


def check(what: str, count: int) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for name in ("GLUEBALL_EXECUTOR", "GLUEBALL_TARGET"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "tests.runtime.leak_check", what, str(count)]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["count"] == count
    if what == "gpu":
        assert found["native"] > 0.99 * count
    return found


@pytest.mark.parametrize("what", SHORT)
def test_memory_stays_over_many(what: str) -> None:
    assert check(what, SHORT[what])["growth"] < ALLOWED / 5


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_memory_stays_over_a_hundred_thousand_launches_and_five_hundred_compilations() -> None:
    found = [check(what, count) for what, count in FULL.items()]
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    assert max(row["growth"] for row in found) < ALLOWED


def test_the_recorded_run_is_the_full_one() -> None:
    recorded = json.loads(RESULTS.read_text())
    assert {row["what"]: row["count"] for row in recorded} == FULL
    assert sum(row["growth"] for row in recorded) < ALLOWED
