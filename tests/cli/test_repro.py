"""`glueball repro`: a launch of a program, as a bundle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import glueball
from glueball.cli.commands import commands

PROGRAM = """
import numpy as np
import glueball
import glueball.language as gl

WIDTH = 64
STEP = gl.constexpr(2)

@glueball.jit
def add(x, y, n, layout: gl.constexpr, SIZE: gl.constexpr = WIDTH):
    i = gl.arange(0, SIZE, layout=layout)
    gl.store(y + i, gl.load(x + i, mask=i < n, other=0) + STEP, mask=i < n)

def main():
    layout = gl.BlockedLayout([1], [32], [4], [0])
    x = np.arange(64, dtype=np.int32)
    y = np.zeros(64, np.int32)
    add[(1,)](x, y, 64, layout)
    print("launched once")
    try:
        add[(1,)](x, y[:30], 40, layout)
    except Exception:
        print("swallowed")

if __name__ == "__main__":
    main()
"""


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(commands, ["repro", *arguments])


def outcome(folder: Path) -> str | None:
    found: str | None = json.loads((folder / "manifest.json").read_text())["outcome"]["error"]
    return found


def test_the_first_launch_that_fails(tmp_path: Path) -> None:
    result = run("program.py")
    assert result.exit_code == 0, result.output
    assert "launched once" in result.output
    assert "swallowed" not in result.output
    (folder,) = (tmp_path / "repro").iterdir()
    assert f"add ended in OutOfBoundsError; its launch is in repro/{folder.name}" in result.output
    assert outcome(folder) == "OutOfBoundsError"
    (tmp_path / "program.py").unlink()
    environment = {**os.environ, "PYTHONPATH": str(Path(glueball.__file__).parent.parent)}
    command = [sys.executable, folder / "run.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "reproduced: OutOfBoundsError"


def test_the_first_launch_of_a_kernel(tmp_path: Path) -> None:
    result = run("program.py:add", "-o", "bundles")
    assert result.exit_code == 0, result.output
    assert "launched once" not in result.output
    (folder,) = (tmp_path / "bundles").iterdir()
    assert outcome(folder) is None
    assert run("program.py:add", "-o", "bug.zip").exit_code == 0
    assert (tmp_path / "bug.zip").is_file()


def test_programs_without_such_a_launch(tmp_path: Path) -> None:
    assert "ran to its end without launching other" in run("program.py:other").output
    (tmp_path / "fine.py").write_text("x = 1\n")
    assert "no launch failed; name a kernel: FILE:KERNEL" in run("fine.py").output
    (tmp_path / "broken.py").write_text("x = 1 / 0\n")
    assert "broken.py failed at line 1: ZeroDivisionError" in run("broken.py").output
    assert "there is no file nowhere.py" in run("nowhere.py").output
    (tmp_path / "file").write_text("")
    result = run("program.py", "-o", "file")
    assert result.exit_code == 1
    assert "cannot be written" in result.output
