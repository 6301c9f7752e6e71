"""Write the generated parts of the documents: tables of costs, of measurements, of settings, and `explain` output.

Usage: ``python -m scripts.make_tables [--check]``. A part stands between ``<!-- generated: NAME -->`` and
``<!-- end of NAME -->``. With ``--check`` nothing is written, and the exit status is 1 where a part is not current.
Measurements come from ``benchmarks/results/*.json``, which the benchmarks write where there is a GPU.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from glueball.explain import Report, Traffic, explain, render
from glueball.explain.text import number, percent
from glueball.kernels.ladder import RUNGS, Rung, tensors
from glueball.knobs import KNOBS
from glueball.ptx.instruction import GROUPS
from glueball.ptx.table import TABLE
from scripts import asynchronous_tables, gemm_tables

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = REPOSITORY / "benchmarks" / "results" / "memcpy.json"
OTHER_RESULTS = ("launch.json", "compile.json", "rows.json")
DOCUMENTS = (
    "README.md",
    "docs/assembly.md",
    "docs/asynchronous.md",
    "docs/debugging.md",
    "docs/gemm.md",
    "docs/ladder.md",
    "docs/runtime.md",
)
EXAMPLE = "examples/transpose.py"
TARGET = "sm_90a"
LANES = 32
SIZE = (2048, 2048)
WIDTH = 100
SIDES = {"glueball": "glueball", "gluon": "Gluon", "torch": "torch `copy_`", "torch.contiguous": "torch `contiguous`"}
NO_RESULTS = (
    "No results have been recorded yet. `python benchmarks/memcpy.py` measures glueball, Gluon and torch in one run\n"
    "on a machine with a GPU, and this table is made from what it writes."
)


def predict(rung: Rung) -> Report:
    """Give the costs of a rung for tensors that whole tiles cover."""
    source, destination = tensors(rung.view, lambda shape: np.empty(shape, np.float32), *SIZE)
    launch = rung.launch(source, destination, LANES)
    return explain(launch.kernel, launch.arguments, launch.keywords, target=TARGET, grid=launch.grid)


def predictions() -> str:
    """Give the table of what each rung asks of memory."""
    rows = [
        "| rung | what | bytes a lane | sectors a request, load | efficiency | sectors a request, store | efficiency |",
        "|---|---|---|---|---|---|---|",
    ]
    for rung in RUNGS:
        report = predict(rung)
        widths = ", ".join(dict.fromkeys(str(access.vector_bytes) for access in report.accesses))
        cells = [rung.name, rung.title, widths, *_ratios(report.loads), *_ratios(report.stores)]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _ratios(traffic: Traffic | None) -> Iterator[str]:
    if traffic is None:
        raise ValueError("every access of the ladder can be counted")
    yield number(traffic.sectors_per_request)
    yield percent(traffic.efficiency)


def measurements() -> str:
    """Give the table of measured rates, or the sentence that says how it comes about."""
    if not RESULTS.is_file():
        return NO_RESULTS
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    present = [side for side in SIDES if any(side in row["sides"] for row in results["rows"])]
    others = [side for side in present if side != "glueball"]
    titles = {rung.name: rung.title for rung in RUNGS}
    heads = ["rung", "what", *(f"{SIDES[side]}, TB/s" for side in present), *(f"of {SIDES[side]}" for side in others)]
    rows = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in results["rows"]:
        rates = [_rate(row["sides"].get(side)) for side in present]
        ratios = [f"{row['ratios'][side]:.2f}" if side in row["ratios"] else "" for side in others]
        rows.append(f"| {' | '.join([row['name'], titles.get(row['name'], ''), *rates, *ratios])} |")
    return "\n".join([_conditions(results), "", *rows])


def _rate(side: dict[str, Any] | None) -> str:
    return "" if side is None else f"{side['median']:.3g}"


def _conditions(results: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    shape = " x ".join(map(str, results["shape"]))
    return (
        f"{results['device']}, {results['date']}, {shape} float32, medians of one run with all sides in turn; bytes\n"
        f"read plus bytes written. Versions: {versions}."
    )


def others() -> str:
    """Give the table of launch, compile and row-kernel measurements that have been recorded."""
    rows = ["| what | unit | glueball | Gluon | torch | copy |", "|---|---|---|---|---|---|"]
    for name in OTHER_RESULTS:
        path = RESULTS.with_name(name)
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else ():
            sides = row["sides"]
            torch = sides.get("torch", sides.get("torch.add"))
            cells = [_rate(sides.get("glueball")), _rate(sides.get("gluon")), _rate(torch), _rate(sides.get("copy"))]
            rows.append(f"| {' | '.join([row['name'], row['unit'], *cells])} |")
    return "\n".join(rows) if len(rows) > 2 else NO_RESULTS


def sanitizer_cost() -> str:
    """Give what the simulator's sanitizer costs."""
    results = json.loads(RESULTS.with_name("sanitizer.json").read_text(encoding="utf-8"))
    worst = results["worst"]
    return (
        f"The sanitizer costs {results['geometric_mean']:.2f} times the plain simulation in the geometric mean over "
        f"the\n{len(results['rows'])} kernels of `benchmarks/sanitizer.py`, and {worst['cost']:.2f} times at most "
        f"({worst['name']}; {results['device']}, {results['date']})."
    )


def explanation() -> str:
    """Give what `glueball explain` prints for the example."""
    from glueball.cli.explaining import explained

    with contextlib.chdir(REPOSITORY):
        report = explained(Path(EXAMPLE), "transpose", (), None, TARGET, None)
        text = render(report, WIDTH)
    return f"```text\n$ glueball explain {EXAMPLE}:transpose\n{text}```"


def assembly() -> str:
    """Give the table of instructions that are interpreted, and the names in it that stand for several."""
    rows = ["| family | opcodes |", "|---|---|"]
    for family, instructions in TABLE.items():
        spelled = dict.fromkeys(instruction.syntax.replace("|", "\\|") for instruction in instructions)
        rows.append(f"| {family} | {', '.join(f'`{each}`' for each in spelled)} |")
    groups = ["", "| name | stands for |", "|---|---|"]
    groups += [f"| `{name}` | {', '.join(f'`.{each}`' for each in members)} |" for name, members in GROUPS.items()]
    return "\n".join([*rows, *groups])


def settings() -> str:
    """Give the table of environment variables."""
    rows = ["| variable | default | effect |", "|---|---|---|"]
    for knob in sorted(KNOBS, key=lambda knob: knob.variable):
        also = f" or `{knob.alias}`" if knob.alias is not None else ""
        default = f"`{_shown(knob.default)}`" if knob.default not in (None, "") else ""
        rows.append(f"| `{knob.variable}`{also} | {default} | {knob.effect} |")
    return "\n".join(rows)


def _shown(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


PARTS: dict[str, Callable[[], str]] = {
    "measurements": measurements,
    "others": others,
    "predictions": predictions,
    "explanation": explanation,
    "settings": settings,
    "assembly": assembly,
    "sanitizer_cost": sanitizer_cost,
    "additions": asynchronous_tables.additions,
    "ring_explanation": asynchronous_tables.ring_explanation,
    "faults": asynchronous_tables.faults,
    "bulk_measurements": asynchronous_tables.measurements,
    "gemm_costs": gemm_tables.costs,
    "gemm_versions": gemm_tables.versions,
    "gemm_products": gemm_tables.products,
}


def regenerate(text: str) -> str:
    """Give a document with all its generated parts made anew."""

    def part(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- generated: {name} -->\n{PARTS[name]()}\n<!-- end of {name} -->"

    return re.sub(r"<!-- generated: (\w+) -->\n.*?<!-- end of \1 -->", part, text, flags=re.DOTALL)


def main(arguments: list[str]) -> int:
    """Write or check all documents; the exit status."""
    status = 0
    for document in DOCUMENTS:
        path = REPOSITORY / document
        before = path.read_text(encoding="utf-8")
        after = regenerate(before)
        if "--check" not in arguments:
            path.write_text(after, encoding="utf-8")
        elif before != after:
            print(f"{document} is not current; run python -m scripts.make_tables", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
