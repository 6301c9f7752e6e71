"""How a product is computed: which kernel, what tile, how many splits. Chosen by predicted time.

The numbers of the model are an H200's. What they decide between differs by tens of percent, so that they need be no
better than that; shapes that were measured are in the table of `tuned.py`, and tuning adds to it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from glueball.kernels.matrix_products.forms import Plan
from glueball.kernels.matrix_products.problems import ITEM_BYTES, Matrix, Problem, stored_by_threads
from glueball.kernels.matrix_products.tuned import tuned_plans
from glueball.runtime.host_functions import cdiv, next_power_of_2
from glueball.targets import Target

CYCLE = 1 / 1.5e9
"""Seconds; the clock under load."""
MEMORY_RATE = 3.9e12
"""Bytes a second that global memory gives."""
SHARED_RATE = 60
"""Bytes a cycle that a multiprocessor gets of the second-level cache by bulk copies."""
PLAIN_RATE = 24
"""The same by plain loads of 16 bytes."""
GROUP_PRODUCTS = 2048
"""16-bit multiply-adds a cycle of a multiprocessor by warp groups, twice as many of 8 bits."""
WARP_PRODUCTS = 500
"""The same by warps, through registers and shared memory, step after step."""
BESIDE = 0.1
"""How much of the shorter of two times, of memory and of programs, shows beside the longer one."""
LAUNCH = 3.0e-6
"""From one kernel to the next."""
PROLOGUE = 2500
"""Cycles before a persistent program's first product."""
EPILOGUE = 1200
"""Cycles of a tile that its next tile's copies do not hide."""
GATHER_RATE = 48
"""The same of what splits have summed."""
MEETING_RATE = 1.5e12
"""Bytes a second of what all splits write and read again."""
MEETING = 2500
"""Cycles that the splits of a tile take to meet, beside the bytes."""
NARROW_GROUP = 16
"""Tiles that go down before one goes across, of 8-bit floats, whose products are done twice as fast as they come."""
TILES = (
    (128, 256, 2, 1), (256, 128, 2, 1), (128, 128, 2, 1), (128, 64, 2, 1), (64, 128, 1, 1), (64, 64, 1, 1),
    (256, 256, 2, 2), (256, 128, 2, 2),
)  # fmt: skip
"""Rows, columns, multiplying groups and CTAs of tiles."""
CACHE_LINE = 128
UNALIGNED = 1.5
"""Times the bytes that copies of lines take that start inside of a cache line."""
CLUSTER_STEP = 100
"""Cycles that the CTAs of a cluster wait for each other in a step."""
FEW_ROWS = 64
"""Up to so many rows the transposed product is worth a thought, of which a tile is as narrow as they are few."""
TAIL_SPLITS = (2, 3, 4, 6, 8)
"""Splits of the tiles that are left when all programs have had as many."""
TAIL_TILE = 8192
"""Elements of a tile up to which that is tried: those of larger ones take longer to meet than it saves."""
STEP_LATENCY = 1100
"""Cycles of a step along K of a program that loads for itself."""
RESIDENT = 3
"""Such programs that a multiprocessor holds."""
SHARED_BYTES = (115200, 231424)
"""Shared memory of a program with one group, of which a multiprocessor holds two, and with two; less mbarriers."""
VECTOR_TILE = 8192
"""Elements of `b` that a program of one row takes at a time."""
LONGEST_LINE = 2048
MOST_STAGES = 8
MOST_SPLITS = 32


@functools.lru_cache(maxsize=4096)
def plan_for(problem: Problem, target: Target, multiprocessors: int) -> Plan:
    """The plan of the table, or the one of the least predicted time."""
    tuned = tuned_plans().get(table_key(problem, target))
    if tuned is not None and is_possible(tuned, problem, target):
        return tuned
    return min(candidates(problem, target, multiprocessors), key=lambda plan: predicted(problem, plan, multiprocessors))


def table_key(problem: Problem, target: Target) -> str:
    """What measured plans are kept by: target, type of element and result, shape, and the operands' orders."""
    orders = "".join("t" if matrix.turned else "n" for matrix in (problem.a, problem.b))
    extents = "x".join(map(str, (problem.batches, problem.rows, problem.columns, problem.inner)))
    return f"{target.name} {problem.a.dtype} {problem.c.dtype} {orders} {extents}"


def is_possible(plan: Plan, problem: Problem, target: Target) -> bool:
    """Whether a plan fits the target and the problem; each of the splits of warp groups has a step along K."""
    if plan.kind == "vector":
        return problem.rows == 1
    if plan.ctas > 1 and (plan.splits > 1 or stored_by_threads(problem.c)):
        return False
    if plan.kind == "direct":
        return target.supports("nvidia")
    return target.supports("warpgroup_mma") and plan.splits <= cdiv(problem.inner, plan.block[2])


def candidates(problem: Problem, target: Target, multiprocessors: int) -> Iterator[Plan]:
    """Plans worth a thought."""
    if problem.rows == 1:
        yield vector_plan(problem, multiprocessors)
        return
    yield from direct_plans(problem, multiprocessors)
    if is_possible(Plan("specialized", (128, 128, 64)), problem, target):
        yield from group_plans(problem, multiprocessors)


def group_plans(problem: Problem, multiprocessors: int) -> Iterator[Plan]:
    """Plans of warp groups, of few rows those of the transposed product too."""
    yield from specialized_plans(problem, multiprocessors)
    if problem.rows <= FEW_ROWS:
        width = max(16, next_power_of_2(problem.rows))
        for plan in specialized_plans(problem.swapped(), multiprocessors, ((128, width, 2, 1), (64, width, 1, 1))):
            yield replace(plan, swapped=True)


def vector_plan(problem: Problem, multiprocessors: int) -> Plan:
    """The plan for a product of one row: a thread has 64 elements in flight, and 4 programs fill a multiprocessor."""
    block_n = min(32 if problem.b.turned else 256, next_power_of_2(problem.columns))
    block_k = min(VECTOR_TILE // block_n, max(32, next_power_of_2(problem.inner)), LONGEST_LINE)
    tiles = problem.batches * cdiv(problem.columns, block_n)
    steps = cdiv(problem.inner, block_k)
    splits = max(1, min(4 * multiprocessors // max(tiles, 1), steps // 4, MOST_SPLITS))
    return Plan("vector", (1, block_n, block_k), splits=splits)


def direct_plans(problem: Problem, multiprocessors: int) -> Iterator[Plan]:
    """Tiles of 16 to 64 rows, with as many splits as leave no multiprocessor idle."""
    heights = [16] if problem.rows <= 16 else [32] if problem.rows <= 32 else [64]
    for height in heights:
        for width in (32, 64) if problem.columns > 32 else (32,):
            tiles = problem.batches * cdiv(problem.rows, height) * cdiv(problem.columns, width)
            steps = max(1, cdiv(problem.inner, 64))
            for splits in {1, *_splits(tiles, steps, RESIDENT * multiprocessors)}:
                yield Plan("direct", (height, width, 64), splits=splits)


def specialized_plans(
    problem: Problem, multiprocessors: int, sizes: Sequence[tuple[int, int, int, int]] = TILES
) -> Iterator[Plan]:
    """Tiles for one or two groups, with the stages that fit, in splits that leave no program idle."""
    step = 128 if problem.narrow else 64
    for height, width, parts, ctas in sizes:
        if (height > 64 and problem.rows <= height // 2) or (width > 64 and problem.columns <= width // 2):
            continue
        if ctas > 1 and (multiprocessors < ctas or stored_by_threads(problem.c)):
            continue
        tiles = problem.batches * cdiv(problem.rows, height) * cdiv(problem.columns, width)
        steps = cdiv(problem.inner, step)
        chunks = chunks_for(problem, width, ctas)
        plan = Plan("specialized", (height, width, step), parts=parts, chunks=chunks, ctas=ctas)
        plan = replace(plan, stages=stages_for(problem, plan))
        if problem.narrow:
            plan = replace(plan, group=NARROW_GROUP // ctas)
        programs = programs_of(plan, multiprocessors)
        for splits in {1, *_splits(tiles, steps, programs)} if ctas == 1 else {1}:
            yield replace(plan, splits=splits)
        if tiles > programs and tiles % programs and height * width <= TAIL_TILE:
            yield from (replace(plan, splits=splits, tail=True) for splits in TAIL_SPLITS if splits <= steps)


def _splits(tiles: int, steps: int, programs: int) -> set[int]:
    """Numbers of splits that fill the machine about once, twice, by half or by a quarter; none without a step."""
    if tiles >= programs:
        return set()
    full = min(programs // max(tiles, 1), steps, MOST_SPLITS)
    return {splits for splits in (full, full + 1, full // 2, full // 4) if 1 < splits <= min(steps, MOST_SPLITS)}


def chunks_for(problem: Problem, width: int, ctas: int = 1) -> int:
    """Chunks in which a group stores its tile: of 32 bits, and of clusters, which are glad of one more stage, two."""
    return max(1, min(max(ctas, ITEM_BYTES[problem.c.dtype] // 2), width // 32))


def stages_for(problem: Problem, plan: Plan) -> int:
    """Stages that fit beside the pieces of the result and the scales of columns."""
    height, width, step = plan.block
    height //= plan.ctas
    staging = height * width // plan.chunks * ITEM_BYTES[problem.c.dtype]
    if problem.column_scale == "each":
        staging += plan.parts * width * ITEM_BYTES["float32"]
    stage = (height + width) * step * problem.a.itemsize
    return max(2, min(MOST_STAGES, (SHARED_BYTES[plan.parts - 1] - staging) // stage))


def predicted(problem: Problem, plan: Plan, multiprocessors: int) -> float:
    """Seconds that a plan takes, about."""
    if plan.swapped:
        problem, plan = problem.swapped(), replace(plan, swapped=False)
    traffic = sum(matrix.elements * matrix.itemsize for matrix in (problem.a, problem.b, problem.c))
    floor = traffic / MEMORY_RATE
    copied = [matrix for matrix, flag in zip((problem.a, problem.b), problem.copied, strict=True) if flag]
    first = sum(LAUNCH + 2.5 * matrix.elements * matrix.itemsize / MEMORY_RATE for matrix in copied)
    if plan.kind != "specialized":
        first = 0.0
    cycles = _specialized_cycles if plan.kind == "specialized" else _direct_cycles
    if plan.splits > 1:
        first += 2 * _split_items(problem, plan, multiprocessors) * plan.block[0] * plan.block[1] * 4 / MEETING_RATE
    limits = floor, cycles(problem, plan, multiprocessors) * CYCLE
    return first + LAUNCH + max(limits) + BESIDE * min(limits)


def _tiles(problem: Problem, plan: Plan) -> tuple[int, int]:
    """Tiles, and steps along K of each."""
    height, width, step = plan.block
    tiles: int = problem.batches * cdiv(problem.rows, height) * cdiv(problem.columns, width)
    return tiles, max(1, cdiv(problem.inner, step))


def _split_items(problem: Problem, plan: Plan, multiprocessors: int) -> int:
    """Pieces of work that are a split of a tile."""
    tiles, _ = _tiles(problem, plan)
    return (tiles % programs_of(plan, multiprocessors) if plan.tail else tiles) * plan.splits


def _specialized_cycles(problem: Problem, plan: Plan, multiprocessors: int) -> float:
    (height, width, step), (tiles, steps) = plan.block, _tiles(problem, plan)
    height //= plan.ctas
    rate = GROUP_PRODUCTS * (2 if problem.narrow else 1)
    products = height * max(width, 64) * step / rate
    elements = height * slowness(problem.a) + width * slowness(problem.b) / plan.ctas
    copied = elements * step * problem.a.itemsize / SHARED_RATE
    programs = programs_of(plan, multiprocessors)
    whole = tiles // programs if plan.tail else 0
    items = _split_items(problem, plan, multiprocessors)
    resident = residents(plan) if whole else min(residents(plan), math.ceil(items / multiprocessors))
    a_step = resident * max(products, copied) + CLUSTER_STEP * (plan.ctas - 1)
    split_steps: int = cdiv(steps, plan.splits)
    shared = split_steps * a_step + EPILOGUE + _meeting_cycles(plan)
    return PROLOGUE + whole * (steps * a_step + EPILOGUE) + math.ceil(items / programs) * shared


def _meeting_cycles(plan: Plan) -> float:
    """Until the sums of a tile's splits have met: each is written once, and one program reads all."""
    height, width, _ = plan.block
    return MEETING + (1 + plan.splits) * height * width * 4 / GATHER_RATE if plan.splits > 1 else 0


def slowness(matrix: Matrix) -> float:
    """How many times longer copies of a matrix take than of one whose lines start at cache lines."""
    pitch = matrix.strides[2 if matrix.turned else 1] * matrix.itemsize
    return 1 if pitch % CACHE_LINE == 0 else UNALIGNED


def residents(plan: Plan) -> int:
    """Persistent CTAs that a multiprocessor holds."""
    return 2 if plan.parts == 1 else 1


def programs_of(plan: Plan, multiprocessors: int) -> int:
    """Persistent programs that the machine holds."""
    return residents(plan) * multiprocessors // plan.ctas


def _direct_cycles(problem: Problem, plan: Plan, multiprocessors: int) -> float:
    (height, width, step), (tiles, steps) = plan.block, _tiles(problem, plan)
    items = tiles * plan.splits
    products = height * width * step / WARP_PRODUCTS
    loaded = (height + width) * step * problem.a.itemsize / PLAIN_RATE
    loaded *= 1 if problem.a.bulk and problem.b.bulk else 4
    resident = min(RESIDENT, math.ceil(items / multiprocessors))
    split_steps: int = cdiv(steps, plan.splits)
    item = split_steps * max(STEP_LATENCY, resident * max(products, loaded))
    item += EPILOGUE + _meeting_cycles(plan)
    return math.ceil(items / (RESIDENT * multiprocessors)) * item
