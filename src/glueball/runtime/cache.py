"""The disk cache: machine code by the hash of everything that decided it.

An entry is a folder named by the SHA-256 of its key. It holds `metadata.json`, which names every payload with its size
and SHA-256, and the payloads, each in a file named by its own hash. Files are written beside their final place and
moved there, the metadata last, so that any number of processes may read, write and remove at once. What is damaged,
foreign or unreadable is a miss; nothing in the cache is ever executed on the host or unpickled, and no failure is
fatal. The time of `metadata.json` is that of the last use; `cache_upkeep` removes what was not used for longest.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from glueball import knobs
from glueball.runtime import cache_upkeep
from glueball.runtime.cache_upkeep import METADATA, METADATA_LIMIT

FORMAT = 1
WRITE_ATTEMPTS = 5
PAYLOAD_LIMIT = 1 << 30

logger = logging.getLogger("glueball")


@dataclass(frozen=True, slots=True)
class Entry:
    """What the cache holds for a key: JSON values, and payloads such as `cubin` by kind."""

    values: dict[str, Any]
    payloads: dict[str, bytes]


class DamagedEntryError(Exception):
    """An entry that is not what was stored."""


def hash_key(parts: Mapping[str, object]) -> str:
    """The SHA-256, in hexadecimal, of named parts; their values are JSON values."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class DiskCache:
    """The entries below one folder. The folder appears with the first entry; trouble is told once, as a log warning."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._warned = False
        self._stored = 0

    def load(self, key: str) -> Entry | None:
        """The entry of a key, or `None` where there is no sound one."""
        folder = self.folder / key
        try:
            entry = read_entry(folder, key)
        except FileNotFoundError:
            if folder.is_symlink():
                self._warn(f"ignored cache entry {folder}: a symbolic link")
        except (OSError, DamagedEntryError) as error:
            self._warn(f"ignored cache entry {folder}: {error}")
        else:
            with contextlib.suppress(OSError):
                os.utime(folder / METADATA)
            return entry
        return None

    def store(
        self,
        key: str,
        values: Mapping[str, Any],
        payloads: Mapping[str, bytes],
        about: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes an entry, over a damaged one too. `about` is for people who look at the cache."""
        try:
            for attempt in range(WRITE_ATTEMPTS):
                try:
                    _write_entry(self.folder / key, key, values, payloads, about or {})
                    break
                except FileNotFoundError:  # another process removed the folder meanwhile
                    if attempt == WRITE_ATTEMPTS - 1:
                        raise
            self._keep_small(sum(map(len, payloads.values())))
        except OSError as error:
            self._warn(f"cannot write the kernel cache {self.folder}: {error}; kernels are compiled in every process")

    def _keep_small(self, stored: int) -> None:
        """Removes what was not used for longest, once an hour and after every sixteenth of the limit stored here."""
        limit = knobs.CACHE_LIMIT.read()
        self._stored += stored
        if self._stored > limit // 16 or cache_upkeep.is_due(self.folder):
            self._stored = 0
            cache_upkeep.trim(self.folder, limit)

    def _warn(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("glueball: %s", message)


def disk_cache() -> DiskCache:
    """The cache that the knob or else the platform names."""
    folder = knobs.CACHE_DIR.read()
    if folder is None:
        import platformdirs

        folder = platformdirs.user_cache_path("glueball")
    return _cache_at(folder)


@functools.cache
def _cache_at(folder: Path) -> DiskCache:
    return DiskCache(folder)


def read_entry(folder: Path, key: str) -> Entry:
    """The entry in a folder, every hash checked. `DamagedEntryError` or `OSError` where it is not as it was stored."""
    if not stat.S_ISDIR(folder.lstat().st_mode):
        raise DamagedEntryError("not a folder")
    try:
        metadata = json.loads(_read(folder / METADATA, METADATA_LIMIT))
    except (ValueError, RecursionError) as error:
        raise DamagedEntryError(f"metadata.json is no JSON ({error})") from None
    match metadata:
        case {"format": int(version), "key": str(stored), "values": dict(values), "payloads": dict(described)}:
            if (version, stored) != (FORMAT, key):
                raise DamagedEntryError("metadata.json belongs to another key or format")
            return Entry(values, {kind: _read_payload(folder, kind, facts) for kind, facts in described.items()})
    raise DamagedEntryError("metadata.json lacks a field")


def _read_payload(folder: Path, kind: str, facts: object) -> bytes:
    match facts:
        case {"sha256": str(digest), "bytes": int(size)} if (
            kind.isidentifier() and len(digest) == 64 and set(digest) <= set("0123456789abcdef")
            and 0 <= size <= PAYLOAD_LIMIT
        ):  # fmt: skip
            try:
                payload = _read(folder / f"{digest}.{kind}", size)
            except FileNotFoundError:
                raise DamagedEntryError(f"the {kind} is missing") from None
            if len(payload) != size or hashlib.sha256(payload).hexdigest() != digest:
                raise DamagedEntryError(f"the {kind} does not have the stored hash")
            return payload
    raise DamagedEntryError(f"the description of the {kind!r} payload makes no sense")


def _read(path: Path, limit: int) -> bytes:
    """The bytes of a regular file that only this user or the administrator can have written."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise DamagedEntryError(f"{path.name} is not a regular file")
        if hasattr(os, "geteuid") and (status.st_uid not in (0, os.geteuid()) or status.st_mode & stat.S_IWOTH):
            raise DamagedEntryError(f"{path.name} may have been written by another user")
        if status.st_size > limit:
            raise DamagedEntryError(f"{path.name} is longer than it may be")
        return file.read(limit + 1)


def _write_entry(
    folder: Path, key: str, values: Mapping[str, Any], payloads: Mapping[str, bytes], about: Mapping[str, Any]
) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(folder.lstat().st_mode):
            folder.unlink()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    described = {}
    for kind, payload in payloads.items():
        digest = hashlib.sha256(payload).hexdigest()
        _write(folder / f"{digest}.{kind}", payload)
        described[kind] = {"sha256": digest, "bytes": len(payload)}
    metadata = {"format": FORMAT, "key": key, "about": dict(about), "values": dict(values), "payloads": described}
    _write(folder / METADATA, json.dumps(metadata, indent=1).encode())


def _write(path: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=cache_upkeep.WRITING, dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        if path.is_dir() and not path.is_symlink():  # what no file can be moved over
            shutil.rmtree(path)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@functools.cache
def source_hash() -> str:
    """The SHA-256 of glueball's own Python sources, read once per process."""
    digest = hashlib.sha256()
    _add_sources(digest, resources.files("glueball"), "")
    return digest.hexdigest()


def _add_sources(digest: Any, folder: Traversable, prefix: str) -> None:
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        name = f"{prefix}/{item.name}"
        if item.is_dir() and item.name != "__pycache__":
            _add_sources(digest, item, name)
        elif item.name.endswith(".py"):
            source = item.read_bytes()
            digest.update(f"{name}\0{len(source)}\0".encode())
            digest.update(source)
