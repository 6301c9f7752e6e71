"""`breakpoint()` in a kernel: Python's debugger sees the author's line and tiles as arrays."""

from __future__ import annotations

import collections
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError

LINE = gl.BlockedLayout([1], [32], [1], [0])
SHARED = gl.SwizzledSharedLayout(1, 1, 1, [0])
Bounds = collections.namedtuple("Bounds", ["low", "high"])


@glueball.aggregate
class Pair:
    left: gl.tensor
    right: gl.constexpr


@glueball.jit
def helper(tile, factor: gl.constexpr):
    scaled = tile * factor
    if gl.program_id(1) == 1:
        breakpoint()  # noqa: T100
    return scaled


@glueball.jit
def kernel(x, n, bounds, layout: gl.constexpr, shared: gl.constexpr):
    index = gl.arange(0, 8, layout)
    part = gl.load(x + index, mask=index < n)
    pair = Pair(part, 3)  # noqa: F841 - seen at the stop
    memory = gl.allocate_shared_memory(gl.int32, [8], shared)
    for step in range(2):
        total = part + step  # noqa: F841 - seen at the stop
        if (gl.program_id(0) == 2) & (step == 1):
            memory.store(index)
            breakpoint()  # noqa: T100
    gl.store(x + index, helper(part, 2), mask=index < n)


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, str, dict[str, Any]]]:
    """What each stop showed: file, line, function, names."""
    found: list[tuple[str, int, str, dict[str, Any]]] = []

    def hook() -> None:
        frame = sys._getframe(1)
        code = frame.f_code
        found.append((code.co_filename, frame.f_lineno, code.co_name, dict(frame.f_locals)))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    return found


def line_of(function: Any, text: str) -> int:
    lines = function.src.splitlines()
    return function.source.first_line + next(number for number, line in enumerate(lines) if text in line)


def test_names_at_a_stop(stops: Any, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(8, dtype=np.float32)
    kernel[(3,)](x, 5, Bounds(1, 9), LINE, SHARED, num_warps=1)  # the programs before the one that stops double x
    ((file, line, function, names),) = stops
    assert (file, function) == (__file__, "kernel")
    assert __file__ in capsys.readouterr().out
    assert "breakpoint()" in Path(file).read_text().splitlines()[line - 1]
    assert (names["program"], names["grid"]) == ((2, 0, 0), (3, 1, 1))
    assert names["index"].tolist() == list(range(8))
    assert names["part"].tolist() == [0, 4, 8, 12, 16, None, None, None]
    assert names["total"].tolist() == [1, 5, 9, 13, 17, None, None, None]
    assert names["pair"].left.tolist() == names["part"].tolist()
    assert names["pair"].right == 3
    assert (names["bounds"].low, names["bounds"].high) == (1, 9)
    assert (names["n"], names["step"], names["layout"]) == (5, 1, LINE)
    assert names["memory"].tolist() == list(range(8))


def test_a_stop_in_a_helper(stops: Any) -> None:
    x = np.arange(8, dtype=np.float32)
    kernel[(1, 2)](x, 8, Bounds(1, 9), LINE, SHARED, num_warps=1)
    ((_, _, function, names),) = stops
    assert function == "helper"
    assert names["program"] == (0, 1, 0)
    assert (names["scaled"] == names["tile"] * 2).all()
    assert names["factor"] == 2


@pytest.mark.parametrize("executor", ["sim", "gpu"])
def test_other_executors_name_the_one_to_use(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    with pytest.raises(CompilationError, match="GLUEBALL_EXECUTOR=reference") as caught:
        if executor == "sim":
            kernel[(1,)](np.zeros(8, np.float32), 5, Bounds(1, 9), LINE, SHARED, num_warps=1)
        else:
            glueball.compile_only(kernel, "*fp32", "i32", Bounds(1, 9), LINE, SHARED, num_warps=1, target="sm_90a")
    assert "breakpoint()" in str(caught.value)


@glueball.jit
def wrong_kernel(x):
    breakpoint(x)  # noqa: T100


def test_arguments_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    with pytest.raises(CompilationError, match="takes no arguments"):
        wrong_kernel[(1,)](np.zeros(1, np.float32))


def test_the_debugger_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are printed and the author's source is listed in a session of Python's debugger."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import numpy as np
            import glueball
            import glueball.language as gl

            @glueball.jit
            def kernel(x):
                tile = gl.load(x + gl.arange(0, 4, gl.BlockedLayout([1], [32], [1], [0])))
                breakpoint()

            kernel[(1,)](np.array([3, 1, 4, 1]), num_warps=1)
            print("went on")
        """)
    )
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    done = subprocess.run(
        [sys.executable, script], input="p tile\nlist\ncontinue\n", capture_output=True, text=True, check=True
    )
    assert "array([3, 1, 4, 1])" in done.stdout
    assert "tile = gl.load(x" in done.stdout
    assert f"pid (0, 0, 0) stops at {script}:9 in kernel" in done.stdout
    assert done.stdout.rstrip().endswith("went on")
