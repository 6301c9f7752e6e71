"""One object per compile-time value: the launcher knows such arguments by identity, callers make equal ones anew."""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

from glueball.language.constexpr import constexpr
from glueball.layouts.base import Layout
from glueball.runtime.constants import constant_key, is_own_value

VALUE_LIMIT = 256
"""Values kept; at the limit all are forgotten."""

Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

_PLAIN = (type(None), bool, int, float, str)


class CanonicalValues:
    """The first object seen of every layout, cache policy and the like, and of every `constexpr` of one or of a plain
    value; NumPy's scalars as Python's, which the launcher reads.
    """

    def __init__(self) -> None:
        self._values: dict[object, Any] = {}

    def replace(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Call | None:
        """The same call with the objects seen first; `None` where it has no others."""
        found = [self._canonical(value) for value in (*arguments, *keywords.values())]
        if all(one is value for one, value in zip(found, (*arguments, *keywords.values()), strict=True)):
            return None
        return tuple(found[: len(arguments)]), dict(zip(keywords, found[len(arguments) :], strict=True))

    def _canonical(self, value: Any) -> Any:
        if type(value) in _PLAIN:
            return value
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.generic):
            plain = value.item()
            return plain if type(plain) in _PLAIN else value
        wrapped = type(value) is constexpr
        plain = value.value if wrapped else value
        if isinstance(plain, Layout):
            key: object = (wrapped, plain)
        elif is_own_value(plain) or (wrapped and type(plain) in _PLAIN):
            key = (wrapped, constant_key(plain))
        else:
            return value
        if len(self._values) >= VALUE_LIMIT:
            self._values.clear()
        return self._values.setdefault(key, value)
