"""Running sums of rows and of long lines."""

from typing import Any

import glueball
import glueball.language as gl
from glueball.kernels.arrays import VECTOR_BYTES, as_rows, dtype_name, empty, lanes_of, line, row_stride
from glueball.kernels.ladder import Launch
from glueball.runtime.host_functions import cdiv, next_power_of_2

CHUNK = 32768
"""A row longer than two of these is cut into chunks that are scanned side by side."""

SUM_TYPES = {
    "float16": "float32",
    "bfloat16": "float32",
    "int8": "int32",
    "int16": "int32",
    "uint8": "uint32",
    "uint16": "uint32",
}
"""The types that sums are taken in, where not the elements' own."""


@glueball.jit
def cumsum_rows(
    x_ptr, y_ptr, base_ptr, columns, chunks, x_stride, y_stride,
    CHUNK: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    """Running sums of CHUNK elements of one row a program, in float32 where the result is narrower.

    A step of the loop scans BLOCK elements; what came before is carried. The first carry is what `base` has for the
    chunk: the sum of all before it, zero where there is no `base`.
    """
    row = (gl.program_id(0) // chunks).to(gl.int64)
    chunk = gl.program_id(0) % chunks
    column = gl.arange(0, BLOCK, layout=layout)
    wide: gl.constexpr = y_ptr.dtype.element_ty.primitive_bitwidth >= 32
    SUM: gl.constexpr = y_ptr.dtype.element_ty if wide else gl.float32
    carry = gl.full([], 0, SUM)
    if base_ptr is not None:
        carry = gl.load(base_ptr + gl.program_id(0))
    first = chunk * CHUNK
    last = gl.minimum(first + CHUNK, columns)
    for start in range(first, last, BLOCK):
        place = start + column
        x = gl.load(x_ptr + row * x_stride + place, mask=place < last, other=0).to(SUM)
        y = gl.cumsum(x, axis=0) + carry
        carry += gl.sum(x, axis=0)
        gl.store(y_ptr + row * y_stride + place, y.to(y_ptr.dtype.element_ty), mask=place < last)


@glueball.jit
def chunk_sums(
    x_ptr, sum_ptr, columns, chunks, x_stride, CHUNK: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr
):
    """The sum of CHUNK elements of a row a program, stored for the chunk after it; the first chunk's is zero."""
    row = (gl.program_id(0) // chunks).to(gl.int64)
    chunk = gl.program_id(0) % chunks
    column = gl.arange(0, BLOCK, layout=layout)
    SUM: gl.constexpr = sum_ptr.dtype.element_ty
    total = gl.zeros([BLOCK], SUM, layout)
    first = (chunk - 1) * CHUNK
    last = gl.minimum(first + CHUNK, columns)
    for start in range(first, last, BLOCK):
        place = start + column
        mask = (place >= 0) & (place < last)
        total += gl.load(x_ptr + row * x_stride + place, mask=mask, other=0).to(SUM)
    gl.store(sum_ptr + gl.program_id(0), gl.sum(total, axis=0))


def _block(columns: int, itemsize: int, lanes: int) -> tuple[int, int]:
    """Elements of a step and warps: a vector of 16 bytes a thread, up to 8 warps."""
    vector = VECTOR_BYTES // itemsize
    warps = max(1, min(8, next_power_of_2(columns) // (lanes * vector)))
    return min(next_power_of_2(columns), warps * lanes * vector), warps


def launch_cumsum(x: Any, y: Any, base: Any = None, chunk: int | None = None) -> Launch:
    """Running sums of the rows of a matrix into another one: of whole rows, or of chunks that go on from `base`."""
    rows, columns = x.shape
    chunk = chunk or next_power_of_2(columns)
    itemsize, lanes = x.dtype.itemsize, lanes_of(x)
    block, warps = _block(min(columns, chunk), itemsize, lanes)
    layout = line(block, warps, 8 * itemsize, lanes)
    keywords = {"CHUNK": chunk, "BLOCK": block, "layout": layout, "num_warps": warps}
    chunks = cdiv(columns, chunk)
    arguments = (x, y, base, columns, chunks, row_stride(x), row_stride(y))
    moved = rows * columns * (itemsize + y.dtype.itemsize)
    return Launch(cumsum_rows, (rows * chunks,), arguments, keywords, moved)


def cumsum(x: Any, chunk: int = CHUNK) -> Any:
    """Running sums along the last dimension; of floats in their type, of narrow integers as 32-bit ones.

    They are taken in float32 or wider. A row longer than two chunks is scanned chunk by chunk side by side, each from
    the sum of those before it. `ValueError` for a chunk that is no power of two.
    """
    if chunk < 1 or chunk & (chunk - 1):
        raise ValueError(f"chunk must be a power of two, not {chunk}")
    name = dtype_name(x)
    matrix = as_rows(x, "x")
    rows, columns = matrix.shape
    y = empty(x, tuple(x.shape), None if "float" in name else SUM_TYPES.get(name))
    target = y.reshape(rows, columns)
    if columns <= 2 * chunk:
        launch_cumsum(matrix, target).run()
        return y
    itemsize, lanes = x.dtype.itemsize, lanes_of(x)
    block, warps = _block(chunk, itemsize, lanes)
    chunks = cdiv(columns, chunk)
    sums = empty(x, (rows, chunks), SUM_TYPES.get(name))
    chunk_sums[(rows * chunks,)](
        matrix, sums, columns, chunks, row_stride(matrix), CHUNK=chunk, BLOCK=block,
        layout=line(block, warps, 8 * itemsize, lanes), num_warps=warps,
    )  # fmt: skip
    launch_cumsum(matrix, target, cumsum(sums, chunk), chunk).run()
    return y
