"""Timing of callables: by the GPU's events where there is one, else by the host's clock, which is said.

On a GPU the time is that between two events on the caller's current stream, with the second-level cache overwritten
before each run. On the host it is what `time.perf_counter` sees: of a simulated kernel that is the simulation, which
says nothing of a GPU.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import statistics
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from glueball import knobs
from glueball.drivers.arrays import current_stream
from glueball.drivers.cuda import cuda_available, cuda_driver
from glueball.errors import DriverError, OptionError

FLUSHED_BYTES = 256 << 20
"""Memory written before each run: twice the second-level cache of any GPU known."""

RETURN_MODES = ("min", "max", "mean", "median", "all")
ESTIMATING_RUNS = 5
GRAPH_REPLAYS = 10
SHORTEST_MILLISECONDS = 1e-4


@dataclass(frozen=True, slots=True)
class Measurement:
    """The times of repeated runs in milliseconds, in the order in which they ran, and the clock that took them."""

    times: tuple[float, ...]
    clock: str

    @property
    def mean(self) -> float:
        """The arithmetic mean in milliseconds."""
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        """The median in milliseconds."""
        return statistics.median(self.times)

    def quantile(self, fraction: float) -> float:
        """The time that `fraction` of the runs do not exceed, in milliseconds, linearly interpolated."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"a quantile is a fraction from 0 to 1, not {fraction!r}")
        ordered = sorted(self.times)
        position = fraction * (len(ordered) - 1)
        below = math.floor(position)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (position - below) * (ordered[above] - ordered[below])

    def confidence_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Bounds in milliseconds between which the true median lies with a probability of at least about `level`.

        They are order statistics, so nothing is assumed of the distribution but that the runs are independent. Of fewer
        than six runs (at 0.95) they are the extremes, and the probability is smaller.
        """
        if not 0 < level < 1:
            raise ValueError(f"a confidence level lies between 0 and 1, not at {level!r}")
        ordered, count = sorted(self.times), len(self.times)
        reach = statistics.NormalDist().inv_cdf(0.5 + level / 2) * math.sqrt(count) / 2
        low = max(0, math.floor((count - 1) / 2 - reach))
        return ordered[low], ordered[count - 1 - low]


class Clock(Protocol):
    """Runs a callable and says how long it took."""

    name: str

    def time(self, fn: Callable[[], Any], runs: int) -> float:
        """Milliseconds of `runs` calls together."""

    def times(self, fn: Callable[[], Any], runs: int, before: Callable[[], None]) -> list[float]:
        """Milliseconds of each of `runs` calls, `before` and the cache flush apart."""


class HostClock:
    """`time.perf_counter` around each call."""

    name = "host clock"

    def time(self, fn: Callable[[], Any], runs: int) -> float:
        """Milliseconds of `runs` calls together."""
        start = time.perf_counter()
        for _ in range(runs):
            fn()
        return 1e3 * (time.perf_counter() - start)

    def times(self, fn: Callable[[], Any], runs: int, before: Callable[[], None]) -> list[float]:
        """Milliseconds of each of `runs` calls."""
        found = []
        for _ in range(runs):
            before()
            found.append(self.time(fn, 1))
        return found


class EventClock(ABC):
    """Events on the current stream of a device."""

    name: str

    @abstractmethod
    def _event(self) -> Any:
        """An event that is recorded now."""

    @abstractmethod
    def _wait(self, event: Any) -> None:
        """Returns once the device has come to an event."""

    @abstractmethod
    def _milliseconds(self, start: Any, end: Any) -> float:
        """The time between two events."""

    @abstractmethod
    def _flush(self) -> Callable[[], Any]:
        """What overwrites the second-level cache."""

    def time(self, fn: Callable[[], Any], runs: int) -> float:
        """Milliseconds of `runs` calls together."""
        start = self._event()
        for _ in range(runs):
            fn()
        end = self._event()
        self._wait(end)
        return self._milliseconds(start, end)

    def times(self, fn: Callable[[], Any], runs: int, before: Callable[[], None]) -> list[float]:
        """Milliseconds of each of `runs` calls, all enqueued at once so that the device never waits for the host."""
        flush, pairs = self._flush(), []
        for _ in range(runs):
            before()
            flush()
            start = self._event()
            fn()
            pairs.append((start, self._event()))
        self._wait(pairs[-1][1])
        return [self._milliseconds(start, end) for start, end in pairs]


class TorchClock(EventClock):
    """torch's events on its current stream."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.name = f"events of {torch.cuda.get_device_name()}"

    def _event(self) -> Any:
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _wait(self, event: Any) -> None:
        event.synchronize()

    def _milliseconds(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end))

    def _flush(self) -> Callable[[], Any]:
        flush: Callable[[], Any] = self.torch.empty(FLUSHED_BYTES, dtype=self.torch.int8, device="cuda").zero_
        return flush


class DriverClock(EventClock):
    """The driver's events on the stream that is current on the current device, where there is no torch."""

    def __init__(self) -> None:
        driver = cuda_driver()
        self.device_index = driver.current_device()
        self.name = f"events of {driver.device_name(self.device_index)}"

    def _event(self) -> Any:
        from glueball.drivers.device_memory import Event

        event = Event(self.device_index)
        event.record(current_stream(self.device_index))
        return event

    def _wait(self, event: Any) -> None:
        event.synchronize()

    def _milliseconds(self, start: Any, end: Any) -> float:
        return 1e3 * float(end.seconds_since(start))

    def _flush(self) -> Callable[[], Any]:
        from glueball.drivers.device_memory import empty

        flushed = empty((FLUSHED_BYTES,), "int8", self.device_index)
        return lambda: flushed.fill_bytes(0, current_stream(self.device_index))


def measure(
    fn: Callable[[], Any], warmup: float = 25, rep: float = 100, grad_to_none: Iterable[Any] | None = None
) -> Measurement:
    """Times a callable: `warmup` milliseconds of runs that do not count, then `rep` milliseconds of runs that do.

    `fn` runs at least seven times: once to compile, five times to estimate, and once that counts. The gradients of the
    tensors `grad_to_none` are forgotten before each run that counts.
    """
    clock = _clock()
    fn()
    estimate = max(clock.time(fn, ESTIMATING_RUNS) / ESTIMATING_RUNS, SHORTEST_MILLISECONDS)
    for _ in range(max(1, int(warmup / estimate))):
        fn()
    gradients = tuple(grad_to_none or ())
    times = clock.times(fn, max(1, int(rep / estimate)), lambda: _forget(gradients))
    return Measurement(tuple(times), clock.name)


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Milliseconds that a callable takes, measured as `measure` does.

    `quantiles` gives a list with the time at each, or one number where there is one; else `return_mode` says what is
    given: `min`, `max`, `mean`, `median`, or `all` times as a list. `OptionError` for another mode.
    """
    _check_mode(return_mode)
    return summarize(measure(fn, warmup, rep, grad_to_none), quantiles, return_mode)


def do_bench_cudagraph(
    fn: Callable[[], Any],
    rep: float = 20,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Milliseconds that a callable takes within a CUDA graph, without the host's part; in the form of `do_bench`.

    The graph holds `rep` milliseconds of calls and is replayed ten times; the cache is not flushed between calls.
    Capturing goes through torch: `ImportError` where a GPU is there and torch is not. Without a GPU there is no graph,
    and calls are timed as by `do_bench`.
    """
    _check_mode(return_mode)
    if isinstance(_clock(), HostClock):
        return summarize(measure(fn, 0, rep, grad_to_none), quantiles, return_mode)
    if importlib.util.find_spec("torch") is None:
        raise ImportError("do_bench_cudagraph captures its graph through torch: pip install torch; do_bench needs none")
    import torch

    with torch.cuda.stream(torch.cuda.Stream()):
        times = _graph_times(fn, rep, tuple(grad_to_none or ()), TorchClock(torch))
    return summarize(Measurement(tuple(times), "CUDA graph"), quantiles, return_mode)


def _graph_times(fn: Callable[[], Any], rep: float, gradients: Sequence[Any], clock: TorchClock) -> list[float]:
    fn()
    for tensor in gradients:
        tensor.detach_()
        tensor.requires_grad_(True)
    _forget(gradients)
    estimate = max(clock.time(fn, ESTIMATING_RUNS) / ESTIMATING_RUNS, SHORTEST_MILLISECONDS)
    calls = max(1, int(rep / estimate))
    graph = clock.torch.cuda.CUDAGraph()
    with clock.torch.cuda.graph(graph):
        for _ in range(calls):
            _forget(gradients)
            fn()
    clock.torch.cuda.synchronize()
    return [clock.time(graph.replay, 1) / calls for _ in range(GRAPH_REPLAYS)]


def summarize(measurement: Measurement, quantiles: Sequence[float] | None, return_mode: str) -> Any:
    """What `do_bench` gives of a measurement."""
    if quantiles is not None:
        found = [measurement.quantile(fraction) for fraction in quantiles]
        return found[0] if len(found) == 1 else found
    if return_mode == "all":
        return list(measurement.times)
    summary: dict[str, Callable[[], float]] = {
        "min": lambda: min(measurement.times),
        "max": lambda: max(measurement.times),
        "mean": lambda: measurement.mean,
        "median": lambda: measurement.median,
    }
    return summary[return_mode]()


def _check_mode(return_mode: str) -> None:
    if return_mode not in RETURN_MODES:
        raise OptionError(f"return_mode={return_mode!r}: must be one of {', '.join(RETURN_MODES)}")


def _forget(tensors: Iterable[Any]) -> None:
    for tensor in tensors:
        tensor.grad = None


def _clock() -> Clock:
    """The clock for what runs here: the GPU's, unless there is none or a knob has kernels run on the host."""
    chosen = knobs.EXECUTOR.read()
    if chosen in ("sim", "reference"):
        _say_host_clock(f"{knobs.EXECUTOR.variable}={chosen}")
        return HostClock()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return TorchClock(torch)
    available = cuda_available()
    if available.ok:
        return DriverClock()
    if chosen == "gpu":
        raise DriverError(f"{knobs.EXECUTOR.variable}=gpu, and there is no GPU to time on: {available.reason}")
    _say_host_clock("no GPU found")
    return HostClock()


@functools.cache
def _say_host_clock(reason: str) -> None:
    print(
        f"glueball: {reason}; times are the host clock's, those of simulated kernels say nothing of a GPU",
        file=sys.stderr,
    )
