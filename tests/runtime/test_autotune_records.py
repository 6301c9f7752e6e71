"""Results of tuning on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glueball
from tests.runtime.autotune_support import Clock, add_up, blocks, choosy, double, programs

REPOSITORY = Path(__file__).resolve().parents[2]

SCRIPT = """
import sys
import numpy as np
import glueball
from tests.runtime.autotune_support import blocks, choosy, programs

def bench(fn, quantiles):
    fn()
    print("measured", file=sys.stderr)
    return [len(sys.argv), 2.0, 3.0]

sizes = [int(size) for size in sys.argv[2:]]
options = {} if sys.argv[1] == "counters" else {"do_bench": bench}
kernel = glueball.autotune(blocks(*sizes), ["n"], cache_results=True, **options)(choosy)
x = np.ones(1000, np.float32)
kernel[programs(1000)](x, 1000)
assert (x == 2).all()
(result,) = kernel.results.values()
print(result.from_disk, sum(trial.stored for trial in result.trials.values()), kernel.best_config.kwargs["BLOCK"])
"""


pytestmark = pytest.mark.usefixtures("simulated")


def process(*arguments: str) -> tuple[str, int]:
    """What a process of its own prints, and how often it measured."""
    paths = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    return found.stdout.strip(), found.stderr.count("measured")


def tune(clock: Clock, *sizes: int, kernel: Any = double, n: int = 1000, **options: Any) -> Any:
    """Tunes anew and launches once."""
    keywords = {"do_bench": clock, "cache_results": True, **options}
    tuned = glueball.autotune(blocks(*sizes), ["n"], **keywords)(kernel)
    x = np.ones(n, np.float32)
    tuned[programs(n)](x, n)
    assert (x == 2).all()
    return tuned


@pytest.mark.parametrize("benchmark", ["clock", "counters"])
def test_a_second_process_tunes_nothing(benchmark: str) -> None:
    assert process(benchmark, "64", "128", "512")[0] == "False 0 64"
    assert process(benchmark, "64", "128", "512") == ("True 3 64", 0)
    again, measured = process(benchmark, "64", "32", "128")
    assert again.startswith("False 2")
    assert measured == (benchmark == "clock")


def test_a_changed_list_measures_what_is_new() -> None:
    clock = Clock(3, 2, 1)
    assert tune(clock, 64, 128).best_config.kwargs == {"BLOCK": 128}
    assert tune(clock, 256, 128, 64).best_config.kwargs == {"BLOCK": 256}
    assert clock.calls == 3
    assert tune(clock, 128, 64).best_config.kwargs == {"BLOCK": 128}
    assert tune(clock, 64, 128).configs_timings == {
        glueball.Config({"BLOCK": 64}): (3, 4, 5), glueball.Config({"BLOCK": 128}): (2, 3, 4)
    }  # fmt: skip
    assert clock.calls == 3


def test_failures_are_kept() -> None:
    clock = Clock(1)
    for calls in (2, 2):
        tuned = tune(clock, 64, 512, 128, kernel=choosy)
        assert clock.calls == calls
        (result,) = tuned.results.values()
        assert "blocks are small" in result.trials[glueball.Config({"BLOCK": 512})].failure


@pytest.mark.parametrize(
    ("second", "calls"),
    [({}, 2), ({"n": 999}, 4), ({"kernel": choosy}, 4), ({"cache_results": False}, 4)],
)
def test_what_results_hold_for(second: dict[str, Any], calls: int) -> None:
    clock = Clock(1)
    tune(clock, 64, 128)
    tune(clock, 64, 128, **second)
    assert clock.calls == calls


def test_without_being_asked_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clock = Clock(1)
    tune(clock, 64, 128, cache_results=False)
    assert not list(tmp_path.iterdir())
    for calls in (4, 4):
        monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "1")
        tune(clock, 64, 128, cache_results=False)
        assert clock.calls == calls
    monkeypatch.setenv("GLUEBALL_ALWAYS_COMPILE", "1")
    tune(clock, 64, 128)
    assert clock.calls == 6


@pytest.mark.parametrize("values", [{}, {"timings": []}, {"timings": ["1"]}, {"timings": [True]}, {"timings": 3}])
def test_senseless_records_are_not_believed(values: dict[str, Any], tmp_path: Path) -> None:
    clock = Clock(1)
    tune(clock, 64, 128)
    for path in tmp_path.rglob("metadata.json"):
        metadata = json.loads(path.read_text())
        path.write_text(json.dumps({**metadata, "values": values}))
    tune(clock, 64, 128)
    assert clock.calls == 4


def test_times_that_are_no_numbers_are_not_kept() -> None:
    clock = Clock(float("inf"), 1)
    tune(clock, 64, 128)
    tune(clock, 64, 128)
    assert clock.calls == 3


def test_arrays_are_reset_whether_or_not_anything_was_measured() -> None:
    for _ in range(2):
        kernel = glueball.autotune(
            blocks(128, 256), ["n"], reset_to_zero=["total"], do_bench=Clock(1), cache_results=True
        )(add_up)
        total = np.full(1, 7, np.float32)
        kernel[programs(1000)](np.ones(1000, np.float32), total, 1000)
        assert total.tolist() == [1000]
