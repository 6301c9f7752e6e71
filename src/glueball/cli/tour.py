"""The memcpy ladder, run here: what each rung is predicted to cost, and what it does cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from glueball.cli import pattern
from glueball.cli.tour_machines import Device, Machine, Simulator
from glueball.explain import Report, explain
from glueball.explain.text import layout_text, percent
from glueball.kernels.ladder import RUNGS, Rung, tensors

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


@dataclass(frozen=True, slots=True)
class Ratio:
    """Sectors that one warp-wide request touches, and the share of their bytes that is asked for."""

    sectors_per_request: float
    efficiency: float

    @staticmethod
    def of(traffic: Any) -> Ratio | None:
        """From predicted or counted traffic."""
        return None if traffic is None else Ratio(traffic.sectors_per_request, traffic.efficiency)


@dataclass(frozen=True, slots=True)
class RungResult:
    """One rung. Counts are `None` on a GPU; times and rates (bytes read plus written) are `None` on the simulator."""

    rung: str
    title: str
    layouts: tuple[str, ...]
    predicted_loads: Ratio | None
    predicted_stores: Ratio | None
    counted_loads: Ratio | None
    counted_stores: Ratio | None
    seconds: float | None
    terabytes_per_second: float | None
    share_of_copy: float | None
    differences: int


@dataclass(frozen=True, slots=True)
class TourResults:
    """The whole ladder on one machine; `copy_terabytes_per_second` is the driver's plain copy in the same run."""

    executor: str
    target: str
    device: str | None
    rows: int
    columns: int
    copy_terabytes_per_second: float | None
    rungs: tuple[RungResult, ...]

    @property
    def verified(self) -> bool:
        """Whether every copy was equal to its source, bit by bit."""
        return all(result.differences == 0 for result in self.rungs)

    def as_data(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "dtype": "float32", "verified": self.verified}


def run(executor: str, size: tuple[int, int] | None, progress: Progress | None = None) -> TourResults:
    """Runs every rung on tensors of float32, verifies it, and measures it (`gpu`) or counts its sectors (`sim`).

    Errors: `DriverError` where there is no GPU or its memory does not suffice, `TargetError` for a target that it is
    not.
    """
    machine: Machine = Device(size) if executor == "gpu" else Simulator(size)
    task = None if progress is None else progress.add_task("preparing", total=len(RUNGS))
    results = []
    for rung in RUNGS:
        if progress is not None and task is not None:
            progress.update(task, description=f"{rung.name}: {rung.title}")
        results.append(_measure(rung, machine))
        if progress is not None and task is not None:
            progress.advance(task)
    return TourResults(
        executor=executor,
        target=machine.target.name,
        device=machine.name,
        rows=machine.rows,
        columns=machine.columns,
        copy_terabytes_per_second=machine.copy_rate(),
        rungs=tuple(results),
    )


def _measure(rung: Rung, machine: Machine) -> RungResult:
    storages = iter((machine.source, machine.destination))

    def make(shape: tuple[int, int]) -> Any:
        storage = next(storages)
        return storage[: shape[0] * shape[1]].reshape(*shape)

    source, destination = tensors(rung.view, make, machine.rows, machine.columns)
    launch = rung.launch(source, destination, machine.target.lanes)
    report = explain(launch.kernel, launch.arguments, launch.keywords, target=machine.target, grid=launch.grid)
    machine.clear()
    counts = machine.run(launch)
    differences = pattern.count_differences(source, destination)
    timing = machine.time(launch)
    return RungResult(
        rung=rung.name,
        title=rung.title,
        layouts=_layouts(report),
        predicted_loads=Ratio.of(report.loads),
        predicted_stores=Ratio.of(report.stores),
        counted_loads=None if counts is None else Ratio.of(counts.global_loads),
        counted_stores=None if counts is None else Ratio.of(counts.global_stores),
        seconds=None if timing is None else timing.seconds,
        terabytes_per_second=None if timing is None else launch.bytes / timing.seconds / 1e12,
        share_of_copy=None if timing is None else launch.bytes / timing.seconds / timing.copy_rate,
        differences=differences,
    )


def _layouts(report: Report) -> tuple[str, ...]:
    """The layouts of the accesses, each once."""
    return tuple(dict.fromkeys(layout_text(row.layout) for row in report.accesses))


def print_results(results: TourResults, console: Console) -> None:
    """One row per rung."""
    from rich.table import Table

    simulated = results.executor == "sim"
    where = f"the simulator as {results.target}" if simulated else f"{results.device} ({results.target})"
    say = partial(console.print, highlight=False, soft_wrap=True)
    say(f"The copy ladder on {where}, {results.rows} x {results.columns} float32\n")
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("rung", no_wrap=True)
    table.add_column("what, layouts", min_width=28)
    measured = ("counted\nsectors", "effici-\nency %") if simulated else ("TB/s", "of plain\ncopy")
    for heading in ("predicted\nsectors", "effici-\nency %", *measured):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results.rungs:
        table.add_row(result.rung, result.title, *_cells(result, simulated))
        for layout in result.layouts:
            table.add_row("", _short(layout), style="dim")
    console.print(table)
    say("\nLayouts: size_per_thread, threads_per_warp, warps_per_cta, order.")
    say("Sectors of 32 bytes that one warp-wide request touches; pairs are load/store.")
    if results.copy_terabytes_per_second is not None:
        say(f"The driver's plain copy moves {results.copy_terabytes_per_second:.3g} TB/s.")
    if results.verified:
        say("Every result is equal to its source, bit by bit.")
    for result in results.rungs:
        if result.differences:
            say(f"{result.rung}: {result.differences:,} elements differ from the source", style="red")


def _short(layout: str) -> str:
    """A blocked layout by its four lists alone."""
    match = re.fullmatch(r"BlockedLayout\((.*)\)", layout)
    return layout if match is None else match[1].replace("], [", "] [").replace(", ", ",")


def _cells(result: RungResult, simulated: bool) -> Iterator[str]:
    yield from _ratios(result.predicted_loads, result.predicted_stores)
    if simulated:
        yield from _ratios(result.counted_loads, result.counted_stores)
    else:
        rate, share = result.terabytes_per_second, result.share_of_copy
        yield "?" if rate is None else f"{rate:.3g}"
        yield "?" if share is None else percent(share)


def _ratios(loads: Ratio | None, stores: Ratio | None) -> Iterator[str]:
    if loads is None or stores is None:
        yield from ("?", "?")
        return
    for texts in (
        (f"{loads.sectors_per_request:.3g}", f"{stores.sectors_per_request:.3g}"),
        (f"{100 * loads.efficiency:.3g}", f"{100 * stores.efficiency:.3g}"),
    ):
        yield "/".join(dict.fromkeys(texts))
