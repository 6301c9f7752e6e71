"""`glueball explain` on files as users write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from glueball.cli.commands import commands

PROGRAM = """
import sys
import numpy as np
import glueball
import glueball.language as gl
import neighbour

LAYOUT = gl.BlockedLayout([2], [32], [4], [0])

@glueball.jit
def fill(x_ptr, value, BLOCK: gl.constexpr, layout: gl.constexpr):
    gl.store(x_ptr + gl.arange(0, BLOCK, layout=layout), value)

@glueball.jit
def copy(x_ptr, y_ptr, n, BLOCK: gl.constexpr, layout: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    value = gl.load(x_ptr + offsets, mask=offsets < n)
    gl.store(y_ptr + offsets, value, mask=offsets < n)

@glueball.jit
def unused(x_ptr):
    gl.store(x_ptr, gl.load(x_ptr))

if __name__ == "__main__":
    x = np.zeros(1024, np.float32)
    fill[(1,)](x, 3.0, 256, LAYOUT)
    assert x[:256].all() and not x[256:].any()
    print("filled", sys.argv[1:])
    copy[(4,)](x, np.empty_like(x), x.size, 256, LAYOUT)
    print("never here")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text("")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def explain(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(commands, ["explain", *arguments])


COPY = ["--arg", "x_ptr=fp32[1024]", "--arg", "y_ptr=*fp32:16", "--arg", "n=x_ptr.size", "--arg", "BLOCK=256"]


def test_the_first_launch_is_explained_and_the_program_stops(program: Path) -> None:
    result = explain(f"{program}:copy", "--target", "sm_90a")
    assert result.exit_code == 0, result.output
    assert "filled []" in result.stdout
    assert "never here" not in result.stdout
    assert "copy  for sm_90a, 4 warps of 32 lanes, grid 4 x 1 x 1" in result.stdout
    lines = result.stdout.splitlines()
    (load,) = (line for line in lines if "value = gl.load(" in line)
    assert load.split()[0] == str(
        PROGRAM.splitlines().index("    value = gl.load(x_ptr + offsets, mask=offsets < n)") + 1
    )
    assert load.split()[-4:] == ["8", "8", "100", "%"]
    assert "loads   16 requests, 128 sectors in all, efficiency 100 %" in lines


def test_arguments_from_the_command_line_run_nothing(program: Path) -> None:
    result = explain(f"{program}:copy", *COPY, "--arg", "layout=LAYOUT", "--target", "gfx1250", "--grid", "4")
    assert result.exit_code == 0, result.output
    assert "filled" not in result.stdout
    assert "copy  for gfx1250" in result.stdout
    assert "loads   16 requests, 128 sectors in all" in result.stdout


def test_layouts_are_expressions_and_one_program_is_the_default(program: Path) -> None:
    layout = "layout=BlockedLayout([1], [32], [8], [0])"
    result = explain(f"{program}:copy", *COPY, "--arg", layout, "--num-warps", "8", "--target", "sm_90a")
    assert result.exit_code == 0, result.output
    assert "8 warps of 32 lanes\n" in result.stdout
    assert "loads   8 requests, 32 sectors a program" in result.stdout


def test_some_arguments_replace_those_of_the_first_launch(program: Path) -> None:
    layout = "layout=gl.BlockedLayout([1], [32], [4], [0])"
    result = explain(f"{program}:copy", "--arg", layout, "--target", "sm_90a")
    assert result.exit_code == 0, result.output
    assert "loads   32 requests, 128 sectors in all" in result.stdout


@pytest.mark.parametrize(
    ("kernel", "options", "words"),
    [
        ("kopy", [], "has no kernel kopy; it has copy, fill, unused"),
        ("kopy", ["--arg", "n=1"], "has no kernel kopy; it has copy, fill, unused"),
        ("unused", [], "without launching unused; it launched copy, fill. Give the arguments, such as --arg x_ptr=..."),
        ("copy", ["--arg", "m=1"], "copy has no parameter m; it has x_ptr, y_ptr, n, BLOCK, layout"),
        ("copy", ["--arg", "n"], "should be NAME=VALUE"),
        ("copy", ["--arg", "n=1+"], "--arg n=1+: SyntaxError"),
        ("copy", ["--arg", "layout=nothing"], "NameError"),
        ("copy", ["--grid", "a,b"], "should be one to three integers"),
        ("copy", ["--target", "sm_1"], "sm_1"),
    ],
)
def test_wrong_questions_are_told(program: Path, kernel: str, options: list[str], words: str) -> None:
    if kernel == "unused":
        program.write_text(PROGRAM.replace('print("never here")', "pass"))
    result = explain(f"{program}:{kernel}", *options)
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.stderr.split())


@pytest.mark.parametrize("name", ["no_file.py:copy", "program", ":copy", "program.py:"])
def test_wrong_names_are_told(name: str) -> None:
    result = explain(name)
    assert result.exit_code == 2
    assert "there is no file" in result.stderr or "should be FILE:KERNEL" in result.stderr


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("raise ValueError('no luck')", "failed at line 2: ValueError: no luck"),
        ("sys.exit(3)", "failed at line 2: SystemExit: 3"),
        ("def broken(:", "SyntaxError"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--arg", "n=1"]])
def test_a_program_that_fails_is_told(tmp_path: Path, statement: str, words: str, options: list[str]) -> None:
    path = tmp_path / "program.py"
    path.write_text(f"import sys\n{statement}\n")
    result = explain(f"{path}:copy", *options)
    assert result.exit_code == 1, result.output
    assert words in result.stderr


def test_a_kernel_that_does_not_compile_is_told_at_its_line(program: Path) -> None:
    layout = "layout=BlockedLayout([1], [32], [2], [0])"
    result = explain(f"{program}:copy", *COPY, "--arg", layout, "--target", "sm_90a")
    assert result.exit_code == 1
    assert "program.py:16:" in result.stderr and "made for 2 warps" in result.stderr
