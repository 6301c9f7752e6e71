"""Launches of the kernels on long rows that bulk copies bring, and when they are the better ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from glueball.kernels import bulk_rows
from glueball.kernels.arrays import (
    LONGEST_HELD,
    VECTOR_BYTES,
    lanes_of,
    line,
    multiprocessors_of,
    row_stride,
    target_of,
)
from glueball.kernels.boxes import item_bytes, moved_bytes, priority, row_descriptor, streaming_policy, why_not_bulk
from glueball.kernels.ladder import Launch, strides_of
from glueball.language import BlockedLayout
from glueball.nvidia.hopper import TensorDescriptor
from glueball.runtime.host_functions import next_power_of_2

MOST_IN_REGISTERS = 32768
"""The longest row that a program holds in registers: 128 elements a thread of 8 warps."""
LEAST_ROW_BYTES, MOST_ROW_BYTES = 4096, 16384
"""Rows of such sizes are one to a program of 4 warps."""
SPARE_BYTES = 2048
"""Shared memory for mbarriers and reductions."""


@dataclass(frozen=True, slots=True)
class BulkRowPlan:
    """How programs go from row to row, `programs` a multiprocessor (0: one for each row), with a ring of `stages` rows.

    `parts` 0: a program holds its row in registers. Else it reads the row from shared memory again, in steps of `parts`
    pieces of 16 bytes a thread. `registers` caps those of a thread, 0 does not; `load_priority` is that of the rows in
    the second-level cache, such as `evict_first`; of no name it depends on their number.
    """

    warps: int
    stages: int
    programs: int
    parts: int = 0
    registers: int = 0
    load_priority: str = ""

    def options(self) -> dict[str, Any]:
        """The launch options."""
        return {"num_warps": self.warps, **({"maxnreg": self.registers} if self.registers else {})}


@dataclass(frozen=True, slots=True)
class BulkNormPlan:
    """A program of so many warps for each row, which it reads in steps of `parts` pieces of 16 bytes a thread."""

    warps: int
    parts: int


def plan_softmax(matrix: Any) -> BulkRowPlan | None:
    """The plan for softmax of rows that are better brought by bulk copies; None where the other kernels do better.

    A program for each short row, and more programs than can be resident for longer ones, keep multiprocessors from
    loading, working and storing in step (measured on an H200).

    A slot is filled again once its row is in registers, so that a single one keeps the next row coming while this one
    is worked on; other programs are resident where registers allow it. Rows of more than `MOST_IN_REGISTERS` elements
    are read twice.
    """
    columns, row_bytes = matrix.shape[1], matrix.shape[1] * item_bytes(matrix)
    if row_bytes < LEAST_ROW_BYTES or (row_bytes > MOST_ROW_BYTES and columns <= LONGEST_HELD) or why_not_row(matrix):
        return None
    if row_bytes <= MOST_ROW_BYTES:
        plan = BulkRowPlan(4, 1, 0)
    elif next_power_of_2(columns) <= MOST_IN_REGISTERS:
        plan = BulkRowPlan(8, 1, 6)
    else:
        plan = BulkRowPlan(16, 1, 1, 4)
    return plan if fits(matrix, plan.stages) else None


def plan_norm(matrix: Any) -> BulkNormPlan | None:
    """The plan for a norm of long rows, two of which are in a multiprocessor at a time; None as above."""
    if matrix.shape[1] <= LONGEST_HELD or why_not_row(matrix) or not fits(matrix, 2):
        return None
    return BulkNormPlan(16, 2)


def why_not_row(matrix: Any) -> str:
    """Why bulk copies cannot bring the rows of a matrix; empty where they can."""
    return why_not_bulk(matrix, matrix.shape, strides_of(matrix))


def fits(matrix: Any, rows: int) -> bool:
    """Whether so many rows have room in shared memory."""
    block: int = next_power_of_2(matrix.shape[1]) * item_bytes(matrix)
    return rows * (block + SPARE_BYTES) <= target_of(matrix).shared_bytes


def _checked(matrix: Any, rows: int) -> TensorDescriptor:
    if reason := why_not_row(matrix):
        raise ValueError(f"bulk copies do not bring these rows: {reason}")
    if not fits(matrix, rows):
        raise ValueError(f"{rows} rows of {matrix.shape[1]} elements do not fit into shared memory")
    return row_descriptor(matrix)


def _grid(matrix: Any, plan: BulkRowPlan) -> tuple[int]:
    rows: int = matrix.shape[0]
    return (min(rows, plan.programs * multiprocessors_of(matrix)) if plan.programs else rows,)


def _pieces(matrix: Any, block: int, plan: BulkRowPlan | BulkNormPlan) -> dict[str, Any]:
    """PARTS pieces of PIECE elements that the threads of a program load at a time, and their layout."""
    lanes = lanes_of(matrix)
    vector = max(1, min(VECTOR_BYTES // item_bytes(matrix), block // (lanes * plan.warps)))
    piece = min(block, vector * lanes * plan.warps)
    parts = min(plan.parts, block // piece)
    layout = BlockedLayout([1, vector], [1, lanes], [1, plan.warps], [1, 0])
    return {"PARTS": parts, "PIECE": piece, "layout": layout}


def launch_softmax_bulk(x: Any, y: Any, plan: BulkRowPlan) -> Launch:
    """Softmax of the rows of a matrix that bulk copies can bring; `ValueError` for another one."""
    desc, (rows, columns) = _checked(x, plan.stages), x.shape
    block = math.prod(desc.block_shape)
    keywords = {
        "STAGES": plan.stages,
        "WHOLE": block == columns,
        "POLICY": priority(plan.load_priority) or streaming_policy(x, moved_bytes(x, y)),
    }
    kernel = bulk_rows.softmax_held
    if plan.parts:
        kernel = bulk_rows.softmax_reread
        keywords |= _pieces(x, block, plan)
    else:
        keywords["layout"] = line(block, plan.warps, 8 * item_bytes(x), lanes_of(x))
    arguments = (desc, y, rows, columns, row_stride(y))
    return Launch(kernel, _grid(x, plan), arguments, {**keywords, **plan.options()}, moved_bytes(x, y))


def launch_norm_bulk(
    x: Any, weight: Any, bias: Any, y: Any, mean: Any, scale: Any, epsilon: float, plan: BulkNormPlan
) -> Launch:
    """RMS norm of the rows of a matrix that bulk copies can bring, or layer norm where `mean` is given."""
    desc, (rows, columns) = _checked(x, 1), x.shape
    block = math.prod(desc.block_shape)
    keywords = {
        "CENTRED": mean is not None,
        "WHOLE": block == columns,
        **_pieces(x, block, plan),
        "POLICY": streaming_policy(x, moved_bytes(x, y)),
        "num_warps": plan.warps,
    }
    arguments = (desc, weight, bias, y, mean, scale, columns, row_stride(y), epsilon)
    return Launch(bulk_rows.norm_reread, (rows,), arguments, keywords, moved_bytes(x, y))
