"""Promises of the author: what they make of memory accesses, and what the executors say of false ones."""

from __future__ import annotations

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError, SimulationError
from tests.kernels.harness import EXECUTORS, run

LAYOUT = gl.constexpr(gl.BlockedLayout([4], [32], [4], [0]))


@glueball.jit
def assumed(x, y, start, BLOCK: gl.constexpr, PROMISED: gl.constexpr):
    if PROMISED:
        gl.assume((start % 16 == 0) & (start >= 0))
    index = start + gl.arange(0, BLOCK, LAYOUT)
    gl.store(y + index, gl.load(x + index))


@glueball.jit
def multiple(x, y, start, BLOCK: gl.constexpr, PROMISED: gl.constexpr):
    first = gl.multiple_of(start, 16) if PROMISED else start
    index = first + gl.arange(0, BLOCK, LAYOUT)
    gl.store(y + index, gl.load(x + index))


@glueball.jit
def contiguous(x, y, extent, BLOCK: gl.constexpr, PROMISED: gl.constexpr):
    index = (extent + gl.arange(0, BLOCK, LAYOUT)) % extent
    if PROMISED:
        index = gl.max_contiguous(gl.multiple_of(index, 8), 8)
    gl.store(y + index, gl.load(x + index))


@glueball.jit
def constant(x, y, n, BLOCK: gl.constexpr, PROMISED: gl.constexpr):
    index = gl.arange(0, BLOCK, LAYOUT)
    group = index // n
    if PROMISED:
        group = gl.max_constancy(group, [4])
    gl.store(y + index, gl.load(x + group))


KERNELS = [(assumed, 48), (multiple, 48), (contiguous, 4104), (constant, 8)]


def widths(kernel, instruction):
    lines = [line for line in kernel.asm["thread"].splitlines() if f"= {instruction}" in line or instruction in line]
    return [int(line.partition("count = ")[2].partition(",")[0].partition("}")[0]) for line in lines]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("kernel", "scalar"), KERNELS, ids=lambda value: getattr(value, "__name__", None))
@pytest.mark.parametrize("promised", [False, True])
def test_values_stay_the_same(kernel, scalar, promised, executor, monkeypatch):
    x, y = np.arange(8192, dtype=np.float32), np.zeros(8192, np.float32)
    run(executor, monkeypatch, lambda a, b: kernel[(1,)](a, b, scalar, 512, promised), x, y)
    if kernel is constant:
        np.testing.assert_array_equal(y[:512], np.arange(512) // scalar)
    else:
        first = 0 if kernel is contiguous else scalar
        np.testing.assert_array_equal(y[first : first + 512], x[first : first + 512])
        assert np.count_nonzero(y) == (511 if kernel is contiguous else 512)


@glueball.jit(do_not_specialize_on_alignment=["scalar"])
def narrow(x, y, scalar, BLOCK: gl.constexpr, PROMISED: gl.constexpr):
    assumed(x, y, scalar, BLOCK, PROMISED)


@pytest.mark.parametrize("promised", [False, True])
def test_a_promised_divisor_widens_accesses(promised, monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    x, y = np.arange(8192, dtype=np.float32), np.zeros(8192, np.float32)
    compiled = narrow[(1,)](x, y, 48, 512, promised)
    assert widths(compiled, "global_load") == ([4] if promised else [1] * 4)


@pytest.mark.parametrize("promised", [False, True])
def test_promised_runs_widen_accesses(promised, monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    x, y = np.arange(8192, dtype=np.float32), np.zeros(8192, np.float32)
    assert widths(contiguous[(1,)](x, y, 4104, 512, promised), "global_load") == ([4] if promised else [1] * 4)
    assert widths(constant[(1,)](x, y, 8, 512, promised), "global_load") == ([1] if promised else [1] * 4)


@pytest.mark.parametrize("executor", ["reference", "sim"])
@pytest.mark.parametrize(
    ("kernel", "message"),
    [(assumed, "`assume` promises what does not hold"), (multiple, "multiple of 16|divisibility.* does not hold")],
    ids=["assume", "multiple_of"],
)
def test_false_promises_are_reported(kernel, message, executor, monkeypatch):
    x, y = np.arange(8192, dtype=np.float32), np.zeros(8192, np.float32)
    monkeypatch.setenv("GLUEBALL_EXECUTOR", executor)
    with pytest.raises(SimulationError, match=message):
        kernel[(1,)](x, y, 49, 512, True)


def test_a_false_run_is_reported_by_the_reference(monkeypatch):
    x, y = np.arange(8192, dtype=np.float32), np.zeros(8192, np.float32)
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    with pytest.raises(SimulationError, match=r"contiguity \[8\] does not hold at element \[100\]"):
        contiguous[(1,)](x, y, 100, 512, True)
    with pytest.raises(SimulationError, match=r"constancy \[4\] does not hold at element \[3\]"):
        constant[(1,)](x, y, 3, 512, True)


@glueball.jit
def wrong_count(x):
    gl.multiple_of(gl.arange(0, 128, LAYOUT), [8, 8])


@glueball.jit
def run_time_promise(x, n):
    gl.max_contiguous(gl.arange(0, 128, LAYOUT), [n])


def test_wrong_promises(monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    with pytest.raises(CompilationError, match="does not match the length of values: 1 and 2"):
        wrong_count[(1,)](np.zeros(1, np.float32))
    with pytest.raises(CompilationError, match=r"must have type `constexpr\[int\]`"):
        run_time_promise[(1,)](np.zeros(1, np.float32), 3)
