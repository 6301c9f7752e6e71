"""`glueball check`: programs as their authors run them, faults found or not, and what the report says."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from glueball.cli.commands import commands

HEAD = """
import sys
import numpy as np
import glueball
import glueball.language as gl

LINE = gl.BlockedLayout([1], [32], [1], [0])

@glueball.jit
def copy(x, y, n, layout: gl.constexpr):
    index = gl.program_id(0) * 32 + gl.arange(0, 32, layout)
    gl.store(y + index, gl.load(x + index, mask=index < n, other=0), mask=index < n)

@glueball.jit
def wild_copy(x, y, layout: gl.constexpr):
    index = gl.program_id(0) * 32 + gl.arange(0, 32, layout)
    gl.store(y + index, gl.load(x + index))

x, y = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
"""


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("GLUEBALL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("glueball.drivers.cuda._probe", lambda: "there is no GPU")

    def run(body: str, *options: str, arguments: tuple[str, ...] = ()) -> Result:
        script = tmp_path / "script.py"
        script.write_text(HEAD + textwrap.dedent(body))
        return CliRunner().invoke(commands, ["check", *options, str(script), *arguments])

    return run


def line_of(text: str) -> int:
    return HEAD.splitlines().index(text) + 1


def test_a_clean_program(check: Any) -> None:
    result = check("""
        for _ in range(3):
            copy[(2,)](x, y, 50, LINE, num_warps=1)
        assert (x == y).all()
        print("arguments", sys.argv[1:])
    """, arguments=("--launches", "7", "file"))  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "arguments ['--launches', '7', 'file']" in result.output
    assert "simulated as sm_90a, schedule in_order" in result.output
    assert f"script.py:{line_of('def copy(x, y, n, layout: gl.constexpr):')}" in result.output
    assert "3 launches  clean" in result.output
    assert "Looked for:" in result.output
    assert "SharedMemoryRaceError" in result.output
    assert "Not covered:" in result.output
    assert result.output.rstrip().endswith("no fault in 3 launches")


def test_every_fault_is_reported(check: Any) -> None:
    """The program goes on after a fault, with what its launches left."""
    result = check("""
        wild_copy[(2,)](x, y, LINE, num_warps=1)
        copy[(2,)](x, y, 50, LINE, num_warps=1)
        wild_copy[(2,)](x, y, LINE, num_warps=1)
        copy[(2,)](x, y, 60, LINE, num_warps=1)
        print("the end")
    """)
    assert result.exit_code == 1, result.output
    assert "the end" in result.output
    assert "1. OutOfBoundsError in wild_copy, launch 1 and 1 later one" in result.output
    assert "2. OutOfBoundsError in copy, launch 2" in result.output
    line = line_of("    gl.store(y + index, gl.load(x + index))")
    assert f"script.py:{line}:" in result.output
    assert "gl.store(y + index, gl.load(x + index))\n" + " " * 27 + "^^^^^^^^^^^^^^^^^^\n" in result.output
    assert "`x` is read at element 50" in result.output
    assert result.output.rstrip().endswith("2 faults")


def test_everything_is_looked_for_whatever_the_environment_says(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_SANITIZE", "0")
    result = check("""
        @glueball.jit
        def half_copy(x, y, n, layout: gl.constexpr):
            index = gl.arange(0, 32, layout)
            gl.store(y + index, gl.load(x + index, mask=index < n))

        half_copy[(1,)](x, y, 20, LINE, num_warps=1)
    """)
    assert result.exit_code == 1, result.output
    assert "UninitializedReadError in half_copy" in result.output


def test_stop(check: Any) -> None:
    result = check("""
        try:
            wild_copy[(2,)](x, y, LINE, num_warps=1)
        except Exception:
            print("caught")
        print("the end")
    """, "--stop")  # fmt: skip
    assert result.exit_code == 1
    assert "the end" not in result.output
    assert "caught" not in result.output
    assert "stopped at the first fault" in result.output


def test_assertions_are_on(check: Any) -> None:
    body = """
        @glueball.jit
        def positive(x, layout: gl.constexpr):
            assert gl.load(x + gl.arange(0, 32, layout)) > 0, "must be positive"

        positive[(1,)](x, LINE, num_warps=1, **OPTIONS)
    """
    result = check(body.replace("**OPTIONS", ""))
    assert result.exit_code == 1
    assert "DeviceAssertionError in positive" in result.output
    assert "must be positive" in result.output
    assert check(body.replace("**OPTIONS", "debug=False")).exit_code == 0


def test_some_launches_only(check: Any) -> None:
    """Later launches give their results all the same, tile by tile, and their faults are not lost."""
    body = """
        for number in range(4):
            copy[(2,)](x + number, y, 50, LINE, num_warps=1)
            assert (y == x + number).all()
    """
    result = check(body, "--launches", "1")
    assert result.exit_code == 0, result.output
    assert "3 launches after the first 1 of a kernel" in result.output
    assert "no fault in 1 launch\n" in result.output
    result = check(body + "    copy[(2,)](x, y[:40], 50, LINE, num_warps=1)\n", "--launches", "1")
    assert result.exit_code == 1
    assert "OutOfBoundsError in copy, launch 5" in result.output


def test_what_cannot_be_simulated_is_not_clean(check: Any) -> None:
    result = check("""
        @glueball.jit
        def assembly(x, layout: gl.constexpr):
            tile = gl.load(x + gl.arange(0, 32, layout))
            gl.inline_asm_elementwise("mov.b32 $0, %clock;", "=f,f", [tile], gl.float32, True, 1)

        assembly[(1,)](x, LINE, num_warps=1)
    """)
    assert result.exit_code == 3, result.output
    assert "1 unsupported" in result.output
    assert "1 thing that cannot be simulated:" in result.output
    assert "runs on a GPU only" in result.output
    assert "unsupported: no fault was found, but not all was checked" in result.output


def test_nothing_launched_is_not_clean(check: Any) -> None:
    result = check("print('nothing')")
    assert result.exit_code == 3
    assert "no kernel was launched" in result.output
    assert result.output.rstrip().endswith("nothing to check")


def test_a_program_that_fails(check: Any) -> None:
    result = check("""
        copy[(2,)](x, y, 50, LINE, num_warps=1)
        raise KeyError("missing")
    """)
    assert result.exit_code == 1
    assert "the program failed: KeyError: 'missing'" in result.output
    assert "script.py" in result.stderr
    assert "checking.py" not in result.stderr
    assert "1 launch  clean" in result.output
    assert check("copy[(2,)](x, y, 50, LINE, num_warps=1); sys.exit(5)").exit_code == 5
    assert check("copy[(2,)](x, y, 50, LINE, num_warps=1); sys.exit()").exit_code == 0


def test_errors_of_compilation_go_to_the_program(check: Any) -> None:
    result = check("""
        @glueball.jit
        def wrong(x):
            gl.store(x, undefined)

        try:
            wrong[(1,)](x)
        except glueball.errors.CompilationError:
            print("caught")
        copy[(2,)](x, y, 50, LINE, num_warps=1)
    """)
    assert result.exit_code == 0, result.output
    assert "caught" in result.output


@pytest.mark.parametrize("options", [("--schedule", "random", "--seed", "3"), ("--schedule", "late")])
def test_schedules(check: Any, options: tuple[str, ...]) -> None:
    """Blocks take tickets and write down who got which: the order shows in the result."""
    result = check("""
        @glueball.jit
        def take(counter, order, layout: gl.constexpr):
            ticket = gl.atomic_add(counter, 1)
            gl.store(order + ticket, gl.program_id(0))

        order = np.zeros(64, np.int32)
        take[(64,)](np.zeros(1, np.int32), order, LINE, num_warps=1)
        print("sorted", sorted(order) == list(range(64)), "in order", (np.diff(order) == 1).all())
    """, *options)  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "sorted True in order False" in result.output
    assert f"schedule {options[1]}{', seed 3' if len(options) > 2 else ''}" in result.output
    assert "GLUEBALL_SCHEDULE" not in os.environ


def test_printed_lines_name_their_lanes(check: Any) -> None:
    result = check("""
        @glueball.jit
        def show(x, layout: gl.constexpr):
            print("x", gl.load(x + gl.arange(0, 32, layout)))

        show[(1,)](x, LINE, num_warps=1)
    """)
    assert "pid (0, 0, 0) idx ( 3) x: 3.000000 [warp 0, lane 3, register 0]" in result.output


def test_another_target(check: Any) -> None:
    result = check("""
        WAVE = gl.BlockedLayout([1], [64], [1], [0])
        copy[(2,)](x, y, 50, WAVE, num_warps=1)
    """, "--target", "gfx950")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "simulated as gfx950" in result.output


def test_usage(tmp_path: Path) -> None:
    for arguments in (["missing.py"], ["--schedule", "sideways", __file__], ["--launches", "0", __file__], []):
        assert CliRunner().invoke(commands, ["check", *arguments]).exit_code == 2


@pytest.mark.torch
def test_a_program_for_cuda_without_cuda(check: Any) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("CUDA is there")
    result = check("""
        import torch
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1
        assert torch.cuda.get_device_capability() == (9, 0)
        device = torch.device("cuda", torch.cuda.current_device())
        x = torch.arange(50, device="cuda", dtype=torch.float32)
        y = torch.zeros(50).to(device)
        before = y.cpu()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(torch.cuda.Stream()):
            start.record()
            copy[(2,)](x, y, 50, LINE, num_warps=1)
            end.record()
        torch.cuda.synchronize()
        assert start.elapsed_time(end) > 0
        assert torch.equal(y, x.cuda()) and not torch.equal(y.cpu(), before)
        host = torch.ones(50, pin_memory=True)
        moved = host.cuda(non_blocking=True)
        copy[(2,)](x, moved, 50, LINE, num_warps=1)
        assert (host == 1).all() and torch.equal(moved.cpu(), x)
        with torch.device("cuda:0"):
            copy[(2,)](x, torch.empty(50), 50, LINE, num_warps=1)
    """)
    assert result.exit_code == 0, result.output + result.stderr
    assert 'what torch put on "cuda" lay on the host' in result.output
    assert not torch.cuda.is_available()
    with pytest.raises((AssertionError, RuntimeError)):
        torch.zeros(1, device="cuda")


@pytest.mark.gpu
@pytest.mark.torch
def test_a_program_for_cuda(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        HEAD
        + textwrap.dedent("""
            import torch
            x = torch.arange(50, device="cuda", dtype=torch.float32)
            y = torch.zeros(40, device="cuda")
            copy[(2,)](x, y, 40, LINE, num_warps=1)
            assert torch.equal(x[:40], y)
            copy[(2,)](x, y, 50, LINE, num_warps=1)
        """)
    )
    result = CliRunner().invoke(commands, ["check", str(script)])
    assert result.exit_code == 1, result.output
    assert "`y` is written at element 40" in result.output
