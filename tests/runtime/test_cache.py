"""The disk cache: what is in its keys, and that nothing that happens to its files is fatal or believed."""

from __future__ import annotations

import concurrent.futures
import errno
import importlib.util
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import glueball
import glueball.language as gl
from glueball.runtime import cache, cache_upkeep, compiler
from glueball.runtime.cache import DiskCache
from glueball.runtime.compiler import CompilationRequest
from glueball.runtime.machine_code import MachineCode, assembler
from glueball.runtime.options import LaunchOptions
from glueball.runtime.specialization import ArgumentSpec, specialize
from glueball.targets import target_named
from glueball.tile.types import pointer_type

KEY = "0" * 64
VALUES = {"registers": 16, "spilled_bytes": None, "shared_bytes": 0}
PAYLOADS = {"binary": bytes(range(256)) * 16, "assembly": b"text"}

MODULE = """
import glueball
import glueball.language as gl

OFFSET: gl.constexpr = gl.constexpr(4)
UNUSED: gl.constexpr = gl.constexpr(5)

@glueball.constexpr_function
def doubled(n):
    return 2 * n

@glueball.jit
def inner(x):
    return x + OFFSET

@glueball.jit
def outer(x):
    return inner(x) * doubled(3)

@glueball.jit
def unrelated(x):
    return x

def make(step):
    @glueball.jit
    def kernel(x, y, n, mode: gl.constexpr):
        gl.store(y + n, outer(gl.load(x + n)) + step)
    return kernel

kernel = make(gl.constexpr(7))
"""

loaded_modules = iter(range(10**6))


def load(text: str, folder: Path, name: str = "kernels.py") -> ModuleType:
    """The module of a text, from a file of its own."""
    place = folder / str(next(loaded_modules))
    place.mkdir()
    (place / name).write_text(text)
    spec = importlib.util.spec_from_file_location("kernels", place / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def key(
    folder: Path,
    text: str = MODULE,
    *,
    name: str = "kernels.py",
    target: str = "sm_90a",
    arguments: tuple[Any, ...] = (),
    mode: Any = 0,
    **options: Any,
) -> str:
    kernel = load(text, folder, name).kernel
    given = arguments or (ArgumentSpec(pointer_type(gl.float32)), ArgumentSpec(pointer_type(gl.float32)), 5)
    bound = dict(zip(kernel.rules, (*given, mode), strict=True))
    specialization = specialize(kernel.rules, bound).without_values()
    request = CompilationRequest(kernel, specialization, LaunchOptions(**options), target_named(target), "kernel")
    found = request.cache_key()
    assert found is not None
    return found


def edited(old: str, new: str) -> str:
    assert MODULE.count(old) == 1
    return MODULE.replace(old, new)


POINTER = ArgumentSpec(pointer_type(gl.float32))
MUST_CHANGE: dict[str, dict[str, Any]] = {
    "the body": {"text": edited("gl.store(y + n,", "gl.store(y + n + 0,")},
    "a comment in the body": {"text": edited("    return kernel", "        # note\n    return kernel")},
    "its line, which the line table has": {"text": "\n" + MODULE},
    "the file's name": {"name": "others.py"},
    "a callee": {"text": edited("inner(x) * doubled(3)", "inner(x) * doubled(4)")},
    "a callee of a callee": {"text": edited("return x + OFFSET", "return x - OFFSET")},
    "a constant that a callee's callee uses": {"text": edited("gl.constexpr(4)", "gl.constexpr(8)")},
    "the type of a constant": {"text": edited("gl.constexpr(4)", "gl.constexpr(4.0)")},
    "a compile-time function": {"text": edited("2 * n", "3 * n")},
    "a captured constant": {"text": edited("make(gl.constexpr(7))", "make(gl.constexpr(9))")},
    "the element type": {"arguments": (ArgumentSpec(pointer_type(gl.float16)), POINTER, 5)},
    "alignment": {"arguments": (ArgumentSpec(pointer_type(gl.float32), 16), POINTER, 5)},
    "divisibility": {"arguments": (POINTER, POINTER, 16)},
    "the value 1": {"arguments": (POINTER, POINTER, 1)},
    "the width of an integer": {"arguments": (POINTER, POINTER, 2**40 + 1)},
    "None": {"arguments": (POINTER, None, 5)},
    "True instead of 1": {"arguments": (POINTER, POINTER, True)},
    "a compile-time argument": {"mode": 1},
    "the type of a compile-time argument": {"mode": False},
    "a layout": {"mode": gl.BlockedLayout([1], [32], [4], [0])},
    "another layout": {"mode": gl.BlockedLayout([2], [32], [4], [0])},
    "warps": {"num_warps": 8},
    "the register cap": {"maxnreg": 64},
    "the target": {"target": "sm_100a"},
    "the vendor": {"target": "gfx950"},
}
MUST_NOT_CHANGE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "an unused constant": {"text": edited("gl.constexpr(5)", "gl.constexpr(6)")},
    "an unused function": {"text": edited("def unrelated(x):\n    return x", "def unrelated(x):\n    return -x")},
    "the value of an integer": {"arguments": (POINTER, POINTER, 7)},
    "options without effect": {"num_stages": 1, "enable_fp_fusion": True},
}


@pytest.mark.parametrize("what", MUST_NOT_CHANGE)
def test_key_does_not_depend_on(what: str, tmp_path: Path) -> None:
    assert key(tmp_path, **MUST_NOT_CHANGE[what]) == key(tmp_path)


def test_key_depends_on_everything_that_changes_code(tmp_path: Path) -> None:
    found = {what: key(tmp_path, **change) for what, change in MUST_CHANGE.items()}
    found["nothing"] = key(tmp_path)
    by_key: dict[str, list[str]] = {}
    for what, text in found.items():
        by_key.setdefault(text, []).append(what)
    assert [group for group in by_key.values() if len(group) > 1] == []


@pytest.mark.parametrize("part", ["glueball", "python", "llvm", "llvmlite", "assembler"])
def test_key_depends_on_the_toolchain(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(tmp_path)
    tools = compiler.toolchain(target_named("sm_90a"))
    assert set(tools) == {"glueball", "python", "llvm", "llvmlite", "assembler"}
    monkeypatch.setattr(compiler, "toolchain", lambda _: {**tools, part: "other"})
    assert key(tmp_path) != before


def test_source_hash_covers_the_text_of_every_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hashed() -> str:
        cache.source_hash.cache_clear()
        return cache.source_hash()

    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "module.py").write_text("x = 1")
    (tmp_path / "data.txt").write_text("1")
    monkeypatch.setattr(cache.resources, "files", lambda _: tmp_path)
    try:
        first = hashed()
        (tmp_path / "data.txt").write_text("2")
        assert hashed() == first
        (tmp_path / "folder" / "module.py").write_text("x = 2")
        second = hashed()
        (tmp_path / "folder" / "module.py").rename(tmp_path / "module.py")
        assert len({first, second, hashed()}) == 3
    finally:
        cache.source_hash.cache_clear()


def test_values_without_a_lasting_text_are_not_cached_on_disk(tmp_path: Path) -> None:
    class Local:
        pass

    kernel = load(MODULE, tmp_path).kernel
    bound = dict(zip(kernel.rules, (POINTER, POINTER, 5, Local()), strict=True))
    request = CompilationRequest(
        kernel, specialize(kernel.rules, bound), LaunchOptions(), target_named("sm_90a"), "kernel"
    )
    assert request.cache_key() is None


def entry_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != cache_upkeep.STAMP)


def stored(folder: Path) -> DiskCache:
    disk = DiskCache(folder)
    disk.store(KEY, VALUES, PAYLOADS)
    return disk


def test_what_is_stored_is_loaded(tmp_path: Path) -> None:
    stored(tmp_path / "cache")
    found = DiskCache(tmp_path / "cache").load(KEY)
    assert found is not None
    assert (found.values, found.payloads) == (VALUES, PAYLOADS)
    assert DiskCache(tmp_path / "cache").load("1" * 64) is None
    assert len(entry_files(tmp_path / "cache")) == 3


def rewrite_metadata(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def damage(entry: Path) -> None:
        metadata = json.loads((entry / "metadata.json").read_text())
        change(metadata)
        (entry / "metadata.json").write_text(json.dumps(metadata))

    return damage


def rewrite_payloads(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    return rewrite_metadata(lambda metadata: change(metadata["payloads"]))


def _cut(index: int, size: int) -> Callable[[Path], None]:
    return lambda entry: os.truncate(entry_files(entry)[index], size)


def _replace_by(make: Callable[[Path], None], index: int = 2) -> Callable[[Path], None]:
    def damage(entry: Path) -> None:
        path = entry_files(entry)[index]
        path.unlink()
        make(path)

    return damage


def _flip(entry: Path) -> None:
    path = next(entry.glob("*.binary"))
    path.write_bytes(b"\xff" + path.read_bytes()[1:])


def _folder_for_payload(entry: Path) -> None:
    path = next(entry.glob("*.binary"))
    path.unlink()
    (path / "inner").mkdir(parents=True)


def _pipe_for_entry(entry: Path) -> None:
    shutil.rmtree(entry)
    os.mkfifo(entry)


def _move_away(entry: Path) -> None:
    entry.rename(entry.with_name("elsewhere"))
    entry.symlink_to(entry.with_name("elsewhere"))


DAMAGE: dict[str, Callable[[Path], None]] = {
    **{f"file {index} cut to {size}": _cut(index, size) for index in range(3) for size in (0, 1, 3)},
    **{f"file {index} deleted": _replace_by(lambda _: None, index) for index in range(3)},
    "a changed byte": _flip,
    "no JSON": lambda entry: (entry / "metadata.json").write_bytes(b"\x80\x04pickled") and None,
    "deep JSON": lambda entry: (entry / "metadata.json").write_text("[" * 100_000) and None,
    "JSON of another kind": lambda entry: (entry / "metadata.json").write_text("[]") and None,
    "huge metadata": lambda entry: os.truncate(entry / "metadata.json", cache.METADATA_LIMIT + 1),
    "a huge number": lambda entry: (entry / "metadata.json").write_text("9" * 10_000) and None,
    "another key": rewrite_metadata(lambda metadata: metadata.update(key="1" * 64)),
    "another format": rewrite_metadata(lambda metadata: metadata.update(format=0)),
    "a path as hash": rewrite_payloads(lambda payloads: payloads["binary"].update(sha256="../" * 20 + "etc/")),
    "a path as kind": rewrite_payloads(lambda payloads: payloads.update({"../x": {"sha256": KEY, "bytes": 1}})),
    "a negative size": rewrite_payloads(lambda payloads: payloads["binary"].update(bytes=-1)),
    "a link as metadata": _replace_by(lambda path: path.symlink_to("/etc/passwd")),
    "a pipe as metadata": _replace_by(os.mkfifo),
    "a folder as metadata": _replace_by(lambda path: path.mkdir()),
    "a full folder as metadata": _replace_by(lambda path: (path / "inner").mkdir(parents=True)),
    "a file anyone may write": lambda entry: next(entry.glob("*.binary")).chmod(0o666),
    "a link as entry": _move_away,
    "a pipe as entry": _pipe_for_entry,
    "a folder as payload": _folder_for_payload,
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_entries_are_misses_and_are_rebuilt(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored(tmp_path)
    DAMAGE[what](tmp_path / KEY)
    disk = DiskCache(tmp_path)
    assert disk.load(KEY) is None
    assert disk.load(KEY) is None
    disk.store(KEY, VALUES, PAYLOADS)
    assert len(caplog.records) <= 1
    found = disk.load(KEY)
    assert found is not None
    assert found.payloads == PAYLOADS


def test_entry_with_sound_files_and_senseless_values_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path))
    code = MachineCode("text", b"code", 8, None, 16, 4)
    code.store(KEY)
    assert MachineCode.load(KEY) == code
    values = {**VALUES, "warps": 4, "global_scratch_bytes": 0}
    cache.disk_cache().store(KEY, values, PAYLOADS)
    assert MachineCode.load(KEY) is not None
    cache.disk_cache().store(KEY, {**values, "registers": "many"}, PAYLOADS)
    assert MachineCode.load(KEY) is None
    cache.disk_cache().store(KEY, values, {"binary": b""})
    assert MachineCode.load(KEY) is None


def test_folder_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    disk = DiskCache(tmp_path / "file" / "cache")
    for _ in range(3):
        disk.store(KEY, VALUES, PAYLOADS)
        assert disk.load(KEY) is None
    assert len(caplog.records) == 1


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    disk = DiskCache(tmp_path)
    monkeypatch.setattr(Path, "replace", full)
    disk.store(KEY, VALUES, PAYLOADS)
    disk.store("1" * 64, VALUES, PAYLOADS)
    assert disk.load(KEY) is None
    assert entry_files(tmp_path) == []
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_folder_deleted_midway(tmp_path: Path) -> None:
    disk = stored(tmp_path / "cache")
    shutil.rmtree(tmp_path / "cache")
    assert disk.load(KEY) is None
    disk.store(KEY, VALUES, PAYLOADS)
    assert disk.load(KEY) is not None


def _store_and_load(folder: Path, worker: int) -> int:
    """How many of a worker's loads are neither a miss nor what somebody stored: none may be."""
    disk, wrong = DiskCache(folder), 0
    for step in range(40):
        name = f"{step % 4:064d}"
        disk.store(name, {"worker": worker}, {"binary": bytes([worker]) * 5000})
        found = disk.load(name)
        wrong += found is not None and found.payloads["binary"] != bytes([found.values["worker"]]) * 5000
        wrong += found is None
    return wrong


def test_many_processes(tmp_path: Path) -> None:
    with concurrent.futures.ProcessPoolExecutor(4) as pool:
        assert list(pool.map(_store_and_load, [tmp_path] * 4, range(4))) == [0] * 4


COMPILE = """
import sys
import glueball
from kernels import kernel
found = glueball.compile_only(kernel, "*fp32", "*fp32", 5, 0, target="sm_90a")
print(len(found.asm["cubin"]), found.n_regs, "thread" in vars(found._pipeline))
"""


def test_second_process_finds_what_the_first_compiled(tmp_path: Path) -> None:
    if not assembler(target_named("sm_90a")):
        pytest.skip("no assembler for PTX is installed")
    (tmp_path / "kernels.py").write_text(MODULE)

    def run() -> list[str]:
        environment = {
            **os.environ,
            "GLUEBALL_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        done = subprocess.run(
            [sys.executable, "-c", COMPILE], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    first, second = run(), run()
    assert first[:2] == second[:2]
    assert (first[2], second[2]) == ("True", "False")
    (tmp_path / "kernels.py").write_text(edited("2 * n", "4 * n"))
    assert run()[2] == "True"


def test_always_compile_ignores_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not assembler(target_named("sm_90a")):
        pytest.skip("no assembler for PTX is installed")
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path / "cache"))

    def built() -> bool:
        kernel = load(MODULE, tmp_path).kernel
        return "thread" in vars(glueball.compile_only(kernel, "*fp32", "*fp32", 5, 0, target="sm_90a")._pipeline)

    assert [built(), built()] == [True, False]
    monkeypatch.setenv("GLUEBALL_ALWAYS_COMPILE", "1")
    assert built()
