"""Copies in one and two dimensions, from the plainest loop to a transposing copy that goes through shared memory."""

import glueball
import glueball.language as gl


@glueball.jit
def copy_scalar(x_ptr, y_ptr, n, XBLOCK: gl.constexpr):
    """One element at a time: a program copies XBLOCK elements with every thread doing the same."""
    start = gl.program_id(0) * XBLOCK
    end = min(start + XBLOCK, n)
    for i in range(start, end):
        value = gl.load(x_ptr + i)
        gl.store(y_ptr + i, value)


@glueball.jit
def copy_1d(x_ptr, y_ptr, n, XBLOCK: gl.constexpr, layout: gl.constexpr, CACHE: gl.constexpr = ""):
    """One tile of XBLOCK elements a program; the layout says how many neighbouring elements a thread takes."""
    offsets = gl.program_id(0) * XBLOCK + gl.arange(0, XBLOCK, layout=layout)
    mask = offsets < n
    value = gl.load(x_ptr + offsets, mask=mask, cache_modifier=CACHE)
    gl.store(y_ptr + offsets, value, mask=mask, cache_modifier=CACHE)


@glueball.jit
def tile_coordinates(rows, columns, XBLOCK: gl.constexpr, YBLOCK: gl.constexpr, layout: gl.constexpr):
    """Row and column indices of this program's tile, and the mask of those inside the tensor."""
    row = gl.program_id(0) * XBLOCK + gl.arange(0, XBLOCK, layout=gl.SliceLayout(1, layout))
    column = gl.program_id(1) * YBLOCK + gl.arange(0, YBLOCK, layout=gl.SliceLayout(0, layout))
    mask = (row[:, None] < rows) & (column[None, :] < columns)
    return row, column, mask


@glueball.jit
def copy_2d(
    x_ptr, y_ptr, rows, columns, x_stride_0, x_stride_1, y_stride_0, y_stride_1,
    layout: gl.constexpr, XBLOCK: gl.constexpr, YBLOCK: gl.constexpr,
):  # fmt: skip
    """One tile of a two-dimensional tensor of any strides; one layout for load and store."""
    row, column, mask = tile_coordinates(rows, columns, XBLOCK, YBLOCK, layout)
    value = gl.load(x_ptr + x_stride_0 * row[:, None] + x_stride_1 * column[None, :], mask=mask)
    gl.store(y_ptr + y_stride_0 * row[:, None] + y_stride_1 * column[None, :], value, mask=mask)


@glueball.jit
def copy_converting(
    x_ptr, y_ptr, rows, columns, x_stride_0, x_stride_1, y_stride_0, y_stride_1,
    load_layout: gl.constexpr, store_layout: gl.constexpr, XBLOCK: gl.constexpr, YBLOCK: gl.constexpr,
):  # fmt: skip
    """Loads in the layout that suits the source, converts, stores in the layout that suits the destination."""
    row, column, mask = tile_coordinates(rows, columns, XBLOCK, YBLOCK, load_layout)
    value = gl.load(x_ptr + x_stride_0 * row[:, None] + x_stride_1 * column[None, :], mask=mask)
    converted = gl.convert_layout(value, store_layout)
    row, column, mask = tile_coordinates(rows, columns, XBLOCK, YBLOCK, store_layout)
    gl.store(y_ptr + y_stride_0 * row[:, None] + y_stride_1 * column[None, :], converted, mask=mask)
