"""Kernels over the rows of a matrix: softmax, layer norm and RMS norm with their gradients, sums and maxima.

Each forward kernel comes in two forms: `*_rows` holds whole rows in registers, `*_looped` goes over a long row in
several passes. The functions at the end launch them, or for long rows those of `bulk_rows`. Arithmetic is in float32
whatever the element type.
"""

from typing import Any

import glueball
import glueball.language as gl
from glueball.kernels.arrays import RowPlan, as_rows, check_line, empty, lanes_of, line, plan_rows, row_stride
from glueball.kernels.boxes import moved_bytes, streaming_policy
from glueball.kernels.bulk_row_plans import (
    BulkNormPlan,
    BulkRowPlan,
    launch_norm_bulk,
    launch_softmax_bulk,
    plan_norm,
    plan_softmax,
)
from glueball.kernels.cluster_rows import (
    ClusterRowPlan,
    launch_rms_norm_split,
    launch_softmax_split,
    plan_split,
)
from glueball.kernels.ladder import Launch
from glueball.runtime.host_functions import cdiv, next_power_of_2

SoftmaxPlan = RowPlan | BulkRowPlan | ClusterRowPlan
NormPlan = RowPlan | BulkNormPlan | ClusterRowPlan

LEAST: gl.constexpr = gl.constexpr(-3.4028234663852886e38)
"""The least float32: where a running maximum starts, so that a slot that saw no element rescales without a NaN."""

LONGEST_BACKWARD = 16384
BACKWARD_PROGRAMS = 264


@glueball.jit
def elements(pointer, mask, other, POLICY: gl.constexpr):
    """What is there as float32, past the first-level cache; a policy says the same, and more of the second level."""
    if POLICY is None:
        x = gl.load(pointer, mask=mask, other=other, cache_modifier=".cg")
    else:
        x = gl.load(pointer, mask=mask, other=other, cache_policy=POLICY)
    return x.to(gl.float32)


@glueball.jit
def softmax_rows(
    x_ptr, y_ptr, rows, columns, x_stride, y_stride, ROWS: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr,
    POLICY: gl.constexpr = None,
):  # fmt: skip
    """Softmax of ROWS rows a program, each of up to BLOCK columns."""
    row = gl.program_id(0) * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    column = gl.arange(0, BLOCK, layout=gl.SliceLayout(0, layout))
    mask = (row[:, None] < rows) & (column[None, :] < columns)
    far = row.to(gl.int64)
    x_offset = (far * x_stride)[:, None] + column[None, :]
    x = elements(x_ptr + x_offset, mask, float("-inf"), POLICY)
    power = gl.exp(x - gl.max(x, axis=1)[:, None])
    scale = 1.0 / gl.sum(power, axis=1)
    y = power * scale[:, None]
    gl.store(y_ptr + (far * y_stride)[:, None] + column[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)


@glueball.jit
def piece(PARTS: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr):
    """Column offsets of one step over a row: PARTS pieces of BLOCK columns."""
    part = gl.arange(0, PARTS, layout=gl.SliceLayout(1, layout))
    column = gl.arange(0, BLOCK, layout=gl.SliceLayout(0, layout))
    return part[:, None] * BLOCK + column[None, :]


@glueball.jit
def softmax_looped(
    x_ptr, y_ptr, columns, x_stride, y_stride, PARTS: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr
):
    """Softmax of one row a program in two passes, with a running maximum and sum in every slot of a piece.

    A slot rescales its sum once a step, so a step takes 1 + 1 / PARTS exponentials an element, and the warps meet only
    at the end of the pass.
    """
    row = gl.program_id(0).to(gl.int64)
    x_row = x_ptr + row * x_stride
    y_row = y_ptr + row * y_stride
    offset = piece(PARTS, BLOCK, layout)
    slots: gl.constexpr = gl.SliceLayout(0, layout)
    greatest = gl.full([BLOCK], LEAST, gl.float32, slots)
    total = gl.zeros([BLOCK], gl.float32, slots)
    for start in range(0, columns, PARTS * BLOCK):
        place = start + offset
        x = gl.load(x_row + place, mask=place < columns, other=float("-inf")).to(gl.float32)
        raised = gl.maximum(greatest, gl.max(x, axis=0))
        total = total * gl.exp(greatest - raised) + gl.sum(gl.exp(x - raised[None, :]), axis=0)
        greatest = raised
    row_greatest = gl.max(greatest, axis=0)
    scale = 1.0 / gl.sum(total * gl.exp(greatest - row_greatest), axis=0)
    steps = gl.cdiv(columns, PARTS * BLOCK)
    for step in range(steps):
        place = (steps - 1 - step) * (PARTS * BLOCK) + offset
        mask = place < columns
        x = gl.load(x_row + place, mask=mask, other=float("-inf")).to(gl.float32)
        y = gl.exp(x - row_greatest) * scale
        gl.store(y_row + place, y.to(y_ptr.dtype.element_ty), mask=mask, cache_modifier=".cs")


@glueball.jit
def weighted(normal, weight_ptr, bias_ptr, column, columns):
    """`normal * weight + bias`, of those that are there; `column` are the columns of a tile's last dimension."""
    if weight_ptr is not None:
        normal = normal * gl.load(weight_ptr + column, mask=column < columns, other=0.0).to(gl.float32)
    if bias_ptr is not None:
        normal = normal + gl.load(bias_ptr + column, mask=column < columns, other=0.0).to(gl.float32)
    return normal


@glueball.jit
def norm_rows(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, scale_ptr, rows, columns, x_stride, y_stride, epsilon,
    CENTRED: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr, POLICY: gl.constexpr = None,
):  # fmt: skip
    """RMS norm of ROWS rows a program, or layer norm where CENTRED; also stores the mean and one over the deviation.

    Rows bypass the first-level cache, which is left to the weights.
    """
    row = gl.program_id(0) * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    column = gl.arange(0, BLOCK, layout=gl.SliceLayout(0, layout))
    inside = row < rows
    mask = inside[:, None] & (column[None, :] < columns)
    far = row.to(gl.int64)
    x_offset = (far * x_stride)[:, None] + column[None, :]
    x = elements(x_ptr + x_offset, mask, 0.0, POLICY)
    if CENTRED:
        mean = gl.sum(x, axis=1) / columns
        gl.store(mean_ptr + row, mean, mask=inside)
        x = gl.where(mask, x - mean[:, None], 0.0)
    scale = gl.rsqrt(gl.sum(x * x, axis=1) / columns + epsilon)
    gl.store(scale_ptr + row, scale, mask=inside)
    y = weighted(x * scale[:, None], weight_ptr, bias_ptr, column[None, :], columns)
    gl.store(y_ptr + (far * y_stride)[:, None] + column[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)


@glueball.jit
def norm_looped(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, scale_ptr, columns, x_stride, y_stride, epsilon,
    CENTRED: gl.constexpr, PARTS: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    """As `norm_rows`, of one row in two passes, or three where CENTRED: squares are taken around the mean."""
    row = gl.program_id(0).to(gl.int64)
    x_row = x_ptr + row * x_stride
    y_row = y_ptr + row * y_stride
    offset = piece(PARTS, BLOCK, layout)
    slots: gl.constexpr = gl.SliceLayout(0, layout)
    if CENTRED:
        total = gl.zeros([BLOCK], gl.float32, slots)
        for start in range(0, columns, PARTS * BLOCK):
            place = start + offset
            total += gl.sum(gl.load(x_row + place, mask=place < columns, other=0.0).to(gl.float32), axis=0)
        mean = gl.sum(total, axis=0) / columns
        gl.store(mean_ptr + row, mean)
    squares = gl.zeros([BLOCK], gl.float32, slots)
    for start in range(0, columns, PARTS * BLOCK):
        place = start + offset
        x = gl.load(x_row + place, mask=place < columns, other=0.0).to(gl.float32)
        if CENTRED:
            x = gl.where(place < columns, x - mean, 0.0)
        squares += gl.sum(x * x, axis=0)
    scale = gl.rsqrt(gl.sum(squares, axis=0) / columns + epsilon)
    gl.store(scale_ptr + row, scale)
    steps = gl.cdiv(columns, PARTS * BLOCK)
    for step in range(steps):
        place = (steps - 1 - step) * (PARTS * BLOCK) + offset
        mask = place < columns
        x = gl.load(x_row + place, mask=mask, other=0.0).to(gl.float32)
        if CENTRED:
            x = x - mean
        y = weighted(x * scale, weight_ptr, bias_ptr, place, columns)
        gl.store(y_row + place, y.to(y_ptr.dtype.element_ty), mask=mask, cache_modifier=".cs")


@glueball.jit
def norm_backward(
    x_ptr, gradient_ptr, weight_ptr, mean_ptr, scale_ptr, x_gradient_ptr, weight_sums_ptr, bias_sums_ptr,
    rows, columns, x_stride, gradient_stride, x_gradient_stride, rows_per_program,
    CENTRED: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    """Gradients of a norm: of x, row by row; of weight and bias, one partial sum a program, added by `column_sums`.

    With g = gradient * weight and n the normalised row, the gradient of x is
    scale * (g - n * mean(g * n) - mean(g)), the last term only where CENTRED.
    """
    column = gl.arange(0, BLOCK, layout=layout)
    mask = column < columns
    weight = gl.load(weight_ptr + column, mask=mask, other=0.0).to(gl.float32)
    weight_sum = gl.zeros([BLOCK], gl.float32, layout)
    bias_sum = gl.zeros([BLOCK], gl.float32, layout)
    first = gl.program_id(0) * rows_per_program
    last = gl.minimum(first + rows_per_program, rows)
    for row in range(first, last):
        far = row.to(gl.int64)
        x = gl.load(x_ptr + far * x_stride + column, mask=mask, other=0.0).to(gl.float32)
        gradient = gl.load(gradient_ptr + far * gradient_stride + column, mask=mask, other=0.0).to(gl.float32)
        scale = gl.load(scale_ptr + row)
        if CENTRED:
            x = x - gl.load(mean_ptr + row)
        normal = gl.where(mask, x * scale, 0.0)
        weight_sum += gradient * normal
        weighed = gradient * weight
        result = weighed - normal * (gl.sum(weighed * normal, axis=0) / columns)
        if CENTRED:
            bias_sum += gradient
            result = result - gl.sum(weighed, axis=0) / columns
        result = (result * scale).to(x_gradient_ptr.dtype.element_ty)
        gl.store(x_gradient_ptr + far * x_gradient_stride + column, result, mask=mask)
    partial = gl.program_id(0) * columns + column
    gl.store(weight_sums_ptr + partial, weight_sum, mask=mask)
    if CENTRED:
        gl.store(bias_sums_ptr + partial, bias_sum, mask=mask)


@glueball.jit
def column_sums(x_ptr, y_ptr, rows, columns, ROWS: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr):
    """Sums of the columns of a contiguous matrix, BLOCK columns a program."""
    row = gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    column = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=gl.SliceLayout(0, layout))
    total = gl.zeros([ROWS, BLOCK], gl.float32, layout)
    for start in range(0, rows, ROWS):
        mask = (start + row[:, None] < rows) & (column[None, :] < columns)
        total += gl.load(x_ptr + (start + row[:, None]) * columns + column[None, :], mask=mask, other=0.0)
    result = gl.sum(total, axis=0)
    gl.store(y_ptr + column, result.to(y_ptr.dtype.element_ty), mask=column < columns)


@glueball.jit
def reduce_rows(
    x_ptr, y_ptr, rows, columns, x_stride,
    GREATEST: gl.constexpr, ROWS: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    """Sums of ROWS rows a program, or their greatest elements."""
    row = gl.program_id(0) * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    column = gl.arange(0, BLOCK, layout=gl.SliceLayout(0, layout))
    mask = (row[:, None] < rows) & (column[None, :] < columns)
    other: gl.constexpr = float("-inf") if GREATEST else 0.0
    x_offset = (row.to(gl.int64) * x_stride)[:, None] + column[None, :]
    x = gl.load(x_ptr + x_offset, mask=mask, other=other, cache_modifier=".cg").to(gl.float32)
    if GREATEST:
        result = gl.max(x, axis=1)
    else:
        result = gl.sum(x, axis=1)
    gl.store(y_ptr + row, result.to(y_ptr.dtype.element_ty), mask=row < rows)


@glueball.jit
def reduce_looped(
    x_ptr, y_ptr, columns, x_stride,
    GREATEST: gl.constexpr, PARTS: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    """As `reduce_rows`, of one long row a program."""
    row = gl.program_id(0).to(gl.int64)
    offset = piece(PARTS, BLOCK, layout)
    other: gl.constexpr = float("-inf") if GREATEST else 0.0
    result = gl.full([BLOCK], other, gl.float32, gl.SliceLayout(0, layout))
    for start in range(0, columns, PARTS * BLOCK):
        place = start + offset
        x = gl.load(x_ptr + row * x_stride + place, mask=place < columns, other=other, cache_modifier=".cg")
        if GREATEST:
            result = gl.maximum(result, gl.max(x.to(gl.float32), axis=0))
        else:
            result += gl.sum(x.to(gl.float32), axis=0)
    if GREATEST:
        value = gl.max(result, axis=0)
    else:
        value = gl.sum(result, axis=0)
    gl.store(y_ptr + row, value.to(y_ptr.dtype.element_ty))


def _launch(
    kernels: tuple[Any, Any],
    x: Any,
    plan: RowPlan | None,
    before: tuple[Any, ...],
    after: tuple[Any, ...],
    moved: int,
    **flags: bool,
) -> Launch:
    """The launch of a kernel in the form that the plan asks for; only the one that holds rows takes their number."""
    rows, columns = x.shape
    itemsize, lanes = x.dtype.itemsize, lanes_of(x)
    plan = plan or plan_rows(columns, itemsize, lanes)
    kernel, numbers = (kernels[1], (columns,)) if plan.parts else (kernels[0], (rows, columns))
    keywords = {**flags, **plan.keywords(8 * itemsize, lanes)}
    if kernel in (softmax_rows, norm_rows) and (policy := streaming_policy(x, moved, "cg")):
        keywords["POLICY"] = policy
    return Launch(kernel, plan.grid(rows), (*before, *numbers, *after), keywords, moved)


def launch_softmax(x: Any, y: Any, plan: SoftmaxPlan | None = None) -> Launch:
    """Softmax of the rows of a matrix into another one of its shape."""
    if isinstance(plan, BulkNormPlan):
        raise ValueError(f"{plan} is a plan for a norm")
    plan = plan or plan_split(x, norm=False) or plan_softmax(x)
    if isinstance(plan, ClusterRowPlan):
        return launch_softmax_split(x, y, plan)
    if isinstance(plan, BulkRowPlan):
        return launch_softmax_bulk(x, y, plan)
    return _launch((softmax_rows, softmax_looped), x, plan, (x, y), (row_stride(x), row_stride(y)), moved_bytes(x, y))


def launch_norm(
    x: Any,
    weight: Any,
    bias: Any,
    y: Any,
    mean: Any,
    scale: Any,
    epsilon: float,
    plan: NormPlan | None = None,
) -> Launch:
    """RMS norm of the rows of a matrix, or layer norm where `mean` (float32, one a row) is given; `scale` as `mean`."""
    if isinstance(plan, BulkRowPlan):
        raise ValueError(f"{plan} is a plan for softmax")
    if plan is None and mean is None and bias is None:
        plan = plan_split(x, norm=True)
    plan = plan or plan_norm(x)
    if isinstance(plan, ClusterRowPlan):
        if mean is not None or bias is not None:
            raise ValueError("a cluster shares the rows of an RMS norm without bias, not of a layer norm")
        return launch_rms_norm_split(x, weight, y, scale, float(epsilon), plan)
    if isinstance(plan, BulkNormPlan):
        return launch_norm_bulk(x, weight, bias, y, mean, scale, float(epsilon), plan)
    before, after = (x, weight, bias, y, mean, scale), (row_stride(x), row_stride(y), float(epsilon))
    return _launch((norm_rows, norm_looped), x, plan, before, after, moved_bytes(x, y), CENTRED=mean is not None)


def launch_reduction(x: Any, y: Any, *, greatest: bool, plan: RowPlan | None = None) -> Launch:
    """Sum or greatest element of each row of a matrix."""
    return _launch(
        (reduce_rows, reduce_looped), x, plan, (x, y), (row_stride(x),), moved_bytes(x, y), GREATEST=greatest
    )


def softmax(x: Any, plan: SoftmaxPlan | None = None) -> Any:
    """`exp(x) / sum(exp(x))` along the last dimension, in the type of `x`, a float. `ValueError` for an empty row."""
    y = empty(x, tuple(x.shape))
    launch_softmax(as_rows(x, "x"), as_rows(y, "y"), plan).run()
    return y


def rms_norm(x: Any, weight: Any = None, epsilon: float = 1e-5, plan: NormPlan | None = None) -> tuple[Any, Any]:
    """`x * scale * weight` along the last dimension with `scale = 1 / sqrt(mean(x**2) + epsilon)`.

    Gives the result, of the shape and type of `x`, and `scale`, float32 of shape `x.shape[:-1]`.
    """
    y, _, scale = _norm(x, weight, None, epsilon, plan, centred=False)
    return y, scale


def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, epsilon: float = 1e-5, plan: NormPlan | None = None
) -> tuple[Any, Any, Any]:
    """`(x - mean) * scale * weight + bias` along the last dimension with `scale = 1 / sqrt(variance + epsilon)`.

    Gives the result, of the shape and type of `x`, and `mean` and `scale`, float32 of shape `x.shape[:-1]`.
    """
    return _norm(x, weight, bias, epsilon, plan, centred=True)


def _norm(
    x: Any, weight: Any, bias: Any, epsilon: float, plan: NormPlan | None, *, centred: bool
) -> tuple[Any, Any, Any]:
    matrix = as_rows(x, "x")
    for array, name in ((weight, "weight"), (bias, "bias")):
        if array is not None:
            check_line(array, name, matrix.shape[1])
    y, scale = empty(x, tuple(x.shape)), empty(x, tuple(x.shape[:-1]), "float32")
    mean = empty(x, tuple(x.shape[:-1]), "float32") if centred else None
    launch_norm(matrix, weight, bias, as_rows(y, "y"), mean, scale, epsilon, plan).run()
    return y, mean, scale


def rms_norm_backward(gradient: Any, x: Any, weight: Any, scale: Any) -> tuple[Any, Any]:
    """Gradients of `x` and of `weight` from that of the result and from the `scale` that `rms_norm` gave.

    `ValueError` for rows of more than 16384 elements.
    """
    x_gradient, weight_gradient, _ = _norm_backward(gradient, x, weight, None, scale)
    return x_gradient, weight_gradient


def layer_norm_backward(gradient: Any, x: Any, weight: Any, mean: Any, scale: Any) -> tuple[Any, Any, Any]:
    """Gradients of `x`, `weight` and `bias` from that of the result and what `layer_norm` gave.

    `ValueError` for rows of more than 16384 elements.
    """
    return _norm_backward(gradient, x, weight, mean, scale)


def _norm_backward(gradient: Any, x: Any, weight: Any, mean: Any, scale: Any) -> tuple[Any, Any, Any]:
    matrix, outer = as_rows(x, "x"), as_rows(gradient, "gradient")
    rows, columns = matrix.shape
    if tuple(outer.shape) != (rows, columns):
        raise ValueError(f"gradient must have the shape of x, {tuple(x.shape)}, not {tuple(gradient.shape)}")
    check_line(weight, "weight", columns)
    if columns > LONGEST_BACKWARD:
        raise ValueError(f"the gradient holds whole rows, of at most {LONGEST_BACKWARD} elements, not {columns}")
    block = next_power_of_2(columns)
    # 16 elements a thread: five float32 tiles are alive at once.
    warps = max(1, min(32, block // 512))
    programs = max(1, min(BACKWARD_PROGRAMS, rows))
    x_gradient = empty(x, tuple(x.shape))
    inner = as_rows(x_gradient, "x_gradient")
    partial = [None if missing else empty(x, (programs, columns), "float32") for missing in (False, mean is None)]
    strides = (row_stride(matrix), row_stride(outer), row_stride(inner))
    norm_backward[(programs,)](
        matrix, outer, weight, mean, scale, inner, *partial, rows, columns, *strides, cdiv(rows, programs),
        CENTRED=mean is not None, BLOCK=block, layout=line(block, warps, 8 * x.dtype.itemsize, lanes_of(x)),
        num_warps=warps,
    )  # fmt: skip
    sums = [None if part is None else _column_sums(part, weight) for part in partial]
    return x_gradient, sums[0], sums[1]


def _column_sums(partial: Any, like: Any) -> Any:
    rows, columns = partial.shape
    result, lanes = empty(like, (columns,)), lanes_of(like)
    plan = RowPlan(16, 4 * lanes, 0, 4)
    column_sums[(cdiv(columns, plan.block),)](partial, result, rows, columns, **plan.keywords(32, lanes))
    return result


def row_sum(x: Any, plan: RowPlan | None = None) -> Any:
    """Sums along the last dimension, taken and given in float32."""
    return _reduced(x, plan, greatest=False)


def row_max(x: Any, plan: RowPlan | None = None) -> Any:
    """Greatest elements along the last dimension, as float32; a NaN only where there is nothing else."""
    return _reduced(x, plan, greatest=True)


def _reduced(x: Any, plan: RowPlan | None, *, greatest: bool) -> Any:
    y = empty(x, tuple(x.shape[:-1]), "float32")
    launch_reduction(as_rows(x, "x"), y, greatest=greatest, plan=plan).run()
    return y
