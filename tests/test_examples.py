"""Every example runs on the simulator, and `explain` can explain its kernels' first launches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from glueball.cli.explaining import explained

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
KERNELS = {"vector_add": "add", "transpose": "transpose", "bulk_ring": "double"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "equal to NumPy's" in done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_explained(path: Path) -> None:
    report = explained(path, KERNELS[path.stem], (), None, "sm_90a", None)
    assert report.total is not None and report.total.efficiency > 0.9
