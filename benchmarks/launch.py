"""Host time of one launch of an empty kernel, glueball beside Gluon and `torch.add`.

    python benchmarks/launch.py

Of 5 and of 20 tensors: through `kernel[grid](...)`, as programs write it; through `compiled[grid](...)`, the compiled
kernel with new arguments each time; and prepared, with the same arguments each time. Two argument sets in turn except
where the arguments are the same, 2,000 launches, a synchronisation every 500; the median of single launches in
microseconds. An empty call measured alike, 0.03 to 0.08 us, is part of every number.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import peer
import torch
from report import print_rows, row, write

import glueball

ROUNDS = 3
LAUNCHES = 2000
WARM = 100

SOURCE = """import glueball


@glueball.jit
def empty5(a, b, c, d, e):
    pass


@glueball.jit
def empty20(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t):
    pass
"""


@glueball.jit
def empty5(a, b, c, d, e):
    pass


@glueball.jit
def empty20(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t):  # noqa: E741, PLR0917
    pass


@dataclass(frozen=True, slots=True)
class Side:
    """What is launched: `subject[(1,)](...)`, or `subject(...)` if it is bound to its grid, with each set in turn."""

    subject: Any
    sets: Sequence[tuple[Any, ...]]
    is_bound: bool = False


def host_times(side: Side) -> list[float]:
    """Microseconds of each launch as the caller sees it."""
    subject, sets = side.subject, side.sets
    for arguments in [*sets] * WARM:
        subject(*arguments) if side.is_bound else subject[(1,)](*arguments)
    torch.cuda.synchronize()
    clock, times = time.perf_counter_ns, []
    for index in range(LAUNCHES):
        arguments = sets[index % len(sets)]
        if side.is_bound:
            start = clock()
            subject(*arguments)
            end = clock()
        else:
            start = clock()
            subject[(1,)](*arguments)
            end = clock()
        times.append((end - start) / 1000)
        if index % 500 == 499:
            torch.cuda.synchronize()
    return times


def addition(sets: Sequence[tuple[Any, ...]]) -> Side:
    """`torch.add` with an output, for comparison."""
    output = torch.empty_like(sets[0][0])
    return Side(lambda first, second, *_: torch.add(first, second, out=output), sets, is_bound=True)


def measure(ways: dict[str, dict[str, Side]]) -> list[dict[str, Any]]:
    """A row for each way of launching: every side several times in turn."""
    samples = {name: {side: list[float]() for side in sides} for name, sides in ways.items()}
    for turn in range(1 + ROUNDS):
        for name, sides in ways.items():
            for side, what in sides.items():
                times = host_times(what)
                if turn:
                    samples[name][side] += times
    return [row(name, "us", found, higher_is_better=False) for name, found in samples.items()]


def ways_of(count: int, ours: Any, theirs: Any) -> dict[str, dict[str, Side]]:
    """The ways of launching a kernel of `count` tensors."""
    sets = [tuple(torch.zeros(64, device="cuda") for _ in range(count)) for _ in range(2)]
    one = sets[:1]
    compiled = ours.warmup(*sets[0], grid=(1,))
    ways = {
        f"launch-{count}-tensors": {"glueball": Side(ours, sets)},
        f"same-{count}-tensors": {"glueball": Side(ours, one)},
        f"compiled-{count}-tensors": {"glueball": Side(compiled[(1,)], sets, is_bound=True)},
        f"prepared-{count}-tensors": {
            "glueball": Side(compiled.prepared_launch(*sets[0], grid=(1,)), [()], is_bound=True)
        },
    }
    if theirs is not None:
        bound = theirs.warmup(*sets[0], grid=(1,))[(1, 1, 1)]
        peers = (Side(theirs, sets), Side(theirs, one), Side(bound, sets, True), Side(bound, one, True))
        for sides, side in zip(ways.values(), peers, strict=True):
            sides["gluon"] = side
    return {name: {**sides, "torch.add": addition(sets)} for name, sides in ways.items()}


def main() -> None:
    """Measures every row and writes the result file."""
    module = peer.translated(SOURCE, "gluon_empty") if peer.peer_module() is not None else None
    ways = {}
    for count, ours in ((5, empty5), (20, empty20)):
        ways |= ways_of(count, ours, None if module is None else getattr(module, f"empty{count}"))
    rows = measure(ways)
    print_rows(rows)
    print(f"written: {write('launch.json', torch.cuda.get_device_name(), rows)}")


if __name__ == "__main__":
    main()
