"""The language, by the path that some programs import it from."""

from __future__ import annotations

from typing import Any

from glueball.language import core


def __getattr__(name: str) -> Any:
    return getattr(core, name)
