"""Errors at the author's line."""

from __future__ import annotations

import ast
import dataclasses
import warnings
from typing import NoReturn

from glueball import knobs
from glueball.errors import CompilationError, UnsupportedLanguageConstruct
from glueball.location import SourceLocation


def raise_located(error: Exception, location: SourceLocation, source: str, node: ast.AST) -> NoReturn:
    """Raise an error as one that names a place: itself where it does already, else a `CompilationError` it causes."""
    if not isinstance(error, CompilationError):
        if knobs.FRONT_END_DEBUGGING.read():
            raise error
        located = CompilationError(str(error) or type(error).__name__, location)
        located.src, located.node = source, node
        raise located from error
    if error.location is None:
        error.location = location
        error.args = (error.error_message, location)
    if error.node is None:
        error.src, error.node = source, node
    raise error


def raise_from_call(error: CompilationError, call: SourceLocation, source: str) -> NoReturn:
    """Raise the error of a called function as one of the caller's, which it causes; it keeps what lies within it.

    So there is one error for each call on the way, and the outermost one tells of all.
    """
    outer = type(error)(error.error_message, error.location)
    outer.src, outer.node = source, error.node
    error.location = within_call(error.location, call)
    error.args = (error.error_message, error.location)
    raise outer from error


def within_call(location: SourceLocation | None, call: SourceLocation) -> SourceLocation | None:
    """A location without the call that led to it and what lies further out."""
    if location is None or location.caller is None:
        return location
    inner = None if location.caller == call else within_call(location.caller, call)
    return dataclasses.replace(location, caller=inner)


ADVICE: dict[type[ast.AST], str] = {
    ast.Assert: "gl.static_assert checks a condition while the kernel is compiled",
    ast.Break: "a `while` loop ends where its condition says so",
    ast.ClassDef: "define classes outside of kernels",
    ast.Continue: "put the rest of the loop's body into an `if`",
    ast.Dict: "tuples are there",
    ast.FunctionDef: "write the function outside of the kernel and decorate it with @glueball.jit",
    ast.Lambda: "write a function outside of the kernel and decorate it with @glueball.jit",
    ast.Raise: "gl.static_assert checks a condition while the kernel is compiled",
    ast.Try: "a kernel has no exceptions",
    ast.Set: "tuples are there",
}
"""What to write instead of syntax that the language does not have."""


def unsupported(node: ast.AST, advice: str = "") -> UnsupportedLanguageConstruct:
    """The error for a kind of syntax that the language does not have."""
    advice = advice or ADVICE.get(type(node), "")
    suffix = f"; {advice}" if advice else ""
    return UnsupportedLanguageConstruct(f"unsupported AST node type: {type(node).__name__}{suffix}")


def warn(message: str, location: SourceLocation) -> None:
    """Warn about the author's line."""
    warnings.warn_explicit(message, UserWarning, location.file, location.line)
