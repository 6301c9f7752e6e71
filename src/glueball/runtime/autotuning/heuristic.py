"""Kernel parameters computed from the arguments of each launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from glueball.runtime.autotuning.wrapper import KernelWrapper
from glueball.runtime.jit import JITFunction

Heuristic = Callable[[dict[str, Any]], Any]


class Heuristics(KernelWrapper):
    """A kernel, some of whose parameters are computed before each launch."""

    def __init__(self, fn: Any, values: Mapping[str, Heuristic]) -> None:
        super().__init__(fn)
        self.values = values

    def computed(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        """The keywords of a launch with the computed ones, each function given all arguments by name."""
        keywords = dict(keywords)
        for name, heuristic in self.values.items():
            keywords[name] = heuristic(self.named(arguments, keywords))
        return keywords

    def warmup(self, *arguments: Any, grid: Any = 1, **keywords: Any) -> Any:
        """Compiles as a launch with these arguments would, and launches nothing."""
        return self.fn.warmup(*arguments, grid=grid, **self.computed(arguments, keywords))

    def _launch(self, grid: Any, /, *arguments: Any, **keywords: Any) -> Any:
        return self.fn[grid](*arguments, **self.computed(arguments, keywords))


def heuristics(values: Mapping[str, Heuristic]) -> Callable[[Any], Heuristics]:
    """Computes kernel parameters before each launch: `@heuristics({"EVEN": lambda args: args["n"] % 128 == 0})`.

    Each function gets a dict of the launch's arguments and keywords by name, with what the functions before it gave.
    Goes above `@glueball.jit`, and above or below `@glueball.autotune`; below it the functions see the configuration.
    Errors: `TypeError` where there is no kernel below.
    """
    return lambda fn: Heuristics(fn, values)


def resolve(
    fn: JITFunction | KernelWrapper, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[JITFunction, dict[str, Any]]:
    """The kernel inside heuristics, and the keywords with which a launch would reach it."""
    while isinstance(fn, Heuristics):
        keywords = fn.computed(arguments, keywords)
        fn = fn.fn
    if not isinstance(fn, JITFunction):
        raise TypeError(f"{fn!r} chooses its own configuration, so there is nothing to choose around it")
    return fn, keywords
