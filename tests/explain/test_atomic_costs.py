"""What `explain` predicts of atomic accesses is what the simulator counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glueball
import glueball.language as gl
from glueball.explain import Report, Traffic, explain, render
from glueball.explain.report import MASKED_NOTE
from glueball.kernels.ladder import Launch
from glueball.kernels.scatter import histogram_kernel
from tests.explain.differential import check
from tests.explain.test_scratch_costs import BY_EXAMPLE, CASES, Case, known
from tests.kernels.test_atomics import change_kernel

LINE = gl.BlockedLayout([1], [32], [4], [0])
FOUR = gl.BlockedLayout([4], [32], [4], [0])
KINDS = st.sampled_from(["add", "max", "min", "and", "or", "xor", "exchange"])


def run(monkeypatch: pytest.MonkeyPatch, kernel: Any, *arguments: Any, programs: int = 3) -> Report:
    """Compares some programs."""
    return check(Launch(kernel, (programs,), arguments, {"num_warps": 4}, 0), monkeypatch)


@glueball.jit
def twice(counts, seen, M: gl.constexpr, N: gl.constexpr, layout: gl.constexpr):
    """Atomic additions to a tile, with a result that all threads get, and to the line before it, without one."""
    rows = gl.arange(0, M, gl.SliceLayout(1, layout))
    place = rows[:, None] * N + gl.arange(0, N, gl.SliceLayout(0, layout))[None, :]
    gl.store(seen + place, gl.atomic_add(counts + place, place + 1))
    gl.atomic_add(counts + rows, 1)


@BY_EXAMPLE
@given(case=CASES)
def test_atomics_in_any_layout(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, columns = case.shape
    size = rows * columns
    counts, seen = np.zeros(size, np.int32), np.zeros(size, np.int32)
    report = case.check(monkeypatch, twice, counts, seen, rows, columns, case.layout())
    known(report)
    assert report.atomics is not None and report.atomics.useful_bytes == 2 * 4 * (size + rows)


@BY_EXAMPLE
@given(case=CASES, kind=KINDS, dtype=st.sampled_from([np.int32, np.uint64]), limit=st.integers(0, 300))
def test_masks_that_cut_tiles(case: Case, kind: str, dtype: Any, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target, x, old = (np.zeros(256, dtype) for _ in range(3))
    layout = gl.SliceLayout(0, case.layout((1, 256)))
    report = case.check(monkeypatch, change_kernel, target, x, old, limit, 256, kind, None, None, layout)
    known(report)
    (change,) = (row for row in report.accesses if row.change)
    assert change.change == kind and MASKED_NOTE not in change.notes
    assert report.atomics is not None and report.atomics.useful_bytes == 2 * min(limit, 256) * x.itemsize


@glueball.jit
def in_turns(counter, flag, n, STEP: gl.constexpr, layout: gl.constexpr):
    """Atomics of lines and scalars, in a loop and under conditions."""
    place = gl.arange(0, 128, layout=layout)
    for start in range(gl.program_id(0) * 5, n, STEP):
        gl.atomic_add(counter + start + place, 1, sem="relaxed")
        gl.atomic_max(counter + start + place, 1, mask=place < n - 100)
    gl.atomic_cas(flag, 0, gl.program_id(0) + 1)
    gl.atomic_add(flag + 1, 1, mask=gl.program_id(0) > 1)
    if gl.program_id(0) == 2:
        gl.atomic_xchg(flag + 2, gl.atomic_add(flag + 1, 1))


@pytest.mark.parametrize("layout", [LINE, FOUR], ids=["one", "four"])
@pytest.mark.parametrize("step", [1, 8, 128])
def test_loops_and_conditions(step: int, layout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    counter, flag = np.zeros(1024, np.int32), np.zeros(8, np.int32)
    report = run(monkeypatch, in_turns, counter, flag, 200, step, layout)
    known(report)
    scalars = [row.grid for row in report.accesses if not row.shape]
    assert scalars == [Traffic(count, count, 4 * count) for count in (3, 1, 1, 1)]


@glueball.jit
def handed_over(flags, data, layout: gl.constexpr):
    """Each program waits for the one before it."""
    gl.atomic_poll(flags + gl.program_id(0), 1)
    place = gl.arange(0, 128, layout=layout)
    gl.store(data + place, gl.load(data + place, volatile=True) + 1)
    gl.atomic_store(flags + gl.program_id(0) + 1, 1)
    gl.atomic_load(flags + gl.program_id(0))


def test_polls_are_not_counted_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    flags, data = np.zeros(8, np.int32), np.zeros(128, np.int32)
    flags[0] = 1
    report = run(monkeypatch, handed_over, flags, data, LINE)
    poll, *others = (row for row in report.accesses if row.kind.startswith("atomic"))
    assert poll.grid is None and poll.once == Traffic(1, 1, 4) and "depends on when others write" in poll.notes[0]
    assert [row.grid for row in others] == [Traffic(3, 3, 12)] * 2
    assert report.atomics is None and report.total is None
    assert "atomics  not counted" in render(report)


def test_where_indices_are_loaded_is_said() -> None:
    x, out = np.zeros(20000, np.int64), np.zeros(100, np.int32)
    keywords = {"BINS": 128, "BLOCK": 4096, "layout": FOUR, "bins_layout": LINE, "num_warps": 4}
    arguments = (x, out, x.size, 100)
    report = explain(histogram_kernel, arguments, keywords, target="sm_90a", grid=(3,))
    assert report.atomics == Traffic(3 * 4, 3 * 16, 3 * 512)
    text = " ".join(render(report).split())
    assert "- atomic add on out_ptr: int32 [128], strides 1" in text
    assert "- count in scratch memory: int32 [4096], 512 bytes, 4 bytes a lane" in text
    assert "bank conflicts depend on the values that are counted, so wavefronts are not counted" in text
    assert "shared atomics not counted" in text and "shared loads " in text
