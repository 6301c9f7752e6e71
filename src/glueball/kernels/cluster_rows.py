"""Rows that a cluster of CTAs shares: softmax and RMS norm of rows too long for one multiprocessor.

Every CTA holds its part of a row in registers and sends what it found, a few bytes, into the shared memory of all CTAs;
an mbarrier counts what comes. Two places take turns: nobody is more than one row ahead, for each row needs everybody.
"""

import math
from dataclasses import dataclass
from typing import Any

import glueball
import glueball.language as gl
from glueball.kernels.arrays import VECTOR_BYTES, lanes_of, multiprocessors_of, row_stride, target_of
from glueball.kernels.boxes import LONGEST_SIDE, item_bytes, why_not_bulk
from glueball.kernels.ladder import Launch, strides_of
from glueball.language.nvidia.hopper import async_store, mbarrier, tma
from glueball.nvidia.hopper import TensorDescriptor

LOG2_E: gl.constexpr = gl.constexpr(1.4426950408889634)


@glueball.jit
def start_part(desc, ring, loaded, i, count, first, step):
    """Starts to load the cluster's `i`-th row into its slot of the ring, every CTA its part, if there is one."""
    if i < count:
        slot = i % ring.shape[0]
        mbarrier.expect(loaded.index(slot), desc.nbytes_per_cta)
        tma.async_load(desc, (first + i * step, 0, 0), loaded.index(slot), ring.index(slot))


@glueball.jit
def to_all(value, CTAS: gl.constexpr, sent: gl.constexpr):
    """Each CTA's number, once for every CTA that it is for."""
    row = gl.convert_layout(value, gl.SliceLayout(0, sent))
    return gl.zeros([CTAS, CTAS], gl.float32, sent) + row[None, :]


@glueball.jit
def softmax_split(
    x_desc, y_ptr, rows, y_stride, CTAS: gl.constexpr, STAGES: gl.constexpr,
    layout: gl.constexpr, sent: gl.constexpr, received: gl.constexpr, shared: gl.constexpr,
):  # fmt: skip
    """Softmax of rows that CTAS CTAs share; maxima and sums of the parts meet once a row."""
    COLUMNS: gl.constexpr = x_desc.block_shape[1] * x_desc.block_shape[2] // CTAS
    ring = gl.allocate_shared_memory(x_desc.dtype, [STAGES] + x_desc.block_shape, x_desc.layout)
    maxima = gl.allocate_shared_memory(gl.float32, [2, CTAS, CTAS], shared)
    sums = gl.allocate_shared_memory(gl.float32, [2, CTAS, CTAS], shared)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    met = mbarrier.allocate_mbarrier(batch=2)
    for each in gl.static_range(STAGES):
        mbarrier.init(loaded.index(each), count=1)
    for each in gl.static_range(2):
        mbarrier.init(met.index(each), count=1)
    first = gl.program_id(0)
    step = gl.num_programs(0)
    count = gl.cdiv(rows - first, step)
    for i in range(STAGES):
        start_part(x_desc, ring, loaded, i, count, first, step)
    part: gl.constexpr = gl.SliceLayout(1, layout)
    column = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, layout))
    place = gl.arange(0, CTAS, layout=part)[:, None] * COLUMNS + column[None, :]
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(loaded.index(stage), (i // STAGES) & 1)
        x = ring.index(stage).reshape([CTAS, COLUMNS]).load(layout).to(gl.float32) * LOG2_E
        start_part(x_desc, ring, loaded, i + STAGES, count, first, step)
        greatest = gl.max(x, axis=1)
        power = gl.exp2(x - greatest[:, None])
        total = gl.sum(power, axis=1)
        side = i % 2
        mbarrier.expect(met.index(side), maxima.nbytes_per_cta // 2 + sums.nbytes_per_cta // 2)
        async_store(maxima.index(side), to_all(greatest, CTAS, sent), met.index(side))
        async_store(sums.index(side), to_all(total, CTAS, sent), met.index(side))
        mbarrier.wait(met.index(side), (i // 2) & 1)
        all_maxima = maxima.index(side).load(received)
        row_maximum = gl.max(all_maxima, axis=1)
        shares = sums.index(side).load(received) * gl.exp2(all_maxima - row_maximum[:, None])
        row_sum = gl.convert_layout(gl.sum(shares, axis=1), part)
        scale = gl.exp2(greatest - gl.convert_layout(row_maximum, part)) / row_sum
        y_row = y_ptr + (first + i * step).to(gl.int64) * y_stride
        gl.store(y_row + place, (power * scale[:, None]).to(y_ptr.dtype.element_ty), cache_modifier=".cs")


@glueball.jit
def rms_norm_split(
    x_desc, weight_ptr, y_ptr, scale_ptr, rows, y_stride, epsilon, CTAS: gl.constexpr, STAGES: gl.constexpr,
    layout: gl.constexpr, sent: gl.constexpr, received: gl.constexpr, shared: gl.constexpr,
):  # fmt: skip
    """RMS norm of rows that CTAS CTAs share; sums of squares of the parts meet once a row."""
    COLUMNS: gl.constexpr = x_desc.block_shape[1] * x_desc.block_shape[2] // CTAS
    ring = gl.allocate_shared_memory(x_desc.dtype, [STAGES] + x_desc.block_shape, x_desc.layout)
    sums = gl.allocate_shared_memory(gl.float32, [2, CTAS, CTAS], shared)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    met = mbarrier.allocate_mbarrier(batch=2)
    for each in gl.static_range(STAGES):
        mbarrier.init(loaded.index(each), count=1)
    for each in gl.static_range(2):
        mbarrier.init(met.index(each), count=1)
    first = gl.program_id(0)
    step = gl.num_programs(0)
    count = gl.cdiv(rows - first, step)
    for i in range(STAGES):
        start_part(x_desc, ring, loaded, i, count, first, step)
    part: gl.constexpr = gl.SliceLayout(1, layout)
    column = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, layout))
    place = gl.arange(0, CTAS, layout=part)[:, None] * COLUMNS + column[None, :]
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(loaded.index(stage), (i // STAGES) & 1)
        x = ring.index(stage).reshape([CTAS, COLUMNS]).load(layout).to(gl.float32)
        start_part(x_desc, ring, loaded, i + STAGES, count, first, step)
        squares = gl.sum(x * x, axis=1)
        side = i % 2
        mbarrier.expect(met.index(side), sums.nbytes_per_cta // 2)
        async_store(sums.index(side), to_all(squares, CTAS, sent), met.index(side))
        if weight_ptr is not None:
            weight = gl.load(weight_ptr + place).to(gl.float32)
        mbarrier.wait(met.index(side), (i // 2) & 1)
        total = gl.sum(sums.index(side).load(received), axis=1)
        row_scale = gl.rsqrt(total / (CTAS * COLUMNS) + epsilon)
        row = first + i * step
        gl.store(scale_ptr + row + gl.zeros_like(total).to(gl.int32), row_scale)
        y = x * gl.convert_layout(row_scale, part)[:, None]
        if weight_ptr is not None:
            y = y * weight
        y_row = y_ptr + row.to(gl.int64) * y_stride
        gl.store(y_row + place, y.to(y_ptr.dtype.element_ty), cache_modifier=".cs")


@dataclass(frozen=True, slots=True)
class ClusterRowPlan:
    """How clusters of `ctas` CTAs go from row to row: `clusters` of them, each with a ring of `stages` rows."""

    ctas: int
    warps: int
    stages: int
    clusters: int


def why_not_split(matrix: Any, plan: ClusterRowPlan) -> str:
    """Why a plan does not fit the rows of a matrix; empty where it does."""
    columns, target = matrix.shape[1], target_of(matrix)
    if not target.supports("cluster"):
        return f"{target.name} has no clusters"
    if columns & (columns - 1) or columns < plan.ctas * LONGEST_SIDE:
        return f"rows have a power of two of elements, at least {plan.ctas * LONGEST_SIDE}, not {columns}"
    if columns > plan.ctas * LONGEST_SIDE**2:
        return f"rows have at most {plan.ctas * LONGEST_SIDE**2} elements, not {columns}"
    return why_not_bulk(matrix, matrix.shape, strides_of(matrix))


def plan_split(matrix: Any, *, norm: bool) -> ClusterRowPlan | None:
    """The plan for rows of which one CTA cannot hold enough; None where other kernels do better (measured on an H200).

    More clusters than can be resident are launched: they start as others end, so that not all of them do the same at
    the same time.
    """
    row_bytes, ctas = matrix.shape[1] * item_bytes(matrix), 8
    if row_bytes < MOST_BYTES_ALONE:
        return None
    groups = 320 if norm else 640
    plan = ClusterRowPlan(ctas, 8, 2, max(1, groups * multiprocessors_of(matrix) // 132))
    return plan if row_bytes <= MOST_BYTES and not why_not_split(matrix, plan) else None


MOST_BYTES_ALONE, MOST_BYTES = 131072, 524288
"""Rows from the first size on are shared; a CTA's part of one of the second fills its registers."""


def _shared_keywords(matrix: Any, plan: ClusterRowPlan) -> tuple[TensorDescriptor, dict[str, Any]]:
    """The descriptor of the rows, cut into parts, and the layouts by which parts and what they find are held."""
    if reason := why_not_split(matrix, plan):
        raise ValueError(f"a cluster does not share these rows: {reason}")
    rows, columns = matrix.shape
    bits, size, lanes = plan.ctas.bit_length() - 1, item_bytes(matrix), lanes_of(matrix)
    lines = columns // LONGEST_SIDE
    cut = gl.NVMMASharedLayout(0, 8 * size, 3, cga_layout=[[0, 1 << bit, 0] for bit in range(bits)])
    shape, strides = [rows, lines, LONGEST_SIDE], [row_stride(matrix), LONGEST_SIDE, 1]
    desc = TensorDescriptor(matrix, shape, strides, [1, lines, LONGEST_SIDE], cut)
    vector = max(1, min(VECTOR_BYTES // size, columns // plan.ctas // (lanes * plan.warps)))
    sources, targets = ([[step, 0] for step in _steps(bits)], [[0, step] for step in _steps(bits)])
    nobody = [[0, 0]]
    idle = (nobody * (lanes.bit_length() - 1), nobody * (plan.warps.bit_length() - 1))
    square = [plan.ctas, plan.ctas]
    keywords = {
        "CTAS": plan.ctas,
        "STAGES": plan.stages,
        "layout": gl.BlockedLayout([1, vector], [1, lanes], [1, plan.warps], [1, 0], cga_layout=sources),
        "sent": gl.DistributedLinearLayout(sources, *idle, targets, square),
        "received": gl.DistributedLinearLayout(targets, *idle, sources, square),
        "shared": gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga_layout=sources),
        "num_warps": plan.warps,
        "num_ctas": plan.ctas,
    }
    return desc, keywords


def _steps(bits: int) -> list[int]:
    return [1 << bit for bit in range(bits)]


def launch_softmax_split(x: Any, y: Any, plan: ClusterRowPlan) -> Launch:
    """Softmax of the rows of a matrix that clusters can share; `ValueError` for another one."""
    desc, keywords = _shared_keywords(x, plan)
    rows = x.shape[0]
    return Launch(softmax_split, (min(rows, plan.clusters),), (desc, y, rows, row_stride(y)), keywords, _moved(x, y))


def launch_rms_norm_split(x: Any, weight: Any, y: Any, scale: Any, epsilon: float, plan: ClusterRowPlan) -> Launch:
    """RMS norm of the rows of a matrix that clusters can share; `ValueError` for another one."""
    desc, keywords = _shared_keywords(x, plan)
    rows = x.shape[0]
    arguments = (desc, weight, y, scale, rows, row_stride(y), epsilon)
    return Launch(rms_norm_split, (min(rows, plan.clusters),), arguments, keywords, _moved(x, y))


def _moved(x: Any, y: Any) -> int:
    return sum(math.prod(array.shape) * item_bytes(array) for array in (x, y))
