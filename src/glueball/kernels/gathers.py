"""The launch of the kernel that gathers rows with bulk copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glueball.kernels import bulk_rows
from glueball.kernels.arrays import multiprocessors_of
from glueball.kernels.boxes import item_bytes, line_of, priority, row_descriptor, why_not_bulk
from glueball.kernels.ladder import Launch, strides_of
from glueball.runtime.host_functions import cdiv


@dataclass(frozen=True, slots=True)
class GatherPlan:
    """How rows are gathered: a ring of `stages` slots of `rows` rows each, of which `stores` are being stored.

    `programs` are those of a multiprocessor, `load_priority` that of the table in the second-level cache.
    """

    rows: int
    stages: int = 6
    stores: int = 2
    programs: int = 2
    load_priority: str = ""


def why_not_gather(table: Any, out: Any) -> str:
    """Why bulk copies cannot gather the rows of a table; empty where they can."""
    for matrix in (table, out):
        if reason := why_not_bulk(matrix, matrix.shape, strides_of(matrix), written=matrix is out):
            return reason
    line = line_of(table.shape[1], item_bytes(table))
    if not line:
        return f"rows divide into lines of at least 128 bytes, and {table.shape[1]} elements do not"
    return "" if table.shape[1] // line <= 256 else f"a row has at most 256 lines, not {table.shape[1] // line}"


def launch_embedding_bulk(table: Any, index: Any, out: Any, plan: GatherPlan) -> Launch:
    """Rows of a table by index, none of the arrays empty; `ValueError` where bulk copies cannot move them."""
    if reason := why_not_gather(table, out):
        raise ValueError(f"bulk copies do not gather these rows: {reason}")
    (entries, columns), count = table.shape, index.shape[0]
    arguments = (row_descriptor(table), index, row_descriptor(out, plan.rows), count, entries)
    keywords = {
        "STAGES": plan.stages,
        "STORES": plan.stores,
        "POLICY": priority(plan.load_priority),
        "num_warps": 1,
    }
    grid = (min(cdiv(count, plan.rows), plan.programs * multiprocessors_of(table)),)
    return Launch(bulk_rows.embedding_boxes, grid, arguments, keywords, 2 * count * columns * item_bytes(table))
