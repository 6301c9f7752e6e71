"""Every environment variable that glueball reads: one table, read when used."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from glueball.knob_groups import CacheKnobs, CompilationKnobs, RuntimeKnobs

    runtime: RuntimeKnobs
    compilation: CompilationKnobs
    cache: CacheKnobs

T = TypeVar("T")

EXECUTORS = ("gpu", "sim", "reference")
INSTRUMENTATION_MODES = ("consan", "fpsan", "gsan", "iisan")
SCHEDULES = ("in_order", "random", "late")
_TRUE = ("1", "true", "yes", "on", "y")
_FALSE = ("0", "false", "no", "off", "n")
_SIZE_UNITS = {"": 1, "b": 1} | {
    f"{prefix}{end}": base**power
    for power, prefix in enumerate("kmgt", 1)
    for end, base in (("", 1000), ("b", 1000), ("ib", 1024))
}


@dataclass(frozen=True, slots=True)
class Knob(Generic[T]):
    """One setting. An unset or empty variable gives `default`; `affects_code` puts the value into cache keys.

    `alias` is the variable that programs written for the language's first implementation set; it is read where
    `variable` is not set.
    """

    name: str
    variable: str
    parse: Callable[[str], T]
    default: T
    effect: str
    affects_code: bool = False
    alias: str | None = None

    def read(self) -> T:
        """The value now; `ValueError` that names the variable where the text means nothing."""
        for variable in (self.variable, self.alias):
            text = "" if variable is None else os.environ.get(variable, "").strip()
            if text:
                try:
                    return self.parse(text)
                except ValueError as error:
                    raise ValueError(f"{variable}={text!r}: {error}") from None
        return self.default


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


def _schedule(text: str) -> str:
    if text not in SCHEDULES:
        raise ValueError(f"expected one of {', '.join(SCHEDULES)}")
    return text


def _path(text: str) -> Path | None:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError("the home folder that it names is unknown") from None


def parse_size(text: str) -> int:
    """Bytes from a number with an optional unit, such as `500MB`, `2GB` or `4GiB`; `ValueError` for anything else."""
    number = text.rstrip("iBbkKmMgGtT ")
    unit = text[len(number) :].strip().lower()
    factor = _SIZE_UNITS.get(unit)
    if factor is None or not number.replace(".", "", 1).isdecimal():
        raise ValueError("expected a size such as 500MB, 2GB or 4GiB")
    return int(float(number) * factor)


def _text(text: str) -> str | None:
    return text


def _modes(text: str) -> str:
    return ",".join(sorted({part.strip() for part in text.split(",")} & set(INSTRUMENTATION_MODES)))


CACHE_DIR: Knob[Path | None] = Knob(
    "cache_dir", "GLUEBALL_CACHE_DIR", _path, None, "folder of the disk cache instead of the platform's"
)
CACHE_LIMIT = Knob(
    "cache_limit",
    "GLUEBALL_CACHE_LIMIT",
    parse_size,
    4_000_000_000,
    "size to which the disk cache is cut from time to time, least recently used entries first, such as 500MB",
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
REPRO: Knob[Path | None] = Knob(
    "repro", "GLUEBALL_REPRO", _path, None, "folder that receives bundles of first launches and of launches that fail"
)
VERIFY = Knob("verify", "GLUEBALL_VERIFY", _boolean, False, "verify the tile IR before, between and after its passes")
ISOLATE_CODEGEN = Knob(
    "isolate_codegen",
    "GLUEBALL_ISOLATE_CODEGEN",
    _boolean,
    False,
    "run LLVM in a child process, which may abort safely",
)
ALWAYS_COMPILE = Knob(
    "always_compile",
    "GLUEBALL_ALWAYS_COMPILE",
    _boolean,
    False,
    "ignore the disk cache",
    alias="TRITON_ALWAYS_COMPILE",
)
DEBUG = Knob(
    "debug",
    "GLUEBALL_DEBUG",
    _boolean,
    False,
    "the launch option `debug` of kernels that do not set it: device assertions and overflow checks",
    alias="TRITON_DEBUG",
)
INSTRUMENTATION_MODE = Knob(
    "instrumentation_mode",
    "GLUEBALL_INSTRUMENTATION_MODE",
    _modes,
    "",
    "the launch option of that name of kernels that do not set it: a comma list of consan, fpsan, gsan, iisan",
    alias="TRITON_INSTRUMENTATION_MODE",
)
DISABLE_LINE_INFO = Knob(
    "disable_line_info",
    "GLUEBALL_DISABLE_LINE_INFO",
    _boolean,
    False,
    "leave source lines out of machine code",
    alias="TRITON_DISABLE_LINE_INFO",
)
ALLOW_NON_CONSTEXPR_GLOBALS = Knob(
    "allow_non_constexpr_globals",
    "GLUEBALL_ALLOW_NON_CONSTEXPR_GLOBALS",
    _boolean,
    False,
    "let kernels read plain variables from outside, whose values they keep from their first compilation on",
    alias="TRITON_ALLOW_NON_CONSTEXPR_GLOBALS",
)
FRONT_END_DEBUGGING = Knob(
    "front_end_debugging",
    "GLUEBALL_FRONT_END_DEBUGGING",
    _boolean,
    False,
    "raise what went wrong in a kernel as it is, without its place in the kernel's source",
    alias="TRITON_FRONT_END_DEBUGGING",
)
LAUNCH_GRAPH = Knob(
    "launch_graph",
    "GLUEBALL_LAUNCH_GRAPH",
    _boolean,
    True,
    "repeat launches on a GPU through graphs, which takes less host time",
)
SCHEDULE = Knob(
    "schedule",
    "GLUEBALL_SCHEDULE",
    _schedule,
    "in_order",
    "order in which the simulator runs blocks: in_order, random or late",
)
SANITIZE = Knob(
    "sanitize",
    "GLUEBALL_SANITIZE",
    _boolean,
    True,
    "look for races, undefined values, overflows and missing waits on the simulator, which takes longer",
)
SEED = Knob("seed", "GLUEBALL_SEED", int, 0, "seed of the simulator's random schedule")
PRINT_LANES = Knob(
    "print_lanes",
    "GLUEBALL_PRINT_LANES",
    _boolean,
    False,
    "end each line that a kernel prints on the simulator with the warp, lane and register that hold the value",
)

PRINT_AUTOTUNING = Knob(
    "print_autotuning",
    "GLUEBALL_PRINT_AUTOTUNING",
    _boolean,
    False,
    "print the winner and a table of all configurations after each tuning, on standard error",
    alias="TRITON_PRINT_AUTOTUNING",
)
CACHE_AUTOTUNING = Knob(
    "cache_autotuning",
    "GLUEBALL_CACHE_AUTOTUNING",
    _boolean,
    False,
    "keep results of tuning on disk, also of kernels that do not ask for it",
    alias="TRITON_CACHE_AUTOTUNING",
)

KNOBS: tuple[Knob[Path | None] | Knob[str | None] | Knob[bool] | Knob[str] | Knob[int], ...] = (
    CACHE_DIR, CACHE_LIMIT, EXECUTOR, TARGET, DUMP, REPRO, VERIFY, ISOLATE_CODEGEN, ALWAYS_COMPILE, DEBUG,
    INSTRUMENTATION_MODE, DISABLE_LINE_INFO, ALLOW_NON_CONSTEXPR_GLOBALS, FRONT_END_DEBUGGING,
    LAUNCH_GRAPH, SANITIZE, SCHEDULE, SEED,
    PRINT_LANES, PRINT_AUTOTUNING, CACHE_AUTOTUNING,
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """The groups of settings that programs assign to, `knobs.runtime` and its kin, and what belongs to them."""
    from glueball import knob_groups

    return knob_groups.member(name)
