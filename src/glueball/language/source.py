"""The source of a function: its syntax tree with places as in the file, and what it names outside itself."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

MISSING = object()


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a function from its `def` on, and its tree. Line numbers of the tree are those of the file."""

    file: str
    first_line: int
    text: str
    tree: ast.FunctionDef
    lines: tuple[str, ...]
    ascii: bool

    def line(self, number: int) -> str:
        """A line of the function, by its number in the file, without its end."""
        return self.lines[number - self.first_line].rstrip("\r\n")

    def column(self, line: int, offset: int) -> int:
        """A column of the tree, which counts UTF-8 bytes, in characters."""
        if self.ascii:
            return offset
        return len(self.line(line).encode()[:offset].decode(errors="ignore"))


@dataclass(frozen=True, slots=True)
class Captured:
    """A value from outside that a function uses at compile time: where it is used, what it is called, what it is."""

    function: str
    name: str
    value: Any


class SourceFunction:
    """A Python function whose source the compiler reads.

    Errors: `TypeError` for what is no Python function, `ValueError` for a lambda; `source` raises `ValueError` where
    there is no source file.
    """

    def __init__(self, fn: Any) -> None:
        if not isinstance(fn, types.FunctionType):
            raise TypeError(f"a function written with `def` is needed, not {fn!r}")
        if fn.__name__ == "<lambda>":
            raise ValueError("a lambda cannot be compiled; write a function with `def`")
        self.fn = fn
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__doc__ = fn.__doc__
        self._file_lines = _lines_now(fn)

    @property
    def qualified_name(self) -> str:
        """Module and qualified name, such as `kernels.copy`."""
        return f"{self.fn.__module__}.{self.fn.__qualname__}"

    @cached_property
    def source(self) -> Source:
        """The function's source, as it was when the function was made; parsed on first use."""
        return _read_source(self.fn, self._file_lines)

    def _replace_source(self, text: str) -> None:
        """Makes the function that of another text, which begins at the same line of the same file."""
        first = self.fn.__code__.co_firstlineno
        source = _parse_source(self.fn, text.splitlines(keepends=True), first)
        for name in ("stored_names", "_paths"):
            self.__dict__.pop(name, None)
        self.__dict__["source"] = source

    def __reduce__(self) -> str:
        """Pickled and copied as functions are: by the name under which their module holds them."""
        return str(self.__qualname__)

    @property
    def src(self) -> str:
        """The text of the function from its `def` on."""
        return self.source.text

    @cached_property
    def stored_names(self) -> frozenset[str]:
        """Parameters and every name that the body binds: these never refer to anything outside."""
        tree = self.source.tree
        stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        arguments = tree.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        return frozenset(stored | {argument.arg for argument in every if argument is not None})

    @cached_property
    def _paths(self) -> tuple[tuple[str, ...], ...]:
        """Names from outside that the body reads, each with the attributes that follow it."""
        paths: dict[tuple[str, ...], None] = {}
        inner: set[ast.AST] = set()
        for statement in self.source.tree.body:
            for node in ast.walk(statement):
                if node not in inner and (path := _dotted(node, inner)) and path[0] not in self.stored_names:
                    paths[path] = None
        return tuple(paths)

    def lookup(self, name: str) -> Any:
        """What a name means outside the function: closure, then module, then Python's builtins; else `MISSING`."""
        code = self.fn.__code__
        if self.fn.__closure__ is not None and name in code.co_freevars:
            cell = self.fn.__closure__[code.co_freevars.index(name)]
            try:
                return cell.cell_contents
            except ValueError:
                return MISSING
        if name in self.fn.__globals__:
            return self.fn.__globals__[name]
        return getattr(builtins, name, MISSING)

    def references(self) -> Iterator[tuple[str, Any]]:
        """The objects from outside that the body uses, by dotted name: not modules, but what is taken of them."""
        for path in self._paths:
            value = self.lookup(path[0])
            depth = 1
            while isinstance(value, types.ModuleType) and depth < len(path):
                value = vars(value).get(path[depth], MISSING)
                depth += 1
            if value is not MISSING and not isinstance(value, types.ModuleType):
                yield ".".join(path[:depth]), value


def _dotted(node: ast.AST, inner: set[ast.AST]) -> tuple[str, ...]:
    """A name with its attributes, as a path; empty for another expression. Marks the parts in `inner`."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
        inner.add(node)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return (node.id, *reversed(attributes))
    return ()


def _check_belongs(fn: types.FunctionType, tree: ast.FunctionDef) -> None:
    """Refuses the text of another function: a file that was edited since it was imported, `exec` under its name."""
    arguments = tree.args
    every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    names = [argument.arg for argument in every if argument is not None]
    if (tree.name, names) != (fn.__name__, list(inspect.signature(fn).parameters)):
        raise ValueError(
            f"line {fn.__code__.co_firstlineno} of {fn.__code__.co_filename} no longer holds the source of "
            f"`{fn.__qualname__}`: was the file edited after it was imported?"
        )


def _lines_now(fn: types.FunctionType) -> list[str]:
    """The lines of the function's file as they are now: a later edit of the file must not change what is compiled."""
    file = fn.__code__.co_filename
    linecache.checkcache(file)
    return linecache.getlines(file, fn.__globals__)


def _read_source(fn: types.FunctionType, lines: list[str]) -> Source:
    first = fn.__code__.co_firstlineno
    if first > len(lines):
        raise ValueError(
            f"the source of `{fn.__qualname__}` is not available: there is no text of {fn.__code__.co_filename}. "
            f"Define the function in a Python file or a notebook, or pass its text as `glueball.jit(source=...)`; for "
            f"a whole module that `exec` makes, put the text into `linecache.cache` under the name given to `compile`"
        )
    return _parse_source(fn, inspect.getblock(lines[first - 1 :]), first)


def _parse_source(fn: types.FunctionType, lines: list[str], first: int) -> Source:
    indented = lines[0][:1].isspace()
    text = "".join(lines)
    try:
        module = ast.parse(f"if True:\n{text}" if indented else text)
    except SyntaxError as error:
        raise ValueError(f"the source of `{fn.__qualname__}` in {fn.__code__.co_filename} is no function") from error
    body: list[ast.stmt] = module.body
    if indented and isinstance(body[0], ast.If):
        body = body[0].body
    tree = body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise ValueError(f"`{fn.__qualname__}` must be a plain function written with `def`")
    _check_belongs(fn, tree)
    start = tree.lineno - (2 if indented else 1)
    ast.increment_lineno(tree, first - (2 if indented else 1))
    return Source(
        file=fn.__code__.co_filename,
        first_line=tree.lineno,
        text="".join(lines[start:]),
        tree=tree,
        lines=(*lines[start:],),
        ascii=text.isascii(),
    )
