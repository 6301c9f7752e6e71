"""What a kernel costs, known before it runs: sectors, vectors, conversions and barriers, line by line.

    report = glueball.explain.explain(kernel, (x, y, x.size), {"XBLOCK": 1024, "layout": layout}, grid=(64,))
    print(report.loads.sectors_per_request)
    print(glueball.explain.render(report))

Counts are read off the layouts in closed form; nothing is run.
"""

from __future__ import annotations

from glueball.explain.cost_model import CostModel, predicted_cost
from glueball.explain.explain import ArrayDescription, explain
from glueball.explain.report import (
    AccessCost,
    BarrierCost,
    BulkCost,
    ConversionCost,
    Occupancy,
    Report,
    Ring,
    ScratchCost,
    ViewCost,
    WaitCost,
)
from glueball.explain.text import render
from glueball.explain.traffic import ConversionTraffic, SharedTraffic, Traffic

__all__ = [
    "AccessCost",
    "ArrayDescription",
    "BarrierCost",
    "BulkCost",
    "ConversionCost",
    "ConversionTraffic",
    "CostModel",
    "Occupancy",
    "Report",
    "Ring",
    "ScratchCost",
    "SharedTraffic",
    "Traffic",
    "ViewCost",
    "WaitCost",
    "explain",
    "predicted_cost",
    "render",
]
