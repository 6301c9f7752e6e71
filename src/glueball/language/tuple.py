"""Tuples of values in a kernel."""

from __future__ import annotations

import builtins
import collections
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.values import base_value, tuple_type
from glueball.tile.ir import Value


def wrap(value: Any) -> base_value:
    """A Python object as a value of the language: tuples and lists element by element, anything else a `constexpr`."""
    if isinstance(value, base_value):
        return value
    if isinstance(value, builtins.tuple | list):
        return tuple(value, fields=getattr(value, "_fields", None))
    return constexpr(value)


def unwrap(value: Any) -> Any:
    """The Python object inside a `constexpr`; a tuple with its elements unwrapped; anything else as it is.

    What was made from a named tuple is one with the same fields.
    """
    if isinstance(value, constexpr):
        return value.value
    if isinstance(value, tuple):
        elements = builtins.tuple(map(unwrap, value.values))
        return elements if value.fields is None else _named(builtins.tuple(value.fields))(*elements)
    return value


@functools.cache
def _named(fields: builtins.tuple[str, ...]) -> Callable[..., Any]:
    return collections.namedtuple("named_tuple", fields)


class tuple(base_value):  # noqa: A001, N801 - the name that kernel authors write
    """An immutable sequence of values of any types: `tuple(values)`.

    Compile-time indices and slices, `len`, iteration, `+`, `* constexpr` and `==` work at compile time. One made from a
    named tuple has its fields as attributes.
    """

    __slots__ = ("fields", "values")

    def __init__(self, values: Iterable[Any], fields: Iterable[str] | None = None) -> None:
        self.values = [wrap(value) for value in values]
        self.fields = list(fields) if fields is not None else None

    @property
    def type(self) -> tuple_type:
        """The types of the elements."""
        return tuple_type([value.type for value in self.values], self.fields)

    def flatten(self) -> Iterator[Value]:
        """The IR values of all elements."""
        for value in self.values:
            yield from value.flatten()

    def rebuild(self, handles: Iterator[Value]) -> Self:
        """The same tuple around other IR values."""
        return type(self)([value.rebuild(handles) for value in self.values], self.fields)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[base_value]:
        return iter(self.values)

    def __getitem__(self, index: Any) -> base_value:
        index = _unwrap_if_constexpr(index)
        if isinstance(index, slice):
            return tuple(self.values[slice(*map(_unwrap_if_constexpr, (index.start, index.stop, index.step)))])
        assert isinstance(index, int), f"a tuple is indexed by a compile-time integer or slice, not by {index!r}"
        return self.values[index]

    def field(self, name: str) -> base_value:
        """The element that a named tuple calls `name`; `AttributeError` where there is none."""
        if self.fields is None or name not in self.fields:
            known = f" with the fields {', '.join(self.fields)}" if self.fields else ""
            raise AttributeError(f"a tuple{known} has no attribute {name!r}")
        return self.values[self.fields.index(name)]

    def __add__(self, other: Any) -> tuple:
        return tuple([*self.values, *_elements(other)])

    def __radd__(self, other: Any) -> tuple:
        return tuple([*_elements(other), *self.values])

    def __mul__(self, count: Any) -> tuple:
        count = _unwrap_if_constexpr(count)
        if not isinstance(count, int):
            raise TypeError(f"a tuple is repeated a compile-time number of times, not {count!r}")
        return tuple(self.values * count)

    def __eq__(self, other: object) -> constexpr:  # type: ignore[override]  # the truth of the constexpr is the answer
        return constexpr(unwrap(self) == unwrap(wrap(other)))

    def __ne__(self, other: object) -> constexpr:  # type: ignore[override]  # the truth of the constexpr is the answer
        return constexpr(unwrap(self) != unwrap(wrap(other)))

    def __hash__(self) -> int:
        return hash(unwrap(self))

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.values))})"


def _elements(value: Any) -> list[base_value]:
    wrapped = wrap(unwrap(value) if isinstance(value, constexpr) else value)
    if not isinstance(wrapped, tuple):
        raise TypeError(f"can only concatenate a tuple to a tuple, not {value!r}")
    return wrapped.values
