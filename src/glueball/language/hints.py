"""Promises about values, by which accesses become wider.

A false one is an error on the simulator, undefined on a GPU.
"""

from __future__ import annotations

from typing import Any

from glueball.language.broadcasting import to_operand
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.conversion import not_zero
from glueball.language.tensor import tensor
from glueball.language.tuple import unwrap
from glueball.tile.types import distributed_type, pointer_type

PROMISES = ("contiguity", "constancy", "divisibility")


@builtin
def assume(cond: Any, *, _builder: KernelBuilder = HIDDEN) -> None:
    """Promises that a scalar condition holds. From `x % c == 0`, outside of control flow, the divisor of `x` is known.

    Errors: `ValueError` for a tile; `AssertionError` for a compile-time condition that is false.
    """
    known = _unwrap_if_constexpr(cond)
    if not isinstance(known, tensor):
        assert known, "assume: the condition is false at compile time"
        return
    if isinstance(known.type, distributed_type):
        raise ValueError(f"assume takes a scalar condition, not {known!r}")
    _builder.create("assume", [not_zero(known, _builder).handle])


@builtin
def multiple_of(input: Any, values: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:  # noqa: A002
    """`input`, of which a scalar is promised to be a multiple of `values`, of a tile the first of each contiguous run.

    A tile takes one number for each dimension. How long the runs are, `max_contiguous` says.
    Errors: `ValueError` for another count, `TypeError` for numbers that are not compile-time integers.
    """
    return _promise("divisibility", input, values, _builder)


@builtin
def max_contiguous(input: Any, values: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:  # noqa: A002
    """`input`, a tile promised to go up by ones for `values[d]` elements along d, from each multiple of that on.

    Errors: `ValueError` for another count, `TypeError` for numbers that are not compile-time integers.
    """
    return _promise("contiguity", input, values, _builder)


@builtin
def max_constancy(input: Any, values: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:  # noqa: A002
    """`input`, a tile promised to stay equal for `values[d]` elements along d, from each multiple of that on.

    Errors: `ValueError` for another count, `TypeError` for numbers that are not compile-time integers.
    """
    return _promise("constancy", input, values, _builder)


def _promise(name: str, x: Any, values: Any, builder: KernelBuilder) -> tensor:
    value = to_operand(x, builder)
    numbers = _numbers(values)
    rank = len(value.extents)
    wanted = max(1, rank) if name == "divisibility" else rank
    if len(numbers) != wanted:
        raise ValueError(f"Shape of input to {name} does not match the length of values: {wanted} and {len(numbers)}")
    if not isinstance(value.dtype, pointer_type) and not value.dtype.is_int():
        raise TypeError(f"promises are about integers and pointers, not {value.dtype}")
    attributes: dict[str, tuple[int, ...]] = {name: numbers}
    earlier = value.handle.operation
    if earlier is not None and earlier.opcode == "hint" and name not in earlier.attributes:
        attributes |= {each: earlier.attributes[each] for each in PROMISES if each in earlier.attributes}
        value = tensor(earlier.operands[0])
    return builder.emit("hint", [value], value.type, **attributes)


def _numbers(values: Any) -> tuple[int, ...]:
    plain = unwrap(values)
    plain = plain if isinstance(plain, tuple | list) else (plain,)
    numbers = [_unwrap_if_constexpr(number) for number in plain]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"values element {number!r} must have type `constexpr[int]`")
        if number < 1:
            raise ValueError(f"values must be positive, not {number}")
    return tuple(numbers)
