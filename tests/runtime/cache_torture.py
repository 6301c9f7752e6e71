"""Processes that compile into one cache folder while others purge it, cut it and put hostile files into it.

`python -m tests.runtime.cache_torture worker FOLDER INDEX ...` is one process; `torture` starts them all.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import json
import logging
import os
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import glueball
from glueball.runtime import cache_upkeep

REPOSITORY = Path(__file__).parent.parent.parent
TARGET = "sm_90a"
FAULTS = ("none", "none", "none", "none", "none", "read-only", "full", "small files")
KILLED_OF = 4
"""One process of so many is killed at a random moment."""

LIMIT_SECONDS = 900

KERNEL = """
@glueball.jit
def kernel_{index}(x, y, n):
    offsets = gl.program_id(0) * 128 + gl.arange(0, 128, layout=gl.BlockedLayout([1], [32], [4], [0]))
    value = gl.load(x + offsets, mask=offsets < n, other=0.0)
    gl.store(y + offsets, value * {index}.0 + {index}.5, mask=offsets < n)
"""


@dataclass
class Summary:
    """What happened: `wrong` and `errors` must be empty."""

    processes: int
    kernels: int
    seconds: float = 0.0
    compiled: int = 0
    loaded: int = 0
    killed: int = 0
    warnings: int = 0
    attacks: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def write_kernels(folder: Path, count: int) -> Path:
    """A module of that many kernels."""
    path = folder / "kernels.py"
    bodies = "\n".join(KERNEL.format(index=index) for index in range(count))
    path.write_text(f"import glueball\nimport glueball.language as gl\n{bodies}")
    return path


def load_kernels(path: Path) -> list[Any]:
    specification = importlib.util.spec_from_file_location("kernels", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    count = sum(name.startswith("kernel_") for name in vars(module))
    return [getattr(module, f"kernel_{index}") for index in range(count)]


def compiled_hash(kernel: Any) -> tuple[str, bool]:
    """The SHA-256 of a kernel's machine code and assembly, and whether this process compiled it."""
    made = glueball.compile_only(kernel, "*fp32", "*fp32", 1000, target=TARGET)
    digest = hashlib.sha256(made.machine_code.binary + made.machine_code.assembly.encode()).hexdigest()
    return digest, "thread" in vars(made._pipeline)


def inject(fault: str, generator: random.Random) -> None:
    """Makes this process's writes fail as they do in a folder that is read-only, on a full disk, or past a limit."""
    if fault == "read-only":

        def refuse(*_: Any, **__: Any) -> Any:
            raise OSError(errno.EROFS, "Read-only file system")

        tempfile.mkstemp = os.utime = os.mkdir = refuse  # type: ignore[assignment]
    elif fault == "full":
        plain = os.fdopen

        def fdopen(descriptor: int, mode: str = "r", *rest: Any, **options: Any) -> Any:
            file = plain(descriptor, mode, *rest, **options)
            return Full(file) if "w" in mode and generator.random() < 0.5 else file

        os.fdopen = fdopen  # type: ignore[assignment]
    elif fault == "small files":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2500, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


class Full:
    """A file on a disk that has room for half of what is written."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __enter__(self) -> Full:
        return self

    def __exit__(self, *_: Any) -> None:
        self.file.close()

    def write(self, data: bytes) -> None:
        self.file.write(data[: len(data) // 2])
        self.file.flush()
        raise OSError(errno.ENOSPC, "No space left on device")


def work(kernels: Path, expected: Path, index: int, fault: str) -> None:
    """Compiles every kernel in an order of its own and prints what was found, as JSON."""
    generator = random.Random(index)
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logging.getLogger("glueball").addHandler(handler)
    wanted = json.loads(expected.read_text())
    inject(fault, generator)
    functions = list(enumerate(load_kernels(kernels)))
    generator.shuffle(functions)
    found = {"compiled": 0, "loaded": 0, "wrong": []}
    for number, function in functions:
        digest, built = compiled_hash(function)
        found["compiled" if built else "loaded"] += 1
        if digest != wanted[number]:
            found["wrong"].append(f"process {index}, kernel {number}")
    found["warnings"] = [record.getMessage() for record in records]
    print(json.dumps(found))


def attack(folder: Path, kind: str, seed: int, stop: Path) -> None:
    """Purges, trims or damages the cache until the file `stop` appears; prints how often each was done."""
    generator, done = random.Random(seed), Counter[str]()
    while not stop.exists():
        try:
            if kind == "purge":
                done["entries purged"] += len(cache_upkeep.purge(folder))
                time.sleep(generator.uniform(0.5, 3.0))
            elif kind == "trim":
                done["entries trimmed"] += len(cache_upkeep.trim(folder, 60_000))
                time.sleep(generator.uniform(0.5, 2.0))
            else:
                name = generator.choice(CONTENT_DAMAGE if generator.random() < 0.8 else tuple(DAMAGE))
                paths = [path for path in folder.rglob("*") if path.name != cache_upkeep.STAMP]
                if name in CONTENT_DAMAGE:
                    paths = [path for path in paths if _is_plain(path)]
                DAMAGE[name](generator.choice(paths), generator)
                done[name] += 1
                time.sleep(0.005)
        except (OSError, shutil.Error, ValueError, IndexError):  # the file is gone, or is none: others are at work too
            continue
    print(json.dumps(done))


def _is_plain(path: Path) -> bool:
    """Whether a path is a file whose content can be read without waiting."""
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and 0 < status.st_size < 1 << 20


def _truncate(path: Path, generator: random.Random) -> None:
    os.truncate(path, generator.randrange(path.stat().st_size + 1))


def _flip(path: Path, generator: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
    path.write_bytes(data)


def _replace(path: Path, make: Callable[[Path], object]) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    make(path)


def _swap(path: Path, generator: random.Random) -> None:
    others = [other for other in path.parent.parent.rglob(f"*{path.suffix}") if other != path and _is_plain(other)]
    shutil.copyfile(generator.choice(others), path)


def _hostile_json(path: Path, generator: random.Random) -> None:
    texts = (
        "[" * 50_000,
        "{}",
        "null",
        '{"format": 1, "key": "x", "values": {}, "payloads": {"../../x": {}}}',
        "\x80\x04",
    )
    path.write_text(generator.choice(texts), encoding="latin-1")


CONTENT_DAMAGE = ("truncated", "bits flipped", "content of another entry", "hostile text", "writable by all")
DAMAGE: dict[str, Callable[[Path, random.Random], None]] = {
    "truncated": _truncate,
    "bits flipped": _flip,
    "content of another entry": _swap,
    "hostile text": _hostile_json,
    "link to a file": lambda path, _: _replace(path, lambda at: at.symlink_to("/etc/passwd")),
    "link to itself": lambda path, _: _replace(path, lambda at: at.symlink_to(at)),
    "folder": lambda path, _: _replace(path, lambda at: (at / "inner").mkdir(parents=True)),
    "pipe": lambda path, _: _replace(path, os.mkfifo),
    "huge file": lambda path, _: _replace(path, lambda at: (at.touch(), os.truncate(at, 1 << 32))),
    "writable by all": lambda path, _: path.chmod(0o666),
    "unreadable": lambda path, _: path.chmod(0),
    "deleted": lambda path, _: _replace(path, lambda _: None),
}


def _start(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "GLUEBALL_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("GLUEBALL_CACHE_LIMIT", None)
    command = [sys.executable, "-m", "tests.runtime.cache_torture", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _expected(folder: Path, kernels: Path) -> Path:
    """The hashes that are right, from a compilation without a cache."""
    path = folder / "expected.json"
    before = os.environ.get("GLUEBALL_ALWAYS_COMPILE")
    os.environ["GLUEBALL_ALWAYS_COMPILE"] = "1"
    try:
        hashes = [compiled_hash(function)[0] for function in load_kernels(kernels)]
    finally:
        os.environ.pop("GLUEBALL_ALWAYS_COMPILE")
        if before is not None:
            os.environ["GLUEBALL_ALWAYS_COMPILE"] = before
    path.write_text(json.dumps(hashes))
    return path


def torture(folder: Path, processes: int, kernel_count: int, seed: int = 0) -> Summary:
    """Runs it all, a quarter of the processes killed at a random moment and started again."""
    generator, start = random.Random(seed), time.perf_counter()
    kernels = write_kernels(folder, kernel_count)
    expected, stop, store = _expected(folder, kernels), folder / "stop", folder / "cache"
    summary = Summary(processes, kernel_count)
    attackers = [_start(folder, "attack", store, kind, number, stop)
                 for number, kind in enumerate(("purge", "trim", "damage", "damage"))]  # fmt: skip
    workers: dict[int, subprocess.Popen[str]] = {}
    deaths: dict[int, float] = {}
    for index in range(processes):
        workers[index] = _start(folder, "worker", kernels, expected, index, FAULTS[index % len(FAULTS)])
        if index % KILLED_OF == 0:
            deaths[index] = time.monotonic() + generator.uniform(0.3, 2 + processes)
    while deaths:
        time.sleep(0.02)
        for index, moment in list(deaths.items()):
            if time.monotonic() >= moment:
                del deaths[index]
                workers[index].kill()
                summary.killed += workers[index].wait() == -signal.SIGKILL
                workers[index].communicate()
                workers[index] = _start(folder, "worker", kernels, expected, index, FAULTS[index % len(FAULTS)])
    for index, worker in workers.items():
        _collect(summary, f"process {index}", worker)
    stop.touch()
    attacks = Counter[str]()
    for number, attacker in enumerate(attackers):
        output, errors = attacker.communicate(timeout=60)
        if attacker.returncode:
            summary.errors.append(f"attacker {number}: {errors[-2000:]}")
        else:
            attacks.update(json.loads(output))
    summary.attacks = dict(sorted(attacks.items()))
    _check_that_it_heals(summary, folder, kernels, expected)
    summary.seconds = round(time.perf_counter() - start, 1)
    return summary


def _collect(summary: Summary, name: str, worker: subprocess.Popen[str]) -> None:
    output, errors = worker.communicate(timeout=LIMIT_SECONDS)
    if worker.returncode or errors:
        summary.errors.append(f"{name}: exit {worker.returncode}: {errors[-2000:]}")
        return
    found = json.loads(output)
    summary.compiled += found["compiled"]
    summary.loaded += found["loaded"]
    summary.wrong += found["wrong"]
    summary.warnings += len(found["warnings"])
    if len(found["warnings"]) > 1:
        summary.errors.append(f"{name}: {len(found['warnings'])} warnings: {found['warnings'][:3]}")


def _check_that_it_heals(summary: Summary, folder: Path, kernels: Path, expected: Path) -> None:
    """After the attack one process mends what is damaged, and the next finds every kernel."""
    before = summary.loaded
    for name in ("mending process", "last process"):
        _collect(summary, name, _start(folder, "worker", kernels, expected, 0, "none"))
    if summary.loaded - before < summary.kernels:
        summary.errors.append("the last process did not find every kernel")


def main(kind: str, *arguments: str) -> None:
    if kind == "worker":
        kernels, expected, index, fault = arguments
        work(Path(kernels), Path(expected), int(index), fault)
    else:
        store, how, seed, stop = arguments
        attack(Path(store), how, int(seed), Path(stop))


def as_data(summary: Summary) -> dict[str, Any]:
    """The summary as JSON values."""
    return asdict(summary)


if __name__ == "__main__":
    main(*sys.argv[1:])
