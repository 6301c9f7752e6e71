"""What measures a configuration: the GPU's clock, a function of the caller's, or the simulator's counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from glueball import knobs
from glueball.drivers.arrays import read_array
from glueball.drivers.cuda import cuda_available
from glueball.runtime import timing

QUANTILES = (0.5, 0.2, 0.8)
WARMUP_MILLISECONDS = 25
MILLISECONDS = 100


@dataclass(frozen=True, slots=True)
class Benchmark:
    """How long a callable takes, in milliseconds.

    `do_bench(fn, quantiles=...)` is the caller's function, where there is one. Otherwise `glueball.testing.do_bench`
    takes `warmup` and `rep` milliseconds, or `do_bench_cudagraph` takes `rep`; `None` stands for 25 and 100.
    """

    do_bench: Callable[..., Any] | None = None
    warmup: float | None = None
    rep: float | None = None
    use_cuda_graph: bool = False

    @property
    def name(self) -> str:
        """A name for records; two functions of one name count as the same."""
        if self.do_bench is not None:
            named = getattr(self.do_bench, "__qualname__", type(self.do_bench).__qualname__)
            return f"{getattr(self.do_bench, '__module__', '')}.{named}"
        return f"do_bench {self.warmup} {self.rep} {self.use_cuda_graph}"

    def time(self, fn: Callable[[], Any], effort: float) -> tuple[float, ...]:
        """Median, 20 % and 80 % quantile, or whatever the caller's function gave; `effort` scales the time taken."""
        warmup = effort * (WARMUP_MILLISECONDS if self.warmup is None else self.warmup)
        rep = effort * (MILLISECONDS if self.rep is None else self.rep)
        if self.do_bench is not None:
            found = self.do_bench(fn, quantiles=QUANTILES)
        elif self.use_cuda_graph:
            found = timing.do_bench_cudagraph(fn, rep=rep, quantiles=QUANTILES)
        else:
            found = timing.do_bench(fn, warmup=warmup, rep=rep, quantiles=QUANTILES)
        return tuple(map(float, found)) if isinstance(found, Iterable) else (float(found),) * 3


def runs_on_host(values: Iterable[Any]) -> bool:
    """Whether a launch with these arguments would run on the simulator or the reference, where time says nothing."""
    chosen = knobs.EXECUTOR.read()
    if chosen is not None:
        return chosen != "gpu"
    for value in values:
        array = read_array(value.base if hasattr(value, "block_shape") else value)
        if array is not None:
            return array.kind == "host"
    return not cuda_available().ok
