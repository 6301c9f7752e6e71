"""Bundles: each is run in a process that knows nothing of the file it came from."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.language.nvidia.hopper import mbarrier, tma
from glueball.nvidia.hopper import TensorDescriptor
from glueball.runtime import repro
from glueball.runtime.repro import ReproError, memory
from glueball.runtime.tensor_wrapper import TensorWrapper
from tests.runtime import repro_kernels
from tests.runtime.repro_kernels import Mode, Shape, Tuning, expected, layout, make_kernel, make_step

SOURCES = Path(glueball.__file__).parent.parent


@pytest.fixture(autouse=True)
def on_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    monkeypatch.setenv("GLUEBALL_TARGET", "sm_90a")


def rerun(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GLUEBALL_", "PYTHON"))}
    environment["PYTHONPATH"] = str(SOURCES)
    return subprocess.run(
        [sys.executable, folder / "run.py", *arguments], cwd=folder.parent, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


def assert_reproduced(folder: Path, *, error: str | None = None) -> None:
    done = rerun(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last == (
        "reproduced: no error, and the same results bit by bit" if error is None else f"reproduced: {error}"
    )


@pytest.mark.parametrize("scaled", [True, False])
def test_a_kernel_with_helpers_closures_and_constants_runs_alone(scaled: bool, tmp_path: Path) -> None:
    kernel = make_kernel(gl.constexpr(7), make_step(gl.constexpr(5)))
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    mode = Mode.SCALED if scaled else Mode.PLAIN
    folder = kernel.save_repro(tmp_path, x, y, 100, mode, Tuning(11, ("a",)), layout(), grid=(2,), num_warps=2)
    np.testing.assert_array_equal(y, expected(x, scaled))
    assert folder.parent == tmp_path
    assert folder.name.startswith("kernel-")
    text = (folder / "kernel.py").read_text(encoding="utf-8")
    assert "repro_kernels import" not in text
    assert "do_not_specialize=['n']" in text
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["executor"], manifest["target"], manifest["outcome"]["error"]) == ("sim", "sm_90a", None)
    assert manifest["versions"]["glueball"] == glueball.__version__
    assert_reproduced(folder)
    assert_reproduced(shutil.move(folder, tmp_path / "elsewhere"))


def test_other_results_and_other_errors_are_told(tmp_path: Path) -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    folder = repro_kernels.launch.save_repro(tmp_path, x, y, Shape(3, 4), layout(), grid=1, num_warps=2)
    np.testing.assert_array_equal(y, 3 * x + 4)
    assert_reproduced(folder)
    source = folder / "kernel.py"
    text = source.read_text()
    source.write_text(text.replace("* shape.rows", "* shape.rows * 2"))
    done = rerun(folder)
    assert done.returncode == 1
    assert "no error, as recorded, but other results in memory 1" in done.stdout
    source.write_text(text.replace("gl.store(", "gl.stor("))
    done = rerun(folder)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("recorded: no error; now: ")


def test_errors_are_recorded_and_not_raised(tmp_path: Path) -> None:
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    folder = repro_kernels.overrun.save_repro(tmp_path, x, y, layout(), grid=1, num_warps=2)
    outcome = json.loads((folder / "manifest.json").read_text())["outcome"]
    assert outcome["error"] == "OutOfBoundsError"
    assert "`x`" in outcome["message"] or "x" in outcome["message"]
    assert_reproduced(folder, error="OutOfBoundsError")
    assert "Outcome: OutOfBoundsError" in (folder / "README.md").read_text()
    folder = repro_kernels.recursive.save_repro(tmp_path, x, layout(), grid=1, num_warps=2)
    error = json.loads((folder / "manifest.json").read_text())["outcome"]["error"]
    assert_reproduced(folder, error=error)


def test_an_archive(tmp_path: Path) -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    path = repro_kernels.launch.save_repro(tmp_path / "new" / "bug.zip", x, y, Shape(3, 4), layout(), num_warps=2)
    assert path == tmp_path / "new" / "bug.zip"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "unpacked")
    (folder,) = (tmp_path / "unpacked").iterdir()
    assert_reproduced(folder)


@glueball.jit
def add_one(x, y, n, spread: gl.constexpr):
    i = gl.arange(0, 64, layout=spread)
    gl.store(y + i, gl.load(x + i, mask=i < n, other=0) + 1, mask=i < n)


@glueball.jit
def copy(x, y, n, spread: gl.constexpr):
    i = gl.arange(0, 64, layout=spread)
    gl.store(y + i, gl.load(x + i, mask=i < n), mask=i < n)


def views(kind: Any) -> tuple[Any, Any]:
    if kind == "in place":
        x = np.arange(64, dtype=np.int32)
        return x, x
    if kind == "overlapping":
        base = np.arange(80, dtype=np.int32)
        return base[:64], base[16:]
    if kind == "unaligned":
        base = np.zeros(4 * 64 + 20, np.uint8)
        x = base[4 : 4 + 256].view(np.int32)
        return x, np.zeros(64, np.int32)
    if kind == "backwards":
        return np.arange(64, dtype=np.int32)[::-1], np.zeros(64, np.int32)
    if kind == "read-only":
        x = np.arange(64, dtype=np.int32)
        x.flags.writeable = False
        return x, np.zeros(64, np.int32)
    return np.arange(64).astype(kind), np.zeros(64, kind)


KINDS = ("in place", "overlapping", "unaligned", "read-only", "bfloat16", "float8_e5m2")


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_lie_in_memory_as_they_did(kind: str, tmp_path: Path) -> None:
    x, y = views(getattr(ml_dtypes, kind, kind))
    before = x.copy()
    kernel = copy if kind == "float8_e5m2" else add_one
    folder = kernel.save_repro(tmp_path, x, y, 64, layout(), num_warps=2)
    assert y.astype(np.float32).any()
    assert json.loads((folder / "manifest.json").read_text())["outcome"]["error"] is None
    stored = np.frombuffer((folder / "memory" / "0.bin").read_bytes(), x.dtype)[:64]
    assert np.array_equal(stored.astype(np.float32), before.astype(np.float32))
    assert_reproduced(folder)


def test_a_read_only_array_stays_so(tmp_path: Path) -> None:
    x, y = views("read-only")
    folder = add_one.save_repro(tmp_path, y, x, 64, layout(), num_warps=2)
    assert_reproduced(folder, error="ReadOnlyWriteError")


@glueball.jit
def add_pair(pair, y, spread: gl.constexpr):
    i = gl.arange(0, 64, layout=spread)
    gl.store(y + i, gl.load(pair[0] + i) * pair[1])


def test_arrays_in_tuples_and_under_another_dtype(tmp_path: Path) -> None:
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    given = (TensorWrapper(x, gl.uint32), 3)
    folder = add_pair.save_repro(tmp_path, given, y, layout(), num_warps=2)
    np.testing.assert_array_equal(y, 3 * x)
    assert json.loads((folder / "manifest.json").read_text())["outcome"]["error"] is None
    assert_reproduced(folder)


@glueball.jit
def through_descriptor(source, y, spread: gl.constexpr):
    tile = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    barrier = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(barrier, count=1)
    mbarrier.expect(barrier, source.nbytes_per_cta)
    tma.async_load(source, [0, 0], barrier, tile)
    mbarrier.wait(barrier, 0)
    row = gl.arange(0, 16, layout=gl.SliceLayout(1, spread))
    column = gl.arange(0, 32, layout=gl.SliceLayout(0, spread))
    gl.store(y + row[:, None] * 32 + column[None, :], tile.load(spread))


def test_tensor_descriptors(tmp_path: Path) -> None:
    x, y = np.arange(16 * 32, dtype=np.float32).reshape(16, 32), np.zeros((16, 32), np.float32)
    shared = gl.NVMMASharedLayout.get_default_for([16, 32], gl.float32)
    descriptor = TensorDescriptor.from_tensor(aligned(x), [16, 32], shared)
    spread = gl.BlockedLayout([1, 1], [1, 32], [2, 1], [1, 0])
    folder = through_descriptor.save_repro(tmp_path, descriptor, y, spread, num_warps=2)
    assert json.loads((folder / "manifest.json").read_text())["outcome"] != {}
    np.testing.assert_array_equal(y, x)
    assert_reproduced(folder)


def aligned(array: np.ndarray) -> np.ndarray:
    """The array at a multiple of 128 bytes."""
    buffer = np.zeros(array.nbytes + 128, np.uint8)
    start = -buffer.ctypes.data % 128
    copied = buffer[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copied[:] = array
    return copied


def test_spans_that_overlap_are_one() -> None:
    spans = [memory.Span("host", 0, 100, 50), memory.Span("host", 0, 0, 10), memory.Span("host", 0, 120, 50),
             memory.Span("cuda", 0, 100, 50), memory.Span("host", 0, 170, 5)]  # fmt: skip
    assert memory.merged(spans) == [
        memory.Span("host", 0, 100, 70), memory.Span("host", 0, 0, 10), memory.Span("cuda", 0, 100, 50),
        memory.Span("host", 0, 170, 5),
    ]  # fmt: skip


def test_large_arrays_are_made_anew_from_a_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "DATA_LIMIT", 200)
    x, y = np.arange(64, dtype=np.float32), np.zeros(40, np.float32)
    folder = add_one.save_repro(tmp_path, x, y, 40, layout(), num_warps=2)
    described = json.loads((folder / "manifest.json").read_text())["memory"]
    assert sorted("seed" in one for one in described) == [False, True]
    done = rerun(folder)
    assert "other results in memory" in done.stdout, "the numbers are not the recorded ones"
    folder = add_one.save_repro(tmp_path, x, np.zeros(30, np.float32), 40, layout(), num_warps=2)
    assert_reproduced(folder, error="OutOfBoundsError")


def test_values_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    class Odd:
        offset = 1

    kernel = make_kernel(gl.constexpr(7), make_step(gl.constexpr(5)))
    x, y = np.zeros(100, np.float32), np.zeros(100, np.float32)
    with pytest.raises(ReproError, match=r"argument `tuning`: a Odd cannot be written into a bundle"):
        kernel.save_repro(tmp_path, x, y, 100, Mode.PLAIN, Odd(), layout(), grid=2, num_warps=2)
    assert list(tmp_path.iterdir()) == []


def launched(monkeypatch: pytest.MonkeyPatch, folder: Path, run: Callable[[], Any]) -> list[Path]:
    monkeypatch.setenv("GLUEBALL_REPRO", str(folder))
    try:
        run()
    finally:
        monkeypatch.delenv("GLUEBALL_REPRO")
    return sorted(folder.iterdir())


def test_the_knob_writes_the_first_launch_of_each_variant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> None:
        for n in (64, 3, 5):
            add_one[(1,)](np.zeros(64, np.int32), np.zeros(64, np.int32), n, layout(), num_warps=2)

    folders = launched(monkeypatch, tmp_path / "bundles", run)
    assert len(folders) == 2, "5 is of the variant of 3"
    assert {"        64,\n" in (folder / "kernel.py").read_text() for folder in folders} == {True, False}
    for folder in folders:
        assert_reproduced(folder)


def test_the_knob_writes_each_launch_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> None:
        x = np.zeros(64, np.int32)
        add_one[(1,)](x, np.zeros(64, np.int32), 63, layout(), num_warps=2)
        with pytest.raises(glueball.errors.OutOfBoundsError):
            add_one[(1,)](x, np.zeros(40, np.int32), 63, layout(), num_warps=2)

    folders = launched(monkeypatch, tmp_path / "bundles", run)
    outcomes = {json.loads((folder / "manifest.json").read_text())["outcome"]["error"]: folder for folder in folders}
    assert set(outcomes) == {None, "OutOfBoundsError"}
    assert_reproduced(outcomes["OutOfBoundsError"], error="OutOfBoundsError")


def test_the_knob_keeps_the_bundle_of_a_process_that_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: Any) -> None:
        os.kill(os.getpid(), 9)

    child = os.fork()
    if child == 0:
        monkeypatch.setattr("glueball.runtime.kernel.CompiledKernel.launch", die)
        monkeypatch.setenv("GLUEBALL_REPRO", str(tmp_path))
        add_one[(1,)](np.zeros(64, np.int32), np.zeros(64, np.int32), 63, layout(), num_warps=2)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 9
    (folder,) = tmp_path.iterdir()
    done = rerun(folder)
    assert done.returncode == 1
    assert "recorded: the process ended; now: no error" in done.stdout


def test_the_knob_never_stops_a_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GLUEBALL_REPRO", str(tmp_path / "file"))
    y = np.zeros(64, np.int32)
    add_one[(1,)](np.zeros(64, np.int32), y, 64, layout(), num_warps=2)
    assert y.all()
    assert "GLUEBALL_REPRO: " in caplog.text


def test_what_is_in_glueball_is_imported_and_not_copied(tmp_path: Path) -> None:
    from glueball.kernels.ladder import RUNGS, tensors

    source, destination = tensors(RUNGS[0].view, lambda shape: np.zeros(shape, np.float32), 256, 256)
    launch = RUNGS[0].launch(source, destination, 32)
    folder = launch.kernel.save_repro(tmp_path, *launch.arguments, grid=launch.grid, **launch.keywords)
    assert "def " not in (folder / "kernel.py").read_text().partition("def _import")[2].replace("def launch", "")
    assert_reproduced(folder)
    assert repro.Bundle is not None


@pytest.mark.gpu
@pytest.mark.torch
def test_a_launch_on_a_gpu_runs_there_and_on_the_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLUEBALL_EXECUTOR")
    monkeypatch.delenv("GLUEBALL_TARGET")
    torch = pytest.importorskip("torch")
    x = torch.arange(64, dtype=torch.bfloat16, device="cuda")[3:].clone()
    y = torch.zeros(64, dtype=torch.bfloat16, device="cuda")
    folder = add_one.save_repro(tmp_path, x, y, 61, layout(), num_warps=2)
    assert json.loads((folder / "manifest.json").read_text())["executor"] == "gpu"
    assert torch.equal(y[:61], x + 1)
    for executor in ("gpu", "sim"):
        done = rerun(folder, "--executor", executor)
        assert done.returncode == 0, done.stdout + done.stderr
