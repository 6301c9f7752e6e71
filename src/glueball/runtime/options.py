"""Launch options: the keywords of a launch that are not parameters of the kernel."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from glueball import knobs
from glueball.errors import OptionError, UnknownOptionError, did_you_mean
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.targets import Target

HOST_CHOICES = ("device", "device_type", "stream")
PROGRAMMATIC_GENERATION = 90
"""The first NVIDIA generation whose kernels may start before the one before them ends."""
MOST_CTAS = 16
"""CTAs of a cluster; more than 8 need a device that has so many multiprocessors together."""


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """How a kernel is compiled, apart from its arguments.

    A program runs on `num_ctas` CTAs, which are a cluster, of `num_warps` warps each.
    `num_stages` is accepted for source compatibility and has no effect. `enable_fp_fusion` is a permission that is not
    used: `a * b + c` is rounded twice, always. With `debug`, `gl.device_assert` and `assert` are part of the kernel;
    with `sanitize_overflow` too, so are assertions that integer `+`, `-` and `*` below 64 bits fit their type, outside
    of functions that an operation applies to single elements.

    `maxnreg` caps the 32-bit registers of a thread on NVIDIA targets, `waves_per_eu` asks for that many waves on an
    execution unit of AMD targets. `launch_cooperative_grid` has all blocks resident at once or the launch refused;
    `launch_pdl` lets a kernel start before the one before it in its stream ends, up to where it waits. Both are
    attributes of launches on an NVIDIA GPU and change nothing on the simulator. `instrumentation_mode` is a comma list
    of checks built into the kernel. `disable_line_info` is the knob's. With `deterministic`, reductions and scans
    combine in an order that the shape alone decides, so that sums of floats are equal bit by bit for every number of
    warps and every layout.
    """

    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int | None = None
    maxnreg: int | None = None
    debug: bool = False
    enable_fp_fusion: bool = False
    sanitize_overflow: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    waves_per_eu: int | None = None
    instrumentation_mode: str = ""
    disable_line_info: bool = False
    deterministic: bool = False

    @property
    def checks_overflow(self) -> bool:
        """Whether the kernel stops where integer arithmetic wraps."""
        return self.debug and self.sanitize_overflow

    def for_target(self, target: Target) -> LaunchOptions:
        """The options as they hold for a target. `OptionError` or `UnknownOptionError` for what it does not have."""
        if self.maxnreg is not None and target.family != "nvidia":
            raise OptionError(
                f"maxnreg={self.maxnreg}: a cap on registers exists on NVIDIA targets, not on {target.name}"
            )
        if self.waves_per_eu is not None and target.family != "amd":
            raise UnknownOptionError(
                f"keyword argument waves_per_eu was specified but unrecognised on {target.name}: AMD targets have it"
            )
        if self.launch_pdl and not (target.family == "nvidia" and target.generation >= PROGRAMMATIC_GENERATION):
            raise OptionError(f"launch_pdl=True: NVIDIA targets have it from sm_90a on, {target.name} does not")
        if self.num_ctas > 1 and not target.supports("cluster"):
            raise OptionError(f"num_ctas={self.num_ctas}: {target.name} has no clusters of CTAs")
        if self.launch_cooperative_grid and target.family != "nvidia":
            raise OptionError(f"launch_cooperative_grid=True: NVIDIA targets have it, {target.name} does not")
        stages = self.num_stages
        if stages is None:
            stages = 3 if target.family == "nvidia" else 2
        return replace(self, num_stages=stages, maxnreg=None if self.instrumentation_mode else self.maxnreg)

    def code_key(self) -> dict[str, int | str | None]:
        """The options that change code, for keys."""
        return {
            "num_warps": self.num_warps,
            "num_ctas": self.num_ctas,
            "maxnreg": self.maxnreg,
            "debug": self.debug,
            "checks_overflow": self.checks_overflow,
            "waves_per_eu": self.waves_per_eu,
            "instrumentation_mode": self.instrumentation_mode,
            "disable_line_info": self.disable_line_info,
            "deterministic": self.deterministic,
        }


def _num_warps(value: Any) -> int:
    count = operator.index(value)
    if count < 1 or count & (count - 1):
        raise OptionError(f"num_warps={count}: must be a power of two")
    return count


def _num_ctas(value: Any) -> int:
    count = operator.index(value)
    if not 1 <= count <= MOST_CTAS or count & (count - 1):
        raise OptionError(f"num_ctas={count}: must be a power of two up to {MOST_CTAS}")
    return count


def _num_stages(value: Any) -> int | None:
    if value is None:
        return None
    count = operator.index(value)
    if count < 0:
        raise OptionError(f"num_stages={count}: must not be negative")
    return count


def _maxnreg(value: Any) -> int | None:
    if value is None:
        return None
    count = operator.index(value)
    if not 16 <= count <= 255:
        raise OptionError(f"maxnreg={count}: must be from 16 to 255")
    return count


def _waves_per_eu(value: Any) -> int | None:
    count = operator.index(0 if value is None else value)
    if not 0 <= count <= 10:
        raise OptionError(f"waves_per_eu={count}: must be from 1 to 10, or 0 to leave it open")
    return count or None


def _boolean(value: Any) -> bool:
    number = operator.index(value.item() if hasattr(value, "item") else value)
    if number not in (0, 1):
        raise TypeError
    return bool(number)


def _instrumentation_mode(value: Any) -> str:
    if not isinstance(value, str):
        raise OptionError(f"instrumentation_mode={value!r}: must be a text such as 'consan'")
    return knobs.INSTRUMENTATION_MODE.parse(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "num_warps": _num_warps,
    "num_ctas": _num_ctas,
    "num_stages": _num_stages,
    "maxnreg": _maxnreg,
    "debug": _boolean,
    "enable_fp_fusion": _boolean,
    "sanitize_overflow": _boolean,
    "launch_cooperative_grid": _boolean,
    "launch_pdl": _boolean,
    "waves_per_eu": _waves_per_eu,
    "instrumentation_mode": _instrumentation_mode,
    "deterministic": _boolean,
}
_DECLINED: dict[str, tuple[tuple[Any, ...], str]] = {
    "ptx_version": ((None,), "the lowest version that the kernel's instructions need is chosen"),
    "ptx_options": ((None, ""), "the assembler's options are not open"),
    "ir_override": ((None, ""), "no stage of a kernel is replaced by a file"),
    "extern_libs": ((None, (), [], {}), "no outside library is linked; the functions of libdevice are built in"),
    "supported_fp8_dtypes": ((None,), "the target says which types it has"),
    "default_dot_input_precision": ((None, "tf32"), "matrix operations take their precision as an argument"),
    "allowed_dot_input_precisions": ((None,), "matrix operations take their precision as an argument"),
    "matrix_instr_nonkdim": ((None, 0, 4, 16, 32), "the layout of a matrix operation says its shape"),
    "kpack": ((None, 1, 2), "the layout of a matrix operation says its shape"),
    "allow_flush_denorm": ((None, False, True), "it is a permission that is not used"),
    "schedule_hint": ((None, "", "none", "attention", "memory-bound-attention"), "instructions stay in order"),
    "wgp_cu_mode": ((None, False), "there is no choice of compute-unit mode"),
    "llvm_fn_attrs": ((None, "", (), []), "attributes of LLVM functions are not open"),
}
"""Options of the language's first implementation that have no counterpart: what may be given, and why no more."""

OPTION_NAMES = frozenset((*_READERS, *_DECLINED))


def read_options(
    kernel_name: str, keywords: Mapping[str, Any], parameters: frozenset[str], debug: bool | None = None
) -> LaunchOptions:
    """The options among a launch's keywords; a kernel parameter may share an option's name and then sets both.

    `debug` is the option's value where the launch gives none; where it is `None`, the knob's. `UnknownOptionError` for
    a keyword that is neither, `OptionError` for a value an option cannot have.
    """
    values: dict[str, Any] = {
        "debug": knobs.DEBUG.read() if debug is None else bool(debug),
        "instrumentation_mode": knobs.INSTRUMENTATION_MODE.read(),
        "disable_line_info": knobs.DISABLE_LINE_INFO.read(),
    }
    for name, value in keywords.items():
        if name in _READERS:
            values[name] = _read_option(name, _unwrap_if_constexpr(value))
        elif name in _DECLINED:
            if name not in parameters:
                _check_declined(name, _unwrap_if_constexpr(value))
        elif name in HOST_CHOICES and name not in parameters:
            raise OptionError(
                f"{name}: the arguments and the current device and stream decide where {kernel_name} runs"
            )
        elif name not in parameters:
            raise UnknownOptionError(
                f"keyword argument {name} was specified but unrecognised: {kernel_name} takes "
                f"{', '.join(sorted(parameters)) or 'no parameters'}; the options are {', '.join(sorted(_READERS))}"
                f"{did_you_mean(name, frozenset(_READERS) | parameters)}"
            )
    return LaunchOptions(**values)


def _read_option(name: str, value: Any) -> Any:
    try:
        return _READERS[name](value)
    except TypeError:
        kind = "True or False" if _READERS[name] is _boolean else "an integer"
        raise OptionError(f"{name}={value!r}: must be {kind}") from None


def _check_declined(name: str, value: Any) -> None:
    accepted, reason = _DECLINED[name]
    if not any(type(value) is type(one) and value == one for one in accepted):
        raise OptionError(f"{name}={value!r}: not supported: {reason}; leave the option out")
