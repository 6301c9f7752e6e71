"""What matrix products are asked for of the precision of float32."""

from __future__ import annotations

from typing import Any

from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.tile.types import float32

PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


def check_precision(value: Any, element: Any, operation: str, name: str) -> None:
    """Checks a precision, or None: it is about products of float32, of which the units have tf32 only.

    Errors: `ValueError` for what is no precision, and for float32 with another one.
    """
    wanted = _unwrap_if_constexpr(value)
    if wanted is None:
        return
    if not isinstance(wanted, str) or wanted.lower() not in PRECISIONS:
        raise ValueError(f"the {name} of {operation} must be one of {', '.join(PRECISIONS)}, not {wanted!r}")
    if element == float32 and wanted.lower() != "tf32":
        raise ValueError(f"{operation} of float32 has the {name} 'tf32' only, not {wanted!r}")
