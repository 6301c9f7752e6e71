"""The host's side of what only NVIDIA GPUs have, by the generation that brought it."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["blackwell", "hopper"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no {name!r}; there are {', '.join(__all__)}")
    return importlib.import_module(f"{__name__}.{name}")
