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


def unsupported(node: ast.AST, advice: str = "") -> UnsupportedLanguageConstruct:
    """The error for a kind of syntax that the language does not have."""
    suffix = f"; {advice}" if advice else ""
    return UnsupportedLanguageConstruct(f"unsupported AST node type: {type(node).__name__}{suffix}")


def warn(message: str, location: SourceLocation) -> None:
    """Warn about the author's line."""
    warnings.warn_explicit(message, UserWarning, location.file, location.line)
