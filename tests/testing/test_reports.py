"""Sweeps: arguments, tables, files, charts; and comparing arrays."""

from __future__ import annotations

import csv
import importlib.util
import json
import logging
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from glueball.testing import Benchmark, Mark, assert_close, benchmark, perf_report

SWEEP = Benchmark(
    x_names=["rows", "columns"],
    x_vals=[8, (16, 4)],
    line_arg="provider",
    line_vals=["ours", "theirs"],
    line_names=["Ours", "Theirs"],
    plot_name="areas",
    args={"factor": 2},
    ylabel="units",
    x_log=True,
    styles=[("blue", "-"), ("green", "--")],
)


def area(rows: int, columns: int, provider: str, factor: int, offset: float = 0.0) -> Any:
    value = rows * columns * factor + offset + (0.5 if provider == "ours" else 0.0)
    return value if provider == "theirs" else (value, value - 1, value + 1)


@pytest.fixture
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    hidden = ("matplotlib", "pandas")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in hidden else found(name, *rest))


def test_a_sweep_is_printed_and_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mark = perf_report(SWEEP)(area)
    assert isinstance(mark, Mark)
    assert mark(2, 3, "theirs", 1) == 6
    assert mark.run(print_data=True, save_path=str(tmp_path / "new"), offset=0.25) is None
    assert capsys.readouterr().out == (
        "areas:\n"
        "rows  columns  Ours (units)  Theirs (units)\n"
        "   8        8        128.75          128.25\n"
        "  16        4        128.75          128.25\n"
    )
    with (tmp_path / "new" / "areas.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["rows", "columns", "Ours (units)", "Theirs (units)"],
            ["8", "8", "128.750000", "128.250000"],
            ["16", "4", "128.750000", "128.250000"],
        ]
    saved = json.loads((tmp_path / "new" / "areas.json").read_text())
    assert saved["versions"]["numpy"] == np.__version__
    assert {"device", "date", "platform"} <= set(saved)
    assert saved["rows"][1] == {
        "arguments": {"rows": 16, "columns": 4},
        "lines": {
            "Ours": {"result": 128.75, "low": 127.75, "high": 129.75},
            "Theirs": {"result": 128.25, "low": None, "high": None},
        },
    }


def test_charts_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    shown = []
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: shown.append(1))
    other = Benchmark(["rows"], [1, 2], "provider", ["theirs"], ["T"], "other", {"factor": 1, "columns": 1})
    perf_report([SWEEP, other])(area).run(show_plots=True, save_path=tmp_path)
    for name in ("areas", "other"):
        assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert f'src="{name}.png"' in (tmp_path / "results.html").read_text()
    assert shown == [1, 1]


@pytest.mark.usefixtures("without_matplotlib")
def test_without_matplotlib_tables_are_saved_and_the_extra_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = perf_report(SWEEP)(area)
    mark.run(save_path=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["areas.csv", "areas.json"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "pip install 'glueball[plot]'" in caplog.text
    with pytest.raises(ImportError, match=r"glueball\[plot\]"):
        perf_report(SWEEP)(lambda **_: pytest.fail("ran")).run(show_plots=True)
    with pytest.raises(ImportError, match="pandas"):
        mark.run(return_df=True)


def test_frames_are_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pandas:
        @staticmethod
        def DataFrame(cells: Any, columns: Any) -> tuple[Any, Any]:  # noqa: N802 - pandas' name
            return cells, columns

    monkeypatch.setitem(sys.modules, "pandas", Pandas)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: True)
    cells, columns = perf_report(SWEEP)(area).run(return_df=True, diff_col=True)
    assert columns == ["rows", "columns", "Ours (units)", "Theirs (units)", "Diff"]
    assert cells[0] == [8, 8, 128.5, 128.0, -0.5]
    assert len(perf_report([SWEEP])(area).run(return_df=True)) == 1


def test_mistakes_in_a_sweep_are_named() -> None:
    with pytest.raises(ValueError, match="expected 2 values in x_vals, got"):
        perf_report(Benchmark(["a", "b"], [(1, 2, 3)], "c", [1], ["one"], "wrong", {}))(area).run()
    with pytest.raises(ValueError, match="2 line_vals and 1 line_names"):
        Benchmark(["a"], [1], "c", [1, 2], ["one"], "wrong", {})
    pair = Benchmark(["a"], [1], "c", [1], ["one"], "wrong", {})
    with pytest.raises(ValueError, match="a number, or"):
        perf_report(pair)(lambda a, c: (1, 2)).run()


def test_a_benchmark_prepares_and_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    calls: list[str] = []

    @benchmark(warmup=0, rep=0.01)
    def prepared() -> Any:
        calls.append("prepared")
        return lambda: calls.append("ran")

    found = prepared.measure()
    assert calls.count("prepared") == 1
    assert calls.count("ran") >= 6 + len(found.times)

    with pytest.raises(TypeError, match="must return the callable"):
        benchmark(lambda: 5).measure()


def test_close_arrays_pass_and_others_say_where() -> None:
    x = np.linspace(0, 1, 100, dtype=np.float32)
    assert_close(x, x + 0.009)
    assert_close([1.0, float("nan")], [1.0, float("nan")])
    assert_close(1.0, 1.005)
    assert_close(np.ones(3, ml_dtypes.bfloat16), np.ones(3), rtol=0.1)
    assert_close(x, 1.05 * x, rtol=0.1, atol=0)
    assert_close(x, x + 0.5, atol=lambda dtype: 1.0 if dtype == np.float32 else 0.0)
    with pytest.raises(AssertionError, match=r"(?s)of the copy.*Mismatched elements: 1 / 100"):
        assert_close(x, np.where(np.arange(100) == 7, 5, x), err_msg="of the copy")
    with pytest.raises(AssertionError, match=r"1.0 is not close to 1.5 \(atol=0.01, rtol=0.0\)"):
        assert_close(1.0, 1.5)
    with pytest.raises(AssertionError):
        assert_close(x, x[:50])
    with pytest.raises(AssertionError):
        assert_close(np.zeros(0), np.zeros(1))


@pytest.mark.torch
def test_close_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(4, dtype=torch.bfloat16, requires_grad=True)
    assert_close(x, np.ones(4))
    with pytest.raises(AssertionError):
        assert_close(torch.arange(4), torch.arange(4) + 1)
