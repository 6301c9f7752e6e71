"""A report as text: the author's source lines with what they cost beside them."""

from __future__ import annotations

import inspect
import io
import linecache
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from glueball.explain.report import (
    AccessCost,
    BarrierCost,
    BulkCost,
    ConversionCost,
    Report,
    Row,
    ScratchCost,
    ViewCost,
    WaitCost,
)
from glueball.explain.traffic import SharedTraffic, Traffic
from glueball.layouts import BlockedLayout, DistributedLayout, NVMMASharedLayout, SliceLayout, SwizzledSharedLayout
from glueball.layouts.base import SharedLayout
from glueball.location import SourceLocation

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

NAMES: dict[object, str] = {
    "async_copy": "copy",
    "atomic_compare_exchange": "atomic compare and exchange in",
    "atomic_load": "atomic load from",
    "atomic_store": "atomic store to",
    "atomic_poll": "poll of",
    "bulk_load": "bulk load",
    "bulk_store": "bulk store",
    ("async_copy", "shared"): "into",
    ("view_load", "shared"): "load from",
    ("view_store", "shared"): "store to",
    ("view_gather", "shared"): "gather from",
    ("view_scatter", "shared"): "scatter to",
    ("view_atomic", "shared"): "atomic on",
    ("async_store", "shared"): "send to",
    "scratch_write": "write to scratch memory",
    "scratch_write_slice": "write a slice to scratch memory",
    "scratch_read": "read from scratch memory",
    "scratch_gather": "gather from scratch memory",
    "scratch_count": "count in scratch memory",
}


def render(report: Report, width: int = 120) -> str:
    """The report as plain text of a width in columns. `ModuleNotFoundError` where rich (the extra `cli`) is missing."""
    from rich.console import Console

    buffer = io.StringIO()
    print_report(report, Console(file=buffer, width=width, color_system=None, legacy_windows=False))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def print_report(report: Report, console: Console) -> None:
    """Prints the report."""
    from rich.text import Text

    programs = "" if report.grid is None else f", grid {' x '.join(map(str, report.grid))}"
    launch = f"{report.target.name}, {report.num_warps} warps of {report.target.lanes} lanes{programs}"
    console.print(Text.assemble((report.kernel, "bold"), f"  for {launch}"), soft_wrap=True)
    for function in _functions(report):
        console.print(f"\n{_short_path(function.file)}", style="dim", highlight=False)
        console.print(_source_table(report, function))
    console.print()
    for line in _summary(report):
        console.print(line, highlight=False, soft_wrap=True)


def layout_text(layout: DistributedLayout | None) -> str:
    """A layout as its author would write it."""
    match layout:
        case None:
            return "the same in every thread"
        case BlockedLayout():
            parts = [layout.size_per_thread, layout.threads_per_warp, layout.warps_per_cta, layout.order]
            return f"BlockedLayout({', '.join(str(list(part)) for part in parts)})"
        case SliceLayout():
            return f"SliceLayout({layout.dim}, {layout_text(layout.parent)})"
    return repr(layout)


def shared_text(layout: SharedLayout) -> str:
    """A layout of shared memory as its author would write it."""
    match layout:
        case NVMMASharedLayout():
            turned = ", transposed=True" if layout.transposed else ""
            return f"NVMMASharedLayout({layout.swizzle_byte_width}, {layout.element_bitwidth}, {layout.rank}{turned})"
        case SwizzledSharedLayout():
            parts = (layout.vec, layout.per_phase, layout.max_phase, list(layout.order))
            return f"SwizzledSharedLayout({', '.join(map(str, parts))})"
    return repr(layout)


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.3g} %"


def number(value: float) -> str:
    """A count, with thousands apart; a mean with at most two decimals."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def _functions(report: Report) -> list[SourceLocation]:
    """The kernel and every other function whose lines cost something, each by its first such location."""
    found: dict[tuple[str, int], SourceLocation] = {}
    for location in (report.location, *(row.location for row in report.rows)):
        found.setdefault((location.file, location.first_line), location)
    return list(found.values())


def _source_table(report: Report, function: SourceLocation) -> Table:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1), expand=True, header_style="dim")
    table.add_column("line", justify="right", style="dim", no_wrap=True)
    table.add_column("source", ratio=1)
    for heading in ("bytes\na lane", "sectors\na request", "effi-\nciency"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line, source in enumerate(_source_lines(function), function.first_line):
        rows = [row for row in report.rows if (row.location.file, row.location.line) == (function.file, line)]
        beside = _cells(rows[0]) if len(rows) == 1 else ()
        table.add_row(str(line), Text(source, no_wrap=True, overflow="ellipsis"), *beside)
        indent = len(source) - len(source.lstrip())
        for row in rows:
            for index, detail in enumerate(_details(row)):
                text = Text(f"- {detail}" if index == 0 else detail, style="cyan")
                numbers = _cells(row) if index == 0 and len(rows) > 1 else ()
                table.add_row("", Padding(text, (0, 0, 0, indent + (0 if index == 0 else 2))), *numbers)
    return table


def _source_lines(function: SourceLocation) -> list[str]:
    """The source of a function, indented as little as possible."""
    lines = linecache.getlines(function.file)[function.first_line - 1 :]
    block = inspect.getblock(lines) if lines else []
    return inspect.cleandoc("\n" + "".join(block)).expandtabs().splitlines()


def _cells(row: Row) -> tuple[str | Text, ...]:
    from rich.text import Text

    if not isinstance(row, AccessCost | BulkCost):
        return ()
    lane = str(row.vector_bytes) if isinstance(row, AccessCost) else ""
    traffic = row.typical
    if traffic is None:
        return lane, "?", "?"
    efficiency = traffic.efficiency
    style = "green" if efficiency >= 0.99 else "yellow" if efficiency >= 0.5 else "red"
    return (
        lane,
        Text(number(traffic.sectors_per_request), style=style),
        Text(percent(efficiency), style=style),
    )


def _details(row: Row) -> Iterator[str]:
    match row:
        case AccessCost():
            what = "scalar" if not row.shape else str(list(row.shape))
            strides = f", strides {_strides(row)}" if row.strides else ""
            name = NAMES.get(row.kind, row.kind) if row.change is None else f"atomic {row.change} on"
            yield f"{name} {row.argument or '?'}: {row.element} {what}{strides}"
            if row.layout is not None:
                yield layout_text(row.layout)
            yield from _totals(row, "requests")
        case BulkCost():
            yield from _bulk_details(row)
        case ViewCost():
            yield from _view_details(row)
        case ScratchCost():
            size = f"{number(row.bytes)} bytes, {row.vector_bytes} bytes a lane"
            yield f"{NAMES[row.kind]}: {row.element} {list(row.shape)}, {size}"
            yield layout_text(row.layout)
            yield from _wavefronts(row)
        case ConversionCost():
            yield f"convert {row.element} {list(row.shape)}"
            yield row.plan.describe()
            yield f"from {layout_text(row.source)}"
            yield f"to {layout_text(row.destination)}"
            moved = row.program
            if row.once.write.requests:
                sides = (None, None) if moved is None else (moved.write.wavefronts, moved.read.wavefronts)
                write, read = map(_count, sides)
                yield f"wavefronts a program: {write} to write, {read} to read"
            if row.once.shuffles:
                yield f"{_count(None if moved is None else moved.shuffles)} shuffles a program"
        case BarrierCost():
            yield "barrier"
        case WaitCost():
            times = "once" if row.executions == 1 else f"{_count(row.executions)} times"
            yield f"{row.what}, {times} a program"


def _bulk_details(row: BulkCost) -> Iterator[str]:
    reduction = "" if row.reduction is None else f" ({row.reduction})"
    size = f"{number(row.bytes)} bytes"
    yield f"{NAMES[row.kind]}{reduction} {row.argument or '?'}: {row.element} {list(row.block)}, {size}"
    swizzle = f"swizzle {row.swizzle}" if row.swizzle else "no swizzle"
    yield f"{row.messages} message{'s' if row.messages > 1 else ''} of {list(row.box)}, {swizzle}"
    yield from _totals(row, "messages")


def _view_details(row: ViewCost) -> Iterator[str]:
    how = f"{row.matrices} matrices an instruction" if row.matrices else f"{row.vector_bytes} bytes a lane"
    yield f"{NAMES[row.kind, 'shared']} {row.allocation or '?'}: {row.element} {list(row.shape)}, {how}"
    if row.kind != "async_copy":
        yield layout_text(row.layout)
    yield shared_text(row.shared)
    yield from _wavefronts(row)


def _wavefronts(row: ViewCost | ScratchCost) -> Iterator[str]:
    yield from row.notes
    for traffic, where in ((row.program, "a program"), (row.grid, "in all")):
        if traffic is not None:
            yield f"{number(traffic.wavefronts)} wavefronts {where}{_conflicts(traffic)}"


def _conflicts(traffic: SharedTraffic) -> str:
    if traffic.wavefronts == traffic.least:
        return ", no bank conflicts"
    return f", {number(traffic.conflicts)} times those without bank conflicts"


def _totals(row: AccessCost | BulkCost, unit: str) -> Iterator[str]:
    if row.program is not None:
        yield f"{_traffic(row.program, unit)} a program"
    if row.grid is not None:
        yield f"{_traffic(row.grid, unit)} in all"


def _strides(row: AccessCost) -> str:
    return ", ".join("?" if stride is None else str(stride) for stride in row.strides)


def _count(value: int | None) -> str:
    return "?" if value is None else number(value)


def _traffic(traffic: Traffic, unit: str = "requests") -> str:
    return f"{number(traffic.requests)} {unit}, {number(traffic.sectors)} sectors"


def _summary(report: Report) -> Iterator[str]:
    where = "a program" if report.grid is None else "in all"
    totals = [("loads ", report.loads, "requests"), ("stores", report.stores, "requests")]
    totals += [("copies", report.copies, "requests"), ("atomics", report.atomics, "requests")]
    totals += [("bulk loads", report.bulk_loads, "messages"), ("bulk stores", report.bulk_stores, "messages")]
    for name, traffic, unit in totals:
        if traffic is None:
            yield f"{name}  not counted"
        elif traffic.requests:
            yield f"{name}  {_traffic(traffic, unit)} {where}, efficiency {percent(traffic.efficiency)}"
    banks = {"loads ": report.shared_loads, "stores": report.shared_stores, "atomics": report.shared_atomics}
    for name, shared in banks.items():
        if shared is None:
            yield f"shared {name}  not counted"
        elif shared.requests:
            counts = f"{number(shared.requests)} requests, {number(shared.wavefronts)} wavefronts"
            yield f"shared {name}  {counts} {where}{_conflicts(shared)}"
    yield (
        f"shared memory {number(report.shared_bytes)} bytes, barriers {report.barriers}, "
        f"tiles fill {report.registers} registers of a thread"
    )
    yield from _pipeline(report)
    seen: dict[str, list[str]] = {}
    for row in report.rows:
        for note in row.notes if isinstance(row, AccessCost | BulkCost) else ():
            seen.setdefault(note, []).append(str(row.location.line))
    for note, lines in seen.items():
        yield f"line {', '.join(dict.fromkeys(lines))}: {note}"


def _pipeline(report: Report) -> Iterator[str]:
    """What asynchronous loads have under way: of one program, and of those that a multiprocessor has room for."""
    if not report.rings:
        return
    rings = ", ".join(f"{ring.name} {ring.stages} x {number(ring.stage_bytes)} bytes" for ring in report.rings)
    yield f"buffers of asynchronous loads: {rings}"
    flight = f"bytes in flight: up to {number(report.in_flight)} a program"
    room = report.occupancy
    if room is None:
        yield flight
        return
    yield f"{flight}, {number(report.in_flight * room.programs)} a multiprocessor"
    yield (
        f"programs of a multiprocessor: {room.programs} (by threads {room.by_threads}, shared memory "
        f"{room.by_shared_memory}, registers {room.by_registers})"
    )


def _short_path(file: str) -> str:
    path = Path(file)
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
