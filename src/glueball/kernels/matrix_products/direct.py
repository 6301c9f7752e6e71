"""Products of matrices that no bulk copy can move, and of small ones: plain loads, and sums in registers."""

import glueball
import glueball.language as gl
from glueball.kernels.matrix_products.tiles import (
    endings,
    finished,
    flat_offsets,
    gathered,
    publish,
    split_range,
    tile_place,
)
from glueball.language.nvidia.ampere import mma_v2


@glueball.jit
def load_tile(
    pointer, row, column, rows, columns, row_stride, column_stride, row_end, column_end,
    HEIGHT: gl.constexpr, WIDTH: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    """A tile of a matrix, zero outside of it; 8-bit floats as float16, which has all their values.

    `row_end` and `column_end` are where a split ends, None where it does not; they are multiples of the step along K,
    which the matrix's own extents need not be, so that each mask for itself tells as much as it can.
    """
    at_row = row + gl.arange(0, HEIGHT, layout=gl.SliceLayout(1, layout))
    at_column = column + gl.arange(0, WIDTH, layout=gl.SliceLayout(0, layout))
    offset = (at_row.to(gl.int64) * row_stride)[:, None] + (at_column.to(gl.int64) * column_stride)[None, :]
    mask = (at_row[:, None] < rows) & (at_column[None, :] < columns)
    if row_end is not None:
        mask = mask & (at_row[:, None] < row_end)
    if column_end is not None:
        mask = mask & (at_column[None, :] < column_end)
    value = gl.load(pointer + offset, mask=mask, other=0.0)
    if value.dtype.primitive_bitwidth == 8:
        value = value.to(gl.float16)
    return value


@glueball.jit
def load_step(
    pointer, row, column, rows, columns, row_stride, column_stride, end, OPERAND: gl.constexpr, FORM: gl.constexpr
):
    """The tile of a step along K of `a` (OPERAND 0) or `b` (1); nothing from `end` on, where the next split begins."""
    if OPERAND == 0:
        tile = load_tile(
            pointer, row, column, rows, columns, row_stride, column_stride, None, None if FORM.splits == 1 else end,
            FORM.block_m, FORM.block_k, FORM.a_layout,
        )  # fmt: skip
    else:
        tile = load_tile(
            pointer, row, column, rows, columns, row_stride, column_stride, None if FORM.splits == 1 else end, None,
            FORM.block_k, FORM.block_n, FORM.b_layout,
        )  # fmt: skip
    return tile


@glueball.jit
def store_result(
    x, c, row, column, rows, columns, row_stride, column_stride, row_scale, column_scale, bias, FORM: gl.constexpr
):
    """Finishes a tile of sums and stores it, neighbours along the rows of `c`, or along its columns where turned."""
    layout: gl.constexpr = FORM.store_layout
    x = gl.convert_layout(x, layout)
    of_rows = endings(row, rows, row_scale, bias, x.shape[0], 0, layout, FORM)
    of_columns = endings(column, columns, column_scale, bias, x.shape[1], 1, layout, FORM)
    x = finished(x, of_rows, of_columns, FORM)
    at_row = row + gl.arange(0, x.shape[0], layout=gl.SliceLayout(1, layout))
    at_column = column + gl.arange(0, x.shape[1], layout=gl.SliceLayout(0, layout))
    offset = (at_row.to(gl.int64) * row_stride)[:, None] + (at_column.to(gl.int64) * column_stride)[None, :]
    mask = (at_row[:, None] < rows) & (at_column[None, :] < columns)
    gl.store(c + offset, x.to(c.dtype.element_ty), mask=mask)


@glueball.jit
def finish_split(
    part, tile, split, c, row, column, rows, columns, row_stride, column_stride, row_scale, column_scale, bias,
    partials, counters, layout: gl.constexpr, FORM: gl.constexpr,
):  # fmt: skip
    """Stores a tile; with several splits the last one to arrive does, the sum of all of them."""
    if FORM.splits == 1:
        store_result(
            part, c, row, column, rows, columns, row_stride, column_stride, row_scale, column_scale, bias, FORM
        )  # fmt: skip
    else:
        offsets = flat_offsets(part.shape[0], part.shape[1], layout)
        if publish(part, partials, counters, tile, split, offsets, FORM.splits):
            total = gathered(part, partials, tile, offsets, FORM.splits)
            store_result(
                total, c, row, column, rows, columns, row_stride, column_stride, row_scale, column_scale, bias, FORM
            )  # fmt: skip


@glueball.jit
def multiply_direct(
    a, b, c, rows, columns, inner, a_batch, a_row, a_inner, b_batch, b_inner, b_column, c_batch, c_row, c_column,
    row_scale, column_scale, bias, partials, counters, FORM: gl.constexpr,
):  # fmt: skip
    """`c = finish(a @ b)`, a tile of one split of one batch a program, by the matrix instructions of warps.

    Strides are in elements and may be anything. While a step's tiles are multiplied from shared memory, those of the
    next step are on their way to registers.
    """
    tiles_m = gl.cdiv(rows, FORM.block_m)
    tiles_n = gl.cdiv(columns, FORM.block_n)
    tile = gl.program_id(0)
    split = gl.program_id(1)
    batch, m, n = tile_place(tile, tiles_m, tiles_n, FORM.group)
    row = m * FORM.block_m
    column = n * FORM.block_n
    a += batch.to(gl.int64) * a_batch
    b += batch.to(gl.int64) * b_batch
    first, count = split_range(gl.cdiv(inner, FORM.block_k), split, FORM.splits)
    layout: gl.constexpr = FORM.sum_layout
    left: gl.constexpr = gl.DotOperandLayout(0, layout, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, layout, 2)
    depth = first * FORM.block_k
    end = (first + count) * FORM.block_k
    a_tile = load_step(a, row, depth, rows, inner, a_row, a_inner, end, 0, FORM)
    b_tile = load_step(b, depth, column, inner, columns, b_inner, b_column, end, 1, FORM)
    a_shared = gl.allocate_shared_memory(a_tile.dtype, [FORM.block_m, FORM.block_k], FORM.a_shared)
    b_shared = gl.allocate_shared_memory(b_tile.dtype, [FORM.block_k, FORM.block_n], FORM.b_shared)
    total = gl.zeros([FORM.block_m, FORM.block_n], gl.float32, layout)
    for step in range(first + 1, first + count + 1):
        a_shared.store(a_tile)
        b_shared.store(b_tile)
        depth = step * FORM.block_k
        a_tile = load_step(a, row, depth, rows, inner, a_row, a_inner, end, 0, FORM)
        b_tile = load_step(b, depth, column, inner, columns, b_inner, b_column, end, 1, FORM)
        total = mma_v2(a_shared.load(left), b_shared.load(right), total)
    finish_split(
        total, tile, split, c + batch.to(gl.int64) * c_batch, row, column, rows, columns, c_row, c_column, row_scale,
        column_scale, bias, partials, counters, layout, FORM,
    )  # fmt: skip


@glueball.jit
def multiply_vector(
    a, b, c, columns, inner, a_batch, a_inner, b_batch, b_inner, b_column, c_batch, c_column,
    row_scale, column_scale, bias, partials, counters, FORM: gl.constexpr,
):  # fmt: skip
    """`c = finish(a @ b)` of one row, a block of columns of one split of one batch a program.

    Every thread sums up its own elements of `b` times those of `a`, and threads meet once at the end, so that nothing
    stands between the loads of `b`, which are all that takes time.
    """
    blocks = gl.cdiv(columns, FORM.block_n)
    tile = gl.program_id(0)
    split = gl.program_id(1)
    batch = tile // blocks
    column = tile % blocks * FORM.block_n
    a += batch.to(gl.int64) * a_batch
    b += batch.to(gl.int64) * b_batch
    first, count = split_range(gl.cdiv(inner, FORM.block_k), split, FORM.splits)
    layout: gl.constexpr = FORM.b_layout
    slots = gl.zeros([FORM.block_k, FORM.block_n], gl.float32, layout)
    for step in range(first, first + count):
        depth = step * FORM.block_k
        at = depth + gl.arange(0, FORM.block_k, layout=gl.SliceLayout(1, layout))
        weight = gl.load(a + at.to(gl.int64) * a_inner, mask=at < inner, other=0.0).to(gl.float32)
        part = load_tile(
            b, depth, column, inner, columns, b_inner, b_column, None, None, FORM.block_k, FORM.block_n, layout
        )
        slots += weight[:, None] * part.to(gl.float32)
    along: gl.constexpr = FORM.store_layout
    total = gl.expand_dims(gl.convert_layout(gl.sum(slots, axis=0), gl.SliceLayout(0, along)), 0)
    finish_split(
        total, tile, split, c + batch.to(gl.int64) * c_batch, 0, column, 1, columns, columns, c_column, row_scale,
        column_scale, bias, partials, counters, along, FORM,
    )  # fmt: skip


@glueball.jit
def copy_matrix(
    source, destination, rows, columns, source_batch, source_row, source_column, destination_batch, destination_row,
    TILE: gl.constexpr, load_layout: gl.constexpr, store_layout: gl.constexpr,
):  # fmt: skip
    """Copies matrices of any strides to rows of neighbours, a tile a program, converted where the directions differ."""
    batch = gl.program_id(2).to(gl.int64)
    row = gl.program_id(0) * TILE[0]
    column = gl.program_id(1) * TILE[1]
    at_row = row + gl.arange(0, TILE[0], layout=gl.SliceLayout(1, load_layout))
    at_column = column + gl.arange(0, TILE[1], layout=gl.SliceLayout(0, load_layout))
    offset = (at_row.to(gl.int64) * source_row)[:, None] + (at_column.to(gl.int64) * source_column)[None, :]
    mask = (at_row[:, None] < rows) & (at_column[None, :] < columns)
    value = gl.convert_layout(gl.load(source + batch * source_batch + offset, mask=mask), store_layout)
    to_row = row + gl.arange(0, TILE[0], layout=gl.SliceLayout(1, store_layout))
    to_column = column + gl.arange(0, TILE[1], layout=gl.SliceLayout(0, store_layout))
    place = (to_row.to(gl.int64) * destination_row)[:, None] + to_column[None, :]
    keep = (to_row[:, None] < rows) & (to_column[None, :] < columns)
    gl.store(destination + batch * destination_batch + place, value, mask=keep)
