"""Statements that bind names or stand for themselves."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from glueball.errors import UnsupportedLanguageConstruct
from glueball.frontend.binary import apply_binary
from glueball.frontend.frame import Frame, Undefined
from glueball.language.broadcasting import to_operand
from glueball.language.builder import KernelBuilder
from glueball.language.constexpr import constexpr
from glueball.language.debug import device_assert
from glueball.language.source import SourceFunction
from glueball.language.tuple import tuple as language_tuple
from glueball.language.tuple import unwrap, wrap
from glueball.language.values import base_value
from glueball.layouts.base import Layout
from glueball.tile.types import dtype, pointer_type


def demote(value: Any, builder: KernelBuilder) -> base_value:
    """A value as a name without annotation holds it: numbers become run-time scalars, tuples element by element.

    `None`, types, functions, modules and what already is a compile-time value stay. Errors: `TypeError` for a string
    and for a Python object that is no value, such as a layout just made.
    """
    if not isinstance(value, base_value | dtype | pointer_type | SourceFunction) and not callable(value):
        if isinstance(value, Layout):
            raise TypeError(f"cannot convert {value} of type {type(value).__name__} to tensor; {_annotate('layout')}")
        value = wrap(value)
    if isinstance(value, language_tuple):
        return language_tuple([demote(element, builder) for element in value.values], value.fields)
    if not isinstance(value, constexpr):
        return wrap(value)
    if isinstance(value.value, bool | int | float):
        return to_operand(value, builder)
    if isinstance(value.value, str):
        raise TypeError(f"cannot convert {value.value!r} of type str to tensor; {_annotate('string')}")
    return value


def _annotate(what: str) -> str:
    return f"annotate the name to keep the {what} as a compile-time value: `name: gl.constexpr = ...`"


def elements_of(value: Any) -> list[Any]:
    """The elements of a tuple; `TypeError` for what is none."""
    wrapped = wrap(unwrap(value)) if isinstance(value, constexpr) else value
    if not isinstance(wrapped, language_tuple):
        raise TypeError(f"a tuple is needed here, not {value!r}")
    return list(wrapped.values)


def assign(frame: Frame, target: ast.expr, value: Any) -> None:
    """Bind a value to a target: a name, or names in a tuple."""
    if isinstance(target, ast.Name):
        frame.bind(target.id, wrap(value), target)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(frame, target.elts, elements_of(value))
    elif isinstance(target, ast.Attribute):
        raise NotImplementedError("Attribute assignment is not supported: values of the language are immutable")
    elif isinstance(target, ast.Subscript):
        raise NotImplementedError(
            "__setitem__ is not supported: values of the language are immutable; gl.store writes to memory"
        )
    else:
        raise NotImplementedError(f"{type(target).__name__} is not supported as the target of an assignment")


def _unpack(frame: Frame, targets: list[ast.expr], values: list[Any]) -> None:
    if any(isinstance(target, ast.Starred) for target in targets):
        raise NotImplementedError("a starred target is not supported")
    if len(values) > len(targets):
        raise ValueError(f"too many values to unpack (expected {len(targets)})")
    if len(values) < len(targets):
        raise ValueError(f"not enough values to unpack (expected {len(targets)}, got {len(values)})")
    for target, value in zip(targets, values, strict=True):
        assign(frame, target, value)


def _assign(frame: Frame, node: ast.Assign) -> None:
    assert len(node.targets) == 1, "assignment to several targets at once is not supported; assign one after the other"
    (target,) = node.targets
    value = frame.evaluate(node.value)
    if not (isinstance(target, ast.Name) and target.id in frame.declared):
        value = demote(value, frame.builder)
    assign(frame, target, value)


def _annotated(frame: Frame, node: ast.AnnAssign) -> None:
    """`x: gl.constexpr = e` keeps the value as it is; without a value the next assignment does. Others are ignored."""
    if not _names_constexpr(node.annotation):
        if node.value is not None:
            assign(frame, node.target, demote(frame.evaluate(node.value), frame.builder))
        return
    if not isinstance(node.target, ast.Name):
        raise UnsupportedLanguageConstruct("only a plain name can be annotated with constexpr")
    name = node.target.id
    known = frame.names.get(name)
    if known is not None and not isinstance(known, Undefined) and frame.bound_at.get(name) is not node.target:
        raise ValueError(f"{name} is already defined. constexpr cannot be reassigned.")
    if node.value is None:
        frame.declared.add(name)
    else:
        assign(frame, node.target, frame.evaluate(node.value))


def _names_constexpr(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value.rpartition(".")[2] == "constexpr"
    return (isinstance(annotation, ast.Name) and annotation.id == "constexpr") or (
        isinstance(annotation, ast.Attribute) and annotation.attr == "constexpr"
    )


def _augmented(frame: Frame, node: ast.AugAssign) -> None:
    if not isinstance(node.target, ast.Name):
        assign(frame, node.target, None)
        return
    current = frame.lookup(node.target.id)
    value = apply_binary(frame, type(node.op), current, frame.evaluate(node.value))
    assign(frame, node.target, demote(value, frame.builder))


def _expression(frame: Frame, node: ast.Expr) -> None:
    if not isinstance(node.value, ast.Constant):
        frame.discarded = node.value
        frame.evaluate(node.value)
        frame.discarded = None


def _pass(_: Frame, __: ast.Pass) -> None:
    """Nothing to do."""


def _assert(frame: Frame, node: ast.Assert) -> None:
    """`assert condition, message`, which is part of the kernel with `debug` only."""
    message = "" if node.msg is None else frame.evaluate(node.msg)
    device_assert(frame.evaluate(node.test), message, _builder=frame.builder)


def _function(_: Frame, __: ast.FunctionDef) -> None:
    raise UnsupportedLanguageConstruct("nested function definitions are not allowed")


def _with(frame: Frame, node: ast.With) -> None:
    """What stands for a context manager has its say first: it may be one of the language that is not there yet."""
    for item in node.items:
        frame.evaluate(item.context_expr)
    raise UnsupportedLanguageConstruct("`with` takes context managers of the language, and none of those is there yet")


STATEMENTS: Mapping[type[ast.AST], Callable[[Frame, Any], None]] = {
    ast.AnnAssign: _annotated,
    ast.Assert: _assert,
    ast.Assign: _assign,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.FunctionDef: _function,
    ast.Pass: _pass,
    ast.With: _with,
}
