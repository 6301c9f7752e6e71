"""What a function's code depends on outside its own text: for cache keys, and to notice when it changed."""

from __future__ import annotations

import hashlib
import json
import types
from pathlib import PurePath
from typing import Any, TypeAlias

from glueball.language.function import ConstexprFunction, JITCallable, collect_dependencies
from glueball.language.source import SourceFunction
from glueball.language.tuple import unwrap
from glueball.runtime.constants import constant_key, lasting_text

Guard: TypeAlias = tuple[dict[str, Any], str, object]


class Captures:
    """The functions that a function reaches and the outside values that it and they use, as they were when made.

    `guards` says where in namespaces they were found; what closures hold is not among them.
    """

    def __init__(self, function: SourceFunction) -> None:
        self.function = function
        dependencies = collect_dependencies(function)
        self.functions = (function, *dependencies.functions)
        self.values = dependencies.constants
        self.guards: list[Guard] = []
        self._cells: list[tuple[types.CellType, object]] = []
        captured = {(item.function, item.name) for item in self.values}
        reached = {id(item.fn) for item in self.functions}
        for user in self.functions:
            for name, value in user.references():
                plain = unwrap(value)
                if (user.qualified_name, name) in captured or id(getattr(plain, "fn", plain)) in reached:
                    self._find(user, name)

    def _find(self, user: SourceFunction, name: str) -> None:
        """Notes every place that is looked at to find what a dotted name means."""
        first, *attributes = name.split(".")
        code = user.fn.__code__
        if first in code.co_freevars and user.fn.__closure__ is not None:
            cell = user.fn.__closure__[code.co_freevars.index(first)]
            found = cell.cell_contents
            self._cells.append((cell, found))
        elif first in user.fn.__globals__:
            found = user.fn.__globals__[first]
            self.guards.append((user.fn.__globals__, first, found))
        else:
            return
        for attribute in attributes:
            namespace = vars(found)
            found = namespace[attribute]
            self.guards.append((namespace, attribute, found))

    def check(self) -> None:
        """Raises `RuntimeError` where a value or a function is no longer the one it was."""
        if all(namespace.get(name) is value for namespace, name, value in self.guards) and all(
            cell.cell_contents is value for cell, value in self._cells
        ):
            return
        now = Captures(self.function)
        for before, after in zip(self.functions, now.functions, strict=False):
            if before.fn is not after.fn:
                self._complain(before.qualified_name, "one function", f"another, {after.qualified_name}")
        for old, new in zip(self.values, now.values, strict=False):
            if (old.function, old.name) == (new.function, new.name) and not _same(old.value, new.value):
                self._complain(f"{old.name} (used in {old.function})", repr(old.value), repr(new.value))
        if len(self.functions) != len(now.functions) or len(self.values) != len(now.values):
            self._complain("the set of outside names it uses", f"{len(self.values)} values", f"{len(now.values)}")
        self.guards, self._cells = now.guards, now._cells

    def text(self) -> str | None:
        """A hash, equal in every process, of all sources and values; `None` where a value has no lasting text.

        The place in the file counts, since it is in the code's line table.
        """
        parts: list[object] = []
        for function in self.functions:
            source = function.source
            place = [PurePath(source.file).name, source.first_line]
            parts.append([_kind(function), function.qualified_name, *place, source.text])
        for captured in self.values:
            text = lasting_text(constant_key(captured.value), function_text)
            if text is None:
                return None
            parts.append([captured.function, captured.name, text])
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _complain(self, what: str, before: str, after: str) -> None:
        raise RuntimeError(
            f"{what} has changed since we compiled this kernel, {self.function.qualified_name}: it was {before} and is "
            f"{after}; a value that varies is a `constexpr` parameter"
        )


def function_text(function: SourceFunction) -> str | None:
    """`Captures.text` of a function as it is now."""
    return Captures(function).text()


def _kind(function: SourceFunction) -> str:
    if isinstance(function, JITCallable):
        return "jit"
    return "constexpr" if isinstance(function, ConstexprFunction) else "python"


def _same(left: object, right: object) -> bool:
    return left is right or bool(constant_key(left) == constant_key(right))
