"""`jit` and what goes with it, by the path that some programs import it from."""

from __future__ import annotations

from glueball.language.function import constexpr_function
from glueball.runtime.ast_source import GluonASTSource
from glueball.runtime.jit import GluonJITFunction, jit

__all__ = ["GluonASTSource", "GluonJITFunction", "constexpr_function", "jit"]
