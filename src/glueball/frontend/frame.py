"""A function while it is being compiled: its names, its place in the call chain, and how its tree is walked."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glueball.frontend.diagnostics import raise_located, unsupported
from glueball.frontend.outside import resolve
from glueball.language.aggregate import aggregate_value
from glueball.language.builder import KernelBuilder
from glueball.language.function import JITCallable
from glueball.language.shared_memory import shared_memory_descriptor
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.language.values import base_value
from glueball.location import SourceLocation

Statements = Sequence[ast.stmt]


@dataclass(frozen=True, slots=True)
class Undefined:
    """Stands for a name that was bound somewhere but has no value here, and says why."""

    reason: str


@dataclass(slots=True)
class Outcome:
    """How a block ends: whether the function returned in it (a run-time int1 where that depends), and with what."""

    returned: bool | tensor
    value: base_value | None = None


@dataclass(frozen=True, slots=True)
class Syntax:
    """What is done for each kind of syntax.

    A branch handler also gets the statements that follow and whether the block ends the function; it gives an outcome
    where nothing is left to do in the block.
    """

    expressions: Mapping[type[ast.AST], Callable[[Frame, Any], Any]]
    statements: Mapping[type[ast.AST], Callable[[Frame, Any], None]]
    branches: Mapping[type[ast.AST], Callable[[Frame, Any, Statements, bool], Outcome | None]]
    invoke: Callable[[Frame, Any, list[Any], dict[str, Any]], Any]


@dataclass(slots=True, eq=False)
class Frame:
    """One call of a function being inlined, or the kernel itself.

    `names` maps local names to values, `bound_at` to the statement that bound them last; `caller` is the call's
    location and `parent` its frame. `loops` counts the loops around the current statement, whose value, if it is an
    expression, is thrown away: `discarded`.
    """

    function: JITCallable
    builder: KernelBuilder
    syntax: Syntax
    names: dict[str, base_value | Undefined]
    caller: SourceLocation | None = None
    parent: Frame | None = None
    loops: int = 0
    bound_at: dict[str, ast.AST] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)
    locations: dict[ast.AST, SourceLocation] = field(default_factory=dict)
    discarded: ast.expr | None = None

    def location(self, node: ast.AST) -> SourceLocation:
        """The author's place for a node: that of the call where the function belongs to the language."""
        if self.caller is not None and self.function.is_library:
            return self.caller
        known = self.locations.get(node)
        if known is None:
            known = self.locations[node] = self._locate(node)
        return known

    def _locate(self, node: Any) -> SourceLocation:
        source = self.function.source
        line, end_line = node.lineno, node.end_lineno
        end = source.column(line, node.end_col_offset) if end_line == line else len(source.line(line))
        return SourceLocation(
            file=source.file,
            line=line,
            column=source.column(line, node.col_offset),
            end_column=end,
            function=self.function.__name__,
            first_line=source.first_line,
            caller=self.caller,
        )

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an expression: a value of the language, or a Python object known at compile time."""
        handler = self.syntax.expressions.get(type(node))
        builder = self.builder
        previous = builder.location
        builder.location = self.location(node)
        try:
            if handler is None:
                raise unsupported(node)
            return handler(self, node)
        except Exception as error:
            raise_located(error, self.location(node), self.function.src, node)
        finally:
            builder.location = previous

    def execute(self, statements: Statements, *, tail: bool = False) -> Outcome:
        """Run a block; `tail` says that the function ends with it. Statements after a `return` are dropped."""
        builder, syntax = self.builder, self.syntax
        for position, statement in enumerate(statements):
            builder.location = self.location(statement)
            kind = type(statement)
            try:
                if branch := syntax.branches.get(kind):
                    outcome = branch(self, statement, statements[position + 1 :], tail)
                    if outcome is not None:
                        return outcome
                elif handler := syntax.statements.get(kind):
                    handler(self, statement)
                else:
                    raise unsupported(statement)
            except Exception as error:
                raise_located(error, self.location(statement), self.function.src, statement)
        return Outcome(returned=False)

    def invoke(self, callee: Any, *arguments: Any) -> Any:
        """The value of a call from within the compiler, such as that of an operator's method."""
        return self.syntax.invoke(self, callee, list(arguments), {})

    def lookup(self, name: str) -> Any:
        """What a name means; `NameError` where it means nothing here."""
        value = self.names.get(name)
        if value is None:
            if name in self.function.stored_names:
                raise NameError(f"`{name}` is not defined: it is bound in this function, but not on the way here")
            return resolve(self.function, name)
        if isinstance(value, Undefined):
            raise NameError(f"`{name}` is not defined: {value.reason}")
        return value

    def bind(self, name: str, value: base_value, node: ast.AST) -> None:
        """Give a name a value; IR values without a name take it."""
        self.names[name] = value
        self.bound_at[name] = node
        self.declared.discard(name)
        name_handles(value, name)

    def is_active(self, function: JITCallable) -> bool:
        """Whether a function is being compiled here or further out: calling it again would recurse."""
        frame: Frame | None = self
        while frame is not None:
            if frame.function.fn is function.fn:
                return True
            frame = frame.parent
        return False


def name_handles(value: base_value, name: str) -> None:
    """Name the IR values of a value that have no name yet: elements of a tuple as `name.0` and so on."""
    if isinstance(value, tensor | shared_memory_descriptor):
        value.handle.name = value.handle.name or name
    elif isinstance(value, aggregate_value):
        for field_name in value.aggregate_fields():
            name_handles(vars(value)[field_name], f"{name}.{field_name}")
    elif isinstance(value, language_tuple):
        for position, element in enumerate(value.values):
            name_handles(element, f"{name}.{position}")
