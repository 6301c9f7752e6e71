"""Launch options: the keywords of a launch that are not parameters of the kernel."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from glueball.errors import OptionError, UnknownOptionError, did_you_mean
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.targets import Target

HOST_CHOICES = ("device", "device_type", "stream")


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """How a kernel is compiled, apart from its arguments.

    `num_stages` is accepted for source compatibility and has no effect. `enable_fp_fusion` is a permission that is not
    used: `a * b + c` is rounded twice, always. With `debug`, `gl.device_assert` and `assert` are part of the kernel;
    `sanitize_overflow` has no effect yet. `maxnreg` caps the 32-bit registers of a thread on NVIDIA targets.
    """

    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3
    maxnreg: int | None = None
    debug: bool = False
    enable_fp_fusion: bool = False
    sanitize_overflow: bool = True

    def check(self, target: Target) -> None:
        """Raises `OptionError` for what the target does not have."""
        if self.maxnreg is not None and target.family != "nvidia":
            raise OptionError(
                f"maxnreg={self.maxnreg}: a cap on registers exists on NVIDIA targets, not on {target.name}"
            )

    def code_key(self) -> dict[str, int | None]:
        """The options that change code, for keys."""
        return {
            "num_warps": self.num_warps,
            "num_ctas": self.num_ctas,
            "maxnreg": self.maxnreg,
            "debug": self.debug,
        }


def _num_warps(value: Any) -> int:
    count = operator.index(value)
    if count < 1 or count & (count - 1):
        raise OptionError(f"num_warps={count}: must be a power of two")
    return count


def _num_ctas(value: Any) -> int:
    count = operator.index(value)
    if count != 1:
        raise OptionError(f"num_ctas={count}: clusters are not supported yet, only num_ctas=1")
    return count


def _num_stages(value: Any) -> int:
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


_READERS: dict[str, Callable[[Any], Any]] = {
    "num_warps": _num_warps,
    "num_ctas": _num_ctas,
    "num_stages": _num_stages,
    "maxnreg": _maxnreg,
    "debug": bool,
    "enable_fp_fusion": bool,
    "sanitize_overflow": bool,
}
OPTION_NAMES = frozenset(field.name for field in fields(LaunchOptions))


def read_options(
    kernel_name: str, keywords: Mapping[str, Any], parameters: frozenset[str], debug: bool | None = None
) -> LaunchOptions:
    """The options among a launch's keywords; a kernel parameter may share an option's name and then sets both.

    `debug` is the option's value where the launch gives none.

    `UnknownOptionError` for a keyword that is neither, `OptionError` for a value an option cannot have.
    """
    values: dict[str, Any] = {} if debug is None else {"debug": bool(debug)}
    for name, value in keywords.items():
        if name in OPTION_NAMES:
            values[name] = _read_option(name, _unwrap_if_constexpr(value))
        elif name in HOST_CHOICES:
            raise OptionError(
                f"{name}: the arguments and the current device and stream decide where {kernel_name} runs"
            )
        elif name not in parameters:
            raise UnknownOptionError(
                f"keyword argument {name} was specified but unrecognised: {kernel_name} takes "
                f"{', '.join(sorted(parameters)) or 'no parameters'}; the options are {', '.join(sorted(OPTION_NAMES))}"
                f"{did_you_mean(name, OPTION_NAMES | parameters)}"
            )
    return LaunchOptions(**values)


def _read_option(name: str, value: Any) -> Any:
    try:
        return _READERS[name](value)
    except TypeError:
        raise OptionError(f"{name}={value!r}: must be an integer") from None
