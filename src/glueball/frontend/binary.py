"""Operators: on compile-time values, on tensors, and on records, whose methods decide."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from glueball.errors import UnsupportedLanguageConstruct
from glueball.frontend.frame import Frame
from glueball.language import arithmetic
from glueball.language.aggregate import aggregate_value
from glueball.language.tensor import tensor
from glueball.language.tuple import unwrap, wrap

Fold = Callable[[Any, Any], Any]

BINARY: dict[type[ast.operator], tuple[str, Fold, Callable[..., tensor] | None]] = {
    ast.Add: ("+", operator.add, arithmetic.add),
    ast.Sub: ("-", operator.sub, arithmetic.sub),
    ast.Mult: ("*", operator.mul, arithmetic.mul),
    ast.Div: ("/", operator.truediv, arithmetic.truediv),
    ast.FloorDiv: ("//", operator.floordiv, arithmetic.floordiv),
    ast.Mod: ("%", operator.mod, arithmetic.mod),
    ast.Pow: ("**", operator.pow, None),
    ast.MatMult: ("@", operator.matmul, None),
    ast.LShift: ("<<", operator.lshift, arithmetic.lshift),
    ast.RShift: (">>", operator.rshift, arithmetic.rshift),
    ast.BitAnd: ("&", operator.and_, arithmetic.bitwise_and),
    ast.BitOr: ("|", operator.or_, arithmetic.bitwise_or),
    ast.BitXor: ("^", operator.xor, arithmetic.bitwise_xor),
}


COMPARISON_METHODS: dict[type[ast.cmpop], tuple[str, str, str]] = {
    ast.Eq: ("==", "__eq__", "__eq__"),
    ast.NotEq: ("!=", "__ne__", "__ne__"),
    ast.Lt: ("<", "__lt__", "__gt__"),
    ast.LtE: ("<=", "__le__", "__ge__"),
    ast.Gt: (">", "__gt__", "__lt__"),
    ast.GtE: (">=", "__ge__", "__le__"),
}
"""The symbol of a comparison, the method of the left operand, and that of the right one."""

LOGICAL_METHODS: dict[type[ast.boolop], tuple[str, str, str]] = {
    ast.And: ("and", "logical_and", "logical_and"),
    ast.Or: ("or", "logical_or", "logical_or"),
}

UNARY_METHODS: dict[type[ast.unaryop], tuple[str, str]] = {
    ast.USub: ("-", "__neg__"),
    ast.UAdd: ("+", "__pos__"),
    ast.Invert: ("~", "__invert__"),
    ast.Not: ("not", "__not__"),
}


METHOD_NAMES: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "and",
    ast.BitOr: "or", ast.BitXor: "xor",
}  # fmt: skip


def apply_binary(frame: Frame, kind: type[ast.operator], left: Any, right: Any) -> Any:
    """A binary operator on two values: folded where both are known at compile time."""
    symbol, fold, on_tensors = BINARY[kind]
    left, right = wrap(left), wrap(right)
    if isinstance(left, aggregate_value) or isinstance(right, aggregate_value):
        name = METHOD_NAMES[kind]
        return apply_method(frame, (symbol, f"__{name}__", f"__r{name}__"), left, right)
    if not isinstance(left, tensor) and not isinstance(right, tensor):
        return wrap(fold(left, right))
    if on_tensors is None:
        raise UnsupportedLanguageConstruct(
            f"unsupported operand type(s) for {symbol}: {left!r} and {right!r}; it works on compile-time values only"
        )
    return on_tensors(left, right, _builder=frame.builder)


def apply_method(frame: Frame, names: tuple[str, str, str], left: Any, right: Any) -> Any:
    """An operator of which an operand at least is a record: the left one's method, else the right one's.

    A method that returns `NotImplemented` leaves it to the other. `UnsupportedLanguageConstruct` where none is left.
    """
    symbol, own, reflected = names
    for owner, name, other in ((left, own, right), (right, reflected, left)):
        member = _method(owner, name) if isinstance(owner, aggregate_value) else None
        if member is not None:
            result = frame.invoke(member, owner, other)
            if unwrap(result) is not NotImplemented:
                return result
    raise UnsupportedLanguageConstruct(f"unsupported operand type(s) for {symbol}: {left!r} and {right!r}")


def apply_unary_method(frame: Frame, kind: type[ast.unaryop], value: aggregate_value) -> Any:
    """A unary operator on a record, whose method says what it gives."""
    symbol, name = UNARY_METHODS[kind]
    member = _method(value, name)
    if member is None:
        raise UnsupportedLanguageConstruct(f"unsupported operand type for unary {symbol}: {value!r}")
    return frame.invoke(member, value)


def _method(owner: aggregate_value, name: str) -> Any:
    """A method that a record's class defines itself, as a function of the record."""
    for kind in type(owner).__mro__:
        if name in vars(kind) and issubclass(kind, aggregate_value) and kind is not aggregate_value:
            return vars(kind)[name]
    return None
