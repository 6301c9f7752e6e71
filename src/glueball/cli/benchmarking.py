"""`glueball bench`: runs the marked functions of a file, and keeps what they measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table as RichTable

from glueball.cli.programs import failed, load
from glueball.runtime.versions import describe_machine
from glueball.testing import Mark, Timed
from glueball.testing.reports import Table

SPREAD = (0.1, 0.9)
HOW_TO_MARK = "mark functions with glueball.testing.benchmark or glueball.testing.perf_report"


def run_file(path: Path, select: tuple[str, ...], output: Path, charts: Path | None, console: Console) -> None:
    """Runs the benchmarks of a file, prints them, and writes `output`; `click` errors for what cannot be run."""
    marked = _marked(vars(load(path)), path, select)
    results: dict[str, Any] = {"file": str(path), **describe_machine(), "sweeps": [], "timings": []}
    timed: list[dict[str, Any]] = []
    for name, found in marked.items():
        try:
            if isinstance(found, Mark):
                results["sweeps"] += [_sweep(table, charts, console) for table in found.tables()]
            else:
                timed.append(_timing(name, found))
        except Exception as error:  # whatever the user's function raises
            raise failed(path, error) from error
    results["timings"] = timed
    if timed:
        console.print(_timing_table(timed))
    try:
        output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error}") from error
    console.print(f"on {results['device']}; written: {output}", highlight=False, soft_wrap=True)


def _marked(namespace: Mapping[str, Any], path: Path, select: tuple[str, ...]) -> dict[str, Mark | Timed]:
    found = {name: value for name, value in namespace.items() if isinstance(value, Mark | Timed)}
    if not found:
        raise click.UsageError(f"{path} has no benchmark; {HOW_TO_MARK}")
    unknown = [name for name in select if name not in found]
    if unknown:
        raise click.UsageError(f"{path} has no benchmark {unknown[0]}; it has {', '.join(found)}")
    return {name: value for name, value in found.items() if not select or name in select}


def _sweep(table: Table, charts: Path | None, console: Console) -> dict[str, Any]:
    shown = RichTable(title=table.benchmark.plot_name, title_justify="left", box=None, pad_edge=False)
    for head in table.columns:
        shown.add_column(head, justify="right")
    for row in table.shown_cells():
        shown.add_row(*row)
    console.print(shown)
    if charts is not None:
        table.keep(charts)
    return table.as_data()


def _timing(name: str, timed: Timed) -> dict[str, Any]:
    measurement = timed.measure()
    low, high = measurement.confidence_interval()
    return {
        "name": name,
        "unit": "ms",
        "clock": measurement.clock,
        "median": measurement.median,
        "spread": [measurement.quantile(fraction) for fraction in SPREAD],
        "confidence": [low, high],
        "samples": len(measurement.times),
    }


def _timing_table(timed: list[dict[str, Any]]) -> RichTable:
    shown = RichTable(box=None, pad_edge=False)
    for head in ("benchmark", "median, ms", "10 % to 90 %", "median, 95 % sure", "runs", "clock"):
        shown.add_column(head, justify="left" if head in ("benchmark", "clock") else "right")
    for row in timed:
        spread, sure = (f"{low:.4g} to {high:.4g}" for low, high in (row["spread"], row["confidence"]))
        shown.add_row(row["name"], f"{row['median']:.4g}", spread, sure, str(row["samples"]), row["clock"])
    return shown
