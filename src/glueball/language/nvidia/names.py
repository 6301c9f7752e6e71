"""What is said of names of the vendor modules that are not there, or not there yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from glueball.errors import did_you_mean
from glueball.language.names import UnavailableNameError


def missing(module: str, known: Iterable[str]) -> Callable[[str], NoReturn]:
    """A module's `__getattr__`: an `AttributeError` that names the module and what comes near."""
    names = tuple(known)

    def get(name: str) -> NoReturn:
        raise AttributeError(f"module {module!r} has no {name!r}{did_you_mean(name, names)}")

    return get


class Later(type):
    """The class of names that can be imported and stand in annotations, but whose use says that they are not there."""

    def __call__(cls, *_: object, **__: object) -> NoReturn:
        """Always raises."""
        raise cls._error()

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise cls._error()

    def _error(cls) -> UnavailableNameError:
        return UnavailableNameError(f"`{cls.__module__}.{cls.__name__}` is not there yet in this version of glueball")


def later(module: str, names: Iterable[str], otherwise: Callable[[str], Any]) -> Callable[[str], Any]:
    """A module's `__getattr__` that gives such names, so that a program for several targets can import all it names."""
    made: dict[str, Later] = {name: Later(name, (), {"__module__": module}) for name in names}

    def get(name: str) -> Any:
        return made[name] if name in made else otherwise(name)

    return get
