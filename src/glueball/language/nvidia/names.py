"""What is said of names of the vendor modules that are not there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn

from glueball.errors import did_you_mean


def missing(module: str, known: Iterable[str]) -> Callable[[str], NoReturn]:
    """A module's `__getattr__`: an `AttributeError` that names the module and what comes near."""
    names = tuple(known)

    def get(name: str) -> NoReturn:
        raise AttributeError(f"module {module!r} has no {name!r}{did_you_mean(name, names)}")

    return get
