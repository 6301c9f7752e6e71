"""A CUDA driver with devices that run nothing, and arrays that claim to be on them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from glueball.drivers import cuda
from glueball.drivers.cuda import LoadedKernel, architecture_name
from glueball.drivers.launch_attributes import LaunchFunction, launch_with_attributes
from glueball.runtime import devices
from tests.runtime.launcher_support import Driver


@dataclass
class FakeDriver(Driver):
    """As much of `CudaDriver` as the runtime uses; `launches` records those that came from Python."""

    capabilities: list[tuple[int, int]] = field(default_factory=lambda: [(9, 0), (9, 0)])
    max_threads: int = 1024
    loads: list[tuple[str, int, int]] = field(default_factory=list)
    launches: list[tuple[Any, ...]] = field(default_factory=list)
    graphs: Any = None
    process_id: int = field(default_factory=os.getpid)
    unloads: list[int] = field(default_factory=list)
    attributes: list[Any] = field(default_factory=list)
    functions: dict[Any, LaunchFunction] = field(default_factory=dict)

    def device_count(self) -> int:
        return len(self.capabilities)

    def device_name(self, index: int) -> str:
        return f"Device {index}"

    def current_device(self) -> int:
        return 0

    def compute_capability(self, index: int) -> tuple[int, int]:
        return self.capabilities[index]

    def architecture(self, index: int) -> str:
        return architecture_name(*self.capabilities[index])

    def driver_version(self) -> tuple[int, int]:
        return (13, 0)

    def link(self, ptx: str, name: str, device_index: int) -> tuple[bytes, str]:
        return f"linked for device {device_index}".encode(), "used 10 registers"

    def load(
        self, binary: bytes, kernel_name: str, shared_bytes: int, device_index: int, cluster: int = 1
    ) -> LoadedKernel:
        self.loads.append((kernel_name, shared_bytes, device_index))
        return LoadedKernel(
            function=0xF00 + device_index,
            module=None,
            context=self.context + device_index,
            device_index=device_index,
            registers=40,
            local_bytes=0,
            max_threads=self.max_threads,
            static_shared_bytes=0,
            shared_bytes=shared_bytes,
        )

    def unload(self, kernel: LoadedKernel) -> None:
        self.unloads.append(kernel.device_index)

    def launch_function(self, attributes: tuple[tuple[int, int], ...]) -> LaunchFunction:
        if not attributes:
            return LaunchFunction(self.launch_address)
        if attributes not in self.functions:
            self.functions[attributes] = launch_with_attributes(self.launch_with_configuration_address, attributes)
        return self.functions[attributes]

    def launch(
        self, kernel: LoadedKernel, grid: Any, block: Any, stream: int, arguments: Sequence[bytes],
        attributes: tuple[tuple[int, int], ...] = (),
    ) -> None:  # fmt: skip
        self.launches.append((kernel.device_index, grid, block, stream, list(arguments)))
        self.attributes.append(attributes)


@contextlib.contextmanager
def fake_gpu(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Iterator[FakeDriver]:
    """Puts the driver in the place of the real one."""
    driver = FakeDriver(**options)
    monkeypatch.setattr(cuda, "_probe", lambda: driver)
    caches = (devices.device_target, devices._first_device_target)
    for cached in caches:
        cached.cache_clear()
    try:
        yield driver
    finally:
        for cached in caches:
            cached.cache_clear()


class DeviceArray:
    """What CuPy's arrays look like; the memory is the host's."""

    def __init__(self, size: int, dtype: Any = np.float32, device: int = 0) -> None:
        self.host = np.zeros(size, dtype)
        self.index = device

    @property
    def address(self) -> int:
        return self.host.ctypes.data

    @property
    def device(self) -> Any:
        return type("Device", (), {"id": self.index})

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.host.__array_interface__, "version": 3}
