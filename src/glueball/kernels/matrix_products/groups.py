"""Lists of products: in one launch where one kernel can do all of them, else one after the other."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import glueball
from glueball.kernels.arrays import empty
from glueball.kernels.ladder import Launch
from glueball.kernels.matrix_products.forms import Plan
from glueball.kernels.matrix_products.grouped import multiply_grouped
from glueball.kernels.matrix_products.launches import (
    WARPS,
    Arrays,
    blocks,
    multiprocessors_of,
    specialized_form,
    tile_count,
    traffic,
)
from glueball.kernels.matrix_products.plans import chunks_for, programs_of, stages_for
from glueball.kernels.matrix_products.problems import Matrix, Problem, address_of, stored_by_threads
from glueball.kernels.matrix_products.products import target_of

TILES = (((128, 256), 2), ((128, 128), 2), ((64, 128), 1))
"""Tiles with the groups that multiply them, the largest first."""
KEPT_TABLES = 64

Product = tuple[Problem, Arrays]


def grouped_launch(products: Sequence[Product]) -> Launch | None:
    """The launch that computes all products; `None` where no one kernel does.

    That needs warp groups, operands of one type and order that bulk copies can move, and sums that need neither scales
    nor bias; and host arrays must be views of one array each, since a kernel on the host reaches no other memory.
    """
    problems, arrays = [problem for problem, _ in products], [each for _, each in products]
    bases = [common_base([getattr(each, name) for each in arrays]) for name in ("a", "b", "c")]
    alike = {_kind(problem) for problem in problems}
    if len(products) < 2 or len(alike) > 1 or any(base is None for base in bases):
        return None
    if not target_of(arrays[0].c).supports("warpgroup_mma") or not all(map(possible, problems)):
        return None
    plan = _plan(problems, multiprocessors_of(arrays[0].c))
    form = specialized_form(problems[0], plan)
    described = dict(zip("ABC", blocks(problems[0], plan), strict=True))
    rows = tuple(_row(problem, each, bases) for problem, each in products)
    tiles = sum(tile_count(problem, plan) for problem in problems)
    programs = min(tiles, programs_of(plan, multiprocessors_of(arrays[0].c)))
    arguments = (_table(rows, arrays[0].c), len(rows), *bases)
    keywords = {**described, "FORM": form, "num_warps": WARPS}
    return Launch(multiply_grouped, (programs,), arguments, keywords, sum(map(traffic, problems)))


def run_grouped(launch: Launch) -> None:
    """Launches with memory for the descriptors that the kernel makes."""
    like = launch.arguments[-1]
    context = contextvars.copy_context()
    context.run(glueball.set_allocator, lambda size, alignment, stream: empty(like, (size,), "int8"))
    context.run(launch.run)


def common_base(arrays: Sequence[Any]) -> Any:
    """What the addresses of all arrays are counted from: on a device any of them, on the host what all are views of."""
    if getattr(arrays[0], "is_cuda", False):
        return arrays[0] if len({array.device for array in arrays}) == 1 else None
    bases = [array.base if isinstance(array, np.ndarray) else None for array in arrays]
    return bases[0] if all(base is not None and base is bases[0] for base in bases) else None


def _kind(problem: Problem) -> tuple[Any, ...]:
    """What must be alike."""
    return problem.a.dtype, problem.b.dtype, problem.c.dtype, problem.a.turned, problem.b.turned, problem.activation


def possible(problem: Problem) -> bool:
    """Whether a product may be one of a group."""
    matrices = (problem.a, problem.b, problem.c)
    return (
        problem.batches == 1
        and all(matrix.elements and matrix.bulk for matrix in matrices)
        and not stored_by_threads(problem.c)
        and problem.copied == (False, False)
        and not (problem.row_scale or problem.column_scale or problem.bias_axis >= 0)
    )


def _plan(problems: Sequence[Problem], multiprocessors: int) -> Plan:
    """The largest tile of which there are two for each multiprocessor, or else the smallest."""
    step = 128 if problems[0].narrow else 64
    for (height, width), parts in TILES:
        chunks = chunks_for(problems[0], width)
        plan = Plan("specialized", (height, width, step), parts=parts, chunks=chunks)
        if sum(tile_count(problem, plan) for problem in problems) >= 2 * multiprocessors:
            break
    return replace(plan, stages=stages_for(problems[0], plan))


def _row(problem: Problem, arrays: Arrays, bases: Sequence[Any]) -> tuple[int, ...]:
    """A product's row of the table."""
    matrices = (problem.a, problem.b, problem.c)
    distances = (
        (address_of(array) - address_of(base)) // matrix.itemsize
        for matrix, array, base in zip(matrices, (arrays.a, arrays.b, arrays.c), bases, strict=True)
    )
    return (*distances, *map(_pitch, matrices), problem.rows, problem.columns, problem.inner)


def _pitch(matrix: Matrix) -> int:
    """Elements from one line of neighbours to the next, a multiple of 16 bytes also where there is one line only."""
    near = matrix.transposed() if matrix.turned else matrix
    return near.strides[1] if near.shape[1] > 1 else near.packed(turned=False).strides[1]


def _table(rows: tuple[tuple[int, ...], ...], like: Any) -> Any:
    if getattr(like, "is_cuda", False):
        return _device_table(rows, str(like.device))
    return np.array(rows, np.int64)


@functools.lru_cache(maxsize=KEPT_TABLES)
def _device_table(rows: tuple[tuple[int, ...], ...], device: str) -> Any:
    import torch

    return torch.tensor(rows, dtype=torch.int64, device=device)
