"""The examples of interoperation run where their libraries are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "interop"
NEEDS = {"torch_operator": "torch", "dlpack_exchange": "torch", "jax_call": "jax", "cupy_arrays": "cupy"}
EXAMPLES = [
    pytest.param(path, marks=[pytest.mark.gpu] if path.stem == "cupy_arrays" else [], id=path.stem)
    for path in sorted(FOLDER.glob("*.py"))
]


@pytest.mark.parametrize("path", EXAMPLES)
def test_example_runs(path: Path) -> None:
    pytest.importorskip(NEEDS[path.stem])
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "equal to NumPy's" in done.stdout
