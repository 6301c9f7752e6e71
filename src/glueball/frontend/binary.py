"""Binary operators."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from glueball.errors import UnsupportedLanguageConstruct
from glueball.language import arithmetic
from glueball.language.builder import KernelBuilder
from glueball.language.tensor import tensor
from glueball.language.tuple import wrap

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


def apply_binary(builder: KernelBuilder, kind: type[ast.operator], left: Any, right: Any) -> Any:
    """A binary operator on two values: folded where both are known at compile time."""
    symbol, fold, on_tensors = BINARY[kind]
    left, right = wrap(left), wrap(right)
    if not isinstance(left, tensor) and not isinstance(right, tensor):
        return wrap(fold(left, right))
    if on_tensors is None:
        raise UnsupportedLanguageConstruct(
            f"unsupported operand type(s) for {symbol}: {left!r} and {right!r}; it works on compile-time values only"
        )
    return on_tensors(left, right, _builder=builder)
