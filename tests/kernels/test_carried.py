"""Addresses that loops and branches carry: accesses stay as wide as the first ones allow, and values stay right."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError
from glueball.language.nvidia.ampere import async_copy
from tests.kernels.harness import EXECUTORS, run

ROWS, COLUMNS, STEP = 16, 256, 64
WIDE = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])


@glueball.jit
def tile_of(pointer, stride, layout: gl.constexpr):
    row = gl.arange(0, 16, layout=gl.SliceLayout(1, layout))
    column = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    return pointer + row[:, None] * stride + column[None, :]


@glueball.jit
def moving_pointers(x, y, stride, rounds, layout: gl.constexpr):
    source, target = tile_of(x, stride, layout), tile_of(y, stride, layout)
    for _ in range(rounds):
        gl.store(target, gl.load(source))
        source += 64
        target += 64


@glueball.jit
def moving_while(x, y, stride, rounds, layout: gl.constexpr):
    source, start = tile_of(x, stride, layout), 0
    while start < rounds * 64:
        gl.store(tile_of(y, stride, layout) + start, gl.load(source))
        source += 64
        start += 64


@glueball.jit
def chosen_pointers(x, y, stride, rounds, layout: gl.constexpr):
    source = tile_of(x, stride, layout)
    for index in range(rounds):
        place = source
        if index > 0:
            place += index * 64
        gl.store(tile_of(y, stride, layout) + index * 64, gl.load(place))


@glueball.jit
def moving_copies(x, y, stride, rounds, layout: gl.constexpr):
    source, target = tile_of(x, stride, layout), tile_of(y, stride, layout)
    view = gl.allocate_shared_memory(x.dtype.element_ty, [16, 64], gl.SwizzledSharedLayout(8, 1, 8, [1, 0]))
    for _ in range(rounds):
        async_copy.async_load(view, source)
        async_copy.commit_group()
        async_copy.wait_group(0)
        gl.store(target, view.load(layout))
        source += 64
        target += 64


KERNELS = (moving_pointers, moving_while, chosen_pointers, moving_copies)


def arrays() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    values = np.arange(ROWS * COLUMNS, dtype=np.float16).reshape(ROWS, COLUMNS)
    return values, np.zeros_like(values)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_values(kernel: Any, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = arrays()
    run(executor, monkeypatch, partial(kernel[(1,)], num_warps=4), x, y, COLUMNS, COLUMNS // STEP, WIDE)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("kernel", KERNELS)
def test_accesses_of_sixteen_bytes(kernel: Any) -> None:
    text = glueball.compile_only(kernel, *arrays(), COLUMNS, 4, WIDE, target="sm_90a").asm["ptx"]
    widths = re.findall(r"\b((?:ld|st)\.global\S*|cp\.async\.c[ag]\S*)", text)
    assert widths
    assert all(".v4.b32" in each or each.startswith("cp.async") for each in widths), widths
    assert len(re.findall(r"cp\.async\.cg\.shared\.global \[.*\], 16;", text)) == (kernel is moving_copies)


@glueball.jit
def moves_by(x, y, step, rounds, layout: gl.constexpr):
    source = tile_of(x, 256, layout)
    total = gl.zeros([16, 64], gl.float32, layout)
    for _ in range(rounds):
        total += gl.load(source).to(gl.float32)
        source += step
    gl.store(tile_of(y, 64, layout), total)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("step", [1, 2, 24, 64])
def test_a_step_that_breaks_the_alignment(executor: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) % 251
    y = np.zeros((ROWS, STEP), np.float32)
    run(executor, monkeypatch, partial(moves_by[(1,)], num_warps=4), x, y, step, 3, WIDE)
    expected = sum(x[:, index * step : index * step + STEP] for index in range(3))
    np.testing.assert_array_equal(y, expected)


@glueball.jit
def copies_by(x, step, rounds, layout: gl.constexpr):
    source = tile_of(x, 256, layout)
    view = gl.allocate_shared_memory(x.dtype.element_ty, [16, 64], gl.SwizzledSharedLayout(8, 1, 8, [1, 0]))
    for _ in range(rounds):
        async_copy.async_load(view, source)
        source += step


def test_copies_narrower_than_a_word_are_refused() -> None:
    with pytest.raises(CompilationError, match=r"cp\.async does not support transfers smaller than 4 bytes"):
        glueball.compile_only(copies_by, arrays()[0], 3, 2, WIDE, target="sm_90a")


@glueball.jit
def carried_indices(x, y, rounds, layout: gl.constexpr):
    index = gl.arange(0, 256, layout=layout)
    byte = index.to(gl.int8)
    odd = (index * 2 + 1) % 256
    for _ in range(rounds):
        index = (index + 8) % 256
        byte = byte + 8
        odd = (odd + 16) % 256
    gl.store(y + gl.arange(0, 256, layout=layout), gl.load(x + index) + gl.load(x + odd) + byte.to(gl.int32))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_indices_that_wrap_around(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, index = np.random.default_rng(0).integers(0, 1000, 256, np.int32), np.zeros(256, np.int32), np.arange(256)
    layout = gl.BlockedLayout([4], [32], [2], [0])
    run(executor, monkeypatch, partial(carried_indices[(1,)], num_warps=2), x, y, 5, layout)
    expected = x[(index + 40) % 256] + x[(index * 2 + 1 + 80) % 256] + (index + 40).astype(np.int8)
    np.testing.assert_array_equal(y, expected)


@glueball.jit
def below_zero(y, rounds, layout: gl.constexpr):
    index = gl.arange(0, 64, layout=layout) - 32
    for _ in range(rounds):
        index = index % 8
        index = index - 8
    gl.store(y + gl.arange(0, 64, layout=layout), index)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_remainders_below_zero_are_no_runs(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.zeros(64, np.int32)
    run(executor, monkeypatch, partial(below_zero[(1,)], num_warps=1), y, 2, gl.BlockedLayout([8], [32], [1], [0]))
    expected = np.arange(64) - 32
    for _ in range(2):
        expected = np.fmod(expected, 8) - 8
    np.testing.assert_array_equal(y, expected)


@glueball.jit
def truth(y, rounds, layout: gl.constexpr):
    offset = gl.arange(0, 64, layout=layout) * 16 + 16
    for _ in range(rounds):
        offset = offset.to(gl.int1).to(gl.int32)
    gl.store(y + gl.arange(0, 64, layout=layout), offset)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_truth_value_keeps_no_divisor(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    y = np.zeros(64, np.int32)
    run(executor, monkeypatch, partial(truth[(1,)], num_warps=1), y, 2, gl.BlockedLayout([2], [32], [1], [0]))
    np.testing.assert_array_equal(y, 1)
