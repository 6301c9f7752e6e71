"""Every environment variable that glueball reads: one table, read when used."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

EXECUTORS = ("gpu", "sim", "reference")
_TRUE = ("1", "true", "yes", "on", "y")
_FALSE = ("0", "false", "no", "off", "n")


@dataclass(frozen=True, slots=True)
class Knob(Generic[T]):
    """One setting. An unset or empty variable gives `default`; `affects_code` puts the value into cache keys."""

    name: str
    variable: str
    parse: Callable[[str], T]
    default: T
    effect: str
    affects_code: bool = False

    def read(self) -> T:
        """The value now; `ValueError` that names the variable where the text means nothing."""
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise ValueError(f"{self.variable}={text!r}: {error}") from None


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError("expected 1 or 0, true or false, yes or no, on or off")


def _executor(text: str) -> str:
    if text not in EXECUTORS:
        raise ValueError(f"expected one of {', '.join(EXECUTORS)}")
    return text


def _path(text: str) -> Path | None:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError("the home folder that it names is unknown") from None


def _text(text: str) -> str | None:
    return text


CACHE_DIR: Knob[Path | None] = Knob(
    "cache_dir", "GLUEBALL_CACHE_DIR", _path, None, "folder of the disk cache instead of the platform's"
)
EXECUTOR: Knob[str | None] = Knob(
    "executor",
    "GLUEBALL_EXECUTOR",
    _executor,
    None,
    "what runs kernels: gpu, sim or reference, instead of the arguments",
)
TARGET: Knob[str | None] = Knob(
    "target", "GLUEBALL_TARGET", _text, None, "target to compile for, such as sm_90a, instead of the device's"
)
DUMP: Knob[Path | None] = Knob(
    "dump", "GLUEBALL_DUMP", _path, None, "folder that receives every stage of every kernel compiled"
)
VERIFY = Knob("verify", "GLUEBALL_VERIFY", _boolean, False, "verify the tile IR before, between and after its passes")
ISOLATE_CODEGEN = Knob(
    "isolate_codegen",
    "GLUEBALL_ISOLATE_CODEGEN",
    _boolean,
    False,
    "run LLVM in a child process, which may abort safely",
)
ALWAYS_COMPILE = Knob("always_compile", "GLUEBALL_ALWAYS_COMPILE", _boolean, False, "ignore the disk cache")
LAUNCH_GRAPH = Knob(
    "launch_graph",
    "GLUEBALL_LAUNCH_GRAPH",
    _boolean,
    True,
    "repeat launches on a GPU through graphs, which takes less host time",
)

KNOBS: tuple[Knob[Path | None] | Knob[str | None] | Knob[bool], ...] = (
    CACHE_DIR, EXECUTOR, TARGET, DUMP, VERIFY, ISOLATE_CODEGEN, ALWAYS_COMPILE, LAUNCH_GRAPH,
)  # fmt: skip
