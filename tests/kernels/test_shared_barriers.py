"""Barriers between accesses of shared memory: each is needed, as the simulator says, and none is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import SharedMemoryRaceError
from glueball.kernels.ladder import Launch
from glueball.lower import lower
from tests.kernels import test_shared_memory as kernels
from tests.kernels.harness import random_array
from tests.kernels.test_barriers import TARGET, barriers, run, tile_function, without_barrier
from tests.kernels.test_shared_memory import COLUMNS, DENSE, LAYOUTS, LINE, PLAIN, ROWS, offsets


def _launch(kernel: Any, *arguments: Any) -> Launch:
    return Launch(kernel, (2,), arguments, {}, 0)


def _square(*shape: int) -> np.ndarray:
    return random_array(shape, np.float32)


@glueball.jit
def halves(x, y, N: gl.constexpr):
    """Two slices are written one after the other and read crosswise: one barrier, none between the writes."""
    view = gl.allocate_shared_memory(gl.float32, [N, N], DENSE)
    left, right = view.slice(0, N // 2, 1), view.slice(N // 2, N // 2, 1)
    row = gl.arange(0, N, gl.SliceLayout(1, ROWS))[:, None] * N
    place = row + gl.arange(0, N // 2, gl.SliceLayout(0, ROWS))[None, :]
    left.store(gl.load(x + place))
    right.store(gl.load(x + N // 2 + place))
    other = (
        gl.arange(0, N, gl.SliceLayout(1, COLUMNS))[:, None] * N
        + gl.arange(0, N // 2, gl.SliceLayout(0, COLUMNS))[None, :]
    )
    gl.store(y + other, right.load(COLUMNS))
    gl.store(y + N // 2 + other, left.load(COLUMNS))


@glueball.jit
def accumulate(x, y, n, N: gl.constexpr):
    """A loop that writes, turns and reads: a barrier before each, the second one for the next turn."""
    view = gl.allocate_shared_memory(gl.float32, [N, N], DENSE)
    total = gl.zeros([N, N], gl.float32, COLUMNS)
    for i in range(n):
        view.store(gl.load(x + i * N * N + offsets(N, N, ROWS)))
        total += view.load(COLUMNS)
    gl.store(y + offsets(N, N, COLUMNS), total)


@glueball.jit
def two_buffers(x, y, n, N: gl.constexpr):
    """Unrolled by hand, two buffers need one barrier a step."""
    view = gl.allocate_shared_memory(gl.float32, [2, N, N], DENSE)
    total = gl.zeros([N, N], gl.float32, COLUMNS)
    for i in range(0, n, 2):
        view.index(0).store(gl.load(x + i * N * N + offsets(N, N, ROWS)))
        total += view.index(0).load(COLUMNS)
        view.index(1).store(gl.load(x + (i + 1) * N * N + offsets(N, N, ROWS)))
        total += view.index(1).load(COLUMNS)
    gl.store(y + offsets(N, N, COLUMNS), total)


@glueball.jit
def sometimes(x, y, flag, N: gl.constexpr):
    """Only one path writes anew before the read."""
    view = gl.allocate_shared_memory(gl.float32, [N, N], DENSE, gl.load(x + offsets(N, N, ROWS)))
    if flag > 0:
        view.store(view.load(COLUMNS).trans())
    gl.store(y + offsets(N, N, COLUMNS), view.load(COLUMNS))


@glueball.jit
def conversion_in_between(x, y, N: gl.constexpr):
    """Scratch memory of a conversion takes the place of a dead buffer."""
    view = gl.allocate_shared_memory(gl.float32, [N, N], DENSE, gl.load(x + offsets(N, N, ROWS)))
    value = view.load(COLUMNS)
    gl.store(y + offsets(N, N, ROWS), gl.convert_layout(value, ROWS))


@glueball.jit
def repeated(x, y, N: gl.constexpr):
    """Every element is held by two warps, of which one writes it."""
    view = gl.allocate_shared_memory(gl.float32, [N], PLAIN, gl.load(x + gl.arange(0, N, LINE)))
    gl.store(y + gl.arange(0, N, LINE), view.load(LINE) + 1.0)


PAIR = (_square(32, 64), _square(32, 64))

CASES: dict[str, tuple[Callable[[], Launch], int]] = {
    "store-load": (lambda: _launch(kernels.store_and_load, *PAIR, 32, 64,
                                   gl.SwizzledSharedLayout(4, 1, 8, [1, 0]), ROWS, COLUMNS), 1),
    "own-data": (lambda: _launch(kernels.store_and_load, *PAIR, 32, 64, DENSE, ROWS, ROWS), 0),
    "padded": (lambda: _launch(kernels.store_and_load, *PAIR, 32, 64, LAYOUTS["padded"],
                               ROWS, COLUMNS), 1),
    "halves": (lambda: _launch(halves, _square(32, 32), _square(32, 32), 32), 1),
    "accumulate": (lambda: _launch(accumulate, _square(2, 32, 32), _square(32, 32), 2, 32), 2),
    "two-buffers": (lambda: _launch(two_buffers, _square(4, 32, 32), _square(32, 32), 4, 32), 2),
    "sometimes": (lambda: _launch(sometimes, _square(32, 32), _square(32, 32), 1, 32), 3),
    "conversion": (lambda: _launch(conversion_in_between, _square(32, 32), _square(32, 32), 32), 3),
    "reused": (lambda: _launch(kernels.one_after_the_other, _square(2, 32, 32), _square(32, 32), False), 3),
    "kept-alive": (lambda: _launch(kernels.one_after_the_other, _square(2, 32, 32), _square(32, 32), True), 2),
    "repeated": (lambda: _launch(repeated, _square(64), _square(64), 64), 1),
    "gather": (lambda: _launch(kernels.look_up, _square(32, 64), np.zeros((32, 64), np.int32) + 31, _square(32, 64), 32,
                               64, 0, DENSE), 1),
    "scatter": (lambda: _launch(kernels.deal_out, _square(32, 64),
                                np.indices((32, 64), np.int32)[0], _square(32, 64), 32, 64, 0, DENSE), 1),
}  # fmt: skip
MUTATIONS = [pytest.param(name, number, id=f"{name}-{number}") for name, (_, n) in CASES.items() for number in range(n)]


@pytest.mark.parametrize("name", CASES)
def test_number_of_barriers(name: str) -> None:
    make, count = CASES[name]
    assert len(barriers(tile_function(make()))) == count


@pytest.mark.parametrize(("name", "number"), MUTATIONS)
def test_a_missing_barrier_is_a_race(name: str, number: int) -> None:
    launch = CASES[name][0]()
    with pytest.raises(SharedMemoryRaceError, match="with no barrier between"):
        run(without_barrier(tile_function(launch), number), launch, "in_order")


@pytest.mark.parametrize("name", CASES)
def test_with_all_barriers_there_is_no_race(name: str) -> None:
    launch = CASES[name][0]()
    run(lower(tile_function(launch), TARGET), launch, "in_order")


@glueball.jit
def same_buffer_again(x, y, i, N: gl.constexpr):
    """Of two run-time indices nobody knows whether they meet."""
    view = gl.allocate_shared_memory(gl.float32, [2, N], PLAIN)
    line = gl.arange(0, N, LINE)
    view.index(i).store(gl.load(x + line))
    gl.store(y + line, view.index(1 - i).load(LINE))


def test_runtime_indices_may_meet() -> None:
    launch = _launch(same_buffer_again, _square(128), _square(128), 0, 128)
    assert len(barriers(tile_function(launch))) == 1
