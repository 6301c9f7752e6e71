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


def removed(module: str, name: str, successor: str) -> Callable[..., NoReturn]:
    """A function that only says which one took its place."""

    def function(*_: object, **__: object) -> NoReturn:
        raise RuntimeError(f"`{module}.{name}` was removed; call `{successor}` instead")

    function.__name__ = name
    function.__doc__ = f"Removed; `{successor}` took its place. Always raises `RuntimeError`."
    return function
