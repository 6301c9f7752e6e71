"""The generated parts of the chapter on asynchronous copies: costs of the addition ladder, faults, measurements."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from glueball.errors import SimulationError
from glueball.explain import Report, explain, render
from glueball.explain.report import WaitCost
from glueball.explain.text import number
from glueball.kernels.add_ladder import ADD_RUNGS, AddRung

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = REPOSITORY / "benchmarks" / "results" / "bulk.json"
EXAMPLE = "examples/bulk_ring.py"
TARGET = "sm_90a"
SIZE = (4096, 4096)
WIDTH = 100
FAULTS = ("wait", "phase", "bytes", "refill")
NO_RESULTS = """\
No results have been recorded yet. `python benchmarks/bulk.py` measures glueball, Gluon and torch in one run on a
machine with a GPU, and this table is made from what it writes."""
HEADS = (
    "rung", "what", "requests or messages to load", "shared memory, bytes", "programs a multiprocessor",
    "bytes in flight, a multiprocessor", "waits in the code", "barriers in the code",
)  # fmt: skip


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    """Environment variables for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def predict(rung: AddRung) -> Report:
    """Give the costs of a rung for matrices that whole tiles cover."""
    x, y, out = (np.empty(SIZE, np.float32).reshape(-1, 256) for _ in range(3))
    with environment(GLUEBALL_TARGET=TARGET):
        launch = rung.launch(x, y, out)
        return explain(launch.kernel, launch.arguments, launch.keywords, target=TARGET, grid=launch.grid)


def additions() -> str:
    """Give the table of what each rung of the addition costs."""
    rows = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    for rung in ADD_RUNGS:
        report = predict(rung)
        loads = [report.loads, report.copies, report.bulk_loads]
        requests = sum(traffic.requests for traffic in loads if traffic is not None)
        assert report.occupancy is not None
        programs = report.occupancy.programs
        flight = number(report.in_flight * programs) if report.rings else "by registers"
        waits = sum(isinstance(row, WaitCost) and "wait" in row.what for row in report.rows)
        cells = [rung.name, rung.title, number(requests), number(report.shared_bytes), str(programs), flight]
        rows.append(f"| {' | '.join([*cells, str(waits), str(report.barriers)])} |")
    return "\n".join(rows)


def ring_explanation() -> str:
    """Give what `glueball explain` prints for the example."""
    from glueball.cli.explaining import explained

    with contextlib.chdir(REPOSITORY):
        text = render(explained(Path(EXAMPLE), "double", (), None, TARGET, None), WIDTH)
    return f"```text\n$ glueball explain {EXAMPLE}:double\n{text}```"


def faults() -> str:
    """Give what the simulator says of every fault that the example plants."""
    parts = []
    with contextlib.chdir(REPOSITORY), environment(GLUEBALL_EXECUTOR="sim", GLUEBALL_TARGET=TARGET):
        run = runpy.run_path(EXAMPLE)["run"]
        for fault in FAULTS:
            try:
                run(fault)
            except SimulationError as error:
                text = str(error).replace(f"{REPOSITORY}/", "")
                parts.append(f"`--fault {fault}`\n\n```text\n{type(error).__name__}: {text}\n```")
    return "\n\n".join(parts)


def measurements() -> str:
    """Give the table of measured rates, or the sentence that says how it comes about."""
    if not RESULTS.is_file():
        return NO_RESULTS
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    conditions = (
        f"{results['device']}, {results['date']}, medians of one run with all sides in turn, in TB/s: bytes read"
    )
    rows = [
        f"{conditions}\nplus bytes written. `copy` is torch's plain copy of as many bytes.",
        "",
        "| what | glueball | Gluon | torch | copy | of Gluon | of copy |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        sides, ratios = row["sides"], row["ratios"]
        torch = sides.get("torch", sides.get("torch.add"))
        rates = [_rate(sides.get("glueball")), _rate(sides.get("gluon")), _rate(torch), _rate(sides.get("copy"))]
        shares = [f"{ratios[side]:.2f}" if side in ratios else "" for side in ("gluon", "copy")]
        rows.append(f"| {' | '.join([row['name'], *rates, *shares])} |")
    return "\n".join(rows)


def _rate(side: dict[str, Any] | None) -> str:
    return "" if side is None else f"{side['median']:.3g}"
