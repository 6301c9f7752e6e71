"""Every fault planted into the library's asynchronous kernels is reported, and the kernels as they are give none.

The kernels are those of the addition ladder, the matrix products, copies, gathers and row kernels; a fault of each kind
of `tests.sim.planting` goes to every place that can have it. Each must be reported with a right class at a line of the
kernels, under at least one of the three schedules.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glueball.kernels
from glueball.errors import SimulationError
from glueball.runtime import kernel as runtime
from glueball.sim.scheduler import SCHEDULES
from glueball.thread.ir import Function
from tests.sim.faulty_kernels import KERNELS, Launch
from tests.sim.planting import FAULTS, Fault, places, planted

RESULT = Path(__file__).parents[1] / "results" / "schedules.json"
SEEDS = 100
SOURCES = str(Path(glueball.kernels.__file__).parent)
LAST_GROUPS = "the groups after the last tile are empty"
READ_ONLY = "the buffer that is refilled has only been read through the other proxy"
ORDERED_TWICE = "another barrier of the loop orders the same accesses in every turn that this launch takes"
HARMLESS: dict[tuple[str, str], dict[int, str]] = {
    ("add triple", "no wait for a group"): {0: LAST_GROUPS},
    ("add triple", "one group too many under way"): {0: LAST_GROUPS},
    ("softmax held", "no proxy fence"): {0: READ_ONLY},
    ("softmax read again", "no proxy fence"): {0: READ_ONLY},
    ("norm", "no proxy fence"): {0: READ_ONLY},
    ("transpose", "no proxy fence"): {1: READ_ONLY},
    ("add ring", "no barrier"): dict.fromkeys((1, 3), ORDERED_TWICE),
    ("add partitions", "no barrier"): dict.fromkeys((0, 2), ORDERED_TWICE),
    ("copy", "no barrier"): {1: ORDERED_TWICE},
    ("gather", "no barrier"): {1: ORDERED_TWICE},
    ("product v3", "no barrier"): {3: ORDERED_TWICE},
    ("product v7", "no barrier"): dict.fromkeys((0, 1, 2), ORDERED_TWICE),
    ("product v8", "no barrier"): {4: ORDERED_TWICE},
}
"""Places where the change is none that shows, and why: there the results must stay right."""


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Function]:
    """Runs a launch under a schedule, its kernel with a fault where one is given; gives the kernel's thread IR."""
    original = runtime.run_on_simulator
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")

    def simulate(launch: Launch, schedule: str, fault: Fault | None = None, number: int = 0) -> Function:
        seen: list[Function] = []

        def run(function: Function, *rest: Any) -> Any:
            seen.append(function)
            if fault is None:
                return original(function, *rest)
            with planted(function, fault, number):
                return original(function, *rest)

        monkeypatch.setattr(runtime, "run_on_simulator", run)
        monkeypatch.setenv("GLUEBALL_SCHEDULE", schedule)
        launch.run()
        return seen[0]

    return simulate


def arrays(launch: Launch) -> list[bytes]:
    """The contents of a launch's arrays, of those behind descriptors as well."""
    whole = (getattr(argument, "base", argument) for argument in launch.arguments)
    return [np.ascontiguousarray(each).tobytes() for each in whole if isinstance(each, np.ndarray)]


def reported(simulate: Callable[..., Any], name: str, fault: Fault, number: int) -> SimulationError | None:
    """What the first schedule that notices the fault says of it."""
    for schedule in SCHEDULES:
        try:
            simulate(KERNELS[name](), schedule, fault, number)
        except SimulationError as error:
            return error
    return None


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_planted_fault_is_reported(name: str, kind: str, simulate: Callable[..., Function]) -> None:
    fault, harmless = FAULTS[kind], HARMLESS.get((name, kind), {})
    for number in range(len(places(simulate(KERNELS[name](), "in_order"), fault))):
        error = reported(simulate, name, fault, number)
        if number in harmless:
            assert error is None, f"{number} is not harmless: {error}"
            continue
        assert error is not None, f"nothing is said of {number}"
        assert isinstance(error, fault.reports), f"{number}: {type(error).__name__}: {error}"
        assert error.location is not None
        assert str(error.location.file).startswith(SOURCES), error
        other = error.details.get("other")
        assert other is None or str(other.file).startswith(SOURCES)


def test_the_faults_are_many(simulate: Callable[..., Function]) -> None:
    counts = {}
    for name, make in KERNELS.items():
        function = simulate(make(), "in_order")
        counts[name] = sum(len(places(function, fault)) for fault in FAULTS.values())
    harmless = sum(map(len, HARMLESS.values()))
    assert len(counts) >= 12
    assert sum(counts.values()) - harmless >= 400
    assert counts["add partitions"] + counts["product v8"] >= 100, "across partitions"


def same_bits(simulate: Callable[..., Function], monkeypatch: pytest.MonkeyPatch, name: str, seeds: range) -> None:
    """No report and the same results under every schedule."""
    launch = KERNELS[name]()
    simulate(launch, "in_order")
    expected = arrays(launch)
    for schedule, seed in [("late", 0), *(("random", seed) for seed in seeds)]:
        monkeypatch.setenv("GLUEBALL_SEED", str(seed))
        launch = KERNELS[name]()
        simulate(launch, schedule)
        assert arrays(launch) == expected, (schedule, seed)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_as_they_are(name: str, simulate: Callable[..., Function], monkeypatch: pytest.MonkeyPatch) -> None:
    same_bits(simulate, monkeypatch, name, range(3))


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_a_hundred_schedules(simulate: Callable[..., Function], monkeypatch: pytest.MonkeyPatch) -> None:
    planted_faults = 0
    for name, make in KERNELS.items():
        same_bits(simulate, monkeypatch, name, range(SEEDS))
        function = simulate(make(), "in_order")
        planted_faults += sum(len(places(function, fault)) for fault in FAULTS.values())
    harmless = sum(map(len, HARMLESS.values()))
    result = {
        "kernels": len(KERNELS),
        "random_schedules": SEEDS,
        "reports_of_kernels_as_they_are": 0,
        "planted_faults": planted_faults - harmless,
        "harmless_changes": harmless,
        "date": str(date.today()),
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
