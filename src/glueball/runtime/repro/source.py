"""`kernel.py` of a bundle: one namespace with every definition that a launch needs, and the launch itself."""

from __future__ import annotations

import textwrap
import types
from collections.abc import Mapping, Sequence
from typing import Any

from glueball.runtime.jit import JITFunction
from glueball.runtime.repro.definitions import Definition, define, identity
from glueball.runtime.repro.spelling import PRELUDE, UnspellableError, is_installed, spell


class SourceWriter:
    """Writes definitions in an order in which each finds what it needs; `name_of` gives expressions for values.

    `arrays` gives the number of each array of the launch, by `id`; its expression is `array(number)`.

    A definition whose outside names mean something else than the names already written stands in a function of its own.
    """

    def __init__(self, arrays: Mapping[int, int]) -> None:
        self._arrays = arrays
        self._parts: list[str] = [PRELUDE.strip()]
        self._bound: dict[str, str] = dict.fromkeys(
            ("launch", "_gl", "_glueball", "_import", "_layout", "_layouts"), ""
        )
        self._names: dict[int, str] = {}
        self._started: set[int] = set()
        self._kept: list[Any] = []
        self._modules: dict[int, str] = {}
        self._waiting: list[tuple[str, Any]] = []

    def name_of(self, value: Any) -> str:
        """An expression for a value, everything that it needs written before."""
        return spell(value, self._definition_name)

    def text(self) -> str:
        """All that was written. `UnspellableError` where a definition needs another that needs it to be made."""
        self._assign_waiting()
        if self._waiting:
            targets = ", ".join(target for target, _ in self._waiting)
            raise UnspellableError(f"what {targets} stand for need each other to be defined")
        return "".join(self._parts) + "\n"

    def _add(self, text: str) -> None:
        """Adds a line below the one before, or a definition with space around it."""
        beside = "\n" not in text and "\n" not in self._parts[-1].strip()
        self._parts.append(("\n" if beside else "\n\n\n") + text)

    def _definition_name(self, value: Any) -> str | None:
        if id(value) in self._arrays:
            return f"array({self._arrays[id(value)]})"
        key = identity(value)
        if key in self._names:
            return self._names[key]
        if key in self._started or (definition := define(value)) is None:
            return None
        self._started.add(key)
        self._kept.append(value)
        return self._write(definition, key)

    def _write(self, definition: Definition, key: int) -> str:
        own: dict[str, str] = {}
        for name, value in definition.names.items():
            if value is definition.value or identity(value) == key:
                continue
            if isinstance(value, types.ModuleType) and not is_installed(value.__name__):
                self._stand_in(name, value, definition.attributes.get(name, set()), own)
            elif identity(value) in self._started and identity(value) not in self._names:
                self._wait(name, value)
            else:
                self._bind(name, self._spelled(name, value, definition), own)
        name = definition.name
        if own or name in self._bound:
            name = self._unused(name)
            self._add(_wrapped(definition, name, own))
        else:
            self._add(definition.text.rstrip())
        self._bound[name] = name
        self._names[key] = name
        self._assign_waiting()
        return name

    def _spelled(self, name: str, value: Any, definition: Definition) -> str:
        try:
            return self.name_of(value)
        except UnspellableError as error:
            raise UnspellableError(f"`{name}`, which {definition.name} uses: {error}") from None

    def _bind(self, name: str, expression: str, own: dict[str, str]) -> None:
        """Makes a name mean an expression: for all where it is free, else in the definition's own function."""
        if name not in self._bound:
            self._bound[name] = expression
            if name != expression:
                self._add(f"{name} = {expression}")
        elif self._bound[name] != expression:
            own[name] = expression

    def _wait(self, name: str, value: Any) -> None:
        """A name of a definition that is being written further out: bound when that is done."""
        if name not in self._bound:
            self._bound[name] = f"waiting for {identity(value)}"
            self._waiting.append((name, value))

    def _stand_in(self, name: str, module: types.ModuleType, paths: set[str], own: dict[str, str]) -> None:
        """A module object that has as much of a user's module as is used."""
        if id(module) not in self._modules:
            self._kept.append(module)
            self._modules[id(module)] = stand_in = self._unused(f"_module_{module.__name__.rpartition('.')[2]}")
            self._bound[stand_in] = stand_in
            self._add(f"{stand_in} = _types.ModuleType({module.__name__!r})")
        stand_in = self._modules[id(module)]
        for path in sorted(paths):
            first, _, rest = path.partition(".")
            target, value = f"{stand_in}.{first}", vars(module).get(first)
            if isinstance(value, types.ModuleType) and not is_installed(value.__name__):
                self._stand_in(target, value, {rest} if rest else set(), own)
            elif target not in self._bound and first in vars(module):
                if identity(value) in self._started and identity(value) not in self._names:
                    self._wait(target, value)
                else:
                    self._bind(target, self.name_of(value), own)
        self._bind(name, stand_in, own)

    def _assign_waiting(self) -> None:
        still = []
        for target, value in self._waiting:
            name = self._names.get(identity(value))
            if name is None:
                still.append((target, value))
                continue
            self._bound[target] = name
            if target != name:
                self._add(f"{target} = {name}")
        self._waiting = still

    def _unused(self, name: str) -> str:
        candidates = (name, *(f"{name}_{number}" for number in range(2, len(self._bound) + 3)))
        return next(candidate for candidate in candidates if candidate not in self._bound)


def _wrapped(definition: Definition, name: str, own: Mapping[str, str]) -> str:
    bindings = "".join(f"{each} = {expression}\n" for each, expression in own.items())
    body = textwrap.indent(f"{bindings}{definition.text.rstrip()}\nreturn {definition.name}\n", "    ")
    return f"def _make_{name}():\n{body}\n\n{name} = _make_{name}()"


def write_source(
    kernel: JITFunction,
    grid: tuple[int, int, int],
    arguments: Sequence[Any],
    keywords: Mapping[str, Any],
    arrays: Mapping[int, int],
) -> str:
    """The text of `kernel.py`. `arrays` gives the number of each array in the arguments, by `id`.

    `UnspellableError` names what cannot be written.
    """
    writer = SourceWriter(arrays)

    def spelled(name: str, value: Any) -> str:
        try:
            return writer.name_of(value)
        except UnspellableError as error:
            raise UnspellableError(f"argument `{name}`: {error}") from None

    names = list(kernel.rules)
    positional = [spelled(names[index] if index < len(names) else "?", value) for index, value in enumerate(arguments)]
    named = [f"{name}={spelled(name, value)}" for name, value in keywords.items()]
    function = writer.name_of(kernel)
    call = "".join(f"        {argument},\n" for argument in (*positional, *named))
    launch = f'''def launch(array):
    """The launch; `array(number)` gives an array of it."""
    return {function}[{grid}](
{call}    )'''
    return f"{writer.text()}\n\n{launch}\n"
