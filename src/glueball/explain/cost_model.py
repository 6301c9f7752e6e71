"""A cost function for pruning configurations, made of what `explain` reads off a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from glueball.errors import GlueballError
from glueball.explain.explain import explain
from glueball.explain.report import AccessCost, BarrierCost, BulkCost, ConversionCost, Report
from glueball.runtime.autotuning.cost import Footprint, Work, predicted_cycles
from glueball.runtime.autotuning.heuristic import resolve
from glueball.targets import Target


@dataclass(frozen=True, slots=True)
class CostModel:
    """A `perf_model` for `autotune`: predicted sectors, bank conflicts and occupancy as one number, without a run.

    `target` is that of the first device where none is given, else `sm_90a`. Costs that `explain` cannot count, such as
    accesses at loaded indices, are left out.
    """

    target: str | Target | None = None

    def for_kernel(self, kernel: Any) -> Callable[..., float]:
        """The cost of launches of a kernel, which may have heuristics around it, from their arguments by name.

        `grid` among them is the launch's grid. The cost is in predicted cycles (`glueball.runtime.autotuning.cost`);
        infinite for a configuration that cannot be compiled.
        """

        def cost(*, grid: Any, **named: Any) -> float:
            inner, keywords = resolve(kernel, (), named)
            try:
                report = explain(inner, (), keywords, target=self.target, grid=grid)
            except GlueballError:
                return math.inf
            return cost_of(report)

        return cost


predicted_cost = CostModel()
"""The cost model for the device that is there."""


def cost_of(report: Report) -> float:
    """The predicted cycles of a launch; the report has a grid."""
    grid = report.grid or (1, 1, 1)
    programs = math.prod(grid)
    moving: tuple[AccessCost | BulkCost, ...] = (*report.accesses, *report.bulk_copies)
    accesses = [row.grid for row in moving if row.grid is not None]
    views = [row.grid for row in report.views if row.grid is not None]
    conversions = [row for row in report.rows if isinstance(row, ConversionCost)]
    barriers = sum(row.executions or 0 for row in report.rows if isinstance(row, BarrierCost))
    wavefronts = sum((row.wavefronts_write or 0) + (row.wavefronts_read or 0) for row in conversions)
    shuffles = sum(row.shuffles or 0 for row in conversions)
    work = Work(
        sectors=sum(traffic.sectors for traffic in accesses),
        wavefronts=wavefronts * programs + sum(traffic.wavefronts for traffic in views),
        issued=sum(traffic.requests for traffic in accesses)
        + sum(traffic.requests for traffic in views)
        + (wavefronts + shuffles + barriers * report.num_warps) * programs,
    )
    footprint = Footprint(report.num_warps, report.shared_bytes, report.registers)
    return predicted_cycles(work, footprint, grid, report.target)
