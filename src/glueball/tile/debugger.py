"""What the reference executor shows a person: tiles as NumPy arrays, and Python's debugger at the author's line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from glueball.location import SourceLocation

if TYPE_CHECKING:
    from glueball.tile.operations.definition import Array, TileArray


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a value among the operands of a breakpoint."""

    position: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A compile-time value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Group:
    """Several values under one name: a tuple, or with `fields` a record."""

    items: tuple[Template, ...]
    fields: tuple[str, ...] | None = None


Template: TypeAlias = Slot | Constant | Group
"""How a name's value is put together from a breakpoint's operands."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The author's names at a breakpoint."""

    names: Mapping[str, Template]

    def fill(self, values: Sequence[Any]) -> dict[str, Any]:
        """The names with what they stand for."""
        return {name: _filled(template, values) for name, template in self.names.items()}

    def __repr__(self) -> str:
        return f"[{', '.join(self.names)}]"


def _filled(template: Template, values: Sequence[Any]) -> Any:
    match template:
        case Slot(position):
            return values[position]
        case Constant(value):
            return value
        case Group(items, fields):
            found = tuple(_filled(item, values) for item in items)
            return found if fields is None else SimpleNamespace(**dict(zip(fields, found, strict=True)))


def shown(tile: TileArray) -> Array:
    """The elements of a tile, masked where they are undefined; a scalar as an array without dimensions."""
    if tile.poison is None or not tile.poison.any():
        return tile.values
    return np.ma.masked_array(tile.values, np.broadcast_to(tile.poison, tile.values.shape))


def stop(
    location: SourceLocation, program: tuple[int, int, int], grid: tuple[int, int, int], names: Mapping[str, Any]
) -> None:
    """Calls Python's `breakpoint`, hence what `PYTHONBREAKPOINT` asks for, as if the author's line ran in Python.

    The debugger finds the author's file, line and names; `program` and `grid` are added where no name of the kernel's
    is called so. What it raises to leave, `bdb.BdbQuit`, ends the launch.
    """
    print(f"pid ({', '.join(map(str, program))}) stops at {location.file}:{location.line} in {location.function}")
    text = "\n" * (location.line - 1) + "breakpoint()"
    code = compile(text, location.file, "exec").replace(co_name=location.function, co_qualname=location.function)
    exec(code, {"program": program, "grid": grid, **{name: _plain(value) for name, value in names.items()}})


def _plain(value: Any) -> Any:
    """A scalar rather than an array without dimensions."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
