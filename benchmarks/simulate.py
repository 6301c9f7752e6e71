"""How long the simulator takes to copy 2^20 float32 through rung b4, all checks and counting on. Needs no GPU.

    python benchmarks/simulate.py

Writes results/simulate.json: seconds of whole launches, as a caller sees them, after the first one.
"""

from __future__ import annotations

import os
import platform
import time
from typing import Any

os.environ["GLUEBALL_EXECUTOR"] = "sim"

import numpy as np
from report import print_rows, row, write

from glueball.kernels.ladder import RUNGS

ELEMENTS = 1 << 20
ROUNDS = 21


def seconds(launch: Any) -> float:
    """Wall-clock time of one launch."""
    start = time.perf_counter()
    launch.run()
    return time.perf_counter() - start


def main() -> None:
    """Times launches of every 1-D rung but the scalar loop, checks the copies, and writes the result file."""
    rows = []
    for rung in RUNGS:
        if rung.view != "flat" or rung.name == "a":
            continue
        source = np.random.default_rng(0).standard_normal(ELEMENTS).astype(np.float32)
        destination = np.zeros_like(source)
        launch = rung.launch(source, destination, 32)
        launch.run()
        assert np.array_equal(source, destination)
        samples = {"glueball": [seconds(launch) for _ in range(ROUNDS)]}
        rows.append(row(rung.name, "s", samples, higher_is_better=False))
    print_rows(rows)
    print(
        f"written: {write('simulate.json', f'{platform.machine()}, {os.cpu_count()} cores', rows, elements=ELEMENTS)}"
    )


if __name__ == "__main__":
    main()
