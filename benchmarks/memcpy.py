"""The copy ladder on a GPU: glueball, Gluon and torch in one run, interleaved.

    python benchmarks/memcpy.py [--rows 32768] [--columns 32768] [--rounds 15] [--only PREFIX]

Writes results/memcpy.json. Rates count bytes read plus bytes written.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import peer
import torch
from report import interleaved, print_rows, row, write

from glueball.kernels.ladder import RUNGS, Launch, Rung, tensors

TIMED_SECONDS = 1e-3
"""What is between two events takes about that long, since their clock has steps of two microseconds."""


def seconds(launch: Callable[[], Any]) -> float:
    """Time of one launch, the mean of several short ones."""
    once = between_events(launch, 1)
    count = round(TIMED_SECONDS / once)
    return once if count <= 1 else between_events(launch, count)


def between_events(launch: Callable[[], Any], count: int) -> float:
    """Seconds of a launch, so many of which follow one another.

    A launch of the same kernel goes before them untimed, so that caches and clocks are as that kernel leaves them, and
    no time of the host counts.
    """
    launch()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        launch()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e-3 / count


def timed(launch: Callable[[], Any], moved: int) -> Callable[[], float]:
    """A sampler of a launch that moves so many bytes, in TB/s."""
    return lambda: moved / seconds(launch) / 1e12


def sides_of(rung: Rung, launch: Launch, source: Any, destination: Any, gluon: Any) -> dict[str, Callable[[], Any]]:
    """What is compared on a rung: ours, the peer's same kernel, and torch's way to do the job."""
    sides: dict[str, Callable[[], Any]] = {"glueball": launch.run}
    if gluon is not None:
        kernel, keywords = getattr(gluon, launch.kernel.__name__), peer.peer_keywords(launch.keywords)
        sides["gluon"] = lambda: kernel[launch.grid](*launch.arguments, **keywords)
    sides["torch"] = lambda: destination.copy_(source)
    if rung.view == "every_other_row":
        sides["torch.contiguous"] = source.contiguous
    if rung.view == "every_other_row_transposed":
        sides["torch.contiguous"] = source.T.contiguous
    return sides


def verify(rung: Rung, side: str, run: Callable[[], Any], source: Any, destination: Any) -> None:
    """One run into a poisoned destination must give equal bits."""
    if side == "torch.contiguous":
        return
    destination.fill_(float("nan"))
    run()
    if not torch.equal(source, destination):
        raise SystemExit(f"rung {rung.name}: {side} gives a wrong result")


class Pool:
    """Memory that all rungs share: freed memory is scrubbed in the background, which would disturb what runs next."""

    def __init__(self, elements: int) -> None:
        self._buffers = (torch.randn(2 * elements, device="cuda"), torch.randn(elements, device="cuda"))

    def tensors(self, rung: Rung, rows: int, columns: int) -> tuple[Any, Any]:
        """Source and destination of a rung."""
        buffers = iter(self._buffers)
        return tensors(rung.view, lambda shape: next(buffers)[: shape[0] * shape[1]].view(shape), rows, columns)


def measure(rung: Rung, pool: Pool, rows: int, columns: int, rounds: int, gluon: Any) -> dict[str, Any]:
    """One rung, all sides."""
    source, destination = pool.tensors(rung, rows, columns)
    launch = rung.launch(source, destination, 32)
    sides = sides_of(rung, launch, source, destination, gluon)
    for side, run in sides.items():
        verify(rung, side, run, source, destination)
    slow = rung.name == "a"
    samples = interleaved({side: timed(run, launch.bytes) for side, run in sides.items()}, 3 if slow else rounds)
    return row(rung.name, "TB/s", samples, higher_is_better=True)


def main() -> None:
    """Runs the ladder and writes the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=32768)
    parser.add_argument("--columns", type=int, default=32768)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="rungs whose name starts with this")
    parser.add_argument("--output", default="memcpy.json")
    options = parser.parse_args()
    gluon = peer.peer_module()
    pool = Pool(options.rows * options.columns)
    rows = []
    for rung in RUNGS:
        if rung.name.startswith(options.only):
            rows.append(measure(rung, pool, options.rows, options.columns, options.rounds, gluon))
            print_rows(rows[-1:])
    path = write(options.output, torch.cuda.get_device_name(), rows, shape=[options.rows, options.columns])
    print(f"written: {path}")


if __name__ == "__main__":
    main()
