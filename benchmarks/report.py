"""What every benchmark shares: interleaved samples, medians with spread, ratios, and the result file."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

Sample = TypeVar("Sample")

RESULTS = Path(__file__).parent / "results"


def interleaved(sides: Mapping[str, Callable[[], Sample]], rounds: int) -> dict[str, list[Sample]]:
    """Samples of every side, taken in turn; every other round goes the other way about."""
    samples: dict[str, list[Sample]] = {name: [] for name in sides}
    for index in range(rounds):
        names = list(sides) if index % 2 == 0 else list(reversed(sides))
        for name in names:
            samples[name].append(sides[name]())
    return samples


def row(name: str, unit: str, samples: Mapping[str, list[float]], *, higher_is_better: bool) -> dict[str, Any]:
    """Medians, spread (10th to 90th percentile) and glueball's ratio to each other side; above 1 is faster."""
    sides = {}
    for side, values in samples.items():
        ordered = sorted(values)
        low, high = ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
        sides[side] = {"median": statistics.median(ordered), "spread": [low, high], "samples": len(ordered)}
    ours = sides["glueball"]["median"] if "glueball" in sides else None
    ratios = {}
    for side, numbers in sides.items():
        if side != "glueball" and ours:
            ratio = ours / numbers["median"]
            ratios[side] = ratio if higher_is_better else 1 / ratio
    return {"name": name, "unit": unit, "sides": sides, "ratios": ratios}


def versions() -> dict[str, str]:
    """Versions of what took part, where installed."""
    found = {"python": platform.python_version()}
    for package in ("torch", "triton", "llvmlite", "cuda-bindings", "nvidia-nvjitlink", "numpy"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def write(file_name: str, device: str, rows: list[dict[str, Any]], **more: Any) -> Path:
    """Writes `results/FILE_NAME`: device, versions, date, rows."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / file_name
    content = {
        "device": device,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions(),
        **more,
        "rows": rows,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def print_rows(rows: list[dict[str, Any]]) -> None:
    """One line per row: medians and ratios."""
    for item in rows:
        sides = "  ".join(f"{side} {numbers['median']:.4g}" for side, numbers in item["sides"].items())
        ratios = "  ".join(f"/{side} {ratio:.3f}" for side, ratio in item["ratios"].items())
        print(f"{item['name']:<14} {item['unit']:<6} {sides}   {ratios}", flush=True)
