"""Where a tour runs: the simulator, which counts, or a GPU, which is timed."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from glueball.cli import pattern
from glueball.errors import DriverError
from glueball.kernels.ladder import Launch
from glueball.runtime.devices import default_target, device_target
from glueball.targets import Target

if TYPE_CHECKING:
    from glueball.sim import Report

SIMULATED_SIZE = (512, 512)
DEVICE_SIZE = (32768, 32768)
SMALLEST_EXTENT = 1024
DEVICE_SHARE = 0.85
LAUNCHES = 11
POISON = 0xA5
DTYPE = np.dtype(np.float32)


@dataclass(frozen=True, slots=True)
class Timing:
    """Median seconds of a launch, and bytes per second (read plus written) of the plain copy beside it."""

    seconds: float
    copy_rate: float


class Machine(Protocol):
    """What runs the ladder. `source` holds twice as many elements as `destination`, in the pattern; both are flat."""

    rows: int
    columns: int
    target: Target
    name: str | None
    source: Any
    destination: Any

    def clear(self) -> None:
        """Overwrites the destination."""

    def run(self, launch: Launch) -> Report | None:
        """Runs a launch to its end; what was counted, where something counts."""

    def time(self, launch: Launch) -> Timing | None:
        """How long a launch takes, where there is a clock."""

    def copy_rate(self) -> float | None:
        """TB/s of the plain copy, over all measurements."""


class Simulator:
    """The simulator, on tensors of a size that takes seconds."""

    def __init__(self, size: tuple[int, int] | None) -> None:
        self.rows, self.columns = size or SIMULATED_SIZE
        self.target = default_target()
        self.name: str | None = None
        self.source = np.empty(2 * self.rows * self.columns, DTYPE)
        self.destination = np.empty(self.rows * self.columns, DTYPE)
        pattern.fill(self.source)

    def clear(self) -> None:
        """Overwrites the destination."""
        self.destination.view(np.uint8).fill(POISON)

    def run(self, launch: Launch) -> Report | None:
        """Runs a launch; what was counted."""
        report: Report | None = launch.run().report
        return report

    def time(self, launch: Launch) -> Timing | None:
        """Nothing: the time of a simulation says nothing of a GPU."""

    def copy_rate(self) -> float | None:
        """Nothing."""


class Device:
    """A GPU, on tensors as large as it has room for, up to 4 GiB."""

    def __init__(self, size: tuple[int, int] | None, device_index: int = 0) -> None:
        from glueball.drivers.cuda import cuda_driver
        from glueball.drivers.device_memory import Event, empty, free_bytes

        self.driver = cuda_driver()
        self.device_index = device_index
        self.target = device_target(device_index)
        self.name: str | None = self.driver.device_name(device_index)
        self.rows, self.columns = size or fitting_size(free_bytes(device_index))
        self.source = empty((2 * self.rows * self.columns,), DTYPE, device_index)
        self.destination = empty((self.rows * self.columns,), DTYPE, device_index)
        self.events = [Event(device_index) for _ in range(4 * LAUNCHES)]
        self.copy_seconds: list[float] = []
        pattern.fill(self.source)

    def clear(self) -> None:
        """Overwrites the destination."""
        self.destination.fill_bytes(POISON)

    def run(self, launch: Launch) -> None:
        """Runs a launch and waits for it."""
        launch.run()
        self.driver.synchronize(self.device_index)

    def time(self, launch: Launch) -> Timing:
        """Launches and plain copies in turn, all enqueued at once so that the device never waits for the host."""
        half = self.source[: self.destination.size]
        self.destination.copy_from(half)
        launch.run()
        events = iter(self.events)
        pairs = []
        for _ in range(LAUNCHES):
            for work in (lambda: self.destination.copy_from(half), launch.run):
                start, end = next(events), next(events)
                start.record()
                work()
                end.record()
                pairs.append((start, end))
        pairs[-1][1].synchronize()
        seconds = [end.seconds_since(start) for start, end in pairs]
        copies = seconds[::2]
        self.copy_seconds += copies
        return Timing(statistics.median(seconds[1::2]), 2 * self.destination.nbytes / statistics.median(copies))

    def copy_rate(self) -> float | None:
        """TB/s of the plain copy, over all measurements."""
        return 2 * self.destination.nbytes / statistics.median(self.copy_seconds) / 1e12


def fitting_size(free: int) -> tuple[int, int]:
    """The largest tensors, halved from 4 GiB on, of which three fit into free memory given in bytes."""
    rows, columns = DEVICE_SIZE
    while 3 * rows * columns * DTYPE.itemsize > DEVICE_SHARE * free:
        if columns > rows:
            columns //= 2
        else:
            rows //= 2
        if rows < SMALLEST_EXTENT:
            raise DriverError(f"the GPU has {free:,} free bytes of memory, too few for the tour")
    return rows, columns
