"""How operations of the language reach the kernel that is being built."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from glueball.language.tensor import tensor
from glueball.targets import Target
from glueball.tile.ir import Builder, Region
from glueball.tile.types import TileType, distributed_type, dtype

P = ParamSpec("P")
R = TypeVar("R")

HIDDEN: Any = None
"""Default of the keyword `_builder`, which the compiler fills in."""


class KernelBuilder(Builder):
    """Appends tile operations to the kernel being built; knows what it is built for.

    While an operation of the language runs, `inline` appends the body of a function of the language, given the
    function and its arguments, and gives what it returns. With `debug`, assertions are part of the kernel,
    with `checks_overflow` also those that integer sums, differences and products fit their type.
    """

    __slots__ = ("_allocations", "checks_overflow", "debug", "inline", "num_ctas", "num_warps", "partitioned", "target")

    def __init__(self, region: Region, *, num_warps: int, num_ctas: int, target: Target) -> None:
        super().__init__(region)
        self.debug = False
        self.checks_overflow = False
        self.inline: Callable[[Any, list[Any]], Any] | None = None
        self._allocations = itertools.count()
        self.num_warps = num_warps
        self.partitioned = False
        self.num_ctas = num_ctas
        self.target = target

    def emit(self, opcode: str, operands: list[tensor], result: TileType, **attributes: Any) -> tensor:
        """The result of a new operation on tensors."""
        operation = self.create(opcode, [operand.handle for operand in operands], [result], attributes)
        return tensor(operation.result)

    def next_allocation(self) -> int:
        """A number that no allocation of shared memory has yet."""
        return next(self._allocations)

    def constant(self, value: bool | int | float, element: dtype) -> tensor:
        """A scalar constant; the value is converted to the kind of the type, integers wrap."""
        if element.is_bool():
            value = bool(value)
        elif element.is_int():
            value = wrap_integer(int(value), element)
        else:
            value = float(value)
        return self.emit("constant", [], element, value=value)

    def splat(self, scalar: tensor, tile: TileType) -> tensor:
        """A scalar repeated to the shape and layout of a type; the scalar itself where that has no shape."""
        if not isinstance(tile, distributed_type):
            return scalar
        return self.emit("splat", [scalar], tile.with_element_ty(scalar.dtype))


def wrap_integer(value: int, element: dtype) -> int:
    """An integer reduced to the range of an integer type."""
    value &= (1 << element.primitive_bitwidth) - 1
    return value - (1 << element.primitive_bitwidth) if value > element.get_int_max_value() else value


def constant_of(value: tensor) -> bool | int | float | None:
    """The number that a scalar is known to be at compile time."""
    operation = value.handle.operation
    if operation is None or operation.opcode != "constant":
        return None
    number: bool | int | float = operation.attributes["value"]
    return number


def builtin(function: Callable[P, R]) -> Callable[P, R]:
    """Declare an operation of the language.

    The compiler passes the kernel under construction through the hidden keyword `_builder`, which the public
    signature leaves out. A call without it raises `ValueError`.
    """
    signature = inspect.signature(function)
    visible = [parameter for name, parameter in signature.parameters.items() if name != "_builder"]

    @functools.wraps(function)
    def operation(*arguments: P.args, **keywords: P.kwargs) -> R:
        if keywords.get("_builder") is None:
            raise ValueError(
                f"`{function.__name__}` is an operation of the kernel language and was called outside of a kernel. "
                "Did you forget to add @glueball.jit?"
            )
        return function(*arguments, **keywords)

    vars(operation).update(__signature__=signature.replace(parameters=visible), is_builtin=True)
    return operation


def is_builtin(function: object) -> bool:
    """Whether a callable is an operation of the language."""
    return getattr(function, "is_builtin", False) is True
