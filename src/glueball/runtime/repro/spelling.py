"""Compile-time values as Python expressions that mean the same in a bundle's `kernel.py`."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import math
import sys
import types
from collections.abc import Callable
from typing import Any

from glueball.errors import GlueballError
from glueball.language.constexpr import constexpr
from glueball.layouts.base import Layout
from glueball.runtime.tensor_wrapper import TensorWrapper
from glueball.tile.types import dtype, pointer_type

INSTALLED = ("glueball", "ml_dtypes", "numpy", "torch")

PRELUDE = """from __future__ import annotations

import importlib as _importlib
import types as _types

import glueball as _glueball
import glueball.language as _gl
import glueball.layouts as _layouts


def _layout(text):
    return eval(text, vars(_layouts))


def _import(module, name=None):
    found = _importlib.import_module(module)
    for part in name.split(".") if name else ():
        found = getattr(found, part)
    return found
"""
"""What the expressions use; the head of every `kernel.py`."""


class UnspellableError(GlueballError, ValueError):
    """A value that no expression can stand for in a bundle."""


def spell(value: Any, definition: Callable[[Any], str | None]) -> str:
    """An expression for a value. `definition` gives the name of a function or class that the bundle defines.

    `UnspellableError` for a value of which nothing but the object itself is known.
    """
    if (name := definition(value)) is not None:
        return name
    if value is None or value is ... or type(value) in (bool, int, str, bytes):
        return repr(value)
    if type(value) is float:
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if isinstance(value, constexpr):
        return f"_gl.constexpr({spell(value.value, definition)})"
    if isinstance(value, tuple | list | set | frozenset | dict | enum.Enum):
        return _spell_container(value, definition)
    return _spell_object(value, definition)


def _spell_container(value: Any, definition: Callable[[Any], str | None]) -> str:
    if isinstance(value, enum.Enum):
        return f"{spell(type(value), definition)}.{value.name}"
    if isinstance(value, dict):
        pairs = (f"{spell(key, definition)}: {spell(item, definition)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    items = ", ".join(spell(item, definition) for item in value)
    kind = type(value)
    if kind is tuple:
        return f"({items},)" if items else "()"
    if kind is list:
        return f"[{items}]"
    if hasattr(value, "_fields"):
        return f"{spell(kind, definition)}({items})"
    return f"{spell(kind, definition)}([{items}])"


def _spell_object(value: Any, definition: Callable[[Any], str | None]) -> str:
    if isinstance(value, dtype):
        return f"_gl.{value.name}"
    if isinstance(value, pointer_type):
        return f"_gl.pointer_type({spell(value.element_ty, definition)}, const={value.const})"
    if isinstance(value, Layout) and type(value).__module__.startswith("glueball."):
        return f"_layout({str(repr(value))!r})"
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and isinstance(value, numpy.generic):
        return f'_import("numpy").{type(value).__name__}({spell(value.item(), definition)})'
    if numpy is not None and isinstance(value, numpy.dtype):
        return f'_import("numpy").dtype({value.name!r})'
    if torch is not None and isinstance(value, torch.dtype):
        return f'_import("torch", {str(value).partition(".")[2]!r})'
    if isinstance(value, TensorWrapper):
        wrapper = f'_import("{TensorWrapper.__module__}", "TensorWrapper")'
        return f"{wrapper}({spell(value.base, definition)}, {spell(value.dtype, definition)})"
    if isinstance(value, types.ModuleType) and is_installed(value.__name__):
        return f"_import({value.__name__!r})"
    if (place := importable(value)) is not None:
        return f"_import({place[0]!r}, {place[1]!r})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = (item for item in dataclasses.fields(value) if item.init)
        fields = (f"{item.name}={spell(getattr(value, item.name), definition)}" for item in given)
        return f"{spell(type(value), definition)}({', '.join(fields)})"
    raise UnspellableError(f"a {type(value).__name__} cannot be written into a bundle: {value!r}"[:300])


def is_installed(module: str) -> bool:
    """Whether a module is part of Python or of what a bundle may ask for."""
    root = module.partition(".")[0]
    return root in INSTALLED or root in sys.stdlib_module_names


def importable(value: Any) -> tuple[str, str] | None:
    """Module and qualified name under which an installed package holds a function or class."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__" or not is_installed(module):
        return None
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return (module, name) if found is value else None
