"""Sweeps: a function timed over many sizes and variants, as a table and a chart."""

from __future__ import annotations

import csv
import importlib.util
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from glueball.runtime.timing import Measurement, measure
from glueball.runtime.versions import describe_machine

logger = logging.getLogger("glueball")

PLOT_EXTRA = "pip install 'glueball[plot]'"

Style: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class Benchmark:
    """One sweep: which arguments vary, over which values, and how the result is shown.

    `x_vals` holds a value for all of `x_names`, or a tuple of one for each. `line_arg` takes each of `line_vals`,
    called `line_names` in the table. `args` are passed as they are. `styles` are matplotlib's colour and line style of
    each line.
    """

    x_names: Sequence[str]
    x_vals: Sequence[Any]
    line_arg: str
    line_vals: Sequence[Any]
    line_names: Sequence[str]
    plot_name: str
    args: Mapping[str, Any]
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    styles: Sequence[Style] | None = None

    def __post_init__(self) -> None:
        if len(self.line_vals) != len(self.line_names):
            raise ValueError(
                f"{self.plot_name}: {len(self.line_vals)} line_vals and {len(self.line_names)} line_names; each value "
                "needs a name"
            )

    def points(self) -> list[dict[str, Any]]:
        """The arguments of every row. `ValueError` where a tuple has not one value for each of `x_names`."""
        points = []
        for given in self.x_vals:
            values = given if isinstance(given, list | tuple) else [given] * len(self.x_names)
            if len(values) != len(self.x_names):
                raise ValueError(f"{self.plot_name}: expected {len(self.x_names)} values in x_vals, got {given!r}")
            points.append(dict(zip(self.x_names, values, strict=True)))
        return points


@dataclass(slots=True)
class Table:
    """What a sweep found: in each row the arguments, and for each line a result with its low and high, or `None`.

    `difference` adds a column to a table of two lines: the second's result less the first's.
    """

    benchmark: Benchmark
    difference: bool = False
    rows: list[tuple[dict[str, Any], list[tuple[float | None, float | None, float | None]]]] = field(
        default_factory=list
    )

    @property
    def columns(self) -> list[str]:
        """The heads: arguments, then lines with their unit."""
        difference = ["Diff"] if self._subtracts else []
        return [*self.benchmark.x_names, *map(self._head, self.benchmark.line_names), *difference]

    def cells(self) -> list[list[Any]]:
        """The rows below `columns`."""
        rows = []
        for point, found in self.rows:
            results = [result for result, _, _ in found]
            if self._subtracts:
                first, second = results
                results.append(None if first is None or second is None else second - first)
            rows.append([*point.values(), *results])
        return rows

    def shown_cells(self) -> list[list[str]]:
        """The rows below `columns` as texts."""
        return [[_shown(cell) for cell in row] for row in self.cells()]

    def text(self) -> str:
        """The table with aligned columns."""
        shown = [self.columns, *self.shown_cells()]
        widths = [max(len(row[column]) for row in shown) for column in range(len(self.columns))]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in shown)

    def as_data(self) -> dict[str, Any]:
        """The table as JSON values, with low and high of each result."""
        names = self.benchmark.line_names
        lines = ("result", "low", "high")
        return {
            "name": self.benchmark.plot_name,
            "unit": self.benchmark.ylabel,
            "rows": [
                {
                    "arguments": {name: _plain(value) for name, value in point.items()},
                    "lines": {
                        name: dict(zip(lines, map(_plain, found), strict=True))
                        for name, found in zip(names, results, strict=True)
                    },
                }
                for point, results in self.rows
            ],
        }

    def as_frame(self) -> Any:
        """The table as a pandas DataFrame. `ImportError` without pandas."""
        if importlib.util.find_spec("pandas") is None:
            raise ImportError("return_df gives a pandas DataFrame, and pandas is not installed: pip install pandas")
        import pandas

        return pandas.DataFrame(self.cells(), columns=self.columns)

    def keep(self, folder: Path | None, *, show: bool = False, precision: int = 6) -> None:
        """Writes `NAME.csv`, with device and versions `NAME.json`, and the chart `NAME.png`; `show` opens the chart."""
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._save(folder, precision)
        name = self.benchmark.plot_name
        if not name or (folder is None and not show):
            return
        if not _can_draw():
            logger.warning("glueball: %s is saved as a table only; a chart needs matplotlib: %s", name, PLOT_EXTRA)
            return
        from glueball.testing.chart import draw

        draw(self, None if folder is None else folder / f"{name}.png", show=show)

    def _save(self, folder: Path, precision: int) -> None:
        with (folder / f"{self.benchmark.plot_name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(
                [f"{cell:.{precision}f}" if isinstance(cell, float) else cell for cell in row] for row in self.cells()
            )
        described = {**describe_machine(), **self.as_data()}
        (folder / f"{self.benchmark.plot_name}.json").write_text(json.dumps(described, indent=1) + "\n")

    @property
    def _subtracts(self) -> bool:
        return self.difference and len(self.benchmark.line_names) == 2

    def _head(self, line: str) -> str:
        return f"{line} ({self.benchmark.ylabel})"


class Mark:
    """A function with the sweeps in which `run` calls it. Called directly it is the function itself."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Benchmark | Sequence[Benchmark]) -> None:
        self.fn = fn
        self.benchmarks = benchmarks
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)
        self.__doc__ = fn.__doc__

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The function's result."""
        return self.fn(*arguments, **keywords)

    @property
    def sweeps(self) -> tuple[Benchmark, ...]:
        """The sweeps, also where there is one."""
        return (self.benchmarks,) if isinstance(self.benchmarks, Benchmark) else tuple(self.benchmarks)

    def tabulate(self, benchmark: Benchmark, **keywords: Any) -> Table:
        """Runs one sweep. The function returns a number, or a number with its low and its high."""
        table = Table(benchmark)
        for point in benchmark.points():
            results = []
            for value in benchmark.line_vals:
                found = self.fn(**point, **{benchmark.line_arg: value}, **benchmark.args, **keywords)
                results.append(_triple(found))
            table.rows.append((point, results))
        return table

    def tables(self) -> Iterator[Table]:
        """Runs the sweeps one after the other."""
        return map(self.tabulate, self.sweeps)

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str | Path = "",
        return_df: bool = False,
        *,
        diff_col: bool = False,
        save_precision: int = 6,
        **keywords: Any,
    ) -> Any:
        """Runs every sweep. `keywords` go to the function.

        `print_data` prints each table. `save_path` is a folder that receives each as `NAME.csv` and `NAME.json`, and as
        the chart `NAME.png`, with all charts on the page `results.html`; without matplotlib a warning takes the charts'
        place. `show_plots` opens the charts, and is an `ImportError` without matplotlib. `return_df` gives pandas'
        DataFrames, a list of them where the function was marked with a list. `diff_col` adds the difference of two
        lines, and `save_precision` is the number of decimals in the CSV file.
        """
        if show_plots and not _can_draw():
            raise ImportError(f"show_plots needs matplotlib, which is not installed: {PLOT_EXTRA}")
        tables = []
        for benchmark in self.sweeps:
            table = self.tabulate(benchmark, **keywords)
            table.difference = diff_col
            tables.append(table)
            folder = Path(save_path) if save_path else None
            if print_data:
                print(f"{benchmark.plot_name}:\n{table.text()}")
            table.keep(folder, show=show_plots, precision=save_precision)
        if save_path and _can_draw():
            _write_page(Path(save_path), [table.benchmark.plot_name for table in tables])
        if return_df:
            frames = [table.as_frame() for table in tables]
            return frames[0] if isinstance(self.benchmarks, Benchmark) else frames
        return None


class Timed:
    """A function that prepares what is to be timed: it gives the callable, and is itself not part of the time."""

    def __init__(self, fn: Callable[[], Callable[[], Any]], warmup: float, rep: float) -> None:
        self.fn = fn
        self.warmup = warmup
        self.rep = rep
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)
        self.__doc__ = fn.__doc__

    def measure(self) -> Measurement:
        """Prepares and times. `TypeError` where the function gives nothing that can be called."""
        timed = self.fn()
        if not callable(timed):
            raise TypeError(f"{self.__name__} must return the callable that is to be timed, not {timed!r}")
        return measure(timed, self.warmup, self.rep)


def benchmark(fn: Callable[[], Callable[[], Any]] | None = None, *, warmup: float = 25, rep: float = 100) -> Any:
    """Marks a function that prepares and returns a callable, which `glueball bench FILE` times; bare or with options::

        @glueball.testing.benchmark
        def copy_of_a_million():
            x, y = ...
            return lambda: copy[grid](x, y, x.size)

    `warmup` and `rep` are those of `measure`, in milliseconds.
    """
    if fn is None:
        return lambda function: Timed(function, warmup, rep)
    return Timed(fn, warmup, rep)


def perf_report(benchmarks: Benchmark | Sequence[Benchmark]) -> Callable[[Callable[..., Any]], Mark]:
    """Marks a function for sweeps: the result has `run`, and `glueball bench FILE` finds it."""
    return lambda fn: Mark(fn, benchmarks)


def _can_draw() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def _write_page(folder: Path, names: list[str]) -> None:
    images = "\n".join(f'<img src="{name}.png" alt="{name}">' for name in names if name)
    if images:
        (folder / "results.html").write_text(f"<!doctype html>\n<html><body>\n{images}\n</body></html>\n")


def _triple(found: Any) -> tuple[float | None, float | None, float | None]:
    if isinstance(found, list | tuple):
        if len(found) != 3:
            raise ValueError(f"a marked function returns a number, or (number, low, high), not {found!r}")
        return tuple(found)
    return found, None, None


def _shown(cell: Any) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _plain(value: Any) -> Any:
    """A value that JSON has: NumPy's scalars as Python's, others as text."""
    value = value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value
    return value if isinstance(value, bool | int | float | str | None) else str(value)
