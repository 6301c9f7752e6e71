"""What a result or a report depends on: the device, and the versions of everything that took part."""

from __future__ import annotations

import datetime
import importlib
import importlib.metadata
import platform
from typing import Any

from glueball.drivers.cuda import cuda_available, cuda_driver

PACKAGES = ("numpy", "llvmlite", "ml-dtypes", "cuda-bindings", "nvidia-nvjitlink", "torch", "cupy-cuda13x")


def versions() -> dict[str, str]:
    """The versions of glueball, Python and those packages that are installed, by name."""
    found = {"glueball": importlib.import_module("glueball").__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def device_name() -> str:
    """The current GPU's name; without one, that kernels are simulated."""
    if not cuda_available().ok:
        return "simulator"
    driver = cuda_driver()
    return driver.device_name(driver.current_device())


def describe_machine() -> dict[str, Any]:
    """Device, platform, date and versions as JSON values."""
    described = {"device": device_name(), "platform": platform.platform()}
    if cuda_available().ok:
        described["driver"] = ".".join(map(str, cuda_driver().driver_version()))
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {**described, "date": today, "versions": versions()}
