"""Sums, extremes and running sums: reductions and scans with a given function, written in the language itself."""

from __future__ import annotations

from typing import Any

from glueball.language.arithmetic import maximum, minimum, where
from glueball.language.debug import static_assert
from glueball.language.function import JITCallable, constexpr_function
from glueball.language.rearranging import ravel
from glueball.language.reductions import associative_scan, coordinates, reduce
from glueball.tile.types import dtype, float32, int32, uint32


@constexpr_function
def _sum_type(element: dtype, wanted: dtype | None) -> dtype:
    """The type that sums are taken in: integers narrower than 32 bits widen, unless another type is asked for."""
    if wanted is not None:
        return wanted
    if not element.is_int() or element.primitive_bitwidth >= 32:
        return element
    return int32 if element.signed else uint32


@constexpr_function
def _extreme_type(element: dtype) -> dtype:
    """The type of a greatest or least element: at least 32 bits wide."""
    if element.primitive_bitwidth >= 32:
        return element
    return float32 if element.is_floating() else int32


@constexpr_function
def _is_float(element: dtype) -> bool:
    return element.is_floating()


@constexpr_function
def _is_integer(element: dtype) -> bool:
    return element.is_int()


@JITCallable
def _add(x: Any, y: Any) -> Any:
    return x + y


@JITCallable
def _multiply(x: Any, y: Any) -> Any:
    return x * y


@JITCallable
def _exclusive_or(x: Any, y: Any) -> Any:
    return x ^ y


@JITCallable
def _or(x: Any, y: Any) -> Any:
    return x | y


@JITCallable
def _greater(x: Any, y: Any) -> Any:
    return maximum(x, y)


@JITCallable
def _lesser(x: Any, y: Any) -> Any:
    return minimum(x, y)


@JITCallable
def _pick(first: Any, x: Any, i: Any, y: Any, j: Any) -> Any:
    if _is_float(x.dtype):
        first = first | (y != y)  # noqa: PLR0124 - true where y is no number
    return where(first, x, y), where(first, i, j)


@JITCallable
def _greater_leftmost(x: Any, i: Any, y: Any, j: Any) -> Any:
    return _pick((x > y) | ((x == y) & (i < j)), x, i, y, j)


@JITCallable
def _lesser_leftmost(x: Any, i: Any, y: Any, j: Any) -> Any:
    return _pick((x < y) | ((x == y) & (i < j)), x, i, y, j)


@JITCallable
def _greater_any(x: Any, i: Any, y: Any, j: Any) -> Any:
    return _pick(x > y, x, i, y, j)


@JITCallable
def _lesser_any(x: Any, i: Any, y: Any, j: Any) -> Any:
    return _pick(x < y, x, i, y, j)


@JITCallable
def _with_indices(x: Any, axis: Any, combine: Any, keep_dims: Any) -> Any:
    if axis is None:
        row = ravel(x)
        return reduce((row, coordinates(row, 0)), 0, combine, keep_dims)
    else:
        return reduce((x, coordinates(x, axis)), axis, combine, keep_dims)


@JITCallable
def _extreme(
    input: Any,  # noqa: A002
    axis: Any,
    keep_dims: Any,
    return_indices: Any,
    tie_break_left: Any,
    alone: Any,
    leftmost: Any,
    whichever: Any,
) -> Any:
    wide = input.to(_extreme_type(input.dtype))
    if return_indices:
        if tie_break_left:
            return _with_indices(wide, axis, leftmost, keep_dims)
        else:
            return _with_indices(wide, axis, whichever, keep_dims)
    else:
        return reduce(wide, axis, alone, keep_dims)


@JITCallable
def sum(input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None) -> Any:  # noqa: A002
    """The sum along `axis`, or of all elements with None.

    Integers narrower than 32 bits are added as int32, unsigned ones and booleans as uint32, floats as they are, unless
    `dtype` names another type.
    """
    return reduce(input.to(_sum_type(input.dtype, dtype)), axis, _add, keep_dims)


@JITCallable
def max(
    input: Any,  # noqa: A002
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """The greatest element along `axis`, or of all with None; NaN only where there is nothing else.

    Floats narrower than 32 bits become float32, integers int32. With `return_indices` a tuple of it and of its
    coordinate along the axis, the lowest one of equals unless `return_indices_tie_break_left=False` allows any.
    """
    return _extreme(
        input, axis, keep_dims, return_indices, return_indices_tie_break_left, _greater, _greater_leftmost, _greater_any
    )


@JITCallable
def min(
    input: Any,  # noqa: A002
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """The least element along `axis`, or of all with None; everything else as `max`."""
    return _extreme(
        input, axis, keep_dims, return_indices, return_indices_tie_break_left, _lesser, _lesser_leftmost, _lesser_any
    )


@JITCallable
def argmax(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> Any:  # noqa: A002 - the name that programs pass
    """The coordinate along `axis` of the greatest element, the lowest one of equals; a method of tensors only."""
    found = max(input, axis, True, tie_break_left, keep_dims)
    return found[1]


@JITCallable
def argmin(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> Any:  # noqa: A002 - the name that programs pass
    """The coordinate along `axis` of the least element, the lowest one of equals; a method of tensors only."""
    found = min(input, axis, True, tie_break_left, keep_dims)
    return found[1]


@JITCallable
def xor_sum(input: Any, axis: Any = None, keep_dims: Any = False) -> Any:  # noqa: A002
    """The exclusive or of the integers along `axis`, or of all with None; the element type stays."""
    static_assert(_is_integer(input.dtype), "xor_sum only supported for integers")
    return reduce(input, axis, _exclusive_or, keep_dims)


@JITCallable
def reduce_or(input: Any, axis: Any, keep_dims: Any = False) -> Any:  # noqa: A002
    """The bits set in any of the integers along `axis`; the element type stays."""
    static_assert(_is_integer(input.dtype), "reduce_or only supported for integers")
    return reduce(input, axis, _or, keep_dims)


@JITCallable
def cumsum(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> Any:  # noqa: A002
    """The sum of each element and all before it along `axis` (after it with `reverse`); types as for `sum`."""
    return associative_scan(input.to(_sum_type(input.dtype, dtype)), axis, _add, reverse)


@JITCallable
def cumprod(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> Any:  # noqa: A002
    """The product of each element and all before it along `axis` (after it with `reverse`); types as for `sum`."""
    return associative_scan(input.to(_sum_type(input.dtype, dtype)), axis, _multiply, reverse)
