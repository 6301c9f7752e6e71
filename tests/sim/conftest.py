"""Running launches whose kernels have faults."""

from __future__ import annotations

from typing import Any

import pytest

from glueball.kernels.ladder import Launch
from glueball.runtime import kernel as runtime
from glueball.thread.ir import Function
from tests.sim.planting import Fault, planted
from tests.sim.reports import Simulate


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Simulate:
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
