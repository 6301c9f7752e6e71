"""The kernels of the memcpy ladder, as a user writes them."""

from __future__ import annotations

import glueball.language as gl
from glueball.language.function import JITCallable


@JITCallable
def scalar_copy(x_ptr, y_ptr, n, XBLOCK: gl.constexpr):
    pid = gl.program_id(0)
    start = pid * XBLOCK
    end = min(start + XBLOCK, n)
    for i in range(start, end):
        value = gl.load(x_ptr + i)
        gl.store(y_ptr + i, value)


@JITCallable
def copy_1d(x_ptr, y_ptr, n, XBLOCK: gl.constexpr, layout: gl.constexpr):
    pid = gl.program_id(0)
    offsets = pid * XBLOCK + gl.arange(0, XBLOCK, layout=layout)
    mask = offsets < n
    value = gl.load(x_ptr + offsets, mask=mask)
    gl.store(y_ptr + offsets, value, mask=mask)


@JITCallable
def tile_offsets(pid_x, pid_y, layout: gl.constexpr, XBLOCK: gl.constexpr, YBLOCK: gl.constexpr):
    rows = pid_x * XBLOCK + gl.arange(0, XBLOCK, layout=gl.SliceLayout(1, layout))
    columns = pid_y * YBLOCK + gl.arange(0, YBLOCK, layout=gl.SliceLayout(0, layout))
    return rows, columns


@JITCallable
def copy_2d(
    x_ptr, y_ptr, x_n, y_n, xs0, xs1, ys0, ys1, layout: gl.constexpr, XBLOCK: gl.constexpr, YBLOCK: gl.constexpr
):
    pid_x = gl.program_id(0)
    pid_y = gl.program_id(1)
    rows = pid_x * XBLOCK + gl.arange(0, XBLOCK, layout=gl.SliceLayout(1, layout))
    columns = pid_y * YBLOCK + gl.arange(0, YBLOCK, layout=gl.SliceLayout(0, layout))
    mask = (rows[:, None] < x_n) & (columns[None, :] < y_n)
    value = gl.load(x_ptr + xs0 * rows[:, None] + xs1 * columns[None, :], mask=mask)
    gl.store(y_ptr + ys0 * rows[:, None] + ys1 * columns[None, :], value, mask=mask)


@JITCallable
def mask_and_offsets(x_n, y_n, s0, s1, layout: gl.constexpr, XBLOCK: gl.constexpr, YBLOCK: gl.constexpr):
    rows, columns = tile_offsets(gl.program_id(0), gl.program_id(1), layout, XBLOCK, YBLOCK)
    mask = (rows[:, None] < x_n) & (columns[None, :] < y_n)
    return mask, s0 * rows[:, None] + s1 * columns[None, :]


@JITCallable
def copy_converting(
    x_ptr, y_ptr, x_n, y_n, xs0, xs1, ys0, ys1,
    source_layout: gl.constexpr, target_layout: gl.constexpr, XBLOCK: gl.constexpr, YBLOCK: gl.constexpr,
):  # fmt: skip
    x_mask, x_offsets = mask_and_offsets(x_n, y_n, xs0, xs1, source_layout, XBLOCK, YBLOCK)
    value = gl.load(x_ptr + x_offsets, mask=x_mask)
    value = gl.convert_layout(value, target_layout)
    y_mask, y_offsets = mask_and_offsets(x_n, y_n, ys0, ys1, target_layout, XBLOCK, YBLOCK)
    gl.store(y_ptr + y_offsets, value, mask=y_mask)
