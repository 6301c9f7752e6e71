"""Kernels over matrices: the transpose, and the product by multiply-adds."""

from typing import Any

import glueball
import glueball.language as gl
from glueball.kernels.arrays import VECTOR_BYTES, as_rows, dtype_name, empty, lanes_of, row_stride
from glueball.layouts.strides import coalesced_layout
from glueball.runtime.host_functions import cdiv

TURNED = 64
"""Rows and columns of a tile that a program transposes."""
TURNING_WARPS = 16
INNER_BYTES = 32
"""Bytes of a row of the left factor, a sector, that a program takes at a time."""
PRODUCT_TYPES = {
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float32": "float32",
    "float64": "float64",
    "int8": "int32",
    "uint8": "int32",
}
"""The types that have products, and the products' types."""


@glueball.jit
def transpose_kernel(
    x_ptr, y_ptr, rows, columns, x_stride, y_stride,
    TILE: gl.constexpr, load_layout: gl.constexpr, store_layout: gl.constexpr,
):  # fmt: skip
    """One tile a program: read along the rows of `x`, converted, written along the rows of `y`."""
    row = gl.program_id(0) * TILE + gl.arange(0, TILE, layout=gl.SliceLayout(1, load_layout))
    column = gl.program_id(1) * TILE + gl.arange(0, TILE, layout=gl.SliceLayout(0, load_layout))
    x_offset = (row.to(gl.int64) * x_stride)[:, None] + column[None, :]
    x = gl.load(x_ptr + x_offset, mask=(row[:, None] < rows) & (column[None, :] < columns))
    y = gl.convert_layout(x.trans(), store_layout)
    y_row = gl.program_id(1) * TILE + gl.arange(0, TILE, layout=gl.SliceLayout(1, store_layout))
    y_column = gl.program_id(0) * TILE + gl.arange(0, TILE, layout=gl.SliceLayout(0, store_layout))
    y_offset = (y_row.to(gl.int64) * y_stride)[:, None] + y_column[None, :]
    gl.store(y_ptr + y_offset, y, mask=(y_row[:, None] < columns) & (y_column[None, :] < rows))


@glueball.jit
def load_tile(
    pointer, stride, first_row, first_column, rows, columns, ROWS: gl.constexpr, COLUMNS: gl.constexpr,
    layout: gl.constexpr,
):  # fmt: skip
    """A tile of a matrix, zero outside of it."""
    row = first_row + gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    column = first_column + gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, layout))
    offset = (row.to(gl.int64) * stride)[:, None] + column[None, :]
    return gl.load(pointer + offset, mask=(row[:, None] < rows) & (column[None, :] < columns), other=0)


@glueball.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, rows, columns, inner, a_stride, b_stride, c_stride,
    SUM: gl.constexpr, TILE: gl.constexpr, INNER: gl.constexpr, layout: gl.constexpr, a_layout: gl.constexpr,
    b_layout: gl.constexpr, a_shared_layout: gl.constexpr, b_shared_layout: gl.constexpr,
):  # fmt: skip
    """One tile of `a @ b` a program, INNER terms at a time: through shared memory to the threads that need them."""
    row = gl.program_id(0) * TILE
    column = gl.program_id(1) * TILE
    a_shared = gl.allocate_shared_memory(a_ptr.dtype.element_ty, [TILE, INNER], a_shared_layout)
    b_shared = gl.allocate_shared_memory(b_ptr.dtype.element_ty, [INNER, TILE], b_shared_layout)
    total = gl.zeros([TILE, TILE], SUM, layout)
    for start in range(0, inner, INNER):
        a_shared.store(load_tile(a_ptr, a_stride, row, start, rows, inner, TILE, INNER, a_layout))
        b_shared.store(load_tile(b_ptr, b_stride, start, column, inner, columns, INNER, TILE, b_layout))
        a = a_shared.load(gl.DotOperandLayout(0, layout, 0))
        b = b_shared.load(gl.DotOperandLayout(1, layout, 0))
        total = gl.dot_fma(a, b, total)
    c_row = row + gl.arange(0, TILE, layout=gl.SliceLayout(1, layout))
    c_column = column + gl.arange(0, TILE, layout=gl.SliceLayout(0, layout))
    c_offset = (c_row.to(gl.int64) * c_stride)[:, None] + c_column[None, :]
    mask = (c_row[:, None] < rows) & (c_column[None, :] < columns)
    gl.store(c_ptr + c_offset, total.to(c_ptr.dtype.element_ty), mask=mask)


def _matrix(array: Any, name: str) -> Any:
    if len(array.shape) != 2:
        raise ValueError(f"{name} must be a matrix, not of shape {tuple(array.shape)}")
    return as_rows(array, name)


def transpose(x: Any) -> Any:
    """The transpose of a matrix of any dtype, as a contiguous matrix."""
    matrix = _matrix(x, "x")
    rows, columns = matrix.shape
    y = empty(x, (columns, rows))
    itemsize, lanes = x.dtype.itemsize, lanes_of(x)
    # Eight bytes a thread: wide enough to fill a sector on both sides, and a tile still has an element for each thread.
    layout = coalesced_layout(
        (TURNED, TURNED), (TURNED, 1), 8 * itemsize, TURNING_WARPS, lanes=lanes, vector=max(1, 8 // itemsize)
    )
    transpose_kernel[(cdiv(rows, TURNED), cdiv(columns, TURNED))](
        matrix, y, rows, columns, row_stride(matrix), rows,
        TILE=TURNED, load_layout=layout, store_layout=layout, num_warps=TURNING_WARPS,
    )  # fmt: skip
    return y


def _product_layout(warps: int, lanes: int) -> Any:
    """Squares of 4 x 4 a thread: each load of 4 neighbours from shared memory serves four multiply-adds a term."""
    return gl.BlockedLayout([4, 4], [lanes // 8, 8], [warps // 2, 2], [1, 0])


def matmul(a: Any, b: Any) -> Any:
    """`a @ b` of two matrices of one dtype, by multiply-adds: for what the matrix instructions do not have.

    Floats give their own type, float16 and bfloat16 summed in float32; int8 and uint8 give int32. Terms are added in
    order, each rounded once. `ValueError` for other dtypes and for shapes that do not fit.
    """
    left, right = _matrix(a, "a"), _matrix(b, "b")
    (rows, inner), columns, name = left.shape, right.shape[1], dtype_name(a)
    if right.shape[0] != inner or dtype_name(b) != name:
        raise ValueError(
            f"a and b must be of one dtype, a's columns as many as b's rows, not {name} {tuple(a.shape)} and "
            f"{dtype_name(b)} {tuple(b.shape)}"
        )
    if name not in PRODUCT_TYPES:
        raise ValueError(f"matmul multiplies {', '.join(PRODUCT_TYPES)}, not {name}")
    c = empty(a, (rows, columns), PRODUCT_TYPES[name])
    itemsize, lanes = a.dtype.itemsize, lanes_of(a)
    tile, warps = (128, 8) if min(rows, columns) >= 1024 and itemsize < 8 else (64, 4)
    step = INNER_BYTES // itemsize
    bits = 8 * itemsize
    sums = {"int8": gl.int32, "uint8": gl.int32, "float64": gl.float64}.get(name, gl.float32)
    matmul_kernel[(cdiv(rows, tile), cdiv(columns, tile))](
        left, right, c, rows, columns, inner, row_stride(left), row_stride(right), columns,
        SUM=sums, TILE=tile, INNER=step, layout=_product_layout(warps, lanes),
        a_layout=coalesced_layout((tile, step), (step, 1), bits, warps, lanes=lanes, vector=VECTOR_BYTES // itemsize),
        b_layout=coalesced_layout((step, tile), (tile, 1), bits, warps, lanes=lanes, vector="widest"),
        # Each factor lies along the side that threads read neighbours of.
        a_shared_layout=gl.SwizzledSharedLayout(1, 1, 1, [0, 1]),
        b_shared_layout=gl.SwizzledSharedLayout(1, 1, 1, [1, 0]),
        num_warps=warps,
    )  # fmt: skip
    return c
