"""What a function may use from outside itself."""

from __future__ import annotations

import types
from typing import Any

from glueball import knobs
from glueball.errors import did_you_mean
from glueball.language.constexpr import constexpr
from glueball.language.function import JITCallable
from glueball.language.source import MISSING, SourceFunction
from glueball.language.values import base_value

USABLE = (base_value, SourceFunction, type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


def resolve(function: JITCallable, name: str) -> Any:
    """The object that a name means outside a function.

    Errors: `NameError` for a name that means nothing, and for a variable that is not constant: allowed are `constexpr`
    values, functions, classes, modules, `None` and everything that glueball itself defines; and plain values where the
    knob lets them.
    """
    value = function.lookup(name)
    if value is MISSING:
        known = [*function.stored_names, *function.fn.__globals__]
        raise NameError(f"{name} is not defined{did_you_mean(name, known)}")
    if value is None or isinstance(value, USABLE) or is_of_glueball(type(value)):
        return value
    if knobs.ALLOW_NON_CONSTEXPR_GLOBALS.read():
        return constexpr(value)
    raise NameError(
        f"Cannot access global variable {name} from within a function of the language: its value could change. Only "
        f"variables instantiated as constexpr can be used: `{name} = gl.constexpr({value!r:.60})`"
    )


def is_of_glueball(thing: Any) -> bool:
    """Whether a class or function is defined by glueball itself."""
    return (getattr(thing, "__module__", None) or "").partition(".")[0] == "glueball"
