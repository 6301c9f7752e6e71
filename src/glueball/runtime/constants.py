"""Keys of compile-time values: equal only where the values compile to the same code.

Python has `1 == True == 1.0` and `0.0 == -0.0`; code does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from glueball.language.cache_policies import CachePolicy as HardwarePolicy
from glueball.language.memory import CachePolicy
from glueball.language.source import SourceFunction
from glueball.layouts.base import Layout
from glueball.tile.types import dtype, pointer_type

_LITERALS = (type(None), bool, int, str, bytes)
_OWN = (dtype, pointer_type, Layout, CachePolicy, HardwarePolicy)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value known by its own `==` and `hash` only: no text stands for it in another process."""

    kind: type
    value: object


def is_own_value(value: Any) -> bool:
    """Whether a value is one of the language's that its text describes: a type, a layout, a cache policy."""
    return isinstance(value, _OWN) and type(value).__module__.startswith("glueball.")


def constant_key(value: Any) -> object:
    """A key of a compile-time value, made of texts, tuples, functions and `Opaque` values; hashable if the value is."""
    if type(value) in _LITERALS:
        return (type(value).__name__, repr(value))
    if type(value) is float:
        return ("float", value.hex())
    if isinstance(value, tuple):
        return (_name(type(value)), *getattr(value, "_fields", ()), *map(constant_key, value))
    if is_own_value(value):
        return (_name(type(value)), repr(value))
    if isinstance(value, SourceFunction):
        return value
    opaque = Opaque(type(value), value)
    if is_dataclass(value) and not isinstance(value, type):
        return (opaque, *(constant_key(getattr(value, field.name)) for field in fields(value) if field.compare))
    return opaque


def lasting_text(key: object, text_of_function: Callable[[SourceFunction], str | None]) -> str | None:
    """The key as text that means the same in every process; `None` where an opaque value is in it."""
    if isinstance(key, Opaque):
        return None
    if isinstance(key, SourceFunction):
        return text_of_function(key)
    if isinstance(key, tuple):
        parts = [lasting_text(part, text_of_function) for part in key]
        return None if None in parts else f"({','.join(part for part in parts if part is not None)})"
    return repr(key)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
