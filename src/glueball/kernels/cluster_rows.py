"""Rows that a cluster of CTAs shares: softmax and RMS norm of rows too long for one multiprocessor.

Every warp has its part of a row and sends what it found, a few bytes, into the shared memory of all CTAs; an mbarrier
counts what comes, and no other barrier stands in the way of a row. Two places take turns: nobody is more than one row
ahead, for each row needs everybody.
"""

from dataclasses import dataclass
from typing import Any

import glueball
import glueball.language as gl
from glueball.kernels.arrays import VECTOR_BYTES, lanes_of, powers_below, row_stride, target_of
from glueball.kernels.boxes import LONGEST_SIDE, item_bytes, moved_bytes, streaming_policy, why_not_bulk
from glueball.kernels.ladder import Launch, strides_of
from glueball.language.nvidia.hopper import async_store, mbarrier, tma
from glueball.nvidia.hopper import TensorDescriptor
from glueball.runtime.host_functions import cdiv

LOG2_E: gl.constexpr = gl.constexpr(1.4426950408889634)
LEAST: gl.constexpr = gl.constexpr(-3.4028234663852886e38)
"""The least float32: the least maximum of a warp's part, of which all may be minus infinity where others' are not."""


@glueball.jit
def start_part(desc, ring, loaded, i, count, first, POLICY: gl.constexpr):
    """Starts to load the cluster's `i`-th row into its slot of the ring, every CTA its part, if there is one."""
    if i < count:
        slot = i % ring.shape[0]
        mbarrier.expect(loaded.index(slot), desc.nbytes_per_cta)
        tma.async_load(desc, (first + i, 0, 0), loaded.index(slot), ring.index(slot), cache_policy=POLICY)


@glueball.jit
def begin(desc, rows, STAGES: gl.constexpr, RUN: gl.constexpr, POLICY: gl.constexpr):
    """The ring and its mbarriers, the cluster's first row and how many it has; the first loads are on their way."""
    ring = gl.allocate_shared_memory(desc.dtype, [STAGES] + desc.block_shape, desc.layout)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    for each in gl.static_range(STAGES):
        mbarrier.init(loaded.index(each), count=1)
    first = gl.program_id(0) * RUN
    count = gl.minimum(rows - first, RUN)
    for i in gl.static_range(STAGES):
        start_part(desc, ring, loaded, i, count, first, POLICY)
    return ring, loaded, first, count


@glueball.jit
def places(PARTS: gl.constexpr, COLUMNS: gl.constexpr, layout: gl.constexpr):
    """The columns of a row that the warps hold, a line of the tile each."""
    warp = gl.arange(0, PARTS, layout=gl.SliceLayout(1, layout))
    return warp[:, None] * COLUMNS + gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, layout))[None, :]


@glueball.jit
def to_all(value, CTAS: gl.constexpr, sent: gl.constexpr):
    """Each warp's number, once for every CTA that it is for."""
    PARTS: gl.constexpr = value.shape[0]
    row = gl.convert_layout(value, gl.SliceLayout(0, sent))
    return gl.zeros([CTAS, PARTS], gl.float32, sent) + row[None, :]


@glueball.jit
def to_column(value, layout: gl.constexpr):
    """Each warp's number, as a column of the tile in a layout."""
    return gl.convert_layout(value.reshape([value.numel]), gl.SliceLayout(1, layout))[:, None]


@glueball.jit
def softmax_split(
    x_desc, y_ptr, rows, y_stride, CTAS: gl.constexpr, STAGES: gl.constexpr, RUN: gl.constexpr,
    layout: gl.constexpr, sent: gl.constexpr, received: gl.constexpr, shared: gl.constexpr,
    POLICY: gl.constexpr = None,
):  # fmt: skip
    """Softmax of rows that CTAS CTAs share, RUN rows a cluster; maxima and sums of the warps meet once a row.

    A warp sums up by its own maximum: one that is far below the greatest of the row finds infinity, and stores zeros.
    """
    PARTS: gl.constexpr = CTAS * gl.num_warps()
    COLUMNS: gl.constexpr = x_desc.block_shape[1] * x_desc.block_shape[2] // PARTS
    ring, loaded, first, count = begin(x_desc, rows, STAGES, RUN, POLICY)
    maxima = gl.allocate_shared_memory(gl.float32, [2, CTAS, PARTS], shared)
    sums = gl.allocate_shared_memory(gl.float32, [2, CTAS, PARTS], shared)
    met = mbarrier.allocate_mbarrier(batch=2)
    for each in gl.static_range(2):
        mbarrier.init(met.index(each), count=1)
    place = places(PARTS, COLUMNS, layout)
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(loaded.index(stage), (i // STAGES) & 1)
        x = ring.index(stage).reshape([PARTS, COLUMNS]).load(layout).to(gl.float32)
        if RUN > STAGES:
            start_part(x_desc, ring, loaded, i + STAGES, count, first, POLICY)
        greatest = gl.maximum(gl.max(x, axis=1), LEAST)
        side = i % 2
        mbarrier.expect(met.index(side), maxima.nbytes_per_cta // 2 + sums.nbytes_per_cta // 2)
        async_store(maxima.index(side), to_all(greatest, CTAS, sent), met.index(side))
        power = gl.exp(x - greatest[:, None])
        async_store(sums.index(side), to_all(gl.sum(power, axis=1), CTAS, sent), met.index(side))
        mbarrier.wait(met.index(side), (i // 2) & 1)
        all_maxima = maxima.index(side).load(gl.SliceLayout(1, received))[:, None, :]
        all_sums = sums.index(side).load(gl.SliceLayout(1, received))[:, None, :]
        own = gl.convert_layout(greatest.reshape([CTAS, gl.num_warps()]), gl.SliceLayout(2, received))[:, :, None]
        row_sum = gl.sum(all_sums * gl.exp(all_maxima - own), axis=2)
        scale = gl.exp2(-gl.log2(row_sum))
        y_row = y_ptr + (first + i).to(gl.int64) * y_stride
        gl.store(y_row + place, (power * to_column(scale, layout)).to(y_ptr.dtype.element_ty))


@glueball.jit
def rms_norm_split(
    x_desc, weight_ptr, y_ptr, scale_ptr, rows, y_stride, epsilon,
    CTAS: gl.constexpr, STAGES: gl.constexpr, RUN: gl.constexpr,
    layout: gl.constexpr, sent: gl.constexpr, received: gl.constexpr, shared: gl.constexpr,
    POLICY: gl.constexpr = None,
):  # fmt: skip
    """RMS norm of rows that CTAS CTAs share, RUN rows a cluster; sums of squares of the warps meet once a row.

    Elements are read again once the sums have met, so that no registers hold them meanwhile. Weights wait in shared
    memory, each where the thread that loaded it reads it.
    """
    PARTS: gl.constexpr = CTAS * gl.num_warps()
    COLUMNS: gl.constexpr = x_desc.block_shape[1] * x_desc.block_shape[2] // PARTS
    ring, loaded, first, count = begin(x_desc, rows, STAGES, RUN, POLICY)
    sums = gl.allocate_shared_memory(gl.float32, [2, CTAS, PARTS], shared)
    met = mbarrier.allocate_mbarrier(batch=2)
    for each in gl.static_range(2):
        mbarrier.init(met.index(each), count=1)
    place = places(PARTS, COLUMNS, layout)
    if weight_ptr is not None:
        kept = gl.allocate_shared_memory(weight_ptr.dtype.element_ty, [PARTS, COLUMNS], shared)
        kept.store(gl.load(weight_ptr + place))
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(loaded.index(stage), (i // STAGES) & 1)
        part = ring.index(stage).reshape([PARTS, COLUMNS])
        x = part.load(layout).to(gl.float32)
        squares = gl.sum(x * x, axis=1)
        side = i % 2
        mbarrier.expect(met.index(side), sums.nbytes_per_cta // 2)
        async_store(sums.index(side), to_all(squares, CTAS, sent), met.index(side))
        mbarrier.wait(met.index(side), (i // 2) & 1)
        all_sums = sums.index(side).load(gl.SliceLayout(1, received))[:, None, :]
        total = gl.sum(gl.zeros([CTAS, gl.num_warps(), PARTS], gl.float32, received) + all_sums, axis=2)
        row_scale = gl.rsqrt(total / (PARTS * COLUMNS) + epsilon)
        row = first + i
        gl.store(scale_ptr + row + gl.zeros_like(total).to(gl.int32), row_scale)
        y = part.load(layout).to(gl.float32) * to_column(row_scale, layout)
        if RUN > STAGES:
            start_part(x_desc, ring, loaded, i + STAGES, count, first, POLICY)
        if weight_ptr is not None:
            y = y * kept.load(layout).to(gl.float32)
        gl.store(y_ptr + row.to(gl.int64) * y_stride + place, y.to(y_ptr.dtype.element_ty))


@dataclass(frozen=True, slots=True)
class ClusterRowPlan:
    """How clusters of `ctas` CTAs of `warps` warps share rows: `run` of them each, through a ring of `stages`.

    `registers` caps those of a thread, 0 does not.
    """

    ctas: int
    warps: int
    stages: int
    run: int
    registers: int = 0


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

    A cluster ends after a row or two: the next ones start where memory is in use already, in the order of the rows.
    """
    row_bytes = matrix.shape[1] * item_bytes(matrix)
    ctas = min(MOST_CTAS, row_bytes // PART_BYTES)
    if row_bytes < (2 if norm else 1) * LEAST_BYTES or row_bytes > MOST_BYTES:
        return None
    run = 1 if ctas == 2 else 2
    warps = (NORM_WARPS if norm else SOFTMAX_WARPS) * row_bytes // (ctas * PART_BYTES)
    plan = ClusterRowPlan(ctas, warps, run, run, MOST_REGISTERS)
    return None if why_not_split(matrix, plan) else plan


PART_BYTES, MOST_CTAS = 32768, 8
"""Clusters of up to 8 CTAs always fit."""
SOFTMAX_WARPS, NORM_WARPS = 8, 4
"""Of a CTA with a part of that size; a thread of the former holds 64 elements of 16 bits, one of the latter none."""
LEAST_BYTES, MOST_BYTES = 65536, 524288
"""Rows from the first size on are shared; a CTA's part of one of the second fills its registers."""
MOST_REGISTERS = 80
"""Of a thread, with which three CTAs of softmax are resident at a time."""


def _shared_keywords(matrix: Any, plan: ClusterRowPlan, moved: int) -> tuple[TensorDescriptor, dict[str, Any]]:
    """The descriptor of the rows, cut into parts, and the layouts by which parts and what they find are held."""
    if reason := why_not_split(matrix, plan):
        raise ValueError(f"a cluster does not share these rows: {reason}")
    rows, columns = matrix.shape
    size, lanes, parts = item_bytes(matrix), lanes_of(matrix), plan.ctas * plan.warps
    lines = columns // LONGEST_SIDE
    ctas, warps, both = powers_below(plan.ctas), powers_below(plan.warps), powers_below(parts)
    cut = gl.NVMMASharedLayout(0, 8 * size, 3, cga_layout=[[0, step, 0] for step in ctas])
    shape, strides = [rows, lines, LONGEST_SIDE], [row_stride(matrix), LONGEST_SIDE, 1]
    desc = TensorDescriptor(matrix, shape, strides, [1, lines, LONGEST_SIDE], cut)
    vector = max(1, min(VECTOR_BYTES // size, columns // parts // lanes))
    down = [[step, 0] for step in ctas]
    nobody = [[0, 0]] * len(powers_below(lanes))
    senders = [[0, step] for step in warps], [[0, plan.warps * step] for step in ctas]
    numbers = [[0, 0, step] for step in both]
    readers = [[0, step, 0] for step in warps], [[step, 0, 0] for step in ctas]
    shared_by_lanes = (numbers + [[0, 0, 0]] * len(nobody))[: len(nobody)]
    keywords = {
        "CTAS": plan.ctas,
        "STAGES": plan.stages,
        "RUN": plan.run,
        "layout": gl.BlockedLayout([1, vector], [1, lanes], [plan.warps, 1], [1, 0], cga_layout=down),
        "sent": gl.DistributedLinearLayout([], (down + nobody)[: len(nobody)], *senders, [plan.ctas, parts]),
        "received": gl.DistributedLinearLayout(
            numbers[len(nobody) :], shared_by_lanes, *readers, [plan.ctas, plan.warps, parts]
        ),
        "shared": gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga_layout=down),
        "POLICY": streaming_policy(matrix, moved),
        "num_warps": plan.warps,
        "num_ctas": plan.ctas,
        **({"maxnreg": plan.registers} if plan.registers else {}),
    }
    return desc, keywords


def launch_softmax_split(x: Any, y: Any, plan: ClusterRowPlan) -> Launch:
    """Softmax of the rows of a matrix that clusters can share; `ValueError` for another one."""
    rows, moved = x.shape[0], moved_bytes(x, y)
    desc, keywords = _shared_keywords(x, plan, moved)
    return Launch(softmax_split, (cdiv(rows, plan.run),), (desc, y, rows, row_stride(y)), keywords, moved)


def launch_rms_norm_split(x: Any, weight: Any, y: Any, scale: Any, epsilon: float, plan: ClusterRowPlan) -> Launch:
    """RMS norm of the rows of a matrix that clusters can share; `ValueError` for another one."""
    rows, moved = x.shape[0], moved_bytes(x, y)
    desc, keywords = _shared_keywords(x, plan, moved)
    arguments = (desc, weight, y, scale, rows, row_stride(y), epsilon)
    return Launch(rms_norm_split, (cdiv(rows, plan.run),), arguments, keywords, moved)
