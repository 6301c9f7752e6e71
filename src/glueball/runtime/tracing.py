"""Keeping launches out of what `torch.compile` traces."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def untraced(function: Callable[P, R]) -> Callable[P, R]:
    """The function as `torch.compile` leaves it alone, where that is in use.

    A launch in a compiled function then splits its graph in two, once; tracing would go on into the compiler. An
    operator made by `glueball.interop.torch.custom_op` splits nothing.
    """
    if "torch._dynamo" not in sys.modules:
        return function
    found: Callable[P, R] = sys.modules["torch"].compiler.disable(function)
    return found
