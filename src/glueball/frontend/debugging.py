"""`breakpoint()` in a kernel: the names in sight, kept for whoever runs the kernel tile by tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glueball.frontend.frame import Frame, Undefined
from glueball.language.aggregate import aggregate_value
from glueball.language.constexpr import constexpr
from glueball.language.tuple import tuple as language_tuple
from glueball.language.values import base_value
from glueball.tile.debugger import Constant, Group, Scope, Slot, Template
from glueball.tile.ir import Value


def stop_here(frame: Frame, arguments: list[Any], keywords: Mapping[str, Any]) -> constexpr:
    """Emits the operation that stops with every name of the function that has a value here."""
    if arguments or keywords:
        raise TypeError("`breakpoint` in a kernel takes no arguments")
    operands: list[Value] = []
    names = {
        name: _template(value, operands) for name, value in frame.names.items() if not isinstance(value, Undefined)
    }
    frame.builder.create("breakpoint", operands, attributes={"scope": Scope(names)})
    return constexpr(None)


def _template(value: base_value, operands: list[Value]) -> Template:
    """How to put a value together again from the operands, to which its IR values are added."""
    if isinstance(value, constexpr):
        return Constant(value.value)
    if isinstance(value, language_tuple):
        fields = None if value.fields is None else tuple(value.fields)
        return Group(tuple(_template(item, operands) for item in value.values), fields)
    if isinstance(value, aggregate_value):
        fields = tuple(value.aggregate_fields())
        return Group(tuple(_template(vars(value)[name], operands) for name in fields), fields)
    first = len(operands)
    operands.extend(value.flatten())
    slots = tuple(Slot(position) for position in range(first, len(operands)))
    return slots[0] if len(slots) == 1 else Group(slots)
