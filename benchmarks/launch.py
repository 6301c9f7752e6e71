"""Host time of one launch of an empty kernel with five tensors, glueball beside Gluon.

    python benchmarks/launch.py

Two argument sets in turn, 2,000 launches, a synchronisation every 500; the median of single launches in microseconds.
"""

from __future__ import annotations

import time
from typing import Any

import peer
import torch
from report import print_rows, row, write

import glueball

SOURCE = """import glueball


@glueball.jit
def empty(a, b, c, d, e):
    pass
"""


@glueball.jit
def empty(a, b, c, d, e):
    pass


def host_times(kernel: Any, sets: list[tuple[Any, ...]], count: int = 2000) -> list[float]:
    """Microseconds of each launch as the caller sees it."""
    for arguments in sets:
        for _ in range(20):
            kernel[(1,)](*arguments)
    torch.cuda.synchronize()
    clock, times = time.perf_counter_ns, []
    for index in range(count):
        arguments = sets[index & 1]
        start = clock()
        kernel[(1,)](*arguments)
        times.append((clock() - start) / 1000)
        if index % 500 == 499:
            torch.cuda.synchronize()
    return times


def addition_times(sets: list[tuple[Any, ...]], count: int = 2000) -> list[float]:
    """The same of `torch.add` with an output, for comparison."""
    output = torch.empty_like(sets[0][0])
    torch.cuda.synchronize()
    clock, times = time.perf_counter_ns, []
    for index in range(count):
        first, second, *_ = sets[index & 1]
        start = clock()
        torch.add(first, second, out=output)
        times.append((clock() - start) / 1000)
        if index % 500 == 499:
            torch.cuda.synchronize()
    return times


def main() -> None:
    """Measures every side three times in turn and writes the result file."""
    sets = [tuple(torch.zeros(64, device="cuda") for _ in range(5)) for _ in range(2)]
    kernels: dict[str, Any] = {"glueball": empty}
    if peer.peer_module() is not None:
        kernels["gluon"] = peer.translated(SOURCE, "gluon_empty").empty
    samples: dict[str, list[float]] = {name: [] for name in [*kernels, "torch.add"]}
    for _ in range(3):
        for name, kernel in kernels.items():
            samples[name] += host_times(kernel, sets)
        samples["torch.add"] += addition_times(sets)
    rows = [row("launch-5-tensors", "us", samples, higher_is_better=False)]
    print_rows(rows)
    print(f"written: {write('launch.json', torch.cuda.get_device_name(), rows)}")


if __name__ == "__main__":
    main()
