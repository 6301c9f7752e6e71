"""`glueball bench`: the marked functions of a file, printed and kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import glueball
from glueball.cli.commands import commands

PROGRAM = """
import time
import numpy as np
import glueball
import glueball.language as gl
from glueball.testing import Benchmark, benchmark, do_bench, perf_report

@glueball.jit
def double(x, y, layout: gl.constexpr):
    offsets = gl.arange(0, 128, layout=layout)
    gl.store(y + offsets, 2 * gl.load(x + offsets))

@benchmark(warmup=1, rep=10)
def doubling():
    x, y = np.ones(128, np.float32), np.zeros(128, np.float32)
    layout = gl.BlockedLayout([1], [32], [4], [0])
    return lambda: double[(1,)](x, y, layout)

@perf_report(Benchmark(["n"], [1, 2], "side", ["a", "b"], ["A", "B"], "naps", {}, ylabel="ms"))
def naps(n, side):
    return do_bench(lambda: time.sleep(0.001 * n), warmup=1, rep=5, quantiles=[0.5, 0.1, 0.9])
"""


@pytest.fixture(autouse=True)
def on_simulator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "marks.py").write_text(PROGRAM)


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(commands, ["bench", *arguments])


def test_sweeps_and_timings_are_printed_and_kept(tmp_path: Path) -> None:
    result = run("marks.py", "--charts", "charts")
    assert result.exit_code == 0, result.output
    for text in ("naps", "A (ms)", "doubling", "host clock", "written: marks.bench.json"):
        assert text in result.output
    found = json.loads((tmp_path / "marks.bench.json").read_text())
    assert found["versions"]["glueball"] == glueball.__version__
    assert {"device", "date", "platform"} <= set(found)
    (timing,) = found["timings"]
    assert timing["name"] == "doubling"
    assert 0 < timing["spread"][0] <= timing["median"] <= timing["spread"][1]
    assert timing["confidence"][0] <= timing["median"] <= timing["confidence"][1]
    (sweep,) = found["sweeps"]
    assert sweep["rows"][1]["arguments"] == {"n": 2}
    line = sweep["rows"][1]["lines"]["B"]
    assert 2 <= line["low"] <= line["result"] <= line["high"]
    assert {path.name for path in (tmp_path / "charts").iterdir()} >= {"naps.csv", "naps.json"}


def test_one_benchmark_is_selected(tmp_path: Path) -> None:
    assert run("marks.py", "--select", "doubling", "--output", "one.json").exit_code == 0
    found = json.loads((tmp_path / "one.json").read_text())
    assert (len(found["timings"]), found["sweeps"]) == (1, [])
    assert "has no benchmark nothing; it has doubling, naps" in run("marks.py", "--select", "nothing").output


def test_files_without_benchmarks_and_with_failing_ones(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    result = run("empty.py")
    assert result.exit_code == 2
    assert "empty.py has no benchmark; mark functions with glueball.testing.benchmark" in result.output
    (tmp_path / "failing.py").write_text(
        "from glueball.testing import benchmark\n@benchmark\ndef broken():\n    return lambda: 1 / 0\n"
    )
    result = run("failing.py")
    assert result.exit_code == 1
    assert "failing.py failed at line 4: ZeroDivisionError: division by zero" in result.output
    assert run("nowhere.py").exit_code == 2
    (tmp_path / "folder").mkdir()
    assert "cannot be written" in run("marks.py", "--select", "doubling", "--output", "nowhere/x.json").output
