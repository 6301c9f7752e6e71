"""Kernels that compile and then do wrong: what the simulator finds."""

import numpy as np

import glueball
import glueball.language as gl

LINE = gl.BlockedLayout([1], [32], [4], [0])
TILE = gl.BlockedLayout([1, 1], [4, 8], [4, 1], [1, 0])


@glueball.jit
def copy(x, y, n, layout: gl.constexpr):
    place = gl.program_id(0) * 128 + gl.arange(0, 128, layout=layout)
    mask = place < n
    value = gl.load(x + place, mask=mask)
    gl.store(y + place, value, mask=mask)


def read_out_of_bounds():
    copy[(2,)](np.zeros(200, np.float32), np.zeros(256, np.float32), 201, LINE)


def written_out_of_bounds():
    copy[(2,)](np.zeros(256, np.float32), np.zeros(150, np.float32), 256, LINE)


def written_to_a_read_only_array():
    y = np.zeros(256, np.float32)
    y.flags.writeable = False
    copy[(2,)](np.zeros(256, np.float32), y, 256, LINE)


@glueball.jit
def fill(x, rows, row_stride, layout: gl.constexpr):
    row = gl.arange(0, 16, layout=gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, 8, layout=gl.SliceLayout(0, layout))[None, :]
    gl.store(x + row * row_stride + column, 1.0, mask=row < rows)


def written_out_of_a_matrix():
    fill[(1,)](np.zeros((10, 8), np.float32), 11, 8, TILE)


def written_between_the_rows_of_a_view():
    fill[(1,)](np.zeros((10, 16), np.float32)[:, :7], 10, 16, TILE)


def index_overflows():
    fill[(1,)](np.zeros((10, 8), np.float32), 16, 1 << 28, TILE)


@glueball.jit
def shifted(x, y, n, layout: gl.constexpr):
    place = gl.arange(0, 128, layout=layout)
    value = gl.load(x + place, mask=place < n)
    gl.store(y + place, value + 1)


def masked_off_value_is_stored():
    shifted[(1,)](np.zeros(100, np.float32), np.zeros(128, np.float32), 100, LINE)


@glueball.jit
def accumulates(x, y, n, step):
    total = 0.0
    for i in range(0, n, step):
        total += gl.load(x + i)
    gl.store(y, total)


def loop_of_no_step():
    accumulates[(1,)](np.zeros(100, np.float32), np.zeros(1, np.float32), 100, 0)
