"""The errors of launches, by the path that programs import them from."""

from __future__ import annotations

from glueball.errors import AutotunerError, InterpreterError, OutOfResources, PTXASError, TritonError

__all__ = ["AutotunerError", "InterpreterError", "OutOfResources", "PTXASError", "TritonError"]
