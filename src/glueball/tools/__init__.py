"""Tools that programs use outside of kernels."""

from __future__ import annotations

from glueball.tools.linear_layout import LinearLayout

__all__ = ["LinearLayout"]
