"""Counters of the splits that have arrived: int32 zeros, which kernels leave as zeros, so that they serve again."""

from __future__ import annotations

import functools
import threading
from typing import Any

from glueball.kernels.arrays import zeros
from glueball.runtime import driver
from glueball.runtime.host_functions import cdiv

COUNTERS = 4096
"""Those of one stream."""
CAPTURED = 262144
"""Those of all graphs on a device."""
TOGETHER = 32
"""Counters of a cache line; a graph's start at one."""


def counters(like: Any, slots: int) -> Any:
    """As many counters as slots, on the device of an array.

    One array serves all launches of a stream, one after the other. A launch in a graph that is being captured has some
    to itself for good, since the graph may run beside the stream; where none are left the graph zeroes its own.
    """
    if not getattr(like, "is_cuda", False) or slots > COUNTERS:
        return zeros(like, (slots,), "int32")
    import torch

    device = like.device.index or 0
    if torch.cuda.is_current_stream_capturing():
        taken = _captured.take(device, slots)
        return zeros(like, (slots,), "int32") if taken is None else taken
    _captured.prepare(device)
    return _stream_counters(device, driver.active.get_current_stream(device))


class CapturedCounters:
    """Counters for launches in graphs, by device; made before the first capture, which could make none that last."""

    def __init__(self) -> None:
        self._left: dict[int, Any] = {}
        self._lock = threading.Lock()

    def prepare(self, device: int) -> None:
        """Makes those of a device, where there are none yet."""
        with self._lock:
            if device not in self._left:
                self._left[device] = _zeros(device, CAPTURED)

    def take(self, device: int, slots: int) -> Any:
        """Some that nobody else has or will have; `None` where too few are left."""
        count = cdiv(slots, TOGETHER) * TOGETHER
        with self._lock:
            left = self._left.get(device)
            if left is None or left.shape[0] < count:
                return None
            self._left[device] = left[count:]
            return left[:slots]


_captured = CapturedCounters()


@functools.lru_cache(maxsize=64)
def _stream_counters(device: int, stream: int) -> Any:
    return _zeros(device, COUNTERS)


def _zeros(device: int, count: int) -> Any:
    """Zeros that every stream finds there."""
    import torch

    made = torch.zeros(count, dtype=torch.int32, device=f"cuda:{device}")
    torch.cuda.current_stream(device).synchronize()
    return made
