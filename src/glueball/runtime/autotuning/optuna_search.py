"""Searching by Optuna, an optional package."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glueball.runtime.autotuning.config import Config
from glueball.runtime.autotuning.searchers import Measure

DRAWS_PER_TRIAL = 20


@dataclass(frozen=True, slots=True)
class OptunaSearch:
    """Lets an Optuna sampler choose which `trials` configurations are measured, from what it learnt of the others.

    The sampler sees each parameter and option by itself, so what it learns of one value helps with all configurations
    that have it. A combination that is not in the list is drawn again. `sampler` is Optuna's `TPESampler` with `seed`
    where none is given. Errors: `ImportError` where Optuna is not installed.
    """

    trials: int
    sampler: Any = None
    seed: int = 0

    def search(self, configs: Sequence[Config], measure: Measure) -> None:
        """Measures what the sampler asks for, until enough different configurations were."""
        optuna = _optuna()
        axes = _axes(configs)
        by_choice = {_choice(config, axes): config for config in configs}
        sampler = self.sampler or optuna.samplers.TPESampler(seed=self.seed)
        study = optuna.create_study(sampler=sampler)
        measured: set[Config] = set()
        wanted = min(self.trials, len(by_choice))
        for _ in range(DRAWS_PER_TRIAL * wanted):
            if len(measured) == wanted:
                return
            trial = study.ask()
            choice = tuple(trial.suggest_categorical(name, range(len(values))) for name, values in axes.items())
            config = by_choice.get(choice)
            cost = math.inf if config is None else measure(config)
            if config is not None:
                measured.add(config)
            if math.isfinite(cost):
                study.tell(trial, cost)
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)


def _axes(configs: Sequence[Config]) -> dict[str, list[Any]]:
    """Every parameter and option that varies, with its values; `None` stands for one that a configuration lacks."""
    names = dict.fromkeys(name for config in configs for name in config.all_kwargs())
    values = {name: list(dict.fromkeys(config.all_kwargs().get(name) for config in configs)) for name in names}
    return {name: found for name, found in values.items() if len(found) > 1}


def _choice(config: Config, axes: dict[str, list[Any]]) -> tuple[int, ...]:
    given = config.all_kwargs()
    return tuple(values.index(given.get(name)) for name, values in axes.items())


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ImportError("OptunaSearch needs the package optuna: pip install 'glueball[optuna]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
