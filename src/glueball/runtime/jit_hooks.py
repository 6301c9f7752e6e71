"""What the hooks before and after the compilation of a kernel are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from glueball.language.constexpr import constexpr
from glueball.runtime.executors import Placement
from glueball.runtime.options import LaunchOptions
from glueball.runtime.specialization import Specialization

if TYPE_CHECKING:
    from glueball.runtime.jit import JITFunction


class JitFunctionInfo(NamedTuple):
    """The function that is compiled: its module and name, and itself."""

    module: str
    name: str
    jit_function: JITFunction


def call_jit_hook(
    function: JITFunction,
    specialization: Specialization,
    options: LaunchOptions,
    placement: Placement,
    is_warmup: bool,
    hook: Callable[..., Any] | None,
) -> Any:
    """What a hook says to the compilation of a function; `None` without a hook.

    Its `key` tells specialisations apart, `repr` is a line for people, and `compile` has `signature`, `constants`,
    `device`, every option, `is_warmup` and `specialization_data`, which `JITFunction.preload` takes.
    """
    if hook is None:
        return None
    from glueball.runtime.ast_source import source_of
    from glueball.runtime.preload import write_specialization

    kinds = specialization.types
    constants = {name: kind.value for name, kind in kinds.items() if isinstance(kind, constexpr)}
    signature = source_of(function, specialization).signature
    key = repr((specialization.key, options, placement.target.name))
    chosen = ", ".join(f"{name}={value}" for name, value in asdict(options).items())
    types = ", ".join(f"{name}: {constants.get(name, kind)}" for name, kind in signature.items())
    return hook(
        key=key,
        repr=f"{function.__name__}[{chosen}]({types})",
        fn=JitFunctionInfo(str(function.__module__), function.__name__, function),
        compile={
            "key": key,
            "signature": signature,
            "constants": constants,
            "device": placement.device_index if placement.executor == "gpu" else None,
            **asdict(options),
            "is_warmup": is_warmup,
            "specialization_data": write_specialization(function, specialization, options, placement),
        },
        is_manual_warmup=is_warmup,
        already_compiled=False,
    )
