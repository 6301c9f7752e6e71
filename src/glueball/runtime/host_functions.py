"""Integer helpers for host code and for constants in kernels."""

from __future__ import annotations

from glueball.language.function import constexpr_function


@constexpr_function
def cdiv(x: int, y: int) -> int:
    """`x / y` rounded up, for integers of any sign. `ZeroDivisionError` for `y == 0`."""
    return -(x // -y)


@constexpr_function
def next_power_of_2(n: int) -> int:
    """The least power of two that is at least `n`; 1 for `n < 2`."""
    return 1 << max(0, n - 1).bit_length()
