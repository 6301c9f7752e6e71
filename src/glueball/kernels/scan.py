"""Running sums of rows and of long lines."""

from dataclasses import dataclass
from typing import Any

import glueball
import glueball.language as gl
from glueball.kernels.arrays import VECTOR_BYTES, as_rows, dtype_name, empty, lanes_of, line, row_stride
from glueball.kernels.boxes import moved_bytes, streaming_policy
from glueball.kernels.ladder import Launch
from glueball.language import BlockedLayout
from glueball.runtime.host_functions import cdiv, next_power_of_2

CHUNK = 32768
"""A row longer than two of these is cut into chunks that are scanned side by side."""

MANY_LINES = 2048
"""So many lines keep a GPU busy with one warp each."""
SHORT_BYTES, STEP_BYTES = 1024, 4096

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
    x_ptr, y_ptr, base_ptr, lines, columns, chunks, x_stride, y_stride,
    CHUNK: gl.constexpr, LINES: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr, POLICY: gl.constexpr = None,
):  # fmt: skip
    """Running sums of LINES lines a program, in float32 where the result is narrower.

    A line is CHUNK elements of a row. A step of the loop scans BLOCK elements, while the next are on their way; the
    last sum is carried. The first carry is what `base` has for the line: the sum of all before it, zero where there is
    no `base`.
    """
    line = gl.program_id(0) * LINES + gl.arange(0, LINES, layout=gl.SliceLayout(1, layout))
    held = line < lines
    row = (line // chunks).to(gl.int64)
    first = line % chunks * CHUNK
    length = gl.minimum(columns - first, CHUNK)[:, None]
    column = gl.arange(0, BLOCK, layout=gl.SliceLayout(0, layout))[None, :]
    source = (x_ptr + (row * x_stride + first))[:, None]
    target = (y_ptr + (row * y_stride + first))[:, None]
    wide: gl.constexpr = y_ptr.dtype.element_ty.primitive_bitwidth >= 32
    SUM: gl.constexpr = y_ptr.dtype.element_ty if wide else gl.float32
    carry = gl.full([LINES, 1], 0, SUM, layout)
    if base_ptr is not None:
        carry = gl.load(base_ptr + line, mask=held, other=0)[:, None]
    last = gl.full([LINES, 1], BLOCK - 1, gl.int32, layout)
    held = held[:, None]
    ahead = gl.load(source + column, mask=held & (column < length), other=0, cache_policy=POLICY)
    for start in range(0, gl.minimum(columns, CHUNK), BLOCK):
        place = start + column
        x = ahead.to(SUM)
        later = place + BLOCK
        ahead = gl.load(source + later, mask=held & (later < length), other=0, cache_policy=POLICY)
        y = gl.cumsum(x, axis=1) + carry
        carry = gl.gather(y, last, axis=1)
        gl.store(target + place, y.to(y_ptr.dtype.element_ty), mask=held & (place < length))


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


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """How lines are scanned: `lines` of a program, each by `warps`, whose threads take `vectors` of 16 bytes a step."""

    lines: int
    warps: int
    vectors: int = 1


def plan_scan(lines: int, columns: int, itemsize: int, lanes: int) -> ScanPlan:
    """Steps of 4 KiB by up to 8 warps, or for lines of few steps by 4 (measured on an H200).

    A warp a line, which waits for no other, where lines are short and enough of them to keep all warps busy.
    """
    line_bytes = columns * itemsize
    if line_bytes <= SHORT_BYTES and lines >= MANY_LINES:
        return ScanPlan(4, 1)
    if STEP_BYTES <= line_bytes <= 4 * STEP_BYTES:
        return ScanPlan(1, 4, 2)
    return ScanPlan(1, _block(columns, itemsize, lanes)[1])


def launch_cumsum(x: Any, y: Any, base: Any = None, chunk: int | None = None, plan: ScanPlan | None = None) -> Launch:
    """Running sums of the rows of a matrix into another one: of whole rows, or of chunks that go on from `base`."""
    rows, columns = x.shape
    chunk = chunk or next_power_of_2(columns)
    itemsize, lanes = x.dtype.itemsize, lanes_of(x)
    chunks, length = cdiv(columns, chunk), min(columns, chunk)
    lines = rows * chunks
    plan = plan or plan_scan(lines, length, itemsize, lanes)
    vector = VECTOR_BYTES // itemsize
    block = min(next_power_of_2(length), plan.vectors * plan.warps * lanes * vector)
    width = max(1, min(vector, block // (plan.warps * lanes)))
    layout = BlockedLayout([1, width], [1, lanes], [plan.lines, plan.warps], [1, 0])
    moved = moved_bytes(x, y)
    keywords = {
        "CHUNK": chunk, "LINES": plan.lines, "BLOCK": block, "layout": layout, "POLICY": streaming_policy(x, moved),
        "num_warps": plan.lines * plan.warps,
    }  # fmt: skip
    arguments = (x, y, base, lines, columns, chunks, row_stride(x), row_stride(y))
    return Launch(cumsum_rows, (cdiv(lines, plan.lines),), arguments, keywords, moved)


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
