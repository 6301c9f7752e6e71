"""Kernels that find their elements by index: embedding, histogram, cross entropy and its gradient."""

import math
from typing import Any

import glueball
import glueball.language as gl
from glueball.kernels.arrays import VECTOR_BYTES, as_rows, dtype_name, empty, lanes_of, line, row_stride, zeros
from glueball.kernels.gathers import GatherPlan, launch_embedding_bulk
from glueball.kernels.ladder import Launch
from glueball.kernels.rows import LEAST
from glueball.layouts.strides import coalesced_layout
from glueball.runtime.host_functions import cdiv, next_power_of_2

MOST_BINS = 8192
HISTOGRAM_BLOCK = 4096
WARPS = 4


@glueball.jit
def embedding_kernel(
    table_ptr, index_ptr, out_ptr, count, entries, columns, table_stride,
    ROWS: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    """`out[i] = table[index[i]]`, a tile of ROWS x BLOCK a program; zero where an index names no row."""
    row = gl.program_id(0) * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    column = gl.program_id(1) * BLOCK + gl.arange(0, BLOCK, layout=gl.SliceLayout(0, layout))
    inside = row < count
    index = gl.load(index_ptr + row, mask=inside, other=0).to(gl.int64)
    known = (index >= 0) & (index < entries)
    place = (index * table_stride)[:, None] + column[None, :]
    mask = inside[:, None] & (column[None, :] < columns)
    value = gl.load(table_ptr + place, mask=mask & known[:, None], other=0)
    gl.store(out_ptr + (row.to(gl.int64) * columns)[:, None] + column[None, :], value, mask=mask)


@glueball.jit
def histogram_kernel(
    x_ptr, out_ptr, count, bins, BINS: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr,
    bins_layout: gl.constexpr,
):  # fmt: skip
    """Counts the values of a block in shared memory, then adds the counts to those of all other programs."""
    found = gl.zeros([BINS], gl.int32, bins_layout)
    for start in range(gl.program_id(0) * BLOCK, count, gl.num_programs(0) * BLOCK):
        offset = start + gl.arange(0, BLOCK, layout=layout)
        x = gl.load(x_ptr + offset, mask=offset < count, other=-1)
        counted = (offset < count) & (x >= 0) & (x < bins)
        found += gl.histogram(gl.where(counted, x, 0).to(gl.int32), BINS, mask=counted, layout=bins_layout)
    place = gl.arange(0, BINS, layout=bins_layout)
    gl.atomic_add(out_ptr + place, found, mask=(place < bins) & (found > 0), sem="relaxed")


@glueball.jit
def cross_entropy_kernel(
    x_ptr, target_ptr, loss_ptr, log_sum_ptr, columns, x_stride, BLOCK: gl.constexpr, layout: gl.constexpr
):
    """`log(sum(exp(x))) - x[target]` of one row a program, with a running maximum and sum in every slot."""
    row = gl.program_id(0).to(gl.int64)
    column = gl.arange(0, BLOCK, layout=layout)
    greatest = gl.full([BLOCK], LEAST, gl.float32, layout)
    total = gl.zeros([BLOCK], gl.float32, layout)
    for start in range(0, columns, BLOCK):
        place = start + column
        x = gl.load(x_ptr + row * x_stride + place, mask=place < columns, other=float("-inf")).to(gl.float32)
        raised = gl.maximum(greatest, x)
        total = total * gl.exp(greatest - raised) + gl.exp(x - raised)
        greatest = raised
    row_greatest = gl.max(greatest, axis=0)
    log_sum = row_greatest + gl.log(gl.sum(total * gl.exp(greatest - row_greatest), axis=0))
    target = gl.load(target_ptr + row)
    known = (target >= 0) & (target < columns)
    chosen = gl.load(x_ptr + row * x_stride + target, mask=known, other=0.0).to(gl.float32)
    gl.store(loss_ptr + row, gl.where(known, log_sum - chosen, 0.0))
    gl.store(log_sum_ptr + row, log_sum)


@glueball.jit
def cross_entropy_backward_kernel(
    x_ptr, target_ptr, log_sum_ptr, gradient_ptr, out_ptr, columns, x_stride, BLOCK: gl.constexpr, layout: gl.constexpr
):
    """`(exp(x - log_sum) - (column == target)) * gradient`, BLOCK elements of a row a program."""
    row = gl.program_id(0).to(gl.int64)
    place = gl.program_id(1) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    mask = place < columns
    target = gl.load(target_ptr + row)
    known = (target >= 0) & (target < columns)
    gradient = gl.load(gradient_ptr + row)
    x = gl.load(x_ptr + row * x_stride + place, mask=mask, other=float("-inf")).to(gl.float32)
    share = gl.exp(x - gl.load(log_sum_ptr + row))
    share = gl.where(place == target, share - 1.0, share)
    share = gl.where(known, share * gradient, 0.0)
    gl.store(out_ptr + row * columns + place, share.to(out_ptr.dtype.element_ty), mask=mask)


def launch_embedding(table: Any, index: Any, out: Any, plan: GatherPlan | None = None) -> Launch:
    """Rows of a matrix by the indices of a line of integers, into a matrix; by bulk copies where a plan is given.

    Plain loads and stores are the faster ones on an H200, by 13 % for rows of 8 KiB.
    """
    return launch_plain_embedding(table, index, out) if plan is None else launch_embedding_bulk(table, index, out, plan)


def launch_plain_embedding(table: Any, index: Any, out: Any) -> Launch:
    """The same by plain loads and stores."""
    (entries, columns), count = table.shape, index.shape[0]
    bits, lanes = 8 * table.dtype.itemsize, lanes_of(table)
    block = min(next_power_of_2(columns), lanes * VECTOR_BYTES // table.dtype.itemsize)
    rows = min(128, max(WARPS, 8 * lanes * WARPS // block))
    layout = coalesced_layout((rows, block), (block, 1), bits, WARPS, lanes=lanes, vector="widest")
    arguments = (table, index, out, count, entries, columns, row_stride(table))
    keywords = {"ROWS": rows, "BLOCK": block, "layout": layout, "num_warps": WARPS}
    moved = 2 * count * columns * table.dtype.itemsize
    return Launch(embedding_kernel, (cdiv(count, rows), cdiv(columns, block)), arguments, keywords, moved)


def embedding(table: Any, index: Any, plan: GatherPlan | None = None) -> Any:
    """`table[index]` for a matrix and an array of integers of any shape; zeros where an index names no row."""
    matrix = as_rows(table, "table")
    if len(table.shape) != 2:
        raise ValueError(f"table must be a matrix, not of shape {tuple(table.shape)}")
    columns, count = matrix.shape[1], math.prod(index.shape)
    out = empty(table, (*index.shape, columns))
    if count:
        launch_embedding(matrix, index.reshape(count), out.reshape(count, columns), plan).run()
    return out


def histogram(x: Any, bins: int) -> Any:
    """How many elements of an array of integers have each value in [0, `bins`); others are not counted. int32.

    `ValueError` for more than 8192 bins.
    """
    if not 1 <= bins <= MOST_BINS:
        raise ValueError(f"histogram takes 1 to {MOST_BINS} bins, not {bins}")
    out = zeros(x, (bins,), "int32")
    count, lanes = math.prod(x.shape), lanes_of(x)
    padded = next_power_of_2(bins)
    programs = min(cdiv(count, HISTOGRAM_BLOCK), 528)
    histogram_kernel[(programs,)](
        x.reshape(count), out, count, bins, BINS=padded, BLOCK=HISTOGRAM_BLOCK,
        layout=line(HISTOGRAM_BLOCK, WARPS, 8 * x.dtype.itemsize, lanes), bins_layout=line(padded, WARPS, 32, lanes),
        num_warps=WARPS,
    )  # fmt: skip
    return out


def _class_block(columns: int, itemsize: int, lanes: int) -> tuple[int, int]:
    """Classes that a program takes at a time and its warps: two vectors a thread, up to 8 warps."""
    held = 2 * VECTOR_BYTES // itemsize
    block = min(next_power_of_2(columns), held * 8 * lanes)
    return block, max(1, block // (held * lanes))


def _check_targets(logits: Any, targets: Any) -> Any:
    matrix = as_rows(logits, "logits")
    if len(logits.shape) != 2 or tuple(targets.shape) != (matrix.shape[0],):
        raise ValueError(
            f"logits must be a matrix and targets one class a row, not {tuple(logits.shape)}, {tuple(targets.shape)}"
        )
    if not dtype_name(targets).startswith("int"):
        raise ValueError(f"targets must be signed integers, not {dtype_name(targets)}")
    return matrix


def cross_entropy(logits: Any, targets: Any) -> tuple[Any, Any]:
    """The loss `log(sum(exp(x))) - x[target]` of each row, and that logarithm, both float32.

    A target outside of the classes, such as -1, is ignored: its loss is 0.
    """
    matrix = _check_targets(logits, targets)
    rows, columns = matrix.shape
    loss, log_sum = empty(logits, (rows,), "float32"), empty(logits, (rows,), "float32")
    lanes = lanes_of(logits)
    block, warps = _class_block(columns, logits.dtype.itemsize, lanes)
    cross_entropy_kernel[(rows,)](
        matrix, targets, loss, log_sum, columns, row_stride(matrix), BLOCK=block,
        layout=line(block, warps, 8 * logits.dtype.itemsize, lanes), num_warps=warps,
    )  # fmt: skip
    return loss, log_sum


def cross_entropy_backward(gradient: Any, logits: Any, targets: Any, log_sum: Any) -> Any:
    """The gradient of the logits from those of the losses (float32, one a row) and what `cross_entropy` gave."""
    matrix = _check_targets(logits, targets)
    rows, columns = matrix.shape
    out = empty(logits, (rows, columns))
    lanes = lanes_of(logits)
    block, warps = _class_block(columns, logits.dtype.itemsize, lanes)
    cross_entropy_backward_kernel[(rows, cdiv(columns, block))](
        matrix, targets, log_sum, gradient, out, columns, row_stride(matrix), BLOCK=block,
        layout=line(block, warps, 8 * logits.dtype.itemsize, lanes), num_warps=warps,
    )  # fmt: skip
    return out
