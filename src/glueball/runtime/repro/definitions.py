"""The functions and classes that a kernel needs, with what each of their outside names means."""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import symtable
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from glueball.language.constexpr import constexpr
from glueball.language.function import ConstexprFunction
from glueball.language.source import MISSING, SourceFunction
from glueball.runtime.jit import JITFunction
from glueball.runtime.repro.spelling import UnspellableError, importable, is_installed, spell
from glueball.tile.types import dtype, pointer_type


@dataclass(slots=True)
class Definition:
    """A function or class: its source with decorators, and the objects that its outside names mean.

    `names` maps names to objects. `attributes` are the paths that are read of names that mean modules.
    """

    value: Any
    name: str
    text: str
    names: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, set[str]] = field(default_factory=dict)


def define(value: Any) -> Definition | None:
    """The definition of a user's function or class; `None` for anything else, and for what an installed package has."""
    if isinstance(value, SourceFunction | types.FunctionType | type) and importable(value) is None:
        if isinstance(value, type):
            return _define_class(value)
        return _define_function(value if isinstance(value, SourceFunction) else SourceFunction(value))
    return None


def identity(value: Any) -> int:
    """What tells definitions apart: a function is the same however it is wrapped."""
    return id(value.fn if isinstance(value, SourceFunction) else value)


def _define_function(function: SourceFunction) -> Definition:
    text = textwrap.dedent(function.source.text)
    tree = ast.parse(text).body[0]
    assert isinstance(tree, ast.FunctionDef)
    text = _with_plain_signature(text, tree, function)
    definition = Definition(function, function.__name__, "".join(f"{line}\n" for line in _decorators(function)) + text)
    _resolve(definition, text, function.lookup)
    return definition


def _decorators(function: SourceFunction) -> Iterator[str]:
    if isinstance(function, JITFunction):
        yield f"@_glueball.jit({', '.join(_options(function))})"
    elif isinstance(function, ConstexprFunction):
        yield "@_glueball.constexpr_function"
    hint = getattr(function, "must_use", None)
    if hint is not None:
        yield f"@_glueball.must_use_result({hint!r})"


def _options(function: JITFunction) -> Iterator[str]:
    plain, unaligned = function._unspecialized
    for name, value in (
        ("do_not_specialize", list(plain)), ("do_not_specialize_on_alignment", list(unaligned)),
        ("debug", function.debug), ("noinline", function.noinline),
    ):  # fmt: skip
        if value:
            yield f"{name}={value!r}"


def _with_plain_signature(text: str, tree: ast.FunctionDef, function: SourceFunction) -> str:
    """The text with defaults, and annotations that name nothing outside, as the values that they had."""
    parameters = inspect.signature(function.fn).parameters
    arguments = tree.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip(reversed(positional), reversed(arguments.defaults), strict=False))
    defaults |= {
        argument: default
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    }
    spans: list[tuple[ast.expr, str]] = []
    for argument in (*positional, *arguments.kwonlyargs):
        default = defaults.get(argument)
        if default is not None and not isinstance(default, ast.Constant):
            spans.append((default, spell(parameters[argument.arg].default, _no_definition)))
        note = parameters[argument.arg].annotation
        if argument.annotation is not None and not isinstance(note, str) and not _names_known(argument, function):
            spans.append((argument.annotation, "_gl.constexpr" if note is constexpr else spell(note, _no_definition)))
    return _replaced(text, spans)


def _no_definition(_: Any) -> str | None:
    return None


def _names_known(argument: ast.arg, function: SourceFunction) -> bool:
    names = [node.id for node in ast.walk(argument) if isinstance(node, ast.Name)]
    return all(function.lookup(name) is not MISSING for name in names)


def _replaced(text: str, spans: list[tuple[ast.expr, str]]) -> str:
    """The text with expressions of its tree replaced; places in a tree count lines from 1 and UTF-8 bytes from 0."""
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    starts = [sum(map(len, lines[:index])) for index in range(len(lines))]
    data = b"".join(lines)
    for node, expression in sorted(spans, key=lambda span: (span[0].lineno, span[0].col_offset), reverse=True):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        data = data[:start] + expression.encode() + data[end:]
    return data.decode()


def _define_class(kind: type) -> Definition:
    functions = [getattr(member, "fn", getattr(member, "__func__", member)) for member in vars(kind).values()]
    functions = [function for function in functions if isinstance(function, types.FunctionType)]
    namespace: Mapping[str, Any] = vars(sys.modules.get(kind.__module__, builtins))
    scope = getattr(kind, "aggregate_scope", {})
    fields = getattr(kind, "_fields", None)
    try:
        text = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        if fields is None or issubclass(kind, enum.Enum):
            raise UnspellableError(f"the source of the class {kind.__qualname__} is not available") from None
        text = f'{kind.__name__} = _import("collections", "namedtuple")({kind.__name__!r}, {list(fields)!r})\n'

    def lookup(name: str) -> Any:
        if name == kind.__name__:
            return kind
        for function in functions:
            found = SourceFunction(function).lookup(name) if function.__name__ != "<lambda>" else MISSING
            if found is not MISSING:
                return found
        return scope.get(name, namespace.get(name, getattr(builtins, name, MISSING)))

    definition = Definition(kind, kind.__name__, text)
    _resolve(definition, text, lookup)
    return definition


def _resolve(definition: Definition, text: str, lookup: Callable[[str], Any]) -> None:
    """Finds what the outside names of a text mean. Those of annotations count only where the language knows them."""
    tree = ast.parse(text)
    noted = {name for node in ast.walk(tree) for name in _annotation_names(node)}
    noted -= {name for node in ast.walk(tree) for name in _other_names(node)}
    for name in sorted(_outside_names(symtable.symtable(text, "<bundle>", "exec"))):
        found = lookup(name)
        if found is MISSING or (hasattr(builtins, name) and found is getattr(builtins, name)):
            continue
        if name in noted and not isinstance(found, types.ModuleType | type | SourceFunction | dtype | pointer_type):
            continue
        definition.names[name] = found
        if isinstance(found, types.ModuleType) and not is_installed(found.__name__):
            definition.attributes[name] = set(_paths(tree, name))


def _annotations(node: ast.AST) -> list[ast.AST]:
    notes = (getattr(node, "annotation", None), getattr(node, "returns", None))
    return [note for note in notes if isinstance(note, ast.AST)]


def _annotation_names(node: ast.AST) -> Iterator[str]:
    for note in _annotations(node):
        yield from (inner.id for inner in ast.walk(note) if isinstance(inner, ast.Name))


def _other_names(node: ast.AST) -> Iterator[str]:
    """The names directly below a node, but for its annotations."""
    notes = _annotations(node)
    yield from (child.id for child in ast.iter_child_nodes(node) if isinstance(child, ast.Name) and child not in notes)


def _outside_names(table: symtable.SymbolTable) -> set[str]:
    """Names that a text reads and does not bind."""
    found = set()
    for symbol in table.get_symbols():
        bound_here = table.get_type() == "module" and (symbol.is_assigned() or symbol.is_imported())
        if symbol.is_referenced() and not bound_here and (table.get_type() == "module" or symbol.is_global()):
            found.add(symbol.get_name())
    for child in table.get_children():
        found |= _outside_names(child)
    own = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_namespace()}
    return found - own if table.get_type() == "module" else found


def _paths(tree: ast.AST, root: str) -> Iterator[str]:
    """The dotted attributes read of a name, longest first: `helpers.inner.f` gives `inner.f`."""
    inner: set[ast.AST] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node in inner:
            continue
        parts: list[str] = []
        current: ast.expr = node
        while isinstance(current, ast.Attribute):
            inner.add(current)
            parts.append(current.attr)
            current = current.value
        if isinstance(current, ast.Name) and current.id == root:
            yield ".".join(reversed(parts))
