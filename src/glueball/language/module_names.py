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


def removed(module: str, name: str, successor: str) -> Callable[..., NoReturn]:
    """A function that only says which one took its place."""

    def function(*_: object, **__: object) -> NoReturn:
        raise RuntimeError(f"`{module}.{name}` was removed; call `{successor}` instead")

    function.__name__ = name
    function.__doc__ = f"Removed; `{successor}` took its place. Always raises `RuntimeError`."
    return function


class Later:
    """A name that can be imported and stand in annotations, but whose use says that it is not there."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Always raises."""
        raise self._error()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._error()

    def __or__(self, other: object) -> object:
        """In an annotation with alternatives only the others can be meant."""
        return other

    __ror__ = __or__

    def __subclasscheck__(self, _: object) -> bool:
        """Nothing is one yet: what `isinstance` asks of the alternatives of `typing.Union`."""
        return False

    __instancecheck__ = __subclasscheck__

    def _error(self) -> UnavailableNameError:
        return UnavailableNameError(f"`{self._path}` is not there yet in this version of glueball")


def later(module: str, names: Iterable[str], otherwise: Callable[[str], Any]) -> Callable[[str], Any]:
    """A module's `__getattr__` that gives such names, so that a program for several targets can import all it names."""
    made = {name: Later(f"{module}.{name}") for name in names}

    def get(name: str) -> Any:
        return made[name] if name in made else otherwise(name)

    return get
