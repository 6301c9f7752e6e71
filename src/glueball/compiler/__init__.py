"""Compiling kernels without launching them, by the path that programs import it from."""

from __future__ import annotations

from glueball.compiler import errors
from glueball.errors import CompilationError
from glueball.runtime.ast_source import GluonASTSource, compile  # noqa: A004 - the name that programs call
from glueball.runtime.driver import max_shared_mem
from glueball.runtime.kernel import CompiledKernel
from glueball.runtime.metadata import LazyDict

ASTSource = GluonASTSource

__all__ = [
    "ASTSource", "CompilationError", "CompiledKernel", "GluonASTSource", "LazyDict", "compile", "errors",
    "max_shared_mem",
]  # fmt: skip
