"""Launches, on matrices of exact numbers, of the kernels into which faults are planted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import glueball.language as gl
from glueball.kernels import gemm_ladder
from glueball.kernels.add_ladder import ADD_RUNGS, AddPlan
from glueball.kernels.boxes import descriptor
from glueball.kernels.bulk_row_plans import BulkNormPlan, BulkRowPlan
from glueball.kernels.copies import CopyPlan, TurnPlan, launch_copy
from glueball.kernels.gathers import GatherPlan
from glueball.kernels.gemm_ladder import STEPS
from glueball.kernels.ladder import Launch
from glueball.kernels.rows import launch_norm, launch_softmax
from glueball.kernels.scatter import launch_embedding
from tests.kernels import partition_kernels
from tests.sim.asynchronous_kernels import aligned

PROGRAMS = 132
DEEP = 5
"""Tiles or rows for a program: a ring is filled, emptied and filled again."""


def numbers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray[Any, Any]:
    """Small integers at an address that is a multiple of 16."""
    array = aligned(shape, dtype)
    array[...] = np.random.default_rng(seed).integers(-3, 4, shape)
    return np.asarray(array)


def added(name: str) -> Launch:
    """A rung of the addition ladder."""
    (rung,) = (rung for rung in ADD_RUNGS if rung.name == name)
    arrays = [numbers((8 * DEEP * (PROGRAMS if rung.plan.programs else 2), 64), np.float32, seed) for seed in range(3)]
    return rung.launch(*arrays, AddPlan(8, 64, 4, rung.plan.stages, 1 if rung.plan.programs else 0))


def multiplied(name: str) -> Launch:
    """A version of the matrix product, with small tiles."""
    (step,) = (step for step in STEPS if step.name == name)
    block = (64, 64, 64) if name == "v3" else (step.block[0], 64, 64)
    fields = {field: getattr(step, field) for field in step.__dataclass_fields__} | {"block": block}
    a, b = numbers((256, 64 * DEEP), np.float16), numbers((64 * DEEP, 128), np.float16, 1)
    return gemm_ladder.launch(gemm_ladder.Step(**fields), a, b, numbers((256, 128), np.float16, 2), programs=1)


def gathered() -> Launch:
    """Rows of a table by index."""
    index = np.random.default_rng(0).integers(0, 9, 8 * DEEP * PROGRAMS)
    table, out = numbers((9, 64), np.float32), numbers((index.size, 64), np.float32)
    return launch_embedding(table, index, out, GatherPlan(8, 3, 1, 1))


def softmax_partitions() -> Launch:
    """Rows that warps load, compute and store apart."""
    x, y = (descriptor(numbers((DEEP, 512), np.float32, seed), (DEEP, 512), (512, 1), (1, 512)) for seed in range(2))
    layout = gl.BlockedLayout([4], [32], [4], [0])
    return Launch(partition_kernels.softmax_partitions, (1,), (x, y, DEEP, 2, layout), {}, 0)


def rows() -> np.ndarray[Any, Any]:
    """Several rows for a program."""
    return numbers((DEEP * PROGRAMS, 256), np.float32)


KERNELS: dict[str, Callable[[], Launch]] = {
    **{f"add {name}": lambda name=name: added(name) for name in ("copied", "triple", "bulk", "ring", "partitions")},
    **{f"product {name}": lambda name=name: multiplied(name) for name in ("v3", "v4", "v5", "v6", "v7", "v8")},
    "copy": lambda: launch_copy(numbers((512, 512), np.float32), numbers((512, 512), np.float32), CopyPlan(1024)),
    "transpose": lambda: launch_copy(
        numbers((640, 1056), np.float32), numbers((1056, 640), np.float32).T, TurnPlan(128, 128, 4)
    ),
    "gather": gathered,
    "softmax held": lambda: launch_softmax(rows(), rows(), BulkRowPlan(1, 2, 1)),
    "softmax read again": lambda: launch_softmax(rows(), rows(), BulkRowPlan(1, 1, 1, 2)),
    "softmax partitions": softmax_partitions,
    "norm": lambda: launch_norm(
        rows(), numbers((256,), np.float32), None, rows(), None, numbers((DEEP * PROGRAMS,), np.float32), 1e-5,
        BulkNormPlan(1, 2),
    ),
}  # fmt: skip
