"""Searches block, warps, tile and cache operator of the best copies on this GPU.

    python benchmarks/sweep.py [--rounds 5] [--kind 1d|opposite|rows]

Prints every configuration with its rate and share of torch's copy_, best last, and writes results/sweep.json.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from memcpy import timed
from report import interleaved, row, write

from glueball.kernels.ladder import Launch, launch_1d, launch_2d, launch_converting, tensors

Candidate = tuple[str, Callable[[Any, Any, int], Launch]]


def one_dimensional() -> Iterator[Candidate]:
    """1-D copies of at most 64 elements a thread."""
    for block, warps, size, cache in itertools.product((512, 1024, 2048, 4096), (2, 4, 8, 16), (4, 8), ("", ".cg")):
        if 4 <= block // (32 * warps) <= 64:
            yield (
                f"1d block={block} warps={warps} size={size} cache={cache or '-'}",
                launch_1d(size, block, warps, cache),
            )


def opposite() -> Iterator[Candidate]:
    """Transposing copies of at most 64 elements a thread."""
    extents = (32, 64, 128, 256)
    for x_block, y_block, warps, vector in itertools.product(extents, extents, (4, 8, 16), (1, 2, 4)):
        if 4 <= x_block * y_block // (32 * warps) <= 64:
            name = f"opposite {x_block}x{y_block} warps={warps} vector={vector}"
            yield name, launch_converting(x_block, y_block, warps, vector)


def every_other_row() -> Iterator[Candidate]:
    """Copies of every other row, seen transposed so that programs walk along the rows."""
    for block, warps, vector in itertools.product((512, 1024, 2048, 4096), (2, 4, 8, 16), (1, 2, 4)):
        if vector <= block // (32 * warps) <= 32:
            yield f"rows block={block} warps={warps} vector={vector}", launch_2d(block, 1, warps=warps, vector=vector)


KINDS = {
    "rows": ("every_other_row_transposed", every_other_row),
    "1d": ("flat", one_dimensional),
    "opposite": ("opposite", opposite),
}


def main() -> None:
    """Measures every candidate beside copy_ of the same tensors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kind", choices=KINDS, default=None)
    options = parser.parse_args()
    rows = []
    for kind, (view, candidates) in KINDS.items():
        if options.kind not in (None, kind):
            continue
        source, destination = tensors(view, lambda shape: torch.randn(shape, device="cuda"), 32768, 32768)
        flat_source, flat_destination = (torch.randn(source.numel(), device="cuda") for _ in range(2))
        found = []
        for name, prepare in candidates():
            launch = prepare(source, destination, 32)
            launch.run()
            sides = {
                "glueball": timed(launch.run, launch.bytes),
                "copy_": timed(partial(flat_destination.copy_, flat_source), launch.bytes),
            }
            found.append(row(name, "TB/s", interleaved(sides, options.rounds), higher_is_better=True))
        found.sort(key=lambda item: item["ratios"]["copy_"])
        for item in found:
            print(f"{item['name']:<60} {item['sides']['glueball']['median']:.3f} {item['ratios']['copy_']:.3f}")
        rows += found
    print(f"written: {write('sweep.json', torch.cuda.get_device_name(), rows)}")


if __name__ == "__main__":
    main()
