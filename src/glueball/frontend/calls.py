"""Calls: functions of the language are inlined, operations emit, Python functions on constants run."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from glueball.errors import CompilationError, UnsupportedLanguageConstruct
from glueball.frontend.debugging import stop_here
from glueball.frontend.diagnostics import raise_from_call, unsupported
from glueball.frontend.frame import Frame
from glueball.frontend.outside import is_of_glueball
from glueball.frontend.python_functions import PYTHON_FUNCTIONS
from glueball.frontend.statements import elements_of
from glueball.language.aggregate import aggregate_replace, aggregate_value
from glueball.language.builder import is_builtin
from glueball.language.constexpr import constexpr
from glueball.language.debug import static_range
from glueball.language.function import ConstexprFunction, JITCallable
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.language.tuple import unwrap, wrap
from glueball.language.values import base_value
from glueball.tile.types import distributed_type

Keywords = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BoundFunction:
    """A function of the language as the method of a value."""

    function: JITCallable
    owner: base_value


def compile_time_value(value: Any) -> Any:
    """A Python object met at compile time: numbers, strings and `None` as constexpr, tuples as such; others as are."""
    return wrap(value) if value is None or isinstance(value, bool | int | float | str | tuple | list) else value


def call(frame: Frame, node: ast.Call) -> Any:
    """The value of a call."""
    callee = unwrap(frame.evaluate(node.func))
    if frame.discarded is node:
        _check_discarded(callee)
    arguments: list[Any] = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            arguments.extend(elements_of(frame.evaluate(argument.value)))
        else:
            arguments.append(frame.evaluate(argument))
    keywords: Keywords = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise unsupported(keyword, "a call cannot take `**`")
        keywords[keyword.arg] = frame.evaluate(keyword.value)
    return invoke(frame, callee, arguments, keywords)


def _check_discarded(callee: Any) -> None:
    """Refuses a statement that throws away a result that must be used."""
    function = callee.function if isinstance(callee, BoundFunction) else callee
    hint = getattr(function, "must_use", None)
    if isinstance(hint, str):
        raise CompilationError(f"The result of {function.__name__} is not being used. {hint}".rstrip())


def invoke(frame: Frame, callee: Any, arguments: list[Any], keywords: Keywords) -> Any:
    """What calling something in a kernel gives."""
    if isinstance(callee, BoundFunction):
        return inline(frame, callee.function, [callee.owner, *arguments], keywords)
    if isinstance(callee, JITCallable):
        return inline(frame, callee, arguments, keywords)
    if callee is aggregate_replace or (isinstance(callee, type) and issubclass(callee, aggregate_value)):
        return callee(*arguments, **keywords)
    function = callee.__func__ if isinstance(callee, types.MethodType) else callee
    if is_builtin(function):
        return _emit(frame, callee, arguments, keywords)
    if isinstance(function, ConstexprFunction):
        return wrap(callee(*arguments, **keywords))
    if callee is breakpoint:
        return stop_here(frame, arguments, keywords)
    if isinstance(callee, type | types.BuiltinFunctionType) and (on_values := PYTHON_FUNCTIONS.get(callee)):
        return on_values(frame.builder, *arguments, **keywords)
    return _call_python(callee, arguments, keywords)


def _emit(frame: Frame, operation: Callable[..., Any], arguments: list[Any], keywords: Keywords) -> Any:
    """Run an operation of the language, which may inline functions that it is given."""
    builder = frame.builder
    outer = builder.inline
    builder.inline = lambda function, values: inline(frame, function, values, {})
    try:
        return compile_time_value(operation(*arguments, **keywords, _builder=builder))
    finally:
        builder.inline = outer


def _call_python(callee: Any, arguments: list[Any], keywords: Keywords) -> Any:
    """Run a Python function, class or method that is safe to run at compile time; `RuntimeError` for others."""
    if callee is constexpr or callee is language_tuple:
        return _make_value(callee, arguments, keywords)
    if callee is static_range:
        raise TypeError("static_range can only be iterated over by a `for` statement")
    if isinstance(callee, type) and issubclass(callee, tuple) and hasattr(callee, "_fields"):
        return wrap(callee(*arguments, **keywords))
    owner = getattr(callee, "__self__", None)
    of_a_value = owner is not None and not isinstance(owner, types.ModuleType)
    if not of_a_value and not is_of_glueball(callee) and getattr(callee, "__module__", None) != "math":
        name = getattr(callee, "__qualname__", None) or repr(callee)
        raise RuntimeError(
            f"Unsupported function referenced: `{name}`; functions called in a kernel are decorated with @glueball.jit "
            "or @glueball.constexpr_function"
        )
    plain = {name: unwrap(value) for name, value in keywords.items()}
    return compile_time_value(callee(*map(unwrap, arguments), **plain))


def _make_value(kind: Callable[..., base_value], arguments: list[Any], keywords: Keywords) -> base_value:
    if kind is constexpr and any(isinstance(argument, tensor) for argument in arguments):
        raise TypeError(f"a run-time value cannot be a constexpr: {arguments[0]!r}")
    return kind(*arguments, **keywords)


def inline(frame: Frame, function: JITCallable, arguments: list[Any], keywords: Keywords) -> base_value:
    """The value that a function of the language returns, its operations appended here.

    Errors: `TypeError` for arguments that do not fit, `UnsupportedLanguageConstruct` for recursion.
    """
    if frame.is_active(function):
        raise UnsupportedLanguageConstruct(f"recursion is not supported: `{function.__name__}` calls itself")
    try:
        bound = function.signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise TypeError(f"{function.__name__}(): {error}") from error
    bound.apply_defaults()
    if function.noinline:
        _check_scalars(function, bound.arguments)
    builder, here = frame.builder, frame.builder.location
    names: Mapping[str, base_value] = {name: wrap(value) for name, value in bound.arguments.items()}
    inner = Frame(function, builder, frame.syntax, dict(names), caller=here, parent=frame)
    try:
        outcome = inner.execute(function.source.tree.body, tail=True)
    except CompilationError as error:
        if function.is_library:
            raise
        raise_from_call(error, here, frame.function.src)
    builder.location = here
    return constexpr(None) if outcome.value is None else outcome.value


def _check_scalars(function: JITCallable, arguments: Mapping[str, Any]) -> None:
    """A function marked noinline, which is inlined all the same, takes what a real call could be given: no tiles."""
    for name, value in arguments.items():
        if any(isinstance(handle.type, distributed_type) for handle in wrap(value).flatten()):
            raise UnsupportedLanguageConstruct(
                f"function {function.__name__} is marked noinline, but was called with the tile `{name}`: such a "
                f"function takes scalars, views of shared memory and compile-time values"
            )
