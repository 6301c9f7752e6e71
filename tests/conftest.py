"""What holds for every test: its environment and cache, and where GPU and torch tests are skipped."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterator
from unittest import mock

import pytest

from tests.checklist.recording import pytest_addoption, pytest_configure

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else JAX takes three quarters of a GPU's memory

__all__ = ["pytest_addoption", "pytest_collection_modifyitems", "pytest_configure", "pytest_terminal_summary"]


def _cuda_device_count() -> int:
    """Ask the CUDA driver itself, so that a broken optional package cannot hide a device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What an earlier run has compiled is not found: it would be loaded, not built, and warn of nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """Variables are as they were after each test, in whatever order it and its fixtures have changed them."""
    with mock.patch.dict(os.environ):
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    unavailable: dict[str, str] = {}
    if any(item.get_closest_marker("gpu") for item in items) and _cuda_device_count() == 0:
        unavailable["gpu"] = "no GPU on this machine"
    if importlib.util.find_spec("torch") is None:
        unavailable["torch"] = "torch is not installed"
    for item in items:
        for marker, reason in unavailable.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many random kernels were compared, and of which seeds, so that a run can be repeated."""
    seeds: dict[str, list[int]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                for name, value in report.user_properties:
                    if name == "random kernels":
                        executor, first, count = value
                        seeds.setdefault(executor, []).extend(range(first, first + count))
    for executor, found in seeds.items():
        text = f"{len(found)} random kernels on {executor}, seeds {min(found)} to {max(found)}"
        terminalreporter.write_line(text)
