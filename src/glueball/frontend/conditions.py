"""Truth of values: at compile time where it is known, else as a run-time int1."""

from __future__ import annotations

from typing import Any

from glueball.errors import UnsupportedLanguageConstruct
from glueball.frontend.diagnostics import warn
from glueball.language.builder import KernelBuilder
from glueball.language.constexpr import constexpr
from glueball.language.conversion import convert, not_zero
from glueball.language.rearranging import item
from glueball.language.tensor import tensor
from glueball.language.tuple import wrap
from glueball.tile.types import distributed_type, int1, pointer_type


def decide(value: Any, builder: KernelBuilder) -> bool | tensor:
    """The condition of an `if`, a ternary or a `while`: a bool, or a scalar int1.

    Errors: `UnsupportedLanguageConstruct` for a compile-time value other than bool, int and None; `ValueError` for a
    tile.
    """
    value = wrap(value)
    if isinstance(value, tensor):
        if isinstance(value.type, distributed_type):
            if value.numel == 1:
                warn("a tile of one element is a condition here; x.item() makes it a scalar", builder.location)
                return decide(item(value, _builder=builder), builder)
            raise ValueError(
                "Boolean value of Tensor with more than one value is ambiguous: a condition is one value for the whole "
                "program; use gl.where or a mask to choose per element"
            )
        if isinstance(value.dtype, pointer_type):
            return convert(value, int1, builder)
        return not_zero(value, builder)
    if isinstance(value, constexpr) and (value.value is None or isinstance(value.value, bool | int)):
        return bool(value.value)
    found = type(value.value if isinstance(value, constexpr) else value).__name__
    raise UnsupportedLanguageConstruct(
        f"`if` conditionals can only accept values of type {{int, bool, NoneType}}, not objects of type {found}"
    )


def logical_operand(value: tensor) -> tensor:
    """An operand of `and`, `or` and `not`; `ValueError` unless it is int1."""
    if not value.dtype.is_bool():
        raise ValueError(
            f"Cannot bitcast data-type of size {value.dtype.primitive_bitwidth} to data-type of size 1: `and`, `or` "
            f"and `not` are for int1, not {value.dtype}; compare it with 0"
        )
    return value
