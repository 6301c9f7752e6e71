"""What `explain` predicts beside what the simulator counts: line by line, and in all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from glueball.explain import (
    AccessCost,
    BulkCost,
    ConversionCost,
    Report,
    ScratchCost,
    SharedTraffic,
    Traffic,
    ViewCost,
    explain,
)
from glueball.explain.report import ATOMICS, MASKED_NOTE, SHARED_TOTALS
from glueball.kernels.ladder import Launch
from glueball.runtime.jit import JITFunction
from glueball.sim import Counts, InstructionCounts
from glueball.sim import Report as SimulatorReport

GLOBAL = {
    ("load",): ("global_load",), ("store",): ("global_store",), ("async_copy",): ("copy_async",),
    ("bulk_load",): ("bulk_tensor_load",), ("bulk_store",): ("bulk_tensor_store",),
    ("atomic_change", "atomic_compare_exchange"): ("atomic",), ("atomic_store",): ("atomic_store",),
    ("atomic_load", "atomic_poll"): ("atomic_load",),
}  # fmt: skip
"""Kinds of rows, and the records whose instructions they are about."""
SHARED = {
    "loads": ("shared_load", "load_matrix", "remote_load"), "stores": ("shared_store", "store_matrix", "store_async"),
    "atomics": ("shared_atomic", "shared_add"), "copies": ("copy_async",),
}  # fmt: skip
"""Totals of shared memory, and the records whose instructions they count."""


def check(launch: Launch, monkeypatch: Any, target: str = "sm_90a") -> Report:
    """Predicts, runs on the simulator, and compares; gives the prediction."""
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    monkeypatch.setenv("GLUEBALL_TARGET", target)
    report = explain(launch.kernel, launch.arguments, launch.keywords, target=target, grid=launch.grid)
    compiled = launch.run()
    assert report.shared_bytes == compiled.shared_bytes
    assert "\n".join(differences(report, compiled.report)) == ""
    return report


def watch(monkeypatch: Any, target: str = "sm_90a") -> list[Report]:
    """From now on every launch is compared; the list grows by the predictions."""
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    monkeypatch.setenv("GLUEBALL_TARGET", target)
    launcher, reports = JITFunction.__getitem__, list[Report]()

    def compared(kernel: JITFunction, grid: Any) -> Callable[..., Any]:
        def launch(*arguments: Any, **keywords: Any) -> Any:
            report = explain(kernel, arguments, keywords, target=target, grid=grid)
            compiled = launcher(kernel, grid)(*arguments, **keywords)
            assert "\n".join(differences(report, compiled.report)) == ""
            reports.append(report)
            return compiled

        return launch

    monkeypatch.setattr(JITFunction, "__getitem__", compared)
    return reports


def differences(report: Report, simulated: SimulatorReport) -> Iterator[str]:
    """Where the counts of a line of which everything is known differ, and where totals do."""
    counted = simulated.by_location()
    for location in {row.location for row in report.rows}:
        rows = [row for row in report.rows if row.location == location]
        entries = counted.get(location, [])
        for kinds, records in GLOBAL.items():
            accesses = [row for row in rows if isinstance(row, AccessCost | BulkCost) and row.kind in kinds]
            if is_counted(accesses):
                yield from difference(f"{kinds} at {location}", moved(accesses), as_global(entries, records))
        for name, records in SHARED.items():
            parts = [part for row in rows for part in shared_parts(row, name)]
            if None not in parts:
                found = as_shared(entries, name, records)
                yield from difference(f"shared {name} at {location}", summed(parts, name), found)
    if is_counted([row for row in report.accesses if row.kind in ATOMICS]):
        found = as_global(simulated.instructions, ("atomic", "atomic_load", "atomic_store"))
        yield from difference("atomics", report.atomics, found)
    totals = {"loads": report.shared_loads, "stores": report.shared_stores, "atomics": report.shared_atomics}
    for name, traffic in totals.items():
        if traffic is not None:
            found = as_shared(simulated.instructions, name, SHARED[name])
            yield from difference(f"all shared {name}", traffic, found)


def difference(what: str, predicted: Any, counted: Any) -> Iterator[str]:
    """Two counts, unless they are equal."""
    if predicted != counted:
        yield f"{what}: {predicted} predicted, {counted} counted"


def is_counted(rows: Sequence[AccessCost | BulkCost]) -> bool:
    """Whether rows have a traffic that is not one as if there were no mask."""
    return all(row.grid is not None and MASKED_NOTE not in row.notes for row in rows)


def shared_parts(row: Any, name: str) -> list[SharedTraffic | None]:
    """What a row adds to a total of shared memory."""
    if isinstance(row, ConversionCost) and name in ("loads", "stores"):
        return [None if row.grid is None else row.grid.read if name == "loads" else row.grid.write]
    if not isinstance(row, ViewCost | ScratchCost) or SHARED_TOTALS.get(row.kind, "copies") != name:
        return []
    return [row.grid]


def as_shared(entries: Iterable[InstructionCounts], name: str, records: Sequence[str]) -> SharedTraffic:
    """What the simulator has counted; the requests of copies are those of their global side."""
    found = added(entries, records)
    return SharedTraffic(0 if name == "copies" else found.requests, found.wavefronts, found.ideal_wavefronts)


def added(entries: Iterable[InstructionCounts], records: Sequence[str]) -> Counts:
    """The counts of instructions with some records."""
    found = Counts()
    for entry in entries:
        if entry.name in records:
            found.add(entry.counts)
    return found


def as_global(entries: Iterable[InstructionCounts], records: Sequence[str]) -> Traffic:
    """What the simulator has counted of global memory."""
    found = added(entries, records)
    return Traffic(found.requests, found.sectors, found.useful_bytes)


def moved(rows: Iterable[AccessCost | BulkCost]) -> Traffic:
    """The traffic of rows, which is known."""
    found = Traffic()
    for row in rows:
        assert row.grid is not None
        found += row.grid
    return found


def summed(parts: Iterable[SharedTraffic | None], name: str) -> SharedTraffic:
    """The sum of traffics that are known, with the requests that `as_shared` tells."""
    found = SharedTraffic()
    for part in parts:
        assert part is not None
        found += part
    return replace(found, requests=0) if name == "copies" else found
