"""Fixtures of the runtime's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.fake_gpu import FakeDriver
from tests.runtime.settings import clean_knobs, fake_driver


@pytest.fixture
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No variable set but the folder of a cache of the test's own, no hook, and no GPU."""
    with clean_knobs(monkeypatch, tmp_path):
        yield


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Kernels run on the simulator of an sm_90a, with a cache of the test's own."""
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """Two devices of compute capability 9.0 that load anything."""
    with fake_driver(monkeypatch) as found:
        yield found
