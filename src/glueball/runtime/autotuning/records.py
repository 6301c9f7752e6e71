"""Results of tuning on disk: one entry of the kernel cache per configuration, by everything that decides its time.

As each configuration has its own, a list that has changed reuses what it shares with the old one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from glueball import knobs
from glueball.drivers.cuda import cuda_driver
from glueball.runtime import cache
from glueball.runtime.autotuning.config import Config
from glueball.runtime.autotuning.trials import Trial
from glueball.runtime.captures import function_text
from glueball.runtime.compiler import CompilationRequest
from glueball.runtime.constants import constant_key, lasting_text
from glueball.runtime.executors import Placement

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Record:
    """The place on disk of one configuration's result; `kernel` and `target` are for people who look at the cache."""

    key: str
    kernel: str
    target: str

    def load(self, config: Config) -> Trial | None:
        """The result, where there is a sound one."""
        entry = None if knobs.ALWAYS_COMPILE.read() else cache.disk_cache().load(self.key)
        if entry is None:
            return None
        match entry.values:
            case {"failure": str(reason)}:
                return Trial(config, failure=reason, stored=True)
            case {"timings": [*timings]} if timings and all(map(_is_time, timings)):
                return Trial(config, tuple(map(float, timings)), stored=True)
        return None

    def store(self, trial: Trial) -> None:
        """Writes a result."""
        found = {"timings": list(trial.timings)} if trial.failure is None else {"failure": trial.failure}
        about = {"kernel": self.kernel, "target": self.target, "tuned": str(trial.config)}
        cache.disk_cache().store(self.key, found, {}, about)


def record_of(
    request: CompilationRequest, placement: Placement, tuning_key: tuple[Any, ...], benchmark: str
) -> Record | None:
    """Where the result for a kernel's configuration lies; `None` where a value has no text that outlives the process.

    `benchmark` names what measured.
    """
    code = request.cache_key()
    key = lasting_text(constant_key(tuning_key), function_text)
    if code is None or key is None:
        return None
    device: list[object] = []
    if placement.executor == "gpu":
        driver = cuda_driver()
        device = [driver.device_name(placement.device_index), list(driver.driver_version())]
    parts = {"tuning": FORMAT, "code": code, "key": key, "device": device, "benchmark": benchmark}
    return Record(cache.hash_key(parts), request.name, request.target.name)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
