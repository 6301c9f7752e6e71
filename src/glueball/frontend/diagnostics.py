"""Errors at the author's line."""

from __future__ import annotations

import ast
import warnings
from typing import NoReturn

from glueball.errors import CompilationError, UnsupportedLanguageConstruct
from glueball.location import SourceLocation


def raise_located(error: Exception, location: SourceLocation) -> NoReturn:
    """Raise an error as one that names a place: itself where it does already, else a `CompilationError` it causes."""
    if not isinstance(error, CompilationError):
        raise CompilationError(str(error) or type(error).__name__, location) from error
    if error.location is None:
        error.location = location
        error.args = (error.error_message, location)
    raise error


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
