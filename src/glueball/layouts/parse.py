"""Layouts from text: the Python spelling and the compiler's attribute spelling. Nothing in the text is evaluated."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from glueball.errors import LayoutError
from glueball.layouts.attributes import parse_attribute
from glueball.layouts.base import Layout

ALTERNATIVE_CONSTRUCTORS = ("with_identity_for",)
ALIAS = re.compile(r"\s*(#\w+)\s*=\s*(#.*\S)\s*")


def parse_layout(text: str, aliases: Mapping[str, Layout] | None = None) -> Layout:
    """The layout that a text spells.

    Either as in a kernel, `BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])`, with any prefix such as `gl.`, keywords,
    and layouts inside layouts; or as a compiler attribute, `#ttg.blocked<{sizePerThread = [1, 4], ...}>`, in which
    `aliases` may be named. Raises LayoutError for anything else, and for fields that make no layout.
    """
    if text.lstrip().startswith("#"):
        return parse_attribute(text, aliases or {})
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        where = f" at column {error.offset}" if error.offset else ""
        raise LayoutError(f"this is no layout: {_shortened(text)}: {error.msg}{where}") from None
    except (ValueError, RecursionError, MemoryError):
        raise LayoutError(f"this is no layout: {_shortened(text)}") from None
    value = _Reader(text).value(tree.body)
    if not isinstance(value, Layout):
        raise LayoutError(f"this is no layout but a value: {_shortened(text)}")
    return value


def parse_aliases(text: str) -> dict[str, tuple[str, Layout]]:
    """The layouts that a file defines, one a line as `#name = #ttg...`, each with its attribute's text.

    Later lines may name earlier ones; other lines are passed over.
    """
    found: dict[str, tuple[str, Layout]] = {}
    for line in text.splitlines():
        match = ALIAS.fullmatch(line)
        if match:
            known = {name: layout for name, (_, layout) in found.items()}
            found[match[1]] = (match[2], parse_attribute(match[2], known))
    return found


class _Reader:
    """Reads values off the syntax tree of one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def value(self, node: ast.expr) -> Any:
        """A number, truth value, string, None, list of values, or layout."""
        match node:
            case ast.Constant(value=int() | str() | None):
                return node.value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
                return -number
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self.value(item) for item in items]
            case ast.Call():
                return self.layout(node)
        self.fail(node, "only layouts, lists, integers and truth values can stand here")

    def layout(self, node: ast.Call) -> Layout:
        """The layout that a call constructs."""
        constructor = self.constructor(node.func)
        arguments = [self.value(argument) for argument in node.args]
        keywords = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.fail(node, "** cannot stand here")
            keywords[keyword.arg] = self.value(keyword.value)
        try:
            inspect.signature(constructor).bind(*arguments, **keywords)
        except TypeError as error:
            self.fail(node, str(error))
        result: Layout = constructor(*arguments, **keywords)
        return result

    def constructor(self, node: ast.expr) -> Callable[..., Layout]:
        """The class, or its other constructor, that a dotted name ends in."""
        names: list[str] = []
        inner = node
        while isinstance(inner, ast.Attribute):
            names.insert(0, inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            self.fail(node, "only the name of a layout can stand here")
        names.insert(0, inner.id)
        classes = layout_classes()
        if names[-1] in ALTERNATIVE_CONSTRUCTORS and len(names) > 1 and names[-2] in classes:
            found: Callable[..., Layout] | None = getattr(classes[names[-2]], names[-1], None)
            if found is not None:
                return found
        if names[-1] not in classes:
            self.fail(node, f"there is no layout {'.'.join(names)}; the layouts are {', '.join(sorted(classes))}")
        return classes[names[-1]]

    def fail(self, node: ast.expr, problem: str) -> NoReturn:
        """Raise LayoutError with the piece of the text."""
        piece = ast.get_source_segment(self.text.strip(), node)
        raise LayoutError(f"this is no layout: {_shortened(piece or self.text)}: {problem}")


def layout_classes() -> dict[str, type[Layout]]:
    """The layouts that a text may name: those that `glueball.layouts` exports."""
    from glueball import layouts

    exported = {name: getattr(layouts, name) for name in layouts.__all__}
    return {
        name: value
        for name, value in exported.items()
        if isinstance(value, type) and issubclass(value, Layout) and not inspect.isabstract(value)
    }


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 120 else text[:117] + "...")
