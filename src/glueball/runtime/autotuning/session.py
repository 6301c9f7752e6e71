"""Measuring the configurations of a kernel for one key."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from glueball.drivers.cuda import CudaError
from glueball.errors import (
    AutotunerError,
    CodeGenerationError,
    CompilationError,
    GlueballError,
    LayoutError,
    OutOfResources,
    TargetError,
    UnknownOptionError,
)
from glueball.runtime.autotuning.benchmark import runs_on_host
from glueball.runtime.autotuning.buffers import Snapshot
from glueball.runtime.autotuning.config import Config
from glueball.runtime.autotuning.cost import Footprint, Work, predicted_cycles
from glueball.runtime.autotuning.heuristic import resolve
from glueball.runtime.autotuning.progress import progress_bar
from glueball.runtime.autotuning.records import Record, record_of
from glueball.runtime.autotuning.trials import Trial, TuningResult, failure_lines, reason_of
from glueball.runtime.compiler import CompilationRequest
from glueball.runtime.executors import Placement, place
from glueball.runtime.grid import normalise_grid
from glueball.runtime.host import run_on_simulator
from glueball.runtime.kernel import CompiledKernel
from glueball.tile.written_arguments import written_arguments

if TYPE_CHECKING:
    from glueball.runtime.autotuning.autotuner import Autotuner
    from glueball.runtime.jit import JITFunction, _Call

LASTING_FAILURES = (CompilationError, LayoutError, OutOfResources, TargetError, CodeGenerationError)
"""Errors that a configuration has again in another process, so that they are worth keeping on disk."""

BROKEN_DEVICE = frozenset({214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999})
"""CUDA's codes after which the process can use the device no more."""

COUNTERS = "counters"


class Session:
    """One search: the launch's arguments, what was measured, and the contents of the arrays that trials overwrite."""

    def __init__(
        self, tuner: Autotuner, grid: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], key: tuple[Any, ...]
    ) -> None:
        self.tuner = tuner
        self.grid = grid
        self.arguments = arguments
        self.keywords = keywords
        self.key = key
        self.named = tuner.named(arguments, keywords)
        self.counts = tuner.benchmark.do_bench is None and runs_on_host(self.named.values())
        self.trials: dict[Config, Trial] = {}
        self._first_error: GlueballError | None = None
        self._restored = Snapshot()
        self._protected = Snapshot()
        self._advance: Callable[[int, str], None] = lambda done, best: None

    def run(self, configs: Sequence[Config]) -> TuningResult:
        """Lets the searcher measure; `AutotunerError` where no configuration works."""
        start = time.perf_counter()
        for name in self.tuner.hooks.restore_value:
            self._restored.add(name, self.named.get(name))
        with progress_bar(self.tuner.__name__, len(configs)) as self._advance:
            self.tuner.searcher.search(configs, self.measure)
        best = self._best(configs)
        if best is None:
            reasons = "\n".join(failure_lines(self.trials)) or "  the searcher measured none"
            message = f"none of the {len(configs)} configurations of `{self.tuner.__name__}` works:\n{reasons}"
            raise AutotunerError(message) from self._first_error
        return TuningResult(
            self.tuner.__name__, self.key, self.trials, best, time.perf_counter() - start,
            "cycles" if self.counts else "ms",
        )  # fmt: skip

    def measure(self, config: Config, effort: float = 1.0) -> float:
        """The configuration's median time or predicted cost; infinite where it fails."""
        if not 0 < effort <= 1:
            raise ValueError(f"effort={effort}: must be over 0 and at most 1")
        known = self.trials.get(config)
        if known is None or (known.failure is None and known.effort < effort):
            self.trials[config] = self._trial(config, 1.0 if self.counts else effort)
            best = min((trial.timings[0] for trial in self.trials.values()), default=math.inf)
            self._advance(len(self.trials), f"best {best:.4g}" if math.isfinite(best) else "")
        return self.trials[config].timings[0]

    def _best(self, configs: Sequence[Config]) -> Config | None:
        """The best working one among those measured with the greatest effort; of equal ones the first in the list."""
        working = [self.trials[config] for config in configs if math.isfinite(self._cost(config))]
        effort = max((trial.effort for trial in working), default=0.0)
        rivals = [trial for trial in working if trial.effort == effort]
        return min(rivals, key=lambda trial: trial.timings).config if rivals else None

    def _cost(self, config: Config) -> float:
        return self.trials[config].timings[0] if config in self.trials else math.inf

    def _trial(self, config: Config, effort: float) -> Trial:
        keywords = self.tuner.merged(config, self.keywords)
        record = None
        try:
            kernel, call, placement = self._read(keywords)
            record = self._record(config, kernel, call, placement)
            stored = None if record is None else record.load(config)
            if stored is not None:
                return stored
            self._protect(kernel, call, placement)
        except GlueballError as error:
            # The launch meets it again, where the hooks are told.
            self._keep(error)
        try:
            trial = Trial(config, self._timings(config, keywords, effort), effort=effort)
        except GlueballError as error:
            if _ends_tuning(error):
                raise
            self._keep(error)
            trial = Trial(config, failure=reason_of(error))
            record = record if isinstance(error, LASTING_FAILURES) else None
        finally:
            self._protected.restore()
            self._restored.restore()
        if record is not None and effort == 1.0:
            record.store(trial)
        return trial

    def _keep(self, error: GlueballError) -> None:
        if self._first_error is None:
            self._first_error = error

    def _read(self, keywords: dict[str, Any]) -> tuple[JITFunction, _Call, Placement]:
        kernel, resolved = resolve(self.tuner.fn, self.arguments, keywords)
        call = kernel._read_call(self.arguments, resolved)
        return kernel, call, place(call.specialization.run_time)

    def _compiled(self, kernel: JITFunction, call: _Call, placement: Placement) -> CompiledKernel:
        executor = "sim" if self.counts else placement.executor
        return kernel.compile(call.specialization, call.options, placement.target, executor)

    def _record(self, config: Config, kernel: JITFunction, call: _Call, placement: Placement) -> Record | None:
        if not self.tuner.keeps_results or any(other.pre_hook for other in self.tuner.configs):
            return None
        options = call.options.for_target(placement.target)
        request = CompilationRequest(
            kernel, call.specialization.without_values(), options, placement.target, kernel.__name__
        )
        benchmark = COUNTERS if self.counts else self.tuner.benchmark.name
        return record_of(request, placement, self.key, benchmark)

    def _protect(self, kernel: JITFunction, call: _Call, placement: Placement) -> None:
        """Keeps the contents of what this configuration writes, before it first does."""
        if self.tuner.protect_written:
            written = written_arguments(self._compiled(kernel, call, placement).source_tile)
            for position in written:
                argument = call.specialization.run_time[position]
                if not self._restored.holds(argument.value):
                    self._protected.add(argument.name, argument.value)

    def _timings(self, config: Config, keywords: dict[str, Any], effort: float) -> tuple[float, ...]:
        hooks = self.tuner.hooks
        named = {**self.named, **keywords}
        launch = (
            functools.partial(self._simulate, keywords)
            if self.counts
            else functools.partial(self.tuner.fn[self.grid], *self.arguments, **keywords)
        )

        def kernel_call() -> Any:
            if config.pre_hook is not None:
                config.pre_hook(named)
            hooks.before(named)
            try:
                result = launch()
            except Exception as error:
                hooks.after(named, error, self._restored)
                raise
            hooks.after(named, None, self._restored)
            return result

        return (kernel_call(),) * 3 if self.counts else self.tuner.benchmark.time(kernel_call, effort)

    def _simulate(self, keywords: dict[str, Any]) -> float:
        """Runs the kernel on the simulator, whichever host executor is chosen; the predicted cycles."""
        kernel, call, placement = self._read(keywords)
        compiled = self._compiled(kernel, call, placement)
        grid = normalise_grid(self.grid(call.bound) if callable(self.grid) else self.grid)
        if 0 in grid:
            return 0.0
        report = run_on_simulator(compiled.thread, placement.target, grid, call.specialization.run_time)
        footprint = Footprint(call.options.num_warps, compiled.shared_bytes)
        return predicted_cycles(Work.counted(report), footprint, grid, placement.target)


def _ends_tuning(error: GlueballError) -> bool:
    """Whether an error is a mistake in the launch, or leaves a device that no further trial could use."""
    if isinstance(error, CudaError):
        return error.code in BROKEN_DEVICE
    return isinstance(error, UnknownOptionError | AutotunerError)
