"""What `explain` predicts of every launch of the kernel library is what the simulator counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glueball import kernels
from glueball.explain import AccessCost, Report
from glueball.kernels.copies import copy_array
from tests.explain.differential import watch
from tests.kernels.library import BFLOAT16, normal

ROWS = [(1, 32), (7, 1000), (5, 4096), (3, 9000)]
TYPES = [np.float32, np.float16, BFLOAT16]


def layer_norm_and_back(x: Any, weight: Any) -> None:
    y, mean, scale = kernels.layer_norm(x, weight, weight)
    kernels.layer_norm_backward(y, x, weight, mean, scale)


def rms_norm_and_back(x: Any, weight: Any) -> None:
    y, scale = kernels.rms_norm(x, weight)
    kernels.rms_norm_backward(y, x, weight, scale)


def cross_entropy_and_back(x: Any, targets: Any) -> None:
    loss, log_sum = kernels.cross_entropy(x, targets)
    kernels.cross_entropy_backward(loss, x, targets, log_sum)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "softmax": kernels.softmax,
    "layer norm": lambda x: layer_norm_and_back(x, x[0].copy()),
    "rms norm": lambda x: rms_norm_and_back(x, x[0].copy()),
    "sum": kernels.row_sum,
    "max": kernels.row_max,
    "cumsum": kernels.cumsum,
    "cumsum of chunks": lambda x: kernels.cumsum(x, chunk=64),
    "quantize": lambda x: kernels.dequantize_rows(*kernels.quantize_rows(x)),
    "cross entropy": lambda x: cross_entropy_and_back(x, np.arange(len(x), dtype=np.int64) - 1),
    "embedding": lambda x: kernels.embedding(x, np.arange(11) % len(x)),
    "transpose": kernels.transpose,
    "copy": lambda x: copy_array(x.transpose(1, 0)),
}


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_launch(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = watch(monkeypatch)
    for shape in ROWS:
        FUNCTIONS[name](normal(shape, dtype))
    assert len(reports) >= len(ROWS)
    for report in reports:
        assert report.shared_loads is not None and report.shared_stores is not None
        assert report.shared_atomics is not None and report.atomics is not None


@pytest.mark.parametrize("target", ["gfx942", "gfx1250"])
@pytest.mark.parametrize("name", ["softmax", "sum", "cumsum", "cross entropy", "transpose"])
def test_launches_for_other_targets(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = watch(monkeypatch, target)
    for shape in ROWS:
        FUNCTIONS[name](normal(shape))
    assert all(report.shared_loads is not None and report.shared_stores is not None for report in reports)


@pytest.mark.parametrize("bins", [1, 100, 1024])
def test_histograms(bins: int, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = watch(monkeypatch)
    for count in (10, 5000, 50000):
        x = np.random.default_rng(count).integers(-3, bins + 3, count)
        assert kernels.histogram(x, bins).sum() == ((x >= 0) & (x < bins)).sum()
    for report in reports:
        assert report.atomics is not None and report.shared_atomics is None
        assert report.shared_loads is not None and report.shared_stores is not None


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8], ids=lambda dtype: np.dtype(dtype).name)
def test_products(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = watch(monkeypatch)
    for rows, inner, columns in ((16, 16, 16), (100, 48, 72), (130, 256, 64)):
        kernels.matmul(np.ones((rows, inner), dtype), np.ones((inner, columns), dtype))
    assert len(reports) == 3 and all(report.shared_loads is not None for report in reports)


def unknown(report: Report) -> set[str]:
    """What the accesses that are not counted say."""
    return {note for row in report.rows if isinstance(row, AccessCost) and row.grid is None for note in row.notes}


def test_rows_that_are_found_by_loaded_indices_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = watch(monkeypatch)
    kernels.embedding(normal((9, 64)), np.arange(5))
    (report,) = reports
    assert any("no linear function" in note for note in unknown(report))
