"""Looking at the disk cache and keeping it small.

Only what the cache itself wrote is ever touched: folders named by a key, and its temporary files. An entry is renamed
before it is deleted, so that others see it whole or not at all.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KEY = re.compile(r"[0-9a-f]{64}")
WRITING, REMOVED, STAMP = ".writing-", ".removed-", ".trimmed"
METADATA = "metadata.json"
PERIOD_SECONDS = 3600
SHARE_KEPT = 0.9
METADATA_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class CachedEntry:
    """An entry as it lies there, sound or not: `bytes` of all its files, `used` in seconds since the epoch.

    `about` says what was compiled, and is empty where the metadata cannot be read.
    """

    path: Path
    bytes: int
    used: float
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key, which is the folder's name."""
        return self.path.name

    @property
    def kernel(self) -> str:
        """The kernel's name; `?` where it is not known."""
        return str(self.about.get("kernel", "?"))


def survey(folder: Path) -> list[CachedEntry]:
    """Every entry below a cache's folder, the one used last first; none where there is no folder."""
    try:
        paths = [path for path in folder.iterdir() if KEY.fullmatch(path.name)]
    except FileNotFoundError:
        return []
    found = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # removed by another process
            found.append(_look_at(path))
    return sorted(found, key=lambda entry: -entry.used)


def _look_at(path: Path) -> CachedEntry:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return CachedEntry(path, status.st_size, status.st_mtime)
    total, used = 0, status.st_mtime
    for file in path.rglob("*"):
        file_status = file.lstat()
        total += file_status.st_size
        if file == path / METADATA:
            used = file_status.st_mtime
    return CachedEntry(path, total, used, _about(path / METADATA))


def _about(path: Path) -> dict[str, Any]:
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > METADATA_LIMIT:
            return {}
        metadata = json.loads(path.read_bytes())
        about = metadata.get("about") if isinstance(metadata, dict) else None
        return about if isinstance(about, dict) else {}
    except (OSError, ValueError, RecursionError):
        return {}


def remove(entry: CachedEntry) -> bool:
    """Removes an entry; whether it was there. `OSError` where it cannot be."""
    grave = entry.path.with_name(f"{REMOVED}{secrets.token_hex(8)}")
    try:
        entry.path.rename(grave)
    except FileNotFoundError:
        return False
    _delete(grave)
    return True


def purge(folder: Path) -> list[CachedEntry]:
    """Removes every entry, and what interrupted processes left behind; gives the entries removed."""
    removed = [entry for entry in survey(folder) if remove(entry)]
    _sweep(folder, older_than=0)
    return removed


def trim(folder: Path, limit: int) -> list[CachedEntry]:
    """Removes the least recently used entries of a cache larger than `limit` bytes, until nine tenths of that are left.

    Gives the entries removed. What interrupted processes left behind goes too, once it is an hour old.
    """
    _stamp(folder)
    _sweep(folder, older_than=PERIOD_SECONDS)
    entries = survey(folder)
    total = sum(entry.bytes for entry in entries)
    removed: list[CachedEntry] = []
    if total <= limit:
        return removed
    for entry in reversed(entries):
        if total <= SHARE_KEPT * limit:
            break
        if remove(entry):
            removed.append(entry)
        total -= entry.bytes
    return removed


def is_due(folder: Path) -> bool:
    """Whether nobody has trimmed the cache for an hour."""
    try:
        return abs(time.time() - (folder / STAMP).lstat().st_mtime) > PERIOD_SECONDS
    except OSError:
        return True


def _stamp(folder: Path) -> None:
    path = folder / STAMP
    with contextlib.suppress(OSError):
        if path.is_symlink() or path.exists():
            _delete(path)
        path.touch(mode=0o600, exist_ok=False)


def _sweep(folder: Path, older_than: float) -> None:
    """Deletes entries half removed and files half written of at least that age in seconds."""
    latest = time.time() - older_than
    for pattern in (f"{REMOVED}*", f"*/{WRITING}*"):
        for path in folder.glob(pattern):
            with contextlib.suppress(OSError):
                is_ours = pattern.startswith(REMOVED) or KEY.fullmatch(path.parent.name)
                if is_ours and path.lstat().st_mtime <= latest:
                    _delete(path)


def _delete(path: Path) -> None:
    if stat.S_ISDIR(path.lstat().st_mode):
        shutil.rmtree(path)
    else:
        path.unlink()
