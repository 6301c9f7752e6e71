"""The errors of compilation, by the path that programs import them from."""

from __future__ import annotations

from glueball.errors import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct

__all__ = ["CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"]
