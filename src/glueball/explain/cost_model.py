"""A cost function for pruning configurations, made of what `explain` reads off a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from glueball.errors import GlueballError
from glueball.explain.explain import explain
from glueball.explain.report import AccessCost, BarrierCost, BulkCost, Report, ScratchCost, ViewCost
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
    moving: tuple[AccessCost | BulkCost, ...] = (*report.accesses, *report.bulk_copies)
    accesses = [row.grid for row in moving if row.grid is not None]
    shared: tuple[ViewCost | ScratchCost, ...] = (*report.views, *report.scratch)
    conversions = [row.grid for row in report.conversions if row.grid is not None]
    banks = [row.grid for row in shared if row.grid is not None]
    banks += [traffic for each in conversions for traffic in (each.write, each.read)]
    barriers = sum(row.executions or 0 for row in report.rows if isinstance(row, BarrierCost))
    work = Work(
        sectors=sum(traffic.sectors for traffic in accesses),
        wavefronts=sum(traffic.wavefronts for traffic in banks),
        issued=sum(traffic.requests for traffic in accesses)
        + sum(traffic.requests for traffic in banks)
        + sum(traffic.shuffles for traffic in conversions)
        + barriers * report.num_warps * math.prod(grid),
    )
    footprint = Footprint(report.num_warps, report.shared_bytes, report.registers)
    return predicted_cycles(work, footprint, grid, report.target)
