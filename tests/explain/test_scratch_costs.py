"""What `explain` predicts of reductions, scans, gathers and histograms is what the simulator counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import glueball
import glueball.language as gl
from glueball.explain import Report, explain, render
from glueball.kernels.ladder import Launch
from tests.explain.differential import check
from tests.kernels import random_layouts
from tests.kernels.test_gathers import gather_kernel, gather_slice, histogram_kernel
from tests.kernels.test_reductions import sum_kernel, welford_kernel
from tests.kernels.test_scans import cumsum_kernel
from tests.kernels.test_shared_memory import change

SHAPES = [(4, 64), (32, 16), (1, 256), (128, 1), (64, 64)]
TYPES = [np.int8, np.float16, np.int32, np.float64]
FAMILIES = {"sm_90a": 32, "gfx942": 64}
BY_EXAMPLE = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@dataclass(frozen=True, slots=True)
class Case:
    """A target, warps, the shape of a tile, and where layouts and numbers come from."""

    target: str
    warps: int
    shape: tuple[int, int]
    random: np.random.Generator

    def layout(self, shape: tuple[int, int] | None = None) -> Any:
        """Any layout of a tile of the shape, or of another one."""
        return random_layouts.any_layout(self.random, FAMILIES[self.target], self.warps, shape or self.shape)

    def check(self, monkeypatch: pytest.MonkeyPatch, kernel: Any, *arguments: Any) -> Report:
        """Predicts, runs and compares two programs."""
        return check(Launch(kernel, (2,), arguments, {"num_warps": self.warps}, 0), monkeypatch, self.target)


CASES = st.builds(
    Case,
    st.sampled_from(list(FAMILIES)),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from(SHAPES),
    st.builds(np.random.default_rng, st.integers(0, 1 << 30)),
)
AXES = st.sampled_from([0, 1])


def known(report: Report) -> None:
    """Nothing of shared memory is left out."""
    assert report.shared_loads is not None and report.shared_stores is not None and report.shared_atomics is not None


@BY_EXAMPLE
@given(case=CASES, axis=st.sampled_from([0, 1, None]), dtype=st.sampled_from([np.float16, np.int32, np.float64]))
def test_reductions(case: Case, axis: int | None, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = np.ones(case.shape, dtype), np.zeros(256, dtype)
    known(case.check(monkeypatch, sum_kernel, x, out, *case.shape, axis, case.layout()))


def test_one_program_without_a_grid() -> None:
    layout = gl.BlockedLayout([1, 4], [4, 8], [2, 2], [1, 0])
    arguments = (np.ones((64, 64), np.float32), np.zeros(64, np.float32), 64, 64, 1, layout)
    one = explain(sum_kernel, arguments, target="sm_90a")
    many = explain(sum_kernel, arguments, target="sm_90a", grid=(3, 5))
    assert one.shared_loads is not None and one.shared_loads.wavefronts > 0
    assert many.shared_loads == one.shared_loads.times(15)
    assert many.shared_stores == one.shared_stores.times(15)
    assert "wavefronts a program" in render(one)


@BY_EXAMPLE
@given(case=CASES, axis=AXES)
def test_reductions_of_several_tiles(case: Case, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, mean, square = np.ones(case.shape, np.float32), np.zeros(256, np.float32), np.zeros(256, np.float32)
    known(case.check(monkeypatch, welford_kernel, x, mean, square, *case.shape, axis, case.layout()))


@BY_EXAMPLE
@given(case=CASES, axis=AXES, reverse=st.booleans(), dtype=st.sampled_from([np.int32, np.float64]))
def test_scans(case: Case, axis: int, reverse: bool, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.ones(case.shape, dtype), np.zeros(case.shape, dtype)
    known(case.check(monkeypatch, cumsum_kernel, x, y, *case.shape, axis, reverse, case.layout()))


@BY_EXAMPLE
@given(case=CASES, axis=AXES, dtype=st.sampled_from(TYPES), place=st.integers(0, 255))
def test_gathers_of_one_place(case: Case, axis: int, dtype: Any, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    extents = (1, case.shape[1]) if axis == 0 else (case.shape[0], 1)
    x, y = np.ones(case.shape, dtype), np.zeros(extents, dtype)
    layouts = case.layout(), case.layout(extents)
    known(case.check(monkeypatch, gather_slice, x, y, *case.shape, axis, place % case.shape[axis], *layouts))


@glueball.jit
def turned_round(x, y, R: gl.constexpr, C: gl.constexpr, axis: gl.constexpr, layout: gl.constexpr):
    """Rows or columns in the opposite order, from the program's number on."""
    row = gl.arange(0, R, layout=gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, C, layout=gl.SliceLayout(0, layout))[None, :]
    tile = gl.load(x + row * C + column)
    last = (R if axis == 0 else C) - 1 - gl.program_id(0) // 4
    index = last - row if axis == 0 else last - column
    gl.store(y + row * C + column, gl.gather(tile, index + gl.zeros([R, C], gl.int32, layout), axis))


@BY_EXAMPLE
@given(case=CASES, axis=AXES, dtype=st.sampled_from(TYPES))
def test_gathers_at_known_indices(case: Case, axis: int, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.ones(case.shape, dtype), np.zeros(case.shape, dtype)
    known(case.check(monkeypatch, turned_round, x, y, *case.shape, axis, case.layout()))


@BY_EXAMPLE
@given(case=CASES, axis=AXES)
def test_gathers_at_loaded_indices(case: Case, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, extent = np.ones(case.shape, np.float32), np.zeros(case.shape, np.float32), case.shape[axis]
    index = case.random.integers(0, extent, case.shape).astype(np.int32)
    layouts = case.layout(), case.layout()
    report = case.check(monkeypatch, gather_kernel, x, index, y, *case.shape, axis, extent, *layouts)
    unknown = [row for row in report.scratch if row.grid is None]
    assert all(row.kind == "scratch_gather" and "depend on the indices" in row.notes[0] for row in unknown)
    assert report.shared_stores is not None and (report.shared_loads is None) == bool(unknown)


@BY_EXAMPLE
@given(case=CASES, bins=st.sampled_from([1, 16, 64, 256]))
def test_histograms(case: Case, bins: int, monkeypatch: pytest.MonkeyPatch) -> None:
    count = case.shape[0] * case.shape[1]
    values = case.random.integers(0, bins, 2 * count).astype(np.int32)
    layouts = gl.SliceLayout(0, case.layout((1, count))), gl.SliceLayout(0, case.layout((1, bins)))
    found = np.zeros(bins, np.int32)
    report = case.check(monkeypatch, histogram_kernel, values, count + 3, found, count, bins, *layouts)
    (unknown,) = (row for row in report.scratch if row.grid is None)
    assert unknown.kind == "scratch_count" and "depend on the values" in unknown.notes[0]
    assert unknown.bytes == max(4 * bins, 16)
    assert report.shared_atomics is None and report.shared_loads is not None and report.shared_stores is not None


@glueball.jit
def turned_in_view(x, y, R: gl.constexpr, C: gl.constexpr, axis: gl.constexpr, shared: gl.constexpr,
                   layout: gl.constexpr):  # fmt: skip
    """Rows or columns change places three times: by a gather, a scatter, and additions to zeros."""
    row = gl.arange(0, R, layout=gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, C, layout=gl.SliceLayout(0, layout))[None, :]
    place = row * C + column
    index = (R - 1 - row if axis == 0 else C - 1 - column) + gl.zeros([R, C], gl.int32, layout)
    first = gl.allocate_shared_memory(gl.int32, [R, C], shared, gl.load(x + place))
    second = gl.allocate_shared_memory(gl.int32, [R, C], shared)
    third = gl.allocate_shared_memory(gl.int32, [R, C], shared, gl.zeros([R, C], gl.int32, layout))
    second.scatter(first.gather(index, axis), index, axis)
    third.atomic_scatter_add(second.load(layout), index, axis)
    gl.store(y + place, third.load(layout))


VIEWS = [
    gl.SwizzledSharedLayout(1, 1, 1, [1, 0]),
    gl.SwizzledSharedLayout(4, 1, 8, [1, 0]),
    gl.SwizzledSharedLayout(1, 1, 1, [0, 1]),
    gl.PaddedSharedLayout.with_identity_for([[16, 4]], [16, 32], [1, 0]),
]


@BY_EXAMPLE
@given(case=CASES, axis=AXES, shared=st.sampled_from(VIEWS))
def test_views_at_known_indices(case: Case, axis: int, shared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    case = replace(case, shape=(16, 32))
    x, y = np.arange(512, dtype=np.int32).reshape(case.shape), np.zeros(case.shape, np.int32)
    report = case.check(monkeypatch, turned_in_view, x, y, *case.shape, axis, shared, case.layout())
    assert np.array_equal(y, np.flip(x, axis))
    known(report)
    assert {row.kind for row in report.views} >= {"view_gather", "view_scatter", "view_atomic"}


def test_masked_atomics_of_views_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    x, index, chosen, y, old = (np.zeros((16, 32), np.int32) for _ in range(5))
    launch = Launch(change, (2,), (x, index, chosen, y, old, 16, 32, 0, "add"), {"num_warps": 4}, 0)
    report = check(launch, monkeypatch)
    (unknown,) = (row for row in report.views if row.grid is None)
    assert unknown.kind == "view_atomic" and unknown.notes == ("masked, so wavefronts are not counted",)
    assert report.shared_atomics is None and "shared atomics  not counted" in render(report)
