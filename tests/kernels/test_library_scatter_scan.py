"""Embedding, histogram, cross entropy and running sums."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import glueball
from glueball import kernels
from glueball.codegen.disassembly import line_table
from glueball.kernels.scan import ScanPlan, launch_cumsum, plan_scan
from tests.kernels.harness import EXECUTORS, random_array, run
from tests.kernels.library import BFLOAT16, assert_within, call, normal, wide
from tests.kernels.machine_code import needs_disassembler

executors = pytest.mark.parametrize("executor", EXECUTORS)


@executors
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16, np.int8], ids=lambda kind: np.dtype(kind).name)
def test_embedding(dtype, executor, monkeypatch):
    random = np.random.default_rng(0)
    for entries, columns in [(10, 300), (1000, 7), (3, 1)]:
        table = random_array((entries, columns), dtype)
        for index in (random.integers(0, entries, (3, 11)), random.integers(0, entries, 70, dtype=np.int32)):
            np.testing.assert_array_equal(call(executor, monkeypatch, kernels.embedding, table, index), table[index])
    outside = np.array([1, -1, 3])
    expected = np.stack([table[1], np.zeros(1, dtype), np.zeros(1, dtype)])
    np.testing.assert_array_equal(call(executor, monkeypatch, kernels.embedding, table, outside), expected)


@executors
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8], ids=lambda kind: np.dtype(kind).name)
def test_histogram(dtype, executor, monkeypatch):
    for count, bins in [(9001, 37), (5, 1), (300, 256), (0, 8)]:
        x = np.random.default_rng(bins).integers(0 if dtype is np.uint8 else -3, bins + 10, count).astype(dtype)
        expected = np.bincount(x[(x >= 0) & (x < bins)].astype(np.int64), minlength=bins)
        np.testing.assert_array_equal(call(executor, monkeypatch, kernels.histogram, x, bins=bins), expected)


@executors
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16], ids=lambda kind: np.dtype(kind).name)
def test_cross_entropy_and_its_gradient(dtype, executor, monkeypatch):
    random = np.random.default_rng(3)
    for rows, classes in [(5, 1000), (3, 4700), (17, 3)]:
        logits, targets = normal((rows, classes), dtype), random.integers(0, classes, rows)
        targets[1] = -1
        loss, log_sum = call(executor, monkeypatch, kernels.cross_entropy, logits, targets)
        x = wide(logits)
        exact = np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1)
        np.testing.assert_allclose(log_sum, exact, rtol=2e-6)
        expected = np.where(targets < 0, 0.0, exact - x[np.arange(rows), targets])
        # The loss is a difference of numbers of up to some 15.
        np.testing.assert_allclose(loss, expected, atol=1e-5)
        outer = normal(rows, seed=4)
        found = call(executor, monkeypatch, kernels.cross_entropy_backward, outer, logits, targets, log_sum)
        share = np.exp(x - exact[:, None])
        share[np.arange(rows), targets] -= 1
        assert_within(found, share * np.where(targets < 0, 0.0, wide(outer))[:, None], 1e-5)


@executors
@pytest.mark.parametrize("chunk", [32768, 512])
def test_running_sums(chunk, executor, monkeypatch):
    for shape in [(3, 1), (5, 700), (2, 5000)]:
        x = normal(shape)
        bound = 1e-6 * np.cumsum(np.abs(wide(x)), -1)
        found = call(executor, monkeypatch, kernels.cumsum, x, chunk=chunk)
        assert (np.abs(found - np.cumsum(wide(x), -1)) <= bound).all()
        x = normal(shape, BFLOAT16)
        assert_within(call(executor, monkeypatch, kernels.cumsum, x, chunk=chunk), np.cumsum(wide(x), -1), 1e-5)
        for kind, total in [(np.int8, np.int32), (np.int64, np.int64)]:
            x = random_array(shape, kind)
            found = call(executor, monkeypatch, kernels.cumsum, x, chunk=chunk)
            np.testing.assert_array_equal(found, np.cumsum(x, -1, dtype=total))


@executors
def test_a_line_of_many_chunks(executor, monkeypatch):
    x = random_array(20011, np.int32)
    found = call(executor, monkeypatch, kernels.cumsum, x, chunk=64)
    np.testing.assert_array_equal(found, np.cumsum(x, dtype=np.int32))


@executors
@pytest.mark.parametrize("plan", [ScanPlan(4, 1), ScanPlan(2, 2), ScanPlan(1, 4, 2), ScanPlan(8, 1, 4)], ids=str)
def test_running_sums_by_a_plan(plan, executor, monkeypatch):
    for shape in [(9, 3000), (5, 1024), (3, 40)]:
        for kind in (np.int32, BFLOAT16):
            x = random_array(shape, kind) if kind is np.int32 else normal(shape, kind)
            y = np.zeros_like(x)
            run(executor, monkeypatch, lambda *given: launch_cumsum(*given, plan=plan).run(), x, y)
            if kind is np.int32:
                np.testing.assert_array_equal(y, np.cumsum(x, -1, dtype=np.int32))
            else:
                assert_within(y, np.cumsum(wide(x), -1), 1e-5)


@executors
@pytest.mark.parametrize("plan", [ScanPlan(4, 1), ScanPlan(1, 2)], ids=str)
def test_chunks_go_on_from_what_comes_before_them(plan, executor, monkeypatch):
    x = random_array((5, 5000), np.int32)
    sums = np.add.reduceat(x, range(0, 5000, 2048), axis=1, dtype=np.int32)
    base = np.cumsum(sums, -1, dtype=np.int32) - sums
    y = np.zeros_like(x)
    run(executor, monkeypatch, lambda *given: launch_cumsum(*given, 2048, plan).run(), x, y, base)
    np.testing.assert_array_equal(y, np.cumsum(x, -1, dtype=np.int32))


def test_many_rows_are_scanned_by_a_warp_each():
    assert plan_scan(32768, 512, 2, 32) == ScanPlan(4, 1)
    assert plan_scan(32768, 4096, 2, 32) == ScanPlan(1, 4, 2)
    assert plan_scan(100, 32768, 2, 32) == ScanPlan(1, 8)
    assert plan_scan(100, 512, 2, 32) == ScanPlan(1, 2)


@needs_disassembler
def test_a_warp_that_has_a_row_meets_no_barrier_and_takes_few_instructions():
    x = np.empty((4096, 4096), BFLOAT16)
    launch = launch_cumsum(x, x, plan=ScanPlan(4, 1))
    kernel = glueball.compile_only(launch.kernel, *launch.arguments, **launch.keywords, target="sm_90a")
    names = [re.sub(r"^@!?U?P\d+ ", "", each.text).split()[0] for each in line_table(kernel.asm["cubin"])]
    loop = Counter(names[names.index("EXIT") + 1 : names.index("BRA")])
    assert loop["SHFL.UP"] == 5 + 1 and loop["SHFL.IDX"] == 1
    assert loop["LDG.E.128"] == loop["STG.E.128"] == 1
    assert loop["FADD"] == 7 + 5 + 8 + 8
    # A bfloat16 becomes a float in one instruction: the words of the next step are carried as they are.
    assert not any(name.startswith(("PRMT", "BAR", "LDS", "STS")) for name in names)
    assert loop.total() <= 70
    assert kernel.n_regs <= 32 and kernel.n_spills == 0


def test_wrong_arguments():
    x = np.zeros((2, 2), np.float32)
    with pytest.raises(ValueError, match="bins"):
        kernels.histogram(np.zeros(4, np.int32), 10000)
    with pytest.raises(ValueError, match="power of two"):
        kernels.cumsum(x, 100)
    with pytest.raises(ValueError, match="one class a row"):
        kernels.cross_entropy(x, np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="signed integers"):
        kernels.cross_entropy(x, np.zeros(2, np.float32))
