"""Threads, forks, spawned processes, several devices, and the places that functions come from."""

from __future__ import annotations

import importlib
import linecache
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import DriverError
from glueball.runtime import devices
from glueball.runtime.locks import COMPILATION
from tests.runtime import kernels
from tests.runtime.fake_gpu import DeviceArray, FakeDriver
from tests.runtime.kernels import layout
from tests.runtime.launcher_support import PATIENCE, in_switching_threads
from tests.runtime.settings import fresh

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


pytestmark = pytest.mark.usefixtures("own_settings")


def test_threads_launch_and_compile_one_function() -> None:
    kernel, failures = fresh(kernels.copy), []

    def work(seed: int) -> None:
        try:
            x, y = np.full(64, seed, np.float32), np.zeros(64, np.float32)
            for size in (16, 32, 64):
                kernel[(1,)](x, y, size, 64, layout())
            assert (y == seed).all()
        except BaseException as error:
            failures.append(error)

    in_switching_threads(work, 8)
    assert failures == []
    assert len(kernel._kernels) == 1


def test_threads_launch_on_a_device(driver: FakeDriver) -> None:
    driver.argument_count = 1
    kernel, failures = fresh(kernels.nothing), []

    def work(seed: int) -> None:
        try:
            for step in range(200):
                assert kernel[(seed + 1,)](4 * (seed + 2) + step % 2).name == "nothing"
        except BaseException as error:
            failures.append(error)

    in_switching_threads(work, 8)
    assert failures == []
    assert len(driver.launches) + len(driver.calls) == 8 * 200
    assert len(driver.launches) < 100
    assert len(driver.loads) == len(kernel._kernels)


def test_no_gpu_is_said_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(devices, "_first_device_target", lambda: None)
    devices._announce.cache_clear()
    in_switching_threads(lambda _: [devices.default_target(announce=True) for _ in range(20)], 8)
    assert capsys.readouterr().err.count("no GPU found") == 1


def in_child(work: Any) -> tuple[int, str]:
    """Runs `work` in a forked child; its exit status and what it returned or raised, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text, status = str(work()), 0
        except BaseException as error:
            text, status = f"{type(error).__name__}: {error}", 1
        os.write(writing, text.encode())
        os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


@needs_fork
def test_a_forked_child_simulates() -> None:
    y = np.zeros(2, np.int32)
    kernel = fresh(kernels.count_programs)
    kernel[(2,)](y)

    def work() -> list[int]:
        for function in (kernel, fresh(kernels.count_programs)):
            y[:] = 0
            function[(2,)](y)
        return list(map(int, y))

    assert in_child(work) == (0, "[1, 2]")


@needs_fork
def test_a_forked_child_has_no_gpu(driver: FakeDriver) -> None:
    driver.argument_count = 1
    kernel, array = fresh(kernels.nothing), DeviceArray(4)
    for _ in range(2):
        kernel[(1,)](6)
    prepared = kernel.warmup(6).prepared_launch(6, grid=1)

    for launch in (
        lambda: kernel[(1,)](6),
        lambda: kernel[(1,)](array),
        prepared,
        lambda: fresh(kernels.nothing)[1](6),
    ):
        status, text = in_child(launch)
        assert status == 1
        assert "DriverError: " in text
        assert "was forked from one that uses CUDA" in text
        assert "`spawn` or `forkserver`" in text

    def on_the_host() -> list[int]:
        y = np.zeros(2, np.int32)
        kernels.count_programs[(2,)](y)
        return list(map(int, y))

    assert in_child(on_the_host) == (0, "[1, 2]")


@needs_fork
def test_a_fork_waits_for_compilation() -> None:
    compiling, done = threading.Event(), threading.Event()

    def compile_slowly() -> None:
        with COMPILATION:
            compiling.set()
            done.wait(0.3)

    thread = threading.Thread(target=compile_slowly)
    thread.start()
    assert compiling.wait(PATIENCE)
    status, text = in_child(lambda: fresh(kernels.nothing).warmup(5).name)
    thread.join()
    assert (status, text) == (0, "nothing")
    with COMPILATION:
        pass


def test_a_spawned_process_gets_kernels_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "spawned_kernels.py").write_text(
        textwrap.dedent(
            """
            import numpy as np
            import glueball
            import glueball.language as gl

            @glueball.jit
            def number(y):
                gl.store(y + gl.program_id(0), gl.program_id(0) + 1)

            def launch(kernel):
                y = np.zeros(2, np.int32)
                kernel[(2,)](y)
                return y.tolist()
            """
        )
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("spawned_kernels")
    module.launch(module.number)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(module.launch, (module.number,)) == [1, 2]


def test_the_device_of_the_arguments_decides(driver: FakeDriver) -> None:
    kernel = fresh(kernels.nothing)
    for index in (0, 1, 0):
        compiled = kernel[(1,)](DeviceArray(4, device=index))
    assert [launch[0] for launch in driver.launches] == [0, 1, 0]
    assert compiled.devices == (0, 1)
    assert set(kernel.device_caches) == {0, 1}
    assert compiled in kernel.device_caches[1][0].values()
    with pytest.raises(TypeError, match=r"`x` \(on device 0\) and `y` \(on device 1\) are in different places"):
        fresh(kernels.copy)[(1,)](DeviceArray(4), DeviceArray(4, device=1), 4, 64, layout())
    with pytest.raises(TypeError, match="different places"):
        compiled_copy = fresh(kernels.copy)[(1,)](DeviceArray(4), DeviceArray(4), 4, 64, layout())
        compiled_copy[(1,)](DeviceArray(4), DeviceArray(4, device=1), 4, 64, layout())


def test_a_device_that_is_not_there(driver: FakeDriver) -> None:
    driver.capabilities.pop()
    with pytest.raises((DriverError, IndexError)):
        fresh(kernels.nothing)[(1,)](DeviceArray(4, device=1))


TEXT = """@jit
def store_it(y):
    gl.store(y, VALUE)
"""


def test_functions_made_by_exec() -> None:
    namespace = {"jit": glueball.jit, "gl": gl, "VALUE": gl.constexpr(7), "__name__": "made"}
    exec(TEXT, namespace)  # defining it never fails
    with pytest.raises(ValueError, match=r"source of `store_it` is not available: .*<string>.*jit\(source=\.\.\.\)"):
        namespace["store_it"][(1,)](np.zeros(1, np.int32))


def test_the_text_of_a_function_can_be_given() -> None:
    namespace = {"jit": glueball.jit(source=TEXT), "gl": gl, "VALUE": gl.constexpr(7), "__name__": "made"}
    exec(TEXT, namespace)
    y = np.zeros(1, np.int32)
    namespace["store_it"][(1,)](y)
    assert y.tolist() == [7]
    assert namespace["store_it"].src == TEXT.removeprefix("@jit\n")
    with pytest.raises(ValueError, match="no longer holds the source of `store_it`"):
        exec(TEXT, namespace | {"jit": glueball.jit(source="def other(y):\n    pass\n")})


def test_the_text_of_a_module_can_be_registered() -> None:
    linecache.cache["<a cell>"] = (len(TEXT), None, TEXT.splitlines(keepends=True), "<a cell>")
    namespace = {"jit": glueball.jit, "gl": gl, "VALUE": gl.constexpr(9), "__name__": "made"}
    exec(compile(TEXT, "<a cell>", "exec"), namespace)
    y = np.zeros(1, np.int32)
    namespace["store_it"][(1,)](y)
    assert y.tolist() == [9]


def test_a_cell_that_runs_again_makes_a_new_function() -> None:
    y, namespace = np.zeros(1, np.int32), {"jit": glueball.jit, "gl": gl, "__name__": "__main__"}
    for number in (1, 2):
        name, text = f"<cell {number}>", TEXT.replace("VALUE", str(number))
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), namespace)
        namespace["store_it"][(1,)](y)
        assert y.tolist() == [number]


MODULE = """
import glueball
import glueball.language as gl

@glueball.jit
def helper(x):
    return x + {number}

@glueball.jit
def kernel(y):
    gl.store(y, helper(gl.load(y)))
"""


def test_a_module_that_is_edited_and_reloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "edited_kernels.py"
    file.write_text(MODULE.format(number=1))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = importlib.import_module("edited_kernels")
    old, y = module.kernel, np.zeros(1, np.int32)
    file.write_text("# moved down\n" + MODULE.format(number=10))
    old[(1,)](y)
    assert y.tolist() == [1], "what was imported"
    importlib.reload(module)
    module.kernel[(1,)](y)
    assert y.tolist() == [11]
    with pytest.raises(RuntimeError, match="has changed since we compiled this kernel"):
        old[(1,)](y)


def test_functions_in_a_zip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("zipped_kernels.py", MODULE.format(number=5))
    monkeypatch.syspath_prepend(str(tmp_path / "packed.zip"))
    module = importlib.import_module("zipped_kernels")
    y = np.zeros(1, np.int32)
    module.kernel[(1,)](y)
    assert y.tolist() == [5]
    assert ".zip" in module.kernel.fn.__code__.co_filename


def python(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(
        [sys.executable, *arguments], input=text, env=environment, capture_output=True, text=True, check=False
    )


PROGRAM = """
import numpy as np
import glueball
import glueball.language as gl

@glueball.jit
def kernel(y):
    gl.store(y, 3)

y = np.zeros(1, np.int32)
kernel[(1,)](y)
print(y.tolist())
"""


@pytest.mark.parametrize("how", ["-", "-c", "-i"])
def test_functions_typed_into_an_interpreter(how: str) -> None:
    program = PROGRAM.replace("    gl.store(y, 3)\n", "    gl.store(y, 3)\n\n")
    done = python("-c", program) if how == "-c" else python(*([how] if how == "-i" else ["-q", "-"]), text=program)
    if "[3]" in done.stdout:
        return  # a Python that keeps what was typed
    assert "the source of `kernel` is not available" in done.stderr
    assert "jit(source=...)" in done.stderr


def test_a_script_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PROGRAM)
    assert python(str(tmp_path / "script.py")).stdout == "[3]\n"


def test_the_text_of_a_function_can_be_changed() -> None:
    kernel = fresh(kernels.count_programs)
    y = np.zeros(2, np.int32)
    kernel[(2,)](y)
    before = kernel.hash
    with pytest.raises(AttributeError):
        kernel.src = "def count_programs(y):\n    pass\n"  # type: ignore[misc]
    kernel._unsafe_update_src("def count_programs(y):\n    gl.store(y, 40)\n")
    kernel[(2,)](y)
    assert y.tolist() == [40, 2]
    assert kernel.src == "def count_programs(y):\n    gl.store(y, 40)\n"
    assert kernel.hash != before


@pytest.mark.parametrize("grid", [(1.0,), (True,), [True], True, (1, 1.0), (np.float64(1),), (np.bool_(1),), 1.0])
def test_a_grid_of_other_numbers_is_refused_after_equal_integers(grid: Any) -> None:
    y = np.zeros(1, np.int32)
    for accepted in ((1,), (1, 1), 1, [1], (np.int64(1),)):
        kernels.count_programs[accepted](y)
    with pytest.raises(TypeError, match="must be an integer"):
        kernels.count_programs[grid](y)
    with pytest.raises(TypeError, match="must be an integer"):
        kernels.count_programs.warmup(y, grid=grid)
