"""`glueball cache`: what the disk cache holds, and making it smaller."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from glueball import knobs
from glueball.runtime.cache import DamagedEntryError, disk_cache, read_entry
from glueball.runtime.cache_upkeep import CachedEntry, purge, remove, survey, trim

SHOWN_KEY = 12
AGES = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True, slots=True)
class Contents:
    """The cache's folder, its entries (last used first), and the limit in bytes."""

    folder: Path
    entries: list[CachedEntry]
    limit: int

    @property
    def bytes(self) -> int:
        """Bytes of all entries."""
        return sum(entry.bytes for entry in self.entries)


def contents() -> Contents:
    """What is there now; `click` errors for a folder that cannot be read and for knobs that mean nothing."""
    try:
        folder = disk_cache().folder
        return Contents(folder, survey(folder), knobs.CACHE_LIMIT.read())
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def print_list(found: Contents, as_json: bool, console: Console) -> None:
    """Every entry, the one used last first."""
    if as_json:
        described = [_as_data(entry) for entry in found.entries]
        click.echo(json.dumps({**_totals(found), "entries": described}, indent=1))
        return
    table = Table(box=None, pad_edge=False)
    for head, alignment in (("key", "left"), ("kernel", "left"), ("target", "left"), ("size", "right"),
                            ("used", "right")):  # fmt: skip
        table.add_column(head, justify="right" if alignment == "right" else "left", no_wrap=True)
    for entry in found.entries:
        target = str(entry.about.get("target", "?"))
        name = f"{entry.kernel} (tuning)" if "tuned" in entry.about else entry.kernel
        table.add_row(entry.key[:SHOWN_KEY], name, target, decimal(entry.bytes), _age(entry.used))
    if found.entries:
        console.print(table)
    _print_total(found, console)


def print_entry(found: Contents, key: str, as_json: bool, console: Console) -> None:
    """All that is known of the entry whose key starts with `key`, and whether its hashes are right."""
    (entry,) = chosen(found, (key,), unique=True)
    try:
        stored = read_entry(entry.path, entry.key)
        state, values = "sound", dict(stored.values)
        files = {kind: len(payload) for kind, payload in stored.payloads.items()}
    except (OSError, DamagedEntryError) as error:
        state, values, files = f"damaged: {error}", {}, {}
    described = {**_as_data(entry), "state": state, "values": values, "payloads": files}
    if as_json:
        click.echo(json.dumps(described, indent=1))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _flattened(described):
        table.add_row(name, decimal(value) if name.startswith("payloads.") or name == "bytes" else str(value))
    console.print(table)


def purge_entries(found: Contents, names: tuple[str, ...], console: Console) -> None:
    """Removes the entries named by kernel or start of key; without names, all."""
    try:
        removed = [entry for entry in chosen(found, names) if remove(entry)] if names else purge(found.folder)
    except OSError as error:
        raise click.ClickException(f"{found.folder} cannot be purged: {error}") from error
    _print_removed(removed, console)


def set_limit(found: Contents, size: int | None, console: Console) -> None:
    """Cuts the cache to a size now; without one, says the limit and what is used."""
    if size is None:
        _print_total(found, console)
        return
    try:
        removed = trim(found.folder, size)
    except OSError as error:
        raise click.ClickException(f"{found.folder} cannot be cut: {error}") from error
    _print_removed(removed, console)
    if size != found.limit:
        console.print(
            f"The limit stays {decimal(found.limit)}; {knobs.CACHE_LIMIT.variable} changes it", highlight=False
        )


def chosen(found: Contents, names: tuple[str, ...], *, unique: bool = False) -> list[CachedEntry]:
    """The entries of the given kernels or key beginnings; a `click` error for a name that fits none, or several."""
    picked: dict[Path, CachedEntry] = {}
    for name in names:
        fitting = [entry for entry in found.entries if name == entry.kernel or entry.key.startswith(name)]
        if not fitting:
            raise click.ClickException(f"no entry in {found.folder} has a kernel {name!r} or a key that starts so")
        if unique and len(fitting) > 1:
            keys = ", ".join(entry.key[:SHOWN_KEY] for entry in fitting)
            raise click.ClickException(f"{name!r} fits {len(fitting)} entries: {keys}")
        picked |= {entry.path: entry for entry in fitting}
    return list(picked.values())


def _as_data(entry: CachedEntry) -> dict[str, Any]:
    used = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.used))
    return {"key": entry.key, **entry.about, "bytes": entry.bytes, "used": used, "path": str(entry.path)}


def _totals(found: Contents) -> dict[str, Any]:
    return {"folder": str(found.folder), "bytes": found.bytes, "limit": found.limit}


def _print_total(found: Contents, console: Console) -> None:
    count = _counted(found.entries)
    used = f"{decimal(found.bytes)} of at most {decimal(found.limit)}"
    console.print(f"{count}, {used} in {found.folder}", highlight=False, soft_wrap=True)


def _counted(entries: list[CachedEntry]) -> str:
    return f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}"


def _print_removed(removed: list[CachedEntry], console: Console) -> None:
    console.print(f"removed {_counted(removed)}, {decimal(sum(entry.bytes for entry in removed))}", highlight=False)


def _age(used: float) -> str:
    """How long ago, in the largest unit that gives at least one."""
    age = max(0.0, time.time() - used)
    for seconds, unit in AGES:
        if age >= seconds:
            return f"{age / seconds:.0f} {unit} ago"
    return "now"


def _flattened(value: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, item in value.items():
        if isinstance(item, dict):
            rows += _flattened(item, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", item))
    return rows
