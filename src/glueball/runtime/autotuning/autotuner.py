"""`autotune`: a kernel that tries configurations and keeps to the best."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glueball import knobs
from glueball.errors import AutotunerError, GlueballError
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.runtime.autotuning.benchmark import Benchmark, runs_on_host
from glueball.runtime.autotuning.buffers import Snapshot, set_to_zero
from glueball.runtime.autotuning.config import Config
from glueball.runtime.autotuning.searchers import ExhaustiveSearch, Searcher
from glueball.runtime.autotuning.session import Session
from glueball.runtime.autotuning.trials import Trial, TuningResult, failure_lines, reason_of
from glueball.runtime.autotuning.wrapper import KernelWrapper
from glueball.runtime.specialization import ALIGNMENT
from glueball.runtime.tracing import untraced

logger = logging.getLogger("glueball")


@dataclass(frozen=True, slots=True)
class Hooks:
    """What surrounds each run of a trial: the caller's functions, else zeroing and restoring the named arrays."""

    pre_hook: Callable[..., Any] | None
    post_hook: Callable[..., Any] | None
    reset_to_zero: tuple[str, ...]
    restore_value: tuple[str, ...]

    def before(self, named: dict[str, Any], *, reset_only: bool = False) -> None:
        """Before a run; with `reset_only` before the launch that follows tuning."""
        if self.pre_hook is None:
            for name in self.reset_to_zero:
                set_to_zero(name, named.get(name))
        elif reset_only:
            self.pre_hook(named, reset_only=True)
        else:
            self.pre_hook(named)

    def after(self, named: dict[str, Any], error: Exception | None, saved: Snapshot) -> None:
        """After a run; `saved` has the arrays of `restore_value`."""
        if self.post_hook is None:
            saved.restore()
        else:
            self.post_hook(named, exception=error)


@dataclass(frozen=True, slots=True)
class Pruning:
    """Which configurations are worth a trial."""

    early_config_prune: Callable[..., Sequence[Config]] | None
    perf_model: Any
    top_k: Any

    @staticmethod
    def of(given: Mapping[str, Any] | None) -> Pruning:
        """From the dict that `autotune` takes."""
        given = given or {}
        return Pruning(given.get("early_config_prune"), given.get("perf_model"), given.get("top_k", 1.0))

    def kept(self, count: int) -> int:
        """How many of `count` configurations `top_k` leaves."""
        if isinstance(self.top_k, float) and self.top_k <= 1.0:
            return max(1, int(count * self.top_k))
        if isinstance(self.top_k, int):
            return max(1, self.top_k)
        raise TypeError(f"top_k={self.top_k!r}: either an integer or a share, a float of at most 1.0, is needed")


class Autotuner(KernelWrapper):
    """A kernel with configurations, of which the first launch with each key finds the best one.

    `configs` are the configurations, `cache` the best one by key. Of the last launch: `best_config`. Of the last
    tuning: `configs_timings` (what was measured, by configuration) and `bench_time` in seconds. `results` has
    everything that is known of each tuning, by key; `results[key].table()` is its text.
    """

    def __init__(
        self,
        fn: Any,
        configs: Sequence[Config],
        key: Iterable[str],
        pruning: Pruning,
        hooks: Hooks,
        benchmark: Benchmark,
        searcher: Searcher,
        cache_results: bool,
        protect_written: bool,
    ) -> None:
        super().__init__(fn)
        self.configs: list[Config] = list(configs) or [Config({})]
        self.keys = list(key)
        self.pruning = pruning
        self.hooks = hooks
        self.benchmark = benchmark
        self.searcher = searcher
        self.cache_results = cache_results
        self.protect_written = protect_written
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.results: dict[tuple[Any, ...], TuningResult] = {}
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, tuple[float, ...]] = {}
        self.bench_time: float | None = None
        self._lock = threading.RLock()
        self._warned = False
        for what, names in (
            ("key", self.keys), ("reset_to_zero", hooks.reset_to_zero), ("restore_value", hooks.restore_value),
        ):  # fmt: skip
            unknown = [name for name in names if name not in self.arg_names]
            if unknown:
                raise ValueError(
                    f"{what} names {', '.join(map(repr, unknown))}, no arguments of `{self.__name__}`, which takes "
                    f"{', '.join(self.arg_names)}"
                )

    @property
    def keeps_results(self) -> bool:
        """Whether results go to disk and come from there."""
        return self.cache_results or knobs.CACHE_AUTOTUNING.read()

    def warmup(self, *arguments: Any, grid: Any = 1, **keywords: Any) -> list[Any]:
        """Compiles every configuration that is worth a trial: the compiled kernels of those that can be compiled.

        `AutotunerError` where none can.
        """
        compiled, failures = [], {}
        for config in self.prune_configs(grid, arguments, keywords):
            try:
                compiled.append(self.fn.warmup(*arguments, grid=grid, **self.merged(config, keywords)))
            except GlueballError as error:
                if len(self.configs) == 1:
                    raise
                failures[config] = Trial(config, failure=reason_of(error))
        if not compiled:
            lines = "\n".join(failure_lines(failures))
            raise AutotunerError(f"no configuration of `{self.__name__}` can be compiled:\n{lines}")
        return compiled

    def merged(self, config: Config, keywords: dict[str, Any]) -> dict[str, Any]:
        """A launch's keywords with a configuration's; `ValueError` for one that is among both."""
        chosen = config.all_kwargs()
        conflicts = keywords.keys() & chosen.keys()
        if conflicts:
            raise ValueError(
                f"Conflicting meta-parameters: {', '.join(sorted(conflicts))}. The configurations of "
                f"`{self.__name__}` set them, so a launch cannot."
            )
        return {**keywords, **chosen}

    def prune_configs(self, grid: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Config]:
        """The configurations worth a trial. `AutotunerError` where none is left."""
        pruning, configs = self.pruning, list(self.configs)
        if pruning.early_config_prune is not None:
            positional = self.named(arguments, {})
            configs = list(pruning.early_config_prune(configs, positional, **{"grid": grid, **keywords}))
            if not configs:
                raise AutotunerError(f"`early_config_prune` left no configuration of `{self.__name__}`")
        if pruning.perf_model is None:
            return configs
        kept = pruning.kept(len(configs))
        if len(configs) <= kept:
            return configs
        for_kernel = getattr(pruning.perf_model, "for_kernel", None)
        model = pruning.perf_model if for_kernel is None else for_kernel(self.fn)
        given = {"grid": grid, **self.named(arguments, keywords)}
        return sorted(configs, key=lambda config: model(**{**given, **config.all_kwargs()}))[:kept]

    def _launch(self, grid: Any, /, *arguments: Any, **keywords: Any) -> Any:
        config = self.configs[0] if len(self.configs) == 1 else self._choose(grid, arguments, keywords)
        self.best_config = config
        keywords = self.merged(config, keywords)
        if config.pre_hook is not None:
            config.pre_hook(self.named(arguments, keywords))
        return self.fn[grid](*arguments, **keywords)

    def _choose(self, grid: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Config:
        """The best configuration for these arguments. Threads that need tuning wait for each other."""
        named = self.named(arguments, keywords)
        key = tuning_key(self.keys, self.arg_names, named)
        config = self._known(key, named)
        if config is None:
            with self._lock:
                config = self._known(key, named) or untraced(self._tune)(grid, arguments, keywords, key)
        return config

    def _known(self, key: tuple[Any, ...], named: dict[str, Any]) -> Config | None:
        """The choice for a key. One made from counters is not good enough for a GPU."""
        config = self.cache.get(key)
        if config is not None and (result := self.results.get(key)) is not None and result.unit == "cycles":
            return config if runs_on_host(named.values()) else None
        return config

    def _tune(self, grid: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], key: tuple[Any, ...]) -> Config:
        configs = self.prune_configs(grid, arguments, keywords)
        if len(configs) == 1:
            self.cache[key] = configs[0]
            return configs[0]
        session = Session(self, grid, arguments, keywords, key)
        if not session.counts:
            self._refuse_capture()
        result = session.run(configs)
        self.hooks.before(self.named(arguments, self.merged(result.best, keywords)), reset_only=True)
        self.results[key] = result
        self.configs_timings = {config: trial.timings for config, trial in result.trials.items()}
        self.bench_time = result.seconds
        self._tell(result)
        self.cache[key] = result.best
        return result.best

    def _refuse_capture(self) -> None:
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            raise AutotunerError(
                f"`{self.__name__}` has not been tuned for these arguments, which it cannot be while a CUDA graph is "
                f"captured; launch it once before the capture"
            )

    def _tell(self, result: TuningResult) -> None:
        listener = knobs.autotuning.listener
        if listener is not None:
            listener(
                fn=self.kernel,
                key=result.key,
                best_config=result.best,
                configs_timings=self.configs_timings,
                duration=None if result.from_disk else result.seconds,
                cache_hit=result.from_disk,
            )
        failures = failure_lines(result.trials)
        if knobs.PRINT_AUTOTUNING.read():
            print(f"glueball: {result.table()}", file=sys.stderr)
        elif failures and not self._warned:
            self._warned = True
            logger.warning(
                "glueball: configurations of `%s` failed while tuning, and the best of the others is used:\n%s",
                self.__name__, "\n".join(failures),
            )  # fmt: skip


def tuning_key(keys: Sequence[str], arg_names: Sequence[str], named: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a choice holds for: the values of the key arguments, then the dtype of every argument that has one.

    An array among the key arguments counts by its shape. An array that is not contiguous adds its strides' class.
    """
    parts = [_key_value(name, named[name]) for name in keys if name in named]
    for name in arg_names:
        value = named.get(name)
        dtype = getattr(value, "dtype", None)
        if dtype is not None:
            parts.append(str(dtype))
            if not _is_contiguous(value):
                parts.append(_stride_class(value))
    return tuple(parts)


def _key_value(name: str, value: Any) -> Any:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return tuple(value.shape)
    value = _unwrap_if_constexpr(value)
    try:
        hash(value)
    except TypeError:
        raise TypeError(f"the key argument `{name}` is a {type(value).__name__}, which is not hashable") from None
    return value


def _is_contiguous(value: Any) -> bool:
    flags = getattr(value, "flags", None)
    if flags is not None:
        return bool(flags.c_contiguous)
    is_contiguous = getattr(value, "is_contiguous", None)
    return bool(is_contiguous()) if callable(is_contiguous) else True


def _stride_class(array: Any) -> str:
    """Strides as far as they decide speed: 0, 1, or whether they keep 16-byte alignment."""
    if callable(getattr(array, "stride", None)):
        size = array.element_size()
        strides = [stride * size for stride in array.stride()]
    else:
        size, strides = array.dtype.itemsize, array.strides
    classes = {0: "0", size: "1"}
    names = [classes.get(stride, "aligned" if stride % ALIGNMENT == 0 else "unaligned") for stride in strides]
    return f"strides {', '.join(names)}"


def autotune(  # noqa: PLR0913, PLR0917 - the parameters that programs know
    configs: Sequence[Config],
    key: Iterable[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Iterable[str] | None = None,
    restore_value: Iterable[str] | None = None,
    pre_hook: Callable[..., Any] | None = None,
    post_hook: Callable[..., Any] | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = False,
    *,
    searcher: Searcher | None = None,
    protect_written: bool = True,
) -> Callable[[Any], Autotuner]:
    """Makes a kernel try its configurations on the first launch with each key, and run the best one::

        @glueball.autotune([glueball.Config({"BLOCK": 128}), glueball.Config({"BLOCK": 1024}, num_warps=8)], key=["n"])
        @glueball.jit
        def kernel(x, n, BLOCK: gl.constexpr): ...

    The key of a launch is the values of the arguments `key` and the dtypes of all arrays. No configurations are one
    default one, and a single one is used untried.

    `prune_configs_by` is a dict. Its `early_config_prune(configs, named_args, **kwargs)` gives those to consider; of
    them the `top_k` (an integer, or a share as a float) are tried for which `perf_model(**arguments)` is least;
    `glueball.explain.predicted_cost` is one.

    Each configuration is timed by `do_bench(fn, quantiles=(0.5, 0.2, 0.8))`, by default `glueball.testing.do_bench` for
    `warmup` and `rep` milliseconds or, with `use_cuda_graph`, `do_bench_cudagraph`. Without a GPU the simulator's
    counts give a predicted cost instead. Configurations that cannot be compiled or launched are passed over.

    What a trial overwrites is put back after it, so that tuning shows in no array; `protect_written=False` saves the
    copies. Around each run in a trial, `reset_to_zero` are zeroed and `restore_value` put back, unless
    `pre_hook(arguments)` and `post_hook(arguments, exception=...)` take their place; `pre_hook(arguments,
    reset_only=True)` or the zeroing comes once more before the launch that follows.

    With `cache_results`, or the knob, results are kept on disk, unless a configuration has a `pre_hook`. `searcher`
    chooses what is measured, by default everything.

    Errors: `ValueError` for unknown names and for a launch that sets what configurations set; `TypeError` where there
    is no kernel below; `AutotunerError` where no configuration works.
    """
    return lambda fn: Autotuner(
        fn,
        configs,
        key,
        Pruning.of(prune_configs_by),
        Hooks(pre_hook, post_hook, tuple(reset_to_zero or ()), tuple(restore_value or ())),
        Benchmark(do_bench, warmup, rep, use_cuda_graph),
        ExhaustiveSearch() if searcher is None else searcher,
        cache_results,
        protect_written,
    )
