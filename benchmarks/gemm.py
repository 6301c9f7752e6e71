"""Matrix products on a GPU: glueball, cuBLAS and Gluon in one run, interleaved, random numbers, medians.

    python benchmarks/gemm.py [--parts fp16,bf16,fp8,odd,steps,compile] [--rounds 9] [--only TEXT] [--no-gluon]
    python benchmarks/gemm.py --sweep 8192x8192x512,4096x4096x4096 [--type fp16] [--save]

Times are those of kernels: a graph of several launches is replayed between two events, so that no host time counts.
Gluon's side is version v7 of `gemm_steps`, persistent and pipelined as its own tutorials have it: the same source with
other import lines. Writes results/gemm.json.

`--sweep` times glueball alone with many plans beside cuBLAS and prints them from the best one on; `--save` puts the
best into the table that is shipped.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from gemm_jobs import (
    GLUON_STEP,
    ODD,
    SERIES,
    SIDE,
    TOLERANCE,
    TYPES,
    Job,
    Pool,
    gluon_launch,
    gluon_steps,
    narrow,
    odd,
    plain,
)  # fmt: skip
from gemm_jobs import series as series_jobs
from gemm_jobs import steps as step_jobs
from report import interleaved, print_rows, row, write

from glueball.kernels import gemm_ladder, matrix_products
from glueball.kernels.gemm_ladder import STEPS
from glueball.kernels.matrix_products.forms import Plan
from glueball.kernels.matrix_products.plans import stages_for, table_key
from glueball.kernels.matrix_products.products import describe, target_of
from glueball.kernels.matrix_products.tuned import TABLE, written_plan

PARTS = ("fp16", "bf16", "fp8", "odd", "steps", "compile")
REPLAY_SECONDS = 4e-3
MOST_LAUNCHES = 200
SLOW_SECONDS = 5e-3


def timer(run: Callable[[], Any], operations: int) -> tuple[Callable[[], float], float]:
    """A function that gives TFLOP/s of a replay, and about how long one run takes."""
    run()
    torch.cuda.synchronize()
    seconds = replayed(captured(run, 1), 1)
    count = max(1, min(MOST_LAUNCHES, round(REPLAY_SECONDS / seconds)))
    graph = captured(run, count)
    graph.replay()
    return lambda: operations / replayed(graph, count) / 1e12, seconds


def captured(run: Callable[[], Any], count: int) -> torch.cuda.CUDAGraph:
    """A graph of `count` runs."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            run()
    return graph


def replayed(graph: torch.cuda.CUDAGraph, count: int) -> float:
    """Seconds of one of `count` runs."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / count


def verify(job: Job, side: str) -> None:
    """One run into poisoned memory agrees with float32 on the first and last rows."""
    job.result.fill_(float("nan"))
    job.sides[side]()
    for part in (slice(0, 64), slice(-64, None)):
        exact = job.exact(part)
        error = float((job.result[part].float() - exact).abs().max() / exact.abs().max())
        if not error <= TOLERANCE[job.result.dtype]:
            raise SystemExit(f"{job.name}: {side} errs by {error:.3g} of the greatest magnitude ({job.detail})")
    if not bool(job.result.isfinite().all()):
        raise SystemExit(f"{job.name}: {side} leaves elements unwritten ({job.detail})")


def measure(job: Job, rounds: int) -> dict[str, Any]:
    """A job, all sides."""
    timers = {}
    for side, run in job.sides.items():
        verify(job, side)
        timers[side], seconds = timer(run, job.operations)
    samples = interleaved(timers, 3 if seconds > SLOW_SECONDS else rounds)
    return {**row(job.name, "TFLOP/s", samples, higher_is_better=True), "detail": job.detail}


def compile_times(gluon: ModuleType | None, rounds: int = 3) -> dict[str, Any]:
    """Milliseconds to compile the last version, and Gluon its persistent one, each time with another constant."""
    a, b, c = (torch.zeros(256, 256, device="cuda", dtype=torch.float16) for _ in range(3))

    def compiled(make: Callable[[int], Any], group: int) -> float:
        launch = make(group)
        start = time.perf_counter()
        launch.kernel.warmup(*launch.arguments, **launch.keywords, grid=launch.grid)
        return (time.perf_counter() - start) * 1e3

    makers = {"glueball": lambda group: gemm_ladder.launch(STEPS[8], a, b, c, GROUP=group)}
    if gluon is not None:
        makers["gluon"] = lambda group: gluon_launch(STEPS[GLUON_STEP], gluon, a, b, c, GROUP=group)
    for make in makers.values():
        compiled(make, 3)
    samples = {side: [compiled(make, 5 + each) for each in range(rounds)] for side, make in makers.items()}
    return row("compile of the last version", "ms", samples, higher_is_better=False)


def geometric_mean(rows: list[dict[str, Any]], side: str) -> float:
    """Of the ratios to a side."""
    ratios = [item["ratios"][side] for item in rows if side in item["ratios"]]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def measured_parts(parts: list[str], only: str, rounds: int, *, with_gluon: bool) -> Iterator[tuple[str, Any]]:
    """Rows of every part, as they come."""
    largest = SIDE * max(SIDE, *SERIES)
    if "odd" in parts:
        largest = max(largest, *(max(m * n, m * k, k * n) for m, n, k in ODD))
    pool = Pool(largest)
    gluon = gluon_steps() if with_gluon else None
    makers: dict[str, Callable[[], Iterator[Job]]] = {
        "fp16": lambda: series_jobs(pool, "fp16", gluon),
        "bf16": lambda: series_jobs(pool, "bf16", gluon),
        "fp8": lambda: narrow(pool),
        "odd": lambda: odd(pool, "fp16"),
        "steps": lambda: step_jobs(pool, gluon),
    }
    for part in parts:
        if part == "compile":
            yield part, compile_times(gluon)
        for job in makers[part]() if part in makers else ():
            if only in job.name:
                yield part, measure(job, rounds)


def run_parts(options: argparse.Namespace) -> None:
    """Measures the parts, prints their means, writes the result file."""
    parts = options.parts.split(",")
    if unknown := set(parts) - set(PARTS):
        raise SystemExit(f"there are the parts {', '.join(PARTS)}, not {', '.join(unknown)}")
    rows: dict[str, list[dict[str, Any]]] = {part: [] for part in parts}
    start = time.perf_counter()
    for part, result in measured_parts(parts, options.only, options.rounds, with_gluon=not options.no_gluon):
        rows[part].append(result)
        print_rows([result])
        if "detail" in result:
            print(f"    {result['detail']}", flush=True)
    means = {part: {side: geometric_mean(found, side) for side in ("cublas", "gluon")} for part, found in rows.items()}
    for part, ratios in means.items():
        shown = ", ".join(f"{ratio:.3f} of {side}" for side, ratio in ratios.items() if not math.isnan(ratio))
        print(f"{part}: geometric mean {shown}")
    print(f"{time.perf_counter() - start:.0f} s")
    if not options.only:
        every = [{**item, "part": part} for part, found in rows.items() for item in found]
        print(f"written: {write('gemm.json', torch.cuda.get_device_name(), every)}")


def sweep_plans(problem: Any) -> Iterator[Plan]:
    """Plans of warp groups that fit a problem's types."""
    step = 128 if problem.narrow else 64
    tiles = (((128, 256), 2), ((256, 128), 2), ((128, 128), 2), ((128, 64), 2), ((64, 256), 1), ((64, 128), 1))
    for (block, parts), chunks, group in itertools.product(tiles, (1, 2, 4), (4, 8, 16)):
        plan = Plan("specialized", (*block, step), group=group, parts=parts, chunks=chunks)
        most = stages_for(problem, plan)
        for stages in {most, most - 1} - {0, 1}:
            yield replace(plan, stages=stages)


def sweep(options: argparse.Namespace) -> None:
    """Times plans for the shapes, best first."""
    shapes = [tuple(map(int, text.split("x"))) for text in options.sweep.split(",")]
    pool = Pool(max(max(m * n, m * k, n * k) for m, n, k in shapes))
    best: dict[str, dict[str, Any]] = {}
    for m, n, k in shapes:
        a, b, c = pool.matrices(m, n, k, TYPES[options.type])
        problem, arrays = describe(a, b, c)
        rates = {}
        reference, _ = timer(functools.partial(torch.mm, a, b, out=c), 2 * m * n * k)
        for plan in sweep_plans(problem):
            job = plain(f"{m}x{n}x{k}", a, b, c, plan)
            verify(job, "glueball")
            sample, _ = timer(job.sides["glueball"], job.operations)
            found = interleaved({"glueball": sample, "cublas": reference}, options.rounds)
            medians = [sorted(found[side])[options.rounds // 2] for side in ("glueball", "cublas")]
            rates[plan] = medians[0] / medians[1]
            print(f"{rates[plan]:.4f} of cublas, {medians[0]:.1f} TFLOP/s: {written_plan(plan)}", flush=True)
        order = sorted(rates, key=lambda plan: -rates[plan])
        print(f"{m}x{n}x{k}, best first:")
        for plan in order[:8]:
            print(f"  {rates[plan]:.4f} {written_plan(plan)}")
        best[table_key(problem, target_of(arrays.c))] = written_plan(order[0])
    if options.save:
        path = Path(matrix_products.__file__).with_name(TABLE)
        table = json.loads(path.read_text())
        path.write_text(json.dumps({**table, **best}, indent=1) + "\n")
        print(f"written: {path}")


def main() -> None:
    """Runs what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="jobs whose name has this text")
    parser.add_argument("--no-gluon", action="store_true")
    parser.add_argument("--sweep", default="", help="shapes MxNxK, separated by commas")
    parser.add_argument("--type", default="fp16", choices=list(TYPES))
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    os.environ["GLUEBALL_LAUNCH_GRAPH"] = "0"  # launches are captured, and a graph within a graph is another kind
    for variable in ("GLUEBALL_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[variable] = tempfile.mkdtemp()
    if options.sweep:
        sweep(options)
    else:
        run_parts(options)


if __name__ == "__main__":
    main()
