"""What a kernel costs, known before it runs: sectors, vectors, conversions and barriers, line by line.

    report = glueball.explain.explain(kernel, (x, y, x.size), {"XBLOCK": 1024, "layout": layout}, grid=(64,))
    print(report.loads.sectors_per_request)
    print(glueball.explain.render(report))

Counts are read off the layouts in closed form; nothing is run.
"""

from __future__ import annotations

from glueball.explain.explain import ArrayDescription, explain
from glueball.explain.report import AccessCost, BarrierCost, ConversionCost, Report, Traffic
from glueball.explain.text import render

__all__ = [
    "AccessCost",
    "ArrayDescription",
    "BarrierCost",
    "ConversionCost",
    "Report",
    "Traffic",
    "explain",
    "render",
]
