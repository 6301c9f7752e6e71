"""Marker rules: GPU tests are skipped where there is no GPU, torch tests where torch is not installed."""

from __future__ import annotations

import ctypes
import importlib.util

import pytest


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
