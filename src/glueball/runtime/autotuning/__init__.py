"""Choosing a kernel's parameters: by measuring configurations (`autotune`) or by computing them (`heuristics`).

`autotuner` decides and launches; a `session` measures the configurations for one key; a searcher says which of them,
and in which order.
"""

from __future__ import annotations

from glueball.runtime.autotuning.autotuner import Autotuner, autotune
from glueball.runtime.autotuning.config import Config
from glueball.runtime.autotuning.heuristic import Heuristics, heuristics
from glueball.runtime.autotuning.optuna_search import OptunaSearch
from glueball.runtime.autotuning.searchers import (
    ExhaustiveSearch,
    Measure,
    RandomSearch,
    Searcher,
    SuccessiveHalving,
)
from glueball.runtime.autotuning.trials import Trial, TuningResult

__all__ = [
    "Autotuner", "Config", "Heuristics", "autotune", "heuristics",
    # searchers
    "ExhaustiveSearch", "Measure", "OptunaSearch", "RandomSearch", "Searcher", "SuccessiveHalving",
    # results
    "Trial", "TuningResult",
]  # fmt: skip
