"""Elementwise kernels: addition, dropout, and conversion to and from 8-bit types with a scale a row."""

import math
from typing import Any

import glueball
import glueball.language as gl
from glueball.kernels.add_ladder import AddPlan, lines, rung_named, why_not_ring
from glueball.kernels.arrays import as_rows, dtype_name, empty, lanes_of, line, plan_rows, row_stride
from glueball.kernels.ladder import Launch
from glueball.runtime.host_functions import cdiv

BLOCK = 2048
WARPS = 4
BULK_BYTES = 1 << 26
"""Bytes read and written from which on a ring of bulk copies is worth its start."""
LARGEST = {"int8": 127.0, "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
"""The 8-bit types to which rows are quantised, and the value that a row's largest one becomes."""


@glueball.jit
def add_kernel(x_ptr, y_ptr, out_ptr, count, BLOCK: gl.constexpr, layout: gl.constexpr):
    """`out = x + y`, BLOCK elements a program."""
    offset = gl.program_id(0).to(gl.int64) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    mask = offset < count
    total = gl.load(x_ptr + offset, mask=mask) + gl.load(y_ptr + offset, mask=mask)
    gl.store(out_ptr + offset, total.to(out_ptr.dtype.element_ty), mask=mask)


@glueball.jit
def philox(counter_low, counter_high, key_low, key_high):
    """The first word of Philox-4x32-10 (Salmon et al., SC 2011) of the counter (low, high, 0, 0): 32 random bits.

    All are uint32, of one shape.
    """
    a = counter_low
    b = counter_high
    c = counter_low ^ counter_low
    d = c
    for _ in gl.static_range(10):
        high = gl.umulhi(a, 0xD2511F53)
        other_high = gl.umulhi(c, 0xCD9E8D57)
        low = gl.mul(a, 0xD2511F53, sanitize_overflow=False)
        other_low = gl.mul(c, 0xCD9E8D57, sanitize_overflow=False)
        a = other_high ^ b ^ key_low
        b = other_low
        c = high ^ d ^ key_high
        d = low
        key_low = gl.add(key_low, 0x9E3779B9, sanitize_overflow=False)
        key_high = gl.add(key_high, 0xBB67AE85, sanitize_overflow=False)
    return a


@glueball.jit
def dropout_kernel(
    x_ptr, y_ptr, count, seed_low, seed_high, threshold, scale, BLOCK: gl.constexpr, layout: gl.constexpr
):
    """Keeps an element, times `scale`, where the upper 24 of its random bits are at least `threshold`; zero elsewhere.

    The counter is the element's index, so the result depends on nothing but the seed.
    """
    offset = gl.program_id(0).to(gl.int64) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    mask = offset < count
    key_low = gl.full([BLOCK], seed_low, gl.uint32, layout)
    key_high = gl.full([BLOCK], seed_high, gl.uint32, layout)
    bits = philox(offset.to(gl.uint32), (offset >> 32).to(gl.uint32), key_low, key_high)
    keep = (bits >> 8).to(gl.int32) >= threshold
    x = gl.load(x_ptr + offset, mask=mask, other=0.0).to(gl.float32)
    y = gl.where(keep, x * scale, 0.0)
    gl.store(y_ptr + offset, y.to(y_ptr.dtype.element_ty), mask=mask)


@glueball.jit
def quantize_kernel(
    x_ptr, y_ptr, scale_ptr, columns, x_stride, y_stride, largest,
    WHOLE: gl.constexpr, BLOCK: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    """One row a program: its scale, then its elements over the scale, to nearest (even), whole numbers where WHOLE."""
    row = gl.program_id(0).to(gl.int64)
    column = gl.arange(0, BLOCK, layout=layout)
    greatest = gl.zeros([BLOCK], gl.float32, layout)
    for start in range(0, columns, BLOCK):
        place = start + column
        x = gl.load(x_ptr + row * x_stride + place, mask=place < columns, other=0.0).to(gl.float32)
        greatest = gl.maximum(greatest, gl.abs(x))
    scale = gl.max(greatest, axis=0) / largest
    scale = gl.where(scale > 0.0, scale, 1.0)
    gl.store(scale_ptr + row, scale)
    inverse = 1.0 / scale
    for start in range(0, columns, BLOCK):
        place = start + column
        mask = place < columns
        x = gl.load(x_ptr + row * x_stride + place, mask=mask, other=0.0).to(gl.float32)
        y = gl.clamp(x * inverse, -largest, largest)
        if WHOLE:
            # Adding and taking away 1.5 * 2^23 rounds to a whole number, ties to even.
            y = (y + 12582912.0) - 12582912.0
        gl.store(y_ptr + row * y_stride + place, y.to(y_ptr.dtype.element_ty), mask=mask)


@glueball.jit
def dequantize_kernel(x_ptr, scale_ptr, y_ptr, columns, x_stride, y_stride, BLOCK: gl.constexpr, layout: gl.constexpr):
    """BLOCK elements of a row a program, times the row's scale."""
    row = gl.program_id(0).to(gl.int64)
    place = gl.program_id(1) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    mask = place < columns
    x = gl.load(x_ptr + row * x_stride + place, mask=mask).to(gl.float32)
    y = x * gl.load(scale_ptr + row)
    gl.store(y_ptr + row * y_stride + place, y.to(y_ptr.dtype.element_ty), mask=mask)


def _flat(array: Any, name: str) -> tuple[Any, int]:
    count = math.prod(array.shape)
    flat = array.reshape(count)
    if count:
        as_rows(flat, name)
    return flat, count


def launch_add(x: Any, y: Any, out: Any, plan: AddPlan | None = None) -> Launch:
    """Addition of arrays of one shape and dtype, none of them empty.

    Large arrays that divide into lines, or are matrices whose rows are contiguous, go by bulk copies in a ring where
    the device has them and the addresses allow it; others by plain loads. `ValueError` where a plan for the ring is
    given and that is not possible.
    """
    arrays = [lines(array, tuple(x.shape)) for array in (x, y, out)]
    if any(array is None for array in arrays):
        arrays = [x, y, out]
    large = plan is not None or 3 * math.prod(x.shape) * x.dtype.itemsize >= BULK_BYTES
    if large and len(arrays[0].shape) == 2:
        ring = rung_named("ring")
        if plan is not None or not why_not_ring(*arrays):
            return ring.launch(arrays[0], arrays[1], arrays[2], plan)
    elif plan is not None:
        raise ValueError(f"a ring adds matrices, or arrays in whole lines, not arrays of shape {tuple(x.shape)}")
    (first, count), (second, _), (result, _) = _flat(x, "x"), _flat(y, "y"), _flat(out, "out")
    layout = line(BLOCK, WARPS, 8 * x.dtype.itemsize, lanes_of(x))
    keywords = {"BLOCK": BLOCK, "layout": layout, "num_warps": WARPS}
    moved = 3 * count * x.dtype.itemsize
    return Launch(add_kernel, (cdiv(count, BLOCK),), (first, second, result, count), keywords, moved)


def add(x: Any, y: Any, plan: AddPlan | None = None) -> Any:
    """`x + y` of two arrays of one shape and dtype, in that dtype."""
    if x.shape != y.shape or x.dtype != y.dtype:
        raise ValueError(f"x and y must agree, not {x.dtype} {tuple(x.shape)} and {y.dtype} {tuple(y.shape)}")
    out = empty(x, tuple(x.shape))
    if math.prod(x.shape):
        launch_add(x, y, out, plan).run()
    return out


def dropout(x: Any, probability: float, seed: int) -> Any:
    """Zero with that probability, else `x / (1 - probability)`, of a float array of any shape, in its dtype.

    `seed` is a 64-bit key of Philox-4x32-10, whose counter is the element's index in order of the rows: the same seed
    keeps the same elements on every device. The probability is taken to a multiple of 2^-24.
    `ValueError` for a probability outside [0, 1) and a seed outside [0, 2^64).
    """
    if not 0 <= probability < 1:
        raise ValueError(f"probability must be at least 0 and below 1, not {probability}")
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"seed must be at least 0 and below 2^64, not {seed}")
    y = empty(x, tuple(x.shape))
    flat, count = _flat(x, "x")
    layout = line(BLOCK, WARPS, 8 * x.dtype.itemsize, lanes_of(x))
    threshold = min(round(probability * (1 << 24)), (1 << 24) - 1)
    dropout_kernel[(cdiv(count, BLOCK),)](
        flat, y.reshape(count), count, seed & 0xFFFFFFFF, seed >> 32, threshold, 1.0 / (1.0 - probability), BLOCK,
        layout, num_warps=WARPS,
    )  # fmt: skip
    return y


def _row_block(columns: int, itemsize: int, lanes: int) -> tuple[int, int]:
    """Elements of a row that a program takes at a time, and its warps: up to 32 elements a thread, up to 8 warps."""
    plan = plan_rows(min(columns, 8192), itemsize, lanes)
    return plan.block, min(plan.warps, max(1, plan.block // (8 * lanes)))


def quantize_rows(x: Any, dtype: str = "int8") -> tuple[Any, Any]:
    """Each row (along the last dimension) of a float array as an 8-bit type, times a scale of its own.

    `dtype` is "int8", "float8_e4m3fn" or "float8_e5m2". Gives the values, of the shape of `x`, and the scales, float32
    of shape `x.shape[:-1]`: the row's greatest magnitude over the type's (127 for int8), and 1 for a row of zeros.
    """
    if dtype not in LARGEST:
        raise ValueError(f"rows are quantised to {', '.join(LARGEST)}, not {dtype}")
    matrix = as_rows(x, "x")
    rows, columns = matrix.shape
    y, scale = empty(x, tuple(x.shape), dtype), empty(x, tuple(x.shape[:-1]), "float32")
    lanes = lanes_of(x)
    block, warps = _row_block(columns, x.dtype.itemsize, lanes)
    quantize_kernel[(rows,)](
        matrix, y.reshape(rows, columns), scale, columns, row_stride(matrix), columns, LARGEST[dtype], dtype == "int8",
        block, line(block, warps, 8 * x.dtype.itemsize, lanes), num_warps=warps,
    )  # fmt: skip
    return y, scale


def dequantize_rows(x: Any, scale: Any, dtype: str = "float32") -> Any:
    """`x * scale` for what `quantize_rows` gave, as another dtype."""
    matrix = as_rows(x, "x")
    rows, columns = matrix.shape
    if dtype_name(scale) != "float32" or math.prod(scale.shape) != rows:
        raise ValueError(f"scale must be {rows} float32 numbers, not {dtype_name(scale)} {tuple(scale.shape)}")
    y = empty(x, tuple(x.shape), dtype)
    lanes = lanes_of(x)
    block, warps = _row_block(columns, 1, lanes)
    layout = line(block, warps, 8 * y.dtype.itemsize, lanes)
    dequantize_kernel[(rows, cdiv(columns, block))](
        matrix, scale, y.reshape(rows, columns), columns, row_stride(matrix), columns, block, layout, num_warps=warps
    )
    return y
