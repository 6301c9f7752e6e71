"""Many processes on one cache that is purged and damaged all the while: every result is right, nothing fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glueball.runtime.machine_code import assembler
from glueball.targets import target_named
from tests.runtime.cache_torture import FAULTS, KILLED_OF, Summary, as_data, torture

RESULTS = Path(__file__).parent.parent / "results" / "cache-torture.json"

pytestmark = pytest.mark.skipif(
    not assembler(target_named("sm_90a")), reason="no assembler for PTX is installed, so nothing is cached"
)


def check(summary: Summary) -> None:
    assert summary.errors == []
    assert summary.wrong == []
    assert summary.compiled > summary.kernels, "the attackers made processes compile again"
    assert sum(summary.attacks.values()) > summary.processes


@pytest.mark.timeout(110)
def test_eight_processes_and_five_kernels(tmp_path: Path) -> None:
    check(torture(tmp_path, processes=8, kernel_count=5))


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_sixty_four_processes_and_twenty_kernels(tmp_path: Path) -> None:
    summary = torture(tmp_path, processes=64, kernel_count=20)
    RESULTS.write_text(json.dumps(as_data(summary), indent=1) + "\n")
    check(summary)
    assert summary.killed >= 8


def test_the_recorded_run_is_the_full_one() -> None:
    recorded = json.loads(RESULTS.read_text())
    assert (recorded["processes"], recorded["kernels"]) == (64, 20)
    assert recorded["wrong"] == recorded["errors"] == []
    assert recorded["compiled"] + recorded["loaded"] >= 64 * 20
    assert recorded["killed"] >= 64 / KILLED_OF / 2
    assert min(recorded["attacks"].values()) > 0
    assert len(set(FAULTS)) == 4
