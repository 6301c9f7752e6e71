"""Kernels over rows on a GPU: glueball, Gluon, torch and torch's plain copy in one run, interleaved.

    python benchmarks/rows.py [--rounds 15] [--only PREFIX] [--quick] [--compiled] [--sweep]

Writes results/rows.json (rows-sweep.json with `--sweep`). Rates count every byte read or written once, so that those of
a copy are the ceiling for softmax, RMS norm and running sums; a reduction only reads. `--quick` takes the first shape
only, `--compiled` adds `torch.compile`, `--sweep` times glueball alone with every plan for the rows.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import peer
import torch
from memcpy import timed
from report import interleaved, print_rows, row, write

from glueball.kernels import bulk_rows, cluster_rows, scan
from glueball.kernels import rows as row_kernels
from glueball.kernels.arrays import RowPlan
from glueball.kernels.ladder import Launch

SHAPES = ((32768, 4096), (16384, 32768), (8192, 131072))
EPSILON = 1e-5
ROW_TOLERANCE = 2e-2
"""Greatest error over greatest magnitude: a result in bfloat16 is rounded to 2^-8, and so is torch's."""


class Pool:
    """Memory that all jobs share: freed memory is scrubbed in the background, which would disturb what runs next."""

    def __init__(self, elements: int) -> None:
        self._buffers = [torch.randn(elements, device="cuda", dtype=torch.bfloat16) for _ in range(2)]

    def matrices(self, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Source and destination."""
        source, destination = (buffer[: rows * columns].view(rows, columns) for buffer in self._buffers)
        return source, destination


@dataclass(frozen=True, slots=True)
class Job:
    """A kernel on a shape: its launch from a plan, where its result is, and torch's way to it."""

    name: str
    launch: Callable[[RowPlan | None], Launch]
    result: torch.Tensor
    reference: Callable[[torch.Tensor], torch.Tensor]
    source: torch.Tensor
    destination: torch.Tensor

    @property
    def copies(self) -> bool:
        """Whether as much is written as read."""
        return self.result is self.destination


def jobs(pool: Pool, rows: int, columns: int) -> Iterator[Job]:
    """All kernels on a shape."""
    x, y = pool.matrices(rows, columns)
    scale, line = torch.empty(rows, device="cuda"), torch.empty(rows, device="cuda")
    weight = torch.randn(columns, device="cuda", dtype=torch.bfloat16)
    functional = torch.nn.functional
    shape = f"{rows}x{columns}"
    yield Job(
        f"softmax {shape}", lambda plan: row_kernels.launch_softmax(x, y, plan), y,
        lambda x: functional.softmax(x, dim=-1), x, y,
    )  # fmt: skip
    yield Job(
        f"rms_norm {shape}", lambda plan: row_kernels.launch_norm(x, weight, None, y, None, scale, EPSILON, plan), y,
        lambda x: functional.rms_norm(x, (columns,), weight, EPSILON), x, y,
    )  # fmt: skip
    yield Job(f"cumsum {shape}", lambda _: scan.launch_cumsum(x, y), y, lambda x: torch.cumsum(x, -1), x, y)
    yield Job(
        f"row_sum {shape}", lambda plan: row_kernels.launch_reduction(x, line, greatest=False, plan=plan), line,
        lambda x: torch.sum(x, -1, dtype=torch.float32), x, y,
    )  # fmt: skip
    yield Job(
        f"row_max {shape}", lambda plan: row_kernels.launch_reduction(x, line, greatest=True, plan=plan), line,
        lambda x: torch.amax(x, -1), x, y,
    )  # fmt: skip


def verify(job: Job, side: str, run: Callable[[], Any]) -> None:
    """One run into a poisoned destination agrees with torch in float32 on the first and last rows."""
    job.result.fill_(float("nan"))
    run()
    for part in (slice(0, 4), slice(-4, None)):
        expected = job.reference(job.source[part].float()).float()
        error = (job.result[part].float() - expected).abs().max() / expected.abs().max()
        if not error <= ROW_TOLERANCE:
            raise SystemExit(f"{job.name}: {side} errs by {float(error):.3g} of the greatest magnitude")


def measure(job: Job, rounds: int, gluon: dict[Any, Any], *, compiled: bool) -> dict[str, Any]:
    """One job, all sides; resources of glueball's kernel with them."""
    launch = job.launch(None)
    ours = {"glueball": launch.run}
    if launch.kernel in gluon:
        kernel, keywords = gluon[launch.kernel], peer.peer_keywords(launch.keywords)
        arguments = peer.peer_arguments(launch.arguments)
        ours["gluon"] = lambda: kernel[launch.grid](*arguments, **keywords)
    verify(job, "glueball", ours["glueball"])
    if "gluon" in ours:
        try:
            verify(job, "gluon", ours["gluon"])
        except Exception as error:  # whatever its compiler raises: it takes no buffers of clusters of 8, for one
            print(f"{job.name}: Gluon does not compile this kernel: {str(error).splitlines()[-1]}")
            del ours["gluon"]
    sides = {**ours, "torch": lambda: job.reference(job.source)}
    if compiled:
        function = torch.compile(job.reference)
        sides["torch.compile"] = lambda: function(job.source)
    samples = {side: timed(run, launch.bytes) for side, run in sides.items()}
    if job.copies:
        samples["copy"] = timed(lambda: job.destination.copy_(job.source), launch.bytes)
    for sample in samples.values():
        sample()
    result = row(job.name, "TB/s", interleaved(samples, rounds), higher_is_better=True)
    kernel = launch.run()
    return {**result, "registers": kernel.n_regs, "spills": kernel.n_spills, "options": _described(launch)}


def sweep(job: Job, columns: int, rounds: int) -> list[dict[str, Any]]:
    """The job with every plan that fits: rows held, or looped over in pieces of several sizes."""
    copy = {"copy": timed(lambda: job.destination.copy_(job.source), job.launch(None).bytes)} if job.copies else {}
    found = []
    for plan in plans(columns):
        launch = job.launch(plan)
        verify(job, f"{plan}", launch.run)
        samples = {"glueball": timed(launch.run, launch.bytes), **copy}
        name = f"{job.name} block {plan.block} parts {plan.parts} warps {plan.warps}"
        found.append(row(name, "TB/s", interleaved(samples, rounds), higher_is_better=True))
        kernel = launch.run()
        found[-1] |= {"registers": kernel.n_regs, "spills": kernel.n_spills}
        print_rows(found[-1:])
    return found


def plans(columns: int) -> Iterator[RowPlan]:
    """Plans for rows of a 16-bit type: 16 to 128 elements a thread held, and one to eight vectors a step."""
    for warps in (1, 2, 4, 8, 16, 32):
        if 512 * warps <= columns <= min(4096 * warps, 65536):
            yield RowPlan(1, columns, 0, warps)
        for parts in (1, 2, 4, 8):
            if warps >= 4 and columns >= 32768:
                yield RowPlan(1, 256 * warps, parts, warps)


def _described(launch: Launch) -> dict[str, Any]:
    return {name: value if isinstance(value, int) else str(value) for name, value in launch.keywords.items()}


def gluon_kernels() -> dict[Any, Any]:
    """Gluon's kernel for each of ours: the same source with only the import lines changed; none without Gluon."""
    if peer.peer_module() is None:
        return {}
    found = {}
    for module, names in (
        (row_kernels, ("softmax_rows", "softmax_looped", "norm_rows", "norm_looped", "reduce_rows", "reduce_looped")),
        (bulk_rows, ("softmax_held", "softmax_reread", "norm_reread")),
        (cluster_rows, ("softmax_split", "rms_norm_split")),
        (scan, ("cumsum_rows",)),
    ):
        theirs = peer.translated(inspect.getsource(module), f"gluon_{module.__name__.rpartition('.')[2]}")
        found |= {getattr(module, name): getattr(theirs, name) for name in names}
    return found


def main() -> None:
    """Runs all kernels on all shapes and writes the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="jobs whose name starts with this, such as `softmax`")
    parser.add_argument("--quick", action="store_true", help="the first shape only")
    parser.add_argument("--compiled", action="store_true", help="torch.compile as well")
    parser.add_argument("--sweep", action="store_true", help="glueball with every plan")
    options = parser.parse_args()
    shapes = SHAPES[:1] if options.quick else SHAPES
    pool = Pool(max(rows * columns for rows, columns in shapes))
    gluon = {} if options.sweep else gluon_kernels()
    results: list[dict[str, Any]] = []
    for rows, columns in shapes:
        for job in jobs(pool, rows, columns):
            if not job.name.startswith(options.only):
                continue
            if not options.sweep:
                results.append(measure(job, options.rounds, gluon, compiled=options.compiled))
                print_rows(results[-1:])
            elif not job.name.startswith("cumsum"):
                results += sweep(job, columns, options.rounds)
    file_name = "rows-sweep.json" if options.sweep else "rows.json"
    print(f"written: {write(file_name, torch.cuda.get_device_name(), results, dtype='bfloat16')}")


if __name__ == "__main__":
    main()
