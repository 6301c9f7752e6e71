"""Layout fields in one spelling: lists, tuples and compile-time wrappers all become tuples of plain integers."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, TypeAlias

from glueball.errors import LayoutError

Vector: TypeAlias = tuple[int, ...]


class Entries(tuple[Any, ...]):
    """A tuple that equals the list of the same entries, joins with lists and prints as one: as authors write it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, (*other,) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return repr([*self])

    def __add__(self, other: Any) -> Entries:
        return Entries((*self, *other)) if isinstance(other, tuple | list) else NotImplemented

    def __radd__(self, other: Any) -> Entries:
        return Entries((*other, *self)) if isinstance(other, tuple | list) else NotImplemented


class LayoutFieldError(LayoutError, AssertionError):
    """A field of a layout whose length or value disagrees with the others."""


def unwrap(value: Any) -> Any:
    """The value inside compile-time wrappers, which carry it as `.value`."""
    while hasattr(value, "value"):
        value = value.value
    return value


def integer(value: Any, what: str) -> int:
    """`value` as a plain int; `what` names it in the error."""
    try:
        return operator.index(unwrap(value))
    except TypeError:
        raise LayoutError(f"{what} must be an integer, not {unwrap(value)!r}") from None


def integers(values: Any, what: str) -> Vector:
    """A sequence of integers as a tuple."""
    return Entries(integer(value, f"an entry of {what}") for value in _items(values, what))


def vectors(values: Any, what: str) -> tuple[Vector, ...]:
    """A sequence of integer sequences as a tuple of tuples."""
    return Entries(integers(value, what) for value in _items(values, what))


def require(condition: bool, message: str) -> None:
    """Raise LayoutFieldError, which is also an AssertionError, unless the condition holds."""
    if not condition:
        raise LayoutFieldError(message)


def _items(values: Any, what: str) -> list[Any]:
    values = unwrap(values)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise LayoutError(f"{what} must be a list, not {values!r}")
    return list(values)
