"""Keeping the cache small: what is removed when, and what is left alone."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from glueball.runtime import cache_upkeep
from glueball.runtime.cache import DiskCache
from glueball.runtime.cache_upkeep import REMOVED, STAMP, WRITING, is_due, purge, survey, trim

KEY = "c" * 64
HOUR = cache_upkeep.PERIOD_SECONDS


def aged(path: Path, seconds: float) -> Path:
    os.utime(path, (time.time() - seconds,) * 2, follow_symlinks=False)
    return path


def test_trimming_is_due_once_an_hour(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path)
    assert is_due(tmp_path)
    disk.store(KEY, {}, {"binary": b"code"})
    assert not is_due(tmp_path)
    for age in (HOUR + 5, -HOUR - 5):
        aged(tmp_path / STAMP, age)
        assert is_due(tmp_path)
        disk.store(KEY, {}, {"binary": b"code"})
        assert not is_due(tmp_path)


@pytest.mark.parametrize("hostile", ["folder", "link"])
def test_a_hostile_stamp_is_replaced(hostile: str, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "precious").write_text("kept")
    stamp = tmp_path / "cache" / STAMP
    if hostile == "folder":
        (stamp / "inner").mkdir(parents=True)
    else:
        stamp.symlink_to(tmp_path / "precious")
    trim(tmp_path / "cache", 10**9)
    assert stamp.is_file()
    assert not stamp.is_symlink()
    assert (tmp_path / "precious").read_text() == "kept"


def test_what_dead_processes_left_goes_after_an_hour(tmp_path: Path) -> None:
    DiskCache(tmp_path).store(KEY, {}, {"binary": b"code"})
    old = [tmp_path / f"{REMOVED}1", tmp_path / KEY / f"{WRITING}1"]
    young = [tmp_path / f"{REMOVED}2", tmp_path / KEY / f"{WRITING}2"]
    foreign = [tmp_path / "other" / f"{WRITING}3"]
    (tmp_path / "other").mkdir()
    for path in (*old, *young, *foreign):
        path.write_text("half")
    for path in (*old, *foreign):
        aged(path, HOUR + 5)
    trim(tmp_path, 10**9)
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in (*young, *foreign))
    assert [entry.key for entry in purge(tmp_path)] == [KEY]
    assert not any(path.exists() for path in young)
    assert foreign[0].exists()


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(bytes(1000))
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / KEY).symlink_to(outside)
    (folder / ("d" * 64)).mkdir()
    (folder / ("d" * 64) / "inner").symlink_to(outside)
    assert all(entry.bytes < 1000 for entry in survey(folder))
    assert len(purge(folder)) == 2
    assert (outside / "file").exists()


def test_an_entry_removed_by_another_is_no_error(tmp_path: Path) -> None:
    DiskCache(tmp_path).store(KEY, {}, {"binary": b"code"})
    (entry,) = survey(tmp_path)
    assert cache_upkeep.remove(entry)
    assert not cache_upkeep.remove(entry)
    assert trim(tmp_path, 0) == []


def test_metadata_that_says_nothing(tmp_path: Path) -> None:
    for index, text in enumerate(("[" * 100_000, "[]", '{"about": 5}', "\x80")):
        folder = tmp_path / f"{index:064d}"
        folder.mkdir()
        (folder / "metadata.json").write_text(text, encoding="latin-1")
    assert [entry.kernel for entry in survey(tmp_path)] == ["?"] * 4
