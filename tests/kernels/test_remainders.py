"""Indices modulo an extent, by which kernels stay inside of a tensor without masks: wide accesses, and their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import glueball
import glueball.language as gl
from glueball.errors import IntegerOverflowError
from glueball.language.nvidia.ampere import async_copy
from tests.kernels.harness import EXECUTORS, run

LINE = gl.constexpr(gl.BlockedLayout([8], [32], [4], [0]))
TILE = gl.constexpr(gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0]))
SHARED = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))
BLOCK = 1024


@glueball.jit
def wrapped(x, y, start, n, BLOCK: gl.constexpr):
    place = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=LINE)
    gl.store(y + place, gl.load(x + (start + place) % n))


@glueball.jit
def wrapped_if_inside(x, y, start, n, BLOCK: gl.constexpr):
    place = start + gl.arange(0, BLOCK, layout=LINE)
    gl.store(y + place, gl.load(x + place % n, mask=place >= 0, other=0), mask=place >= 0)


@glueball.jit
def wrapped_copy(x, y, n, BLOCK: gl.constexpr):
    place = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=LINE)
    buffer = gl.allocate_shared_memory(gl.float16, [BLOCK], SHARED)
    async_copy.async_load(buffer, x + place % n)
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.store(y + place, buffer.load(LINE))


@glueball.jit
def tiles_of_a_product(a, y, rows, columns, HEIGHT: gl.constexpr, WIDTH: gl.constexpr):
    """As products load their operands: rows and columns beyond the end are some of the first ones again."""
    row = gl.program_id(0) * HEIGHT + gl.arange(0, HEIGHT, layout=gl.SliceLayout(1, TILE))
    column = gl.program_id(1) * WIDTH + gl.arange(0, WIDTH, layout=gl.SliceLayout(0, TILE))
    value = gl.load(a + (row % rows)[:, None] * columns + (column % columns)[None, :])
    width = gl.num_programs(1) * WIDTH
    gl.store(y + row[:, None] * width + column[None, :], value)


@glueball.jit
def remainders(y, start, n, BLOCK: gl.constexpr):
    place = gl.arange(0, BLOCK, layout=LINE)
    gl.store(y + place, (start + place) % n)


def loads(compiled: Any) -> list[int]:
    """The elements of each load of the thread IR."""
    lines = [line for line in compiled.asm["thread"].splitlines() if "= global_load" in line or "async_copy " in line]
    return [int(line.partition("count = ")[2].partition(",")[0].partition("}")[0]) for line in lines]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("start", "n"), [(0, 48), (0, 1), (32, 4096), (5, 7), (2**30 - 1024, 2048)])
def test_indices_wrap_around(executor: str, start: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.arange(n, dtype=np.float16), np.zeros(2 * BLOCK, np.float16)
    run(executor, monkeypatch, lambda a, b: wrapped[(2,)](a, b, start, n, BLOCK), x, y)
    np.testing.assert_array_equal(y, x[(start + np.arange(2 * BLOCK)) % n])


@pytest.mark.parametrize(("n", "elements"), [(48, [8]), (4096, [8]), (50, [1] * 8)])
def test_an_extent_that_is_a_multiple_of_the_vector_loads_vectors(
    n: int, elements: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    x, y = np.arange(n, dtype=np.float16), np.zeros(2 * BLOCK, np.float16)
    assert loads(wrapped[(2,)](x, y, 32, n, BLOCK)) == elements


@pytest.mark.parametrize("executor", EXECUTORS)
def test_copies_of_16_bits_have_the_width_they_need(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.arange(1600, dtype=np.float16), np.zeros(2 * BLOCK, np.float16)
    run(executor, monkeypatch, lambda a, b: wrapped_copy[(2,)](a, b, 1600, BLOCK), x, y)
    np.testing.assert_array_equal(y, x[np.arange(2 * BLOCK) % 1600])


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("rows", "columns"), [(48, 80), (33, 64), (1, 16), (33, 50)])
def test_operands_of_products(executor: str, rows: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    a, y = np.arange(rows * columns, dtype=np.float16).reshape(rows, columns), np.zeros((64, 128), np.float16)
    compiled: list[Any] = []

    def launch(source: Any, target: Any) -> None:
        compiled.append(tiles_of_a_product[(2, 2)](source, target, rows, columns, 32, 64))

    run(executor, monkeypatch, launch, a, y)
    np.testing.assert_array_equal(y, a[np.arange(64)[:, None] % rows, np.arange(128) % columns])
    if executor == "sim":
        assert set(loads(compiled[0])) == {8 if columns % 16 == 0 else 1}


@settings(max_examples=60)
@given(start=st.integers(-300, 300), n=st.integers(-70, 70))
@example(start=-64, n=16)
@example(start=-64, n=0)
def test_remainders_that_are_values_are_exact(start: int, n: int) -> None:
    found = {}
    for executor in ("reference", "sim"):
        with pytest.MonkeyPatch.context() as patch:
            found[executor] = np.zeros(256, np.int32)
            run(executor, patch, lambda y: remainders[(1,)](y, start, n, 256), found[executor])
    place = start + np.arange(256)
    np.testing.assert_array_equal(found["reference"], np.fmod(place, n) if n else place)
    np.testing.assert_array_equal(found["sim"], found["reference"])


def test_a_run_below_zero_is_reported_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.arange(64, dtype=np.float16), np.zeros(2 * BLOCK, np.float16)
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")
    with pytest.raises(IntegerOverflowError) as caught:
        wrapped[(2,)](x, y, -32, 16, BLOCK)
    assert "indices from -32 on are taken modulo 16, which gives 0 and then negative numbers" in str(caught.value)
    assert "by adding 16 first" in str(caught.value)
    assert "(start + place) % n" in str(caught.value)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_run_below_zero_that_is_masked_off_is_none(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.arange(64, dtype=np.float16), np.zeros(BLOCK, np.float16)
    run(executor, monkeypatch, lambda a, b: wrapped_if_inside[(1,)](a, b, -32, 16, BLOCK), x, y)
    np.testing.assert_array_equal(y, np.where(np.arange(BLOCK) < BLOCK - 32, x[np.arange(BLOCK) % 16], 0))
