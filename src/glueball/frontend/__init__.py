"""The front end: Python functions become tile IR."""

from __future__ import annotations

from glueball.frontend.build import build

__all__ = ["build"]
