"""Which configurations are measured, in which order and how long.

A searcher is any object with a method `search(configs, measure)`. It calls `measure(config)` for those that it wants to
know; the best of what was measured wins. A configuration measured again at no greater effort costs nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from glueball.runtime.autotuning.config import Config


class Measure(Protocol):
    """Measures a configuration."""

    def __call__(self, config: Config, effort: float = 1.0) -> float:
        """The median time in milliseconds, or the predicted cost; infinite for a configuration that failed.

        `effort` is the share of the full measuring time, over 0 and at most 1. Only results of the greatest effort used
        compete for the win.
        """


class Searcher(Protocol):
    """Chooses which configurations to measure."""

    def search(self, configs: Sequence[Config], measure: Measure) -> None:
        """Measures some of the configurations, of which there are two or more."""


@dataclass(frozen=True, slots=True)
class ExhaustiveSearch:
    """Measures every configuration, in the list's order."""

    def search(self, configs: Sequence[Config], measure: Measure) -> None:
        """Measures all."""
        for config in configs:
            measure(config)


@dataclass(frozen=True, slots=True)
class RandomSearch:
    """Measures configurations drawn at random, until `trials` of them have worked."""

    trials: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise ValueError(f"trials={self.trials}: at least one configuration has to be measured")

    def search(self, configs: Sequence[Config], measure: Measure) -> None:
        """Measures a sample."""
        worked = 0
        for config in random.Random(self.seed).sample(list(configs), len(configs)):
            worked += math.isfinite(measure(config))
            if worked == self.trials:
                return


@dataclass(frozen=True, slots=True)
class SuccessiveHalving:
    """Measures all shortly, then the best 1/`factor` of them `factor` times as long, until few have the full time.

    With `rounds`, the first round takes `factor ** (1 - rounds)` of the full time of each.
    """

    factor: int = 3
    rounds: int = 3

    def __post_init__(self) -> None:
        if self.factor < 2 or self.rounds < 1:
            raise ValueError(f"factor={self.factor}, rounds={self.rounds}: at least 2 and 1 are needed")

    def search(self, configs: Sequence[Config], measure: Measure) -> None:
        """Measures in rounds."""
        remaining = list(configs)
        for turn in reversed(range(self.rounds)):
            effort = 1.0 / self.factor**turn
            costs = {config: measure(config, effort) for config in remaining}
            working = [config for config in remaining if math.isfinite(costs[config])]
            working.sort(key=costs.__getitem__)
            remaining = working[: math.ceil(len(remaining) / self.factor)]
