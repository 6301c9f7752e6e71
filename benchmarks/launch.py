"""Host time of one launch of an empty kernel with five tensors, glueball beside Gluon.

    python benchmarks/launch.py

Two argument sets in turn, 2,000 launches, a synchronisation every 500; the median of single launches in microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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


def call_ours(*arguments: Any) -> Any:
    """A launch as a user writes it."""
    return empty[(1,)](*arguments)


def host_times(launch: Callable[..., Any], sets: list[tuple[Any, ...]], count: int = 2000) -> list[float]:
    """Microseconds of each launch as the caller sees it."""
    for arguments in sets:
        for _ in range(20):
            launch(*arguments)
    torch.cuda.synchronize()
    clock, times = time.perf_counter_ns, []
    for index in range(count):
        arguments = sets[index & 1]
        start = clock()
        launch(*arguments)
        times.append((clock() - start) / 1000)
        if index % 500 == 499:
            torch.cuda.synchronize()
    return times


def main() -> None:
    """Measures both sides three times in turn and writes the result file."""
    sets = [tuple(torch.zeros(64, device="cuda") for _ in range(5)) for _ in range(2)]
    sides: dict[str, Callable[..., Any]] = {"glueball": call_ours}
    if peer.peer_module() is not None:
        kernel = peer.translated(SOURCE, "gluon_empty").empty

        def call_theirs(*arguments: Any) -> Any:
            return kernel[(1,)](*arguments)

        sides["gluon"] = call_theirs
    output = torch.zeros(64, device="cuda")
    sides["torch.add"] = lambda a, b, *_: torch.add(a, b, out=output)
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(3):
        for name, launch in sides.items():
            samples[name] += host_times(launch, sets)
    rows = [row("launch-5-tensors", "us", samples, higher_is_better=False)]
    print_rows(rows)
    print(f"written: {write('launch.json', torch.cuda.get_device_name(), rows)}")


if __name__ == "__main__":
    main()
