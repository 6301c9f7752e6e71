"""Timing, comparing and sweeping of kernels, with the names and the meaning of `triton.testing`.

`measure` gives more than `do_bench`: all times, their median, quantiles and the median's confidence interval.
"""

from __future__ import annotations

from glueball.runtime.timing import Measurement, do_bench, do_bench_cudagraph, measure
from glueball.testing.comparing import assert_close
from glueball.testing.reports import Benchmark, Mark, Table, Timed, benchmark, perf_report

__all__ = [
    "Benchmark", "Mark", "Measurement", "Table", "Timed", "assert_close", "benchmark", "do_bench",
    "do_bench_cudagraph", "do_bench_cudagraph_proton", "do_bench_proton", "measure", "perf_report",
]  # fmt: skip


def do_bench_proton(*_: object, **__: object) -> float:
    """Not there: it needs Proton, Triton's profiler. Always `NotImplementedError`."""
    raise NotImplementedError("do_bench_proton needs Triton's profiler Proton; do_bench times by the GPU's events")


def do_bench_cudagraph_proton(*_: object, **__: object) -> float:
    """Not there: it needs Proton, Triton's profiler. Always `NotImplementedError`."""
    raise NotImplementedError("do_bench_cudagraph_proton needs Triton's profiler Proton; do_bench_cudagraph needs none")
