"""Compile time of every kernel of the library, to machine code, beside Gluon: warm process, empty caches, no GPU.

    python benchmarks/compile.py [--rounds 5] [--only TEXT] [--peer-python PYTHON] [--target sm_90a]

Each round starts a fresh process for each side, which compiles every kernel once after a warm-up kernel. Both sides get
the same source but for its import lines, types and constants. `--peer-python` is an interpreter that has Triton with
Gluon, by default this one; without it glueball is measured alone. Writes results/compile.json.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from compile_jobs import jobs, sources
from report import interleaved, print_rows, row, write

from glueball.targets import TARGETS

WORKER = Path(__file__).parent / "compile_worker.py"


def measured(python: str, side: str, work: str) -> dict[str, float]:
    """Milliseconds by kernel, in a process of its own."""
    found = subprocess.run([python, str(WORKER), side], input=work, capture_output=True, text=True, check=False)
    if found.returncode:
        raise SystemExit(f"{side}: {found.stderr.strip()}")
    times: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
    return times


def has_peer(python: str) -> bool:
    """Whether an interpreter has Triton with Gluon."""
    command = [python, "-c", "import triton.experimental.gluon"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def device() -> str:
    """The processor, and the GPU where there is one; compilation uses the first only."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main() -> None:
    """Measures, prints each kernel and the geometric means, writes the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="kernels whose name has this text")
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--target", default="sm_90a", choices=[name for name in TARGETS if name.startswith("sm_")])
    given = parser.parse_args()
    chosen = [job for job in jobs() if given.only in job.name]
    work = json.dumps(
        {"target": given.target, "sources": sources(), "jobs": [job.as_json() for job in chosen]},
    )
    sides = {"glueball": partial(measured, sys.executable, "glueball", work)}
    if has_peer(given.peer_python):
        sides["gluon"] = partial(measured, given.peer_python, "gluon", work)
    samples = interleaved(sides, given.rounds)
    every: list[dict[str, Any]] = []
    for job in chosen:
        taken = {side: [times[job.name] for times in found] for side, found in samples.items()}
        every.append(row(job.name, "ms", taken, higher_is_better=False))
    means = {side: [geometric_mean(list(times.values())) for times in found] for side, found in samples.items()}
    rows = [row(f"compile, mean of {len(every)} kernels", "ms", means, higher_is_better=False)]
    print_rows([*every, *rows])
    more: dict[str, Any] = {"kernels": every}
    if "gluon" in sides:
        share = geometric_mean([1 / item["ratios"]["gluon"] for item in every])
        print(f"glueball takes {share:.3f} of Gluon's time, the geometric mean of {len(every)} kernels")
        more["share_of_gluon"] = share
    if not given.only:
        print(f"written: {write('compile.json', device(), rows, **more)}")


def geometric_mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


if __name__ == "__main__":
    main()
