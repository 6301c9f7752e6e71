"""The generated parts of `docs/gemm.md`: what each version should cost, and what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from glueball.kernels.gemm_ladder import STEPS, cost

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results" / "gemm.json"
NO_RESULTS = (
    "No results have been recorded yet. `python benchmarks/gemm.py` measures glueball, cuBLAS and Gluon in one run on\n"
    "a machine with a GPU, and this table is made from what it writes."
)
SIDES = {"glueball": "glueball", "cublas": "cuBLAS", "gluon": "Gluon"}
TITLES = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "8-bit floats (e4m3), result bfloat16",
    "odd": "float16, shapes that tiles do not divide",
}


def costs() -> str:
    """Give the table of predicted costs of a step along K."""
    rows = [
        "| version | idea | tile | products | shared memory | cache | predicted TFLOP/s | bound by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for step in STEPS:
        found = cost(step)
        numbers = (f"{cycles:.0f}" for cycles in (found.products, found.shared, found.cache))
        cells = [step.name, step.idea, " x ".join(map(str, step.block)), *numbers, f"{found.rate:.0f}", found.bound]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def versions() -> str:
    """Give the table of measured versions, or the sentence that says how it comes about."""
    found = _rows("steps")
    if not found:
        return NO_RESULTS
    predicted = {step.name: cost(step).rate for step in STEPS}
    rows = ["| version | predicted | glueball | Gluon | cuBLAS | of cuBLAS |", "|---|---|---|---|---|---|"]
    for row in found:
        rates = [_rate(row, side) for side in ("glueball", "gluon", "cublas")]
        cells = [row["name"], f"{predicted[row['name']]:.0f}", *rates, f"{row['ratios']['cublas']:.2f}"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([_conditions(), "", *rows])


def products() -> str:
    """Give the tables of the library's products beside cuBLAS and Gluon."""
    parts = [_part(part) for part in TITLES if _rows(part)]
    return "\n\n".join([_conditions(), *parts]) if parts else NO_RESULTS


def _part(part: str) -> str:
    found = _rows(part)
    sides = [side for side in SIDES if any(side in row["sides"] for row in found)]
    heads = ["shape", *(SIDES[side] for side in sides), *(f"of {SIDES[side]}" for side in sides[1:])]
    rows = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in found:
        ratios = [f"{row['ratios'][side]:.2f}" if side in row["ratios"] else "" for side in sides[1:]]
        shape = row["name"].split(maxsplit=1)[1]
        rows.append(f"| {' | '.join([shape, *(_rate(row, side) for side in sides), *ratios])} |")
    return "\n".join([f"{TITLES[part]}, TFLOP/s:", "", *rows])


def _rate(row: dict[str, Any], side: str) -> str:
    return f"{row['sides'][side]['median']:.4g}" if side in row["sides"] else ""


def _results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {"rows": []}
    return found


def _rows(part: str) -> list[dict[str, Any]]:
    return [row for row in _results()["rows"] if row["part"] == part]


def _conditions() -> str:
    results = _results()
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return (
        f"{results['device']}, {results['date']}, random numbers, medians of one run with all sides in turn, kernel\n"
        f"time only. Versions: {versions}."
    )
