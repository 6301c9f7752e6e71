"""A hundred random schedules of each kernel into which faults are planted, and how many faults those are."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from tests.sim import test_cluster_faults, test_planted_faults
from tests.sim.cluster_launches import CLUSTER_KERNELS
from tests.sim.faulty_kernels import KERNELS
from tests.sim.reports import Simulate, check_schedules

RESULT = Path(__file__).parents[1] / "results" / "schedules.json"
SEEDS = 100


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_a_hundred_schedules(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [*KERNELS.values(), *CLUSTER_KERNELS.values()]
    for make in kernels:
        check_schedules(simulate, monkeypatch, make, range(SEEDS))
    harmless = [*test_planted_faults.HARMLESS.values(), *test_cluster_faults.HARMLESS.values()]
    result = {
        "kernels": len(kernels),
        "random_schedules": SEEDS,
        "reports_of_kernels_as_they_are": 0,
        "planted_faults": sum(test_planted_faults.planted_faults(simulate).values()),
        "planted_faults_in_clusters": sum(test_cluster_faults.planted_faults(simulate).values()),
        "harmless_changes": sum(map(len, harmless)),
        "date": str(date.today()),
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
