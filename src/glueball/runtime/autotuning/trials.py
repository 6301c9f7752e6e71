"""What became of each configuration, and how it is told."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from glueball.errors import GlueballError
from glueball.runtime.autotuning.config import Config

SHOWN_CONFIGURATIONS = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration's result.

    `timings` are what the benchmark gave, by default the median, the 20 % and the 80 % quantile, in milliseconds, or
    the predicted cost in cycles; infinite where `failure` says why there are none. `effort` is the share of the full
    measuring time. `stored` results come from disk.
    """

    config: Config
    timings: tuple[float, ...] = (math.inf,) * 3
    failure: str | None = None
    effort: float = 1.0
    stored: bool = False


@dataclass(frozen=True, slots=True)
class TuningResult:
    """What tuning a kernel for one key found: its trials, the winner, and the seconds it took.

    `unit` is that of the timings: `ms`, or `cycles` where costs were predicted.
    """

    kernel: str
    key: tuple[object, ...]
    trials: Mapping[Config, Trial]
    best: Config
    seconds: float
    unit: str

    @property
    def from_disk(self) -> bool:
        """Whether nothing was measured."""
        return all(trial.stored for trial in self.trials.values())

    def table(self) -> str:
        """The winner, every configuration by its time, and the failed ones by reason, as text."""
        working = [trial for trial in self.trials.values() if trial.failure is None]
        working.sort(key=lambda trial: (-trial.effort, trial.timings))
        stored = sum(trial.stored for trial in self.trials.values())
        title = (
            f"tuned `{self.kernel}` for key {self.key} in {self.seconds:.2f} s: {len(self.trials)} configurations, "
            f"{len(self.trials) - len(working)} failed, {stored} from disk"
        )
        lines = [
            title,
            *(self._line(trial) for trial in working),
            *failure_lines(self.trials),
            f"best: glueball.{self.best!r}",
        ]
        return "\n".join(lines)

    def _line(self, trial: Trial) -> str:
        mark = "*" if trial.config == self.best else " "
        middle, *around = trial.timings
        spread = f" ({' to '.join(format(value, '.4g') for value in around)})" if set(around) - {middle} else ""
        part = "" if trial.effort == 1.0 else f", {trial.effort:.0%} of the full time"
        return f"{mark} {middle:10.4g} {self.unit}{spread}  {trial.config!r}{part}"


def failure_lines(trials: Mapping[Config, Trial]) -> list[str]:
    """The reasons why configurations failed, the most frequent first, each with some of its configurations."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials.values():
        if trial.failure is not None:
            groups.setdefault(re.sub(r"\d+", "#", trial.failure), []).append(trial)
    lines = []
    for group in sorted(groups.values(), key=len, reverse=True):
        shown = ", ".join(repr(trial.config) for trial in group[:SHOWN_CONFIGURATIONS])
        more = f" and {len(group) - SHOWN_CONFIGURATIONS} more" if len(group) > SHOWN_CONFIGURATIONS else ""
        lines.append(f"  {len(group)} x {group[0].failure}: {shown}{more}")
    return lines


def reason_of(error: GlueballError) -> str:
    """An error in one line: its class and its sentence, without the place."""
    sentence = str(getattr(error, "error_message", error)) or repr(error)
    return f"{type(error).__name__}: {sentence.splitlines()[0]}"
