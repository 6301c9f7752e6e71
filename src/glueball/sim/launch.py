"""What all contexts of a launch share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from glueball.sim.counters import Report
from glueball.sim.masks import Booleans
from glueball.sim.memory import GlobalMemory
from glueball.sim.scheduler import Scheduler
from glueball.tensor_map import TensorMap
from glueball.thread.ir import Function, Instruction

if TYPE_CHECKING:
    from glueball.sim.sanitizer import Sanitizer


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel on its way through the simulator.

    `granule`: bytes of shared memory that its shadow treats as one. `warps`: those of a block, workers included;
    `partitions`: the most that run at once. `proxies`: whether anything goes through the asynchronous proxy.
    `sanitizer` makes what remembers and checks what the launch does; `atomic` tells which instructions are atomic
    changes of shared memory. `tensor_maps` are those of its descriptors, by handle.
    """

    function: Function
    instructions: Sequence[Instruction]
    region_counts: list[int]
    grid: tuple[int, int, int]
    memory: GlobalMemory
    report: Report
    scheduler: Scheduler
    shared_bytes: int
    granule: int
    warps: int
    partitions: int
    proxies: bool
    random: np.random.Generator | None
    sanitizer: Sanitizer
    atomic: Booleans
    tensor_maps: list[TensorMap] = field(default_factory=list)
