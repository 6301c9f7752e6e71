"""What programs ask of the device they run on: `glueball.runtime.driver.active.get_current_target()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glueball.drivers.arrays import current_stream
from glueball.drivers.cuda import cuda_available, cuda_driver
from glueball.gpu_target import GPUTarget, described_target
from glueball.runtime.devices import default_target, device_target


class DeviceUtilities:
    """Properties of devices."""

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Shared memory of a block in bytes, registers and multiprocessors; those of the default target without one."""
        target = device_target(device) if cuda_available().ok else default_target()
        return {
            "max_shared_mem": max_shared_mem(device),
            "max_num_regs": target.registers,
            "multiprocessor_count": cuda_driver().multiprocessor_count(device) if cuda_available().ok else 1,
            "warpSize": target.lanes,
        }


class ActiveDriver:
    """The device of the calling thread; where there is none, the target that kernels are simulated as."""

    utils = DeviceUtilities()

    def is_active(self) -> bool:
        """Whether there is a GPU."""
        return cuda_available().ok

    def get_current_device(self) -> int:
        """The index of the current device, 0 where there is none."""
        return cuda_driver().current_device() if cuda_available().ok else 0

    def get_current_target(self) -> GPUTarget:
        """The target of the current device, or of kernels that are simulated."""
        return described_target(device_target(self.get_current_device()) if cuda_available().ok else default_target())

    def get_current_stream(self, device: int | None = None) -> int:
        """The handle of the stream that the caller's framework uses; 0 where there is no GPU."""
        return current_stream(self.get_current_device() if device is None else device) if cuda_available().ok else 0

    def get_active_torch_device(self) -> Any:
        """The `torch.device` for tensors: the current GPU, or the host. `ImportError` without torch."""
        import torch

        return torch.device("cuda", self.get_current_device()) if self.is_active() else torch.device("cpu")

    def get_device_interface(self) -> Any:
        """`torch.cuda`. `ImportError` without torch."""
        import torch

        return torch.cuda

    def get_benchmarker(self) -> Callable[..., Any]:
        """`glueball.testing.do_bench`."""
        from glueball.runtime.timing import do_bench

        return do_bench


active = ActiveDriver()


def max_shared_mem(device: int = 0) -> int:
    """Shared memory that one block of a device may have, in bytes; the default target's where there is no device."""
    return cuda_driver().max_shared_bytes(device) if cuda_available().ok else default_target().shared_bytes
