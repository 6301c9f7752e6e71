"""Charts of sweeps, by matplotlib; imported only where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from glueball.testing.reports import Table


def draw(table: Table, path: Path | None, *, show: bool) -> None:
    """One line per variant over the first argument, with a band between low and high where there are any."""
    sweep = table.benchmark
    positions = [point[sweep.x_names[0]] for point, _ in table.rows]
    figure, axes = plt.subplots()
    for index, name in enumerate(sweep.line_names):
        results = [found[index] for _, found in table.rows]
        colour, style = sweep.styles[index] if sweep.styles else (None, None)
        heights = [float("nan") if height is None else height for height, _, _ in results]
        (line,) = axes.plot(positions, heights, label=name, color=colour, linestyle=style)
        banded = [
            (position, low, high)
            for position, (_, low, high) in zip(positions, results, strict=True)
            if low is not None and high is not None
        ]
        if banded:
            places, lows, highs = zip(*banded, strict=True)
            axes.fill_between(places, lows, highs, alpha=0.15, color=line.get_color())
    axes.legend()
    axes.set_xlabel(sweep.xlabel or sweep.x_names[0])
    axes.set_ylabel(sweep.ylabel)
    axes.set_xscale("log" if sweep.x_log else "linear")
    axes.set_yscale("log" if sweep.y_log else "linear")
    if path is not None:
        figure.savefig(path)
    if show:
        plt.show()
    plt.close(figure)
