"""Time of a transposing layout conversion of a 128 x 128 tile: glueball and Gluon in one run, interleaved.

    python benchmarks/transpose_conversion.py [--conversions 200] [--rounds 15] [--programs 264]

Each program transposes its tile an even number of times. Writes results/transpose_conversion.json: nanoseconds of a
conversion, the launch divided by their number; programs of all multiprocessors run side by side. Each row has what the
plan says of itself, and the registers and spilled bytes of glueball's kernel.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from typing import Any

import conversion_loop
import peer
import torch
from memcpy import seconds
from report import interleaved, print_rows, row, write

from glueball.language import BlockedLayout
from glueball.layouts import plan_conversion
from glueball.targets import TARGETS

SIZE = 128
TARGET = TARGETS["sm_90a"]


def layouts(vector: int, warps: int) -> tuple[BlockedLayout, BlockedLayout]:
    """Rows read by whole warps, columns written by whole warps, `vector` elements of a thread side by side."""
    along = min(32, SIZE // vector)
    rows = BlockedLayout([1, vector], [32 // along, along], [warps, 1], [1, 0])
    columns = BlockedLayout([vector, 1], [along, 32 // along], [1, warps], [0, 1])
    return rows, columns


def timed(launch: Callable[[], Any], conversions: int) -> Callable[[], float]:
    """A sampler of a launch that does so many conversions, in nanoseconds each."""
    return lambda: seconds(launch) * 1e9 / conversions


def measure(dtype: torch.dtype, vector: int, warps: int, options: argparse.Namespace, gluon: Any) -> dict[str, Any]:
    """One dtype, vector and number of warps, both sides."""
    x = torch.randn((options.programs, SIZE, SIZE), device="cuda").to(dtype)
    y = torch.empty_like(x)
    first, second = layouts(vector, warps)
    keywords = {"SIZE": SIZE, "first": first, "second": second, "num_warps": warps}
    arguments = (x, y, options.conversions)
    kernels = {"glueball": (conversion_loop.transpose_repeatedly, keywords)}
    if gluon is not None:
        kernels["gluon"] = (gluon.transpose_repeatedly, peer.peer_keywords(keywords))
    sides = {}
    for side, (kernel, given) in kernels.items():
        launcher = kernel[(options.programs,)]
        sides[side] = timed(lambda launcher=launcher, given=given: launcher(*arguments, **given), options.conversions)
        y.fill_(float("nan"))
        launcher(*arguments, **given)
        if not torch.equal(x, y):
            raise SystemExit(f"{side} gives a wrong result for {dtype}, vectors of {vector}, {warps} warps")
    name = f"{str(dtype).removeprefix('torch.')} x{vector} {warps} warps"
    result = row(name, "ns", interleaved(sides, options.rounds), higher_is_better=False)
    plan = plan_conversion(
        first.linear((SIZE, SIZE)),
        second.linear((SIZE, SIZE)),
        x.element_size() * 8,
        shared_bytes=TARGET.shared_bytes,
        matrix_loads=True,
        matrix_stores=True,
        in_place=True,
    )
    compiled = conversion_loop.transpose_repeatedly[(options.programs,)](*arguments, **keywords)
    return {**result, "plan": plan.describe(), "registers": compiled.n_regs, "spills": compiled.n_spills}


def main() -> None:
    """Runs all combinations and writes the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--programs", type=int, default=264)
    options = parser.parse_args()
    if options.conversions % 2:
        parser.error("an odd number of transpositions does not give the tile back")
    gluon = None
    if peer.peer_module() is not None:
        gluon = peer.translated(inspect.getsource(conversion_loop), "gluon_conversion_loop")
    rows = []
    for dtype in (torch.float32, torch.bfloat16):
        widest = 16 // torch.empty((), dtype=dtype).element_size()
        for vector in (1, widest):
            for warps in (4, 8):
                rows.append(measure(dtype, vector, warps, options, gluon))
                print_rows(rows[-1:])
    about = {"shape": [SIZE, SIZE], "conversions": options.conversions, "programs": options.programs}
    print(f"written: {write('transpose_conversion.json', torch.cuda.get_device_name(), rows, **about)}")


if __name__ == "__main__":
    main()
