"""Asynchronous copies on a GPU: additions, copies, long rows and rows by index, beside Gluon and torch in one run.

    python benchmarks/bulk.py [--rounds 11] [--only PREFIX] [--sweep] [--seconds 50]

Writes results/bulk.json. Gluon's kernels are ours with only the import lines changed. Rates count every byte read or
written once, so that torch's plain copy of as many bytes, `copy`, is the ceiling of all. `--sweep` times glueball with
many plans beside that copy, prints them in order, best last, and writes results/bulk-sweep.json; it starts no more
plans after that many seconds, so take one job at a time with `--only`.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import peer
import torch
from memcpy import timed
from report import interleaved, print_rows, row, write

from glueball.kernels import addition, bulk_copies, bulk_rows, scatter
from glueball.kernels import rows as row_kernels
from glueball.kernels.add_ladder import ADD_RUNGS, AddPlan
from glueball.kernels.bulk_row_plans import BulkNormPlan, BulkRowPlan
from glueball.kernels.copies import CopyPlan, TurnPlan, launch_copy
from glueball.kernels.gathers import GatherPlan, launch_embedding_bulk
from glueball.kernels.ladder import Launch

ADDED, COPIED, ROWS, TABLE, INDICES = (16384, 16384), (32768, 32768), (16384, 32768), (65536, 4096), 131072
EPSILON = 1e-5
TOLERANCE = 2e-2
"""Greatest error over greatest magnitude where arithmetic is involved: results in bfloat16 are rounded to 2^-8."""
PRIORITIES = ("", "evict_first", "evict_last")
SHARED_BYTES = 232448
MOST_SAMPLE_ROWS = 64


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to do: its launch, from a plan where one is given, where the result is, and torch's way to it."""

    name: str
    launch: Callable[[Any], Launch]
    result: torch.Tensor
    expected: Callable[[slice], torch.Tensor]
    torch: dict[str, Callable[[], Any]]
    plans: Callable[[], Iterable[Any]] = tuple

    def verify(self, side: str, run: Callable[[], Any]) -> None:
        """One run into a poisoned result agrees with torch on its first and last rows."""
        self.result.fill_(float("nan"))
        run()
        for part in (slice(0, MOST_SAMPLE_ROWS), slice(-MOST_SAMPLE_ROWS, None)):
            expected = self.expected(part).float()
            error = (self.result[part].float() - expected).abs().max() / expected.abs().max()
            if not error <= TOLERANCE:
                raise SystemExit(f"{self.name}: {side} errs by {float(error):.3g} of the greatest magnitude")


class Pool:
    """Memory that all jobs share, and plain copies of any number of bytes within it."""

    def __init__(self) -> None:
        self._words = [torch.randn(COPIED[0] * COPIED[1], device="cuda") for _ in range(2)]
        self._sum = torch.empty(ADDED[0] * ADDED[1], device="cuda")
        self._halves = [torch.randn(ROWS[0] * ROWS[1], device="cuda", dtype=torch.bfloat16) for _ in range(2)]

    def words(self, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Two float32 operands and a result."""
        first, second = (buffer[: rows * columns].view(rows, columns) for buffer in self._words)
        return first, second, self._sum[: rows * columns].view(rows, columns)

    def copied(self, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Source and destination, float32."""
        source, destination = (buffer[: rows * columns].view(rows, columns) for buffer in self._words)
        return source, destination

    def halves(self, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Source and destination, bfloat16."""
        source, destination = (buffer[: rows * columns].view(rows, columns) for buffer in self._halves)
        return source, destination

    def turned_halves(self, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Source and destination of 16 bits, in the memory of the words: far larger than the second-level cache."""
        source, destination = (buffer.view(torch.bfloat16)[: rows * columns] for buffer in self._words)
        return source.normal_().view(rows, columns), destination.view(rows, columns)

    def plain_copy(self, moved: int) -> Callable[[], Any]:
        """torch's copy that reads and writes that many bytes in all."""
        count = moved // 8
        source, destination = (buffer[:count] for buffer in self._words)
        return lambda: destination.copy_(source)


def additions(pool: Pool) -> Iterator[Job]:
    """Every rung of the addition."""
    x, y, out = pool.words(*ADDED)
    for rung in ADD_RUNGS:
        yield Job(
            f"add {rung.name}", lambda plan, rung=rung: rung.launch(*lines(x, y, out), plan), out,
            lambda part: x[part] + y[part], {"torch.add": lambda: torch.add(x, y, out=out)},
            {"ring": add_plans, "partitions": add_plans}.get(rung.name, tuple),
        )  # fmt: skip


def lines(*matrices: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The same elements in lines of 256."""
    return tuple(matrix.view(-1, 256) for matrix in matrices)


def copies(pool: Pool) -> Iterator[Job]:
    """Copies in the same and in the opposite order of the dimensions."""
    x, y = pool.copied(*COPIED)
    yield Job("copy", lambda plan: launch_copy(x, y, plan), y, lambda part: x[part], {}, copy_plans)
    yield Job(
        "copy opposite", lambda plan: launch_copy(x, y.T, plan), y, lambda part: x.T[part],
        {"torch": lambda: y.T.copy_(x)}, turn_plans,
    )  # fmt: skip
    halves, turned = pool.turned_halves(*COPIED)
    yield Job(
        "copy opposite 16", lambda plan: launch_copy(halves, turned.T, plan), turned, lambda part: halves.T[part],
        {"torch": lambda: turned.T.copy_(halves)}, turn_plans,
    )  # fmt: skip


def rows(pool: Pool) -> Iterator[Job]:
    """Softmax and RMS norm of long rows."""
    x, y = pool.halves(*ROWS)
    columns = ROWS[1]
    weight, scale = torch.randn(columns, device="cuda", dtype=torch.bfloat16), torch.empty(ROWS[0], device="cuda")
    functional = torch.nn.functional
    yield Job(
        "softmax", lambda plan: row_kernels.launch_softmax(x, y, plan), y,
        lambda part: functional.softmax(x[part].float(), dim=-1), {"torch": lambda: functional.softmax(x, dim=-1)},
        softmax_plans,
    )  # fmt: skip
    yield Job(
        "rms_norm", lambda plan: row_kernels.launch_norm(x, weight, None, y, None, scale, EPSILON, plan), y,
        lambda part: functional.rms_norm(x[part].float(), (columns,), weight.float(), EPSILON),
        {"torch": lambda: functional.rms_norm(x, (columns,), weight, EPSILON)}, norm_plans,
    )  # fmt: skip


def gathers(pool: Pool) -> Iterator[Job]:
    """Rows by index: bulk copies, and plain loads."""
    table, _ = pool.halves(*TABLE)
    _, out = pool.halves(INDICES, TABLE[1])
    index = torch.randint(0, TABLE[0], (INDICES,), device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    sides = {"torch": lambda: torch.index_select(table, 0, index, out=out)}
    yield Job(
        "embedding", lambda plan: launch_embedding_bulk(table, index, out, plan or GatherPlan(2)), out,
        lambda part: table[index[part]], sides, gather_plans,
    )  # fmt: skip
    yield Job(
        "embedding plain", lambda _: scatter.launch_plain_embedding(table, index, out), out,
        lambda part: table[index[part]], sides,
    )  # fmt: skip


# Plans to try


def add_plans() -> Iterator[AddPlan]:
    """Tiles of 8 to 64 lines in rings that fill shared memory more or less."""
    for height, stages, programs, warps in itertools.product((8, 16, 32, 64), (2, 3, 4, 6), (1, 2, 3), (4, 8, 16)):
        ring = 2 * stages * height * 1024 * programs
        if SHARED_BYTES // 3 < ring <= SHARED_BYTES - 2048 * programs and warps * programs <= 32:
            yield AddPlan(height, 256, warps, stages, programs)


def copy_plans() -> Iterator[CopyPlan]:
    """Boxes of 8 to 128 KiB, with every priority."""
    for size, load, store in itertools.product((8192, 16384, 32768, 65536, 131072), PRIORITIES, ("", "evict_first")):
        yield CopyPlan(size, load, store)


def turn_plans() -> Iterator[TurnPlan]:
    """Boxes of 128 to 512 bytes a side."""
    for source, result, warps, boxes in itertools.product((256, 512), (128, 256, 512), (8, 16), (1, 2)):
        if (boxes + 1) * source * result // 2 <= SHARED_BYTES:
            yield TurnPlan(source, result, warps, boxes, "evict_last")
    for load, store in itertools.product(PRIORITIES, ("", "evict_first")):
        yield TurnPlan(load_priority=load, store_priority=store)


def softmax_plans() -> Iterator[BulkRowPlan]:
    """Rows held in registers and rows read again."""
    for warps, stages, programs, parts in itertools.product((4, 8, 16), (1, 2, 3), (1, 2, 3), (0, 1, 2, 4)):
        row_bytes = 2 * ROWS[1]
        held_fits = parts or ROWS[1] // (32 * warps) <= 128
        if stages * row_bytes + 2048 <= SHARED_BYTES and stages * programs <= 4 and held_fits:
            yield BulkRowPlan(warps, stages, programs, parts)
    for registers in (80, 128):
        yield BulkRowPlan(8, 1, 3, 1, registers)
        yield BulkRowPlan(8, 1, 3, 1, registers, "evict_first")


def norm_plans() -> Iterator[BulkNormPlan]:
    """A program for each row."""
    for warps, parts in itertools.product((8, 16, 32), (1, 2, 4)):
        yield BulkNormPlan(warps, parts)


def gather_plans() -> Iterator[GatherPlan]:
    """Slots of one to four rows."""
    for slot, stages, stores, programs in itertools.product((1, 2, 4), (4, 6, 8), (1, 2), (1, 2, 4)):
        if slot * stages * programs * 8192 <= SHARED_BYTES - 2048 * programs:
            yield GatherPlan(slot, stages, stores, programs)


# Measuring


def measure(job: Job, pool: Pool, rounds: int, gluon: dict[Any, Any]) -> dict[str, Any]:
    """One job, all sides in turn."""
    launch = job.launch(None)
    ours: dict[str, Callable[[], Any]] = {"glueball": launch.run}
    if launch.kernel in gluon:
        kernel, keywords = gluon[launch.kernel], peer.peer_keywords(launch.keywords)
        arguments = peer.peer_arguments(launch.arguments)
        ours["gluon"] = lambda: kernel[launch.grid](*arguments, **keywords)
    for side, run in ours.items():
        job.verify(side, run)
    sides = {**ours, **job.torch, "copy": pool.plain_copy(launch.bytes)}
    samples = {side: timed(run, launch.bytes) for side, run in sides.items()}
    for sample in samples.values():
        sample()
    result = row(job.name, "TB/s", interleaved(samples, rounds), higher_is_better=True)
    kernel = launch.run()
    return {**result, "registers": kernel.n_regs, "spills": kernel.n_spills, "options": described(launch)}


def described(launch: Launch) -> dict[str, Any]:
    """Grid and keywords as JSON."""
    keywords = {name: value if isinstance(value, int) else str(value) for name, value in launch.keywords.items()}
    return {"grid": list(launch.grid), **keywords}


def sweep(job: Job, pool: Pool, rounds: int, end: float) -> list[dict[str, Any]]:
    """The job with every plan until the time is over, best last."""
    found = []
    for plan in job.plans():
        if time.monotonic() > end:
            print(f"{job.name}: out of time after {len(found)} plans")
            break
        launch = job.launch(plan)
        job.verify(f"{plan}", launch.run)
        samples = {
            "glueball": timed(launch.run, launch.bytes),
            "copy": timed(pool.plain_copy(launch.bytes), launch.bytes),
        }
        found.append(row(f"{job.name} {plan}", "TB/s", interleaved(samples, rounds), higher_is_better=True))
    found.sort(key=lambda item: item["ratios"]["copy"])
    for item in found:
        print(f"{item['sides']['glueball']['median']:.3f} {item['ratios']['copy']:.3f} {item['name']}", flush=True)
    return found


def gluon_kernels() -> dict[Any, Any]:
    """Gluon's kernel for each of ours; none without Gluon."""
    if peer.peer_module() is None:
        return {}
    found = {}
    for module, names in (
        (addition, [rung.kernel.__name__ for rung in ADD_RUNGS]),
        (bulk_copies, ["copy_box", "turn_boxes", "copy_strided"]),
        (bulk_rows, ["softmax_held", "softmax_reread", "norm_reread", "embedding_boxes"]),
    ):
        theirs = peer.translated(inspect.getsource(module), f"gluon_{module.__name__.rpartition('.')[2]}")
        found |= {getattr(module, name): getattr(theirs, name) for name in names}
    return found


def compare_best(results: list[dict[str, Any]]) -> None:
    """To the best addition of ours, its ratio to Gluon's best."""
    added = [item for item in results if item["name"].startswith("add ") and "gluon" in item["sides"]]
    if added:
        best = max(added, key=lambda item: item["sides"]["glueball"]["median"])
        theirs = max(item["sides"]["gluon"]["median"] for item in added)
        ratio = best["ratios"]["gluon's best"] = best["sides"]["glueball"]["median"] / theirs
        print(f"{best['name']}: {ratio:.3f} of Gluon's best, {theirs:.4g}")


def main() -> None:
    """Runs all jobs, or sweeps, and writes the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", default="", help="jobs whose name starts with this, such as `add ring`")
    parser.add_argument("--sweep", action="store_true", help="glueball with many plans")
    parser.add_argument("--seconds", type=float, default=50.0, help="after which a sweep starts no more plans")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    pool = Pool()
    gluon = {} if options.sweep else gluon_kernels()
    results: list[dict[str, Any]] = []
    for job in itertools.chain(additions(pool), copies(pool), rows(pool), gathers(pool)):
        if not job.name.startswith(options.only):
            continue
        if options.sweep:
            results += sweep(job, pool, min(options.rounds, 5), end)
        else:
            results.append(measure(job, pool, options.rounds, gluon))
            print_rows(results[-1:])
    compare_best(results)
    file_name = "bulk-sweep.json" if options.sweep else "bulk.json"
    print(f"written: {write(file_name, torch.cuda.get_device_name(), results)}")


if __name__ == "__main__":
    main()
