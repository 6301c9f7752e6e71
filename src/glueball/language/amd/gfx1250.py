"""Another name of `cdna5`."""

from typing import Any

from glueball.language.amd import cdna5

__all__ = cdna5.__all__


def __getattr__(name: str) -> Any:
    return getattr(cdna5, name)
