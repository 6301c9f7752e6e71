"""What the simulator's sanitizer costs: the library's kernels with it and without it, in turn. Needs no GPU.

    python benchmarks/sanitizer.py

Writes results/sanitizer.json: processor seconds of whole launches of compiled kernels, and how many times those of the
plain simulation the checked one takes.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any

os.environ["GLUEBALL_EXECUTOR"] = "sim"
os.environ["GLUEBALL_TARGET"] = "sm_90a"

import numpy as np
from report import interleaved, print_rows, row, write

from glueball import knobs
from glueball.kernels import gemm_ladder
from glueball.kernels.add_ladder import ADD_RUNGS, AddPlan
from glueball.kernels.bulk_row_plans import BulkNormPlan, BulkRowPlan
from glueball.kernels.cluster_rows import ClusterRowPlan, launch_softmax_split
from glueball.kernels.copies import CopyPlan, TurnPlan, launch_copy
from glueball.kernels.gathers import GatherPlan
from glueball.kernels.gemm_ladder import STEPS
from glueball.kernels.ladder import RUNGS, Launch, tensors
from glueball.kernels.rows import launch_norm, launch_softmax
from glueball.kernels.scan import launch_cumsum
from glueball.kernels.scatter import launch_embedding

FEWEST_ROUNDS, MOST_ROUNDS = 11, 101
SECONDS = 1.0
"""As long as a kernel is measured, within those rounds."""
LANES = 32
PROGRAMS = 132
"""Those of a persistent kernel on the target; each gets several tiles or rows."""
TILES = 5


def array(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> Any:
    """Small integers at an address that is a multiple of 16."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    storage = np.zeros(size + 16, np.uint8)
    start = -storage.ctypes.data % 16
    found = storage[start : start + size].view(dtype).reshape(shape)
    found[...] = np.random.default_rng(seed).integers(-3, 4, shape)
    return found


def copied(rung: Any, extent: int = 512) -> Launch:
    """A rung of the copy ladder."""
    launch: Launch = rung.launch(*tensors(rung.view, array, extent, extent), LANES)
    return launch


def added(rung: Any) -> Launch:
    """A rung of the addition ladder."""
    shape = (8 * TILES * (PROGRAMS if rung.plan.programs else 2), 64)
    plan = AddPlan(8, 64, 4, rung.plan.stages, 1 if rung.plan.programs else 0)
    launch: Launch = rung.launch(*(array(shape, seed=seed) for seed in range(3)), plan)
    return launch


def multiplied(step: Any) -> Launch:
    """A version of the matrix product, with small tiles."""
    block = (64, 64, 64) if step.operands == "pointers" else (step.block[0], 64, 64)
    small = gemm_ladder.Step(**{each.name: getattr(step, each.name) for each in fields(step)} | {"block": block})
    a, b, c = array((256, 64 * TILES), np.float16), array((64 * TILES, 128), np.float16), array((256, 128), np.float16)
    return gemm_ladder.launch(small, a, b, c, programs=1)


def gathered() -> Launch:
    """Rows of a table by index."""
    index = np.random.default_rng(0).integers(0, 9, 8 * TILES * PROGRAMS)
    return launch_embedding(array((9, 64)), index, array((index.size, 64)), GatherPlan(8, 3, 1, 1))


def rows() -> Any:
    """Several rows for a program."""
    return array((TILES * PROGRAMS, 256))


KERNELS: dict[str, Callable[[], Launch]] = {
    **{f"copy {rung.name}": lambda rung=rung: copied(rung) for rung in RUNGS},
    **{f"copy {rung.name}, odd": lambda rung=rung: copied(rung, 509) for rung in RUNGS if rung.view == "opposite"},
    **{f"add {rung.name}": lambda rung=rung: added(rung) for rung in ADD_RUNGS},
    **{f"gemm {step.name}": lambda step=step: multiplied(step) for step in STEPS[2:]},
    "copy boxes": lambda: launch_copy(array((512, 512)), array((512, 512)), CopyPlan(1024)),
    "transpose": lambda: launch_copy(array((640, 1056)), array((1056, 640)).T, TurnPlan(128, 128, 4)),
    "gather": gathered,
    "cumulated sum": lambda: launch_cumsum(array((64, 2048)), array((64, 2048))),
    "softmax": lambda: launch_softmax(array((256, 1024)), array((256, 1024))),
    "softmax held": lambda: launch_softmax(rows(), rows(), BulkRowPlan(1, 2, 1)),
    "softmax read again": lambda: launch_softmax(rows(), rows(), BulkRowPlan(1, 1, 1, 2)),
    "softmax of clusters": lambda: launch_softmax_split(array((5, 4096)), array((5, 4096)), ClusterRowPlan(4, 4, 1, 1)),
    "norm": lambda: launch_norm(
        rows(), array((256,)), None, rows(), None, array((TILES * PROGRAMS,)), 1e-5, BulkNormPlan(1, 2)
    ),
}


def timed(launch: Launch, sanitize: bool) -> Callable[[], float]:
    """Gives the time of one launch; that of the processor, so that a busy machine does not matter."""

    def seconds() -> float:
        os.environ[knobs.SANITIZE.variable] = str(int(sanitize))
        start = time.thread_time()
        launch.run()
        return time.thread_time() - start

    return seconds


def main() -> None:
    """Times every kernel both ways, says the mean and the worst ratio, and writes the result file."""
    measured = []
    for name, make in KERNELS.items():
        launch = make()
        sides = {"glueball": timed(launch, True), "plain": timed(launch, False)}
        interleaved(sides, 1)
        once = sum(side() for side in sides.values())
        rounds = max(FEWEST_ROUNDS, min(MOST_ROUNDS, int(SECONDS / once)))
        found = row(name, "s", interleaved(sides, rounds), higher_is_better=False)
        found["cost"] = 1 / found["ratios"]["plain"]
        print_rows([found])
        measured.append(found)
    costs = {found["name"]: found["cost"] for found in measured}
    worst = max(costs, key=costs.__getitem__)
    mean = statistics.geometric_mean(costs.values())
    print(f"the sanitizer costs {mean:.2f} times the plain simulation, {costs[worst]:.2f} times at most ({worst})")
    device = f"{platform.machine()}, {os.cpu_count()} cores"
    path = write("sanitizer.json", device, measured, geometric_mean=mean, worst={"name": worst, "cost": costs[worst]})
    print(f"written: {path}")


if __name__ == "__main__":
    main()
