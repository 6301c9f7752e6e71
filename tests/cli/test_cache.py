"""`glueball cache`: entries listed, shown, purged and cut to a size."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from glueball import knobs
from glueball.cli.commands import commands
from glueball.runtime import cache_upkeep
from glueball.runtime.cache import DiskCache
from glueball.runtime.cache_upkeep import survey

VALUES = {"registers": 16, "spilled_bytes": 0, "shared_bytes": 0}


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Three kernels of 10,000 bytes: `newest`, then `middle`, then `oldest`, used an hour apart; and foreign files."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(folder))
    disk = DiskCache(folder)
    for age, name in enumerate(("newest", "middle", "oldest")):
        key = f"{age}{'a' * 63}"
        disk.store(
            key, VALUES, {"binary": bytes(10_000)}, {"kernel": name, "target": "sm_90a", "options": {"warps": 4}}
        )
        used = time.time() - 3600 * age - 10
        os.utime(folder / key / "metadata.json", (used, used))
    (folder / "letters.txt").write_text("mine")
    (folder / "documents").mkdir()
    return folder


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner(env={"COLUMNS": "200", **environment}).invoke(commands, ["cache", *arguments])


def names(folder: Path) -> list[str]:
    return [entry.kernel for entry in survey(folder)]


def test_list_shows_sizes_and_ages(folder: Path) -> None:
    result = run("list")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].split() == ["key", "kernel", "target", "size", "used"]
    assert lines[1].split()[:3] == ["0aaaaaaaaaaa", "newest", "sm_90a"]
    assert [line.split()[-3:] for line in lines[1:4]] == [["10", "s", "ago"], ["1", "h", "ago"], ["2", "h", "ago"]]
    assert lines[1].split()[3:5] == ["10.4", "kB"]
    assert lines[4] == f"3 entries, 31.2 kB of at most 4.0 GB in {folder}"


def test_results_of_tuning_are_marked(folder: Path) -> None:
    DiskCache(folder).store(
        "f" * 64, {"timings": [1.0]}, {}, {"kernel": "newest", "target": "sm_90a", "tuned": "BLOCK: 64"}
    )
    assert "newest (tuning)" in run("list").output.splitlines()[1]
    assert json.loads(run("show", "ff", "--json").output)["tuned"] == "BLOCK: 64"


def test_list_as_json(folder: Path) -> None:
    found = json.loads(run("list", "--json", GLUEBALL_CACHE_LIMIT="2GiB").output)
    assert found["limit"] == 2 << 30
    assert found["bytes"] == sum(entry["bytes"] for entry in found["entries"])
    first = found["entries"][0]
    assert (first["kernel"], first["target"], first["options"]) == ("newest", "sm_90a", {"warps": 4})
    assert Path(first["path"]) == folder / first["key"]


def test_an_empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path / "none"))
    assert run("list").output.startswith("0 entries, 0 bytes of at most 4.0 GB")
    assert run("purge").output == "removed 0 entries, 0 bytes\n"
    assert not (tmp_path / "none").exists()


def test_show_says_whether_an_entry_is_sound(folder: Path) -> None:
    shown = run("show", "newest").output
    assert "sound" in shown
    assert "10.0 kB" in shown
    described = json.loads(run("show", "0a", "--json").output)
    assert (described["state"], described["payloads"]) == ("sound", {"binary": 10_000})
    binary = next(folder.glob("0*/*.binary"))
    binary.write_bytes(b"x" * 10_000)
    assert (
        json.loads(run("show", "0a", "--json").output)["state"] == "damaged: the binary does not have the stored hash"
    )


def test_names_that_fit_nothing_or_too_much(folder: Path) -> None:
    assert "has a kernel 'nobody'" in run("show", "nobody").output
    assert "has a kernel 'nobody'" in run("purge", "newest", "nobody").output
    DiskCache(folder).store("b" * 64, VALUES, {}, {"kernel": "newest"})
    assert "'newest' fits 2 entries" in run("show", "newest").output
    assert len(names(folder)) == 4


def test_purge_removes_what_is_named_and_nothing_of_others(folder: Path) -> None:
    assert run("purge", "middle", "0a").output == "removed 2 entries, 20.8 kB\n"
    assert names(folder) == ["oldest"]
    (folder / f"{cache_upkeep.REMOVED}0123" / "half").mkdir(parents=True)
    assert run("purge").exit_code == 0
    assert names(folder) == []
    assert sorted(path.name for path in folder.iterdir()) == [cache_upkeep.STAMP, "documents", "letters.txt"]


def test_limit_removes_the_least_recently_used(folder: Path) -> None:
    assert run("limit").output == f"3 entries, 31.2 kB of at most 4.0 GB in {folder}\n"
    result = run("limit", "25kB").output.splitlines()
    assert result == ["removed 1 entry, 10.4 kB", "The limit stays 4.0 GB; GLUEBALL_CACHE_LIMIT changes it"]
    assert names(folder) == ["newest", "middle"]
    assert DiskCache(folder).load(f"1{'a' * 63}") is not None, "a load is a use"
    assert run("limit", "15kB").exit_code == 0
    assert names(folder) == ["middle"]


@pytest.mark.parametrize("size", ["", "many", "-1GB", "1XB", "1.2.3MB", "GB"])
def test_sizes_that_are_none(size: str) -> None:
    result = run("limit", "--", size)
    assert result.exit_code == 2
    assert "such as 500MB, 2GB or 4GiB" in result.output


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("17", 17), ("500MB", 500_000_000), ("1.5 kB", 1500), ("4GiB", 4 << 30), ("2g", 2_000_000_000),
     ("1tb", 10**12), ("8 B", 8)],
)  # fmt: skip
def test_sizes(text: str, expected: int) -> None:
    assert knobs.parse_size(text) == expected


def test_the_knob_keeps_a_cache_small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLUEBALL_CACHE_LIMIT", "100kB")
    disk = DiskCache(tmp_path)
    for index in range(40):
        disk.store(f"{index:064x}", VALUES, {"binary": bytes([index]) * 5000})
        used = time.time() - 1000 + index
        os.utime(tmp_path / f"{index:064x}" / "metadata.json", (used, used))
    left = survey(tmp_path)
    assert sum(entry.bytes for entry in left) <= 112_500
    assert left[0].key == f"{39:064x}"
    assert [int(entry.key, 16) for entry in left] == list(range(39, 39 - len(left), -1))


def test_a_limit_that_means_nothing_names_the_variable(folder: Path) -> None:
    result = run("list", GLUEBALL_CACHE_LIMIT="plenty")
    assert result.exit_code == 1
    assert "GLUEBALL_CACHE_LIMIT='plenty': expected a size such as" in result.output


def test_a_folder_that_cannot_be_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "rename", read_only)
    for arguments in (("purge",), ("purge", "newest"), ("limit", "1kB")):
        result = run(*arguments)
        assert result.exit_code == 1
        assert "Read-only file system" in result.output
    assert len(names(folder)) == 3
