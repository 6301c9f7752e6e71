"""The program's place in the grid, creation of tiles, conversion of types and layouts, the barrier."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import glueball
from glueball.language import conversion
from glueball.language.broadcasting import to_operand
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.language.tuple import unwrap
from glueball.layouts import AutoLayout, DistributedLayout
from glueball.tile.types import ScalarType, distributed_type, dtype, int32, pointer_type

DIMENSIONS = (0, 1, 2)
_OF_THE_PACKAGE = {
    "_aggregate": "aggregate", "constexpr_function": "constexpr_function", "must_use_result": "must_use_result",
}  # fmt: skip


@builtin
def program_id(axis: int | constexpr, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """Which program of the grid this is along `axis` (0, 1 or 2), an int32 scalar. With clusters: which cluster.

    Errors: `ValueError` for another axis.
    """
    return _builder.emit("program_id", [], int32, axis=_grid_axis(axis))


@builtin
def num_programs(axis: int | constexpr, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """How many programs the grid has along `axis` (0, 1 or 2), an int32 scalar.

    Errors: `ValueError` for another axis.
    """
    return _builder.emit("num_programs", [], int32, axis=_grid_axis(axis))


def _grid_axis(axis: int | constexpr) -> int:
    number = _unwrap_if_constexpr(axis)
    if type(number) is not int or number not in DIMENSIONS:
        raise ValueError(f"the axis of the grid must be a compile-time 0, 1 or 2, not {number!r}")
    return number


@builtin
def num_warps(*, _builder: KernelBuilder = HIDDEN) -> constexpr:
    """How many warps the program runs on, a compile-time integer."""
    return constexpr(_builder.num_warps)


@builtin
def num_ctas(*, _builder: KernelBuilder = HIDDEN) -> constexpr:
    """How many CTAs the program runs on, a compile-time integer."""
    return constexpr(_builder.num_ctas)


@builtin
def barrier(*, cluster: bool | constexpr = False, _builder: KernelBuilder = HIDDEN) -> None:
    """All warps of the program wait for one another and see each other's writes to shared memory.

    `cluster=True` waits for all CTAs of the program; with one CTA it is the same.
    """
    if _unwrap_if_constexpr(cluster) and _builder.num_ctas > 1:
        _builder.create("cluster_barrier", attributes={"relaxed": False})
    else:
        _builder.create("barrier")


@builtin
def arange(
    start: int | constexpr,
    end: int | constexpr,
    layout: DistributedLayout | constexpr | None = None,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> tensor:
    """The integers from `start` up to but not including `end`: an int32 tile of one dimension in `layout`.

    Without a layout it is an AutoLayout, which follows from how the tile is used.
    Errors: `ValueError` where an end is no compile-time int32, or `end - start` is no positive power of two;
    `AssertionError` where the layout is not of rank 1.
    """
    first, last = _unwrap_if_constexpr(start), _unwrap_if_constexpr(end)
    for bound in (first, last):
        if isinstance(bound, bool) or not isinstance(bound, int):
            raise ValueError(
                f"arange's arguments must be of type tl.constexpr: integers known at compile time, not {bound!r}; "
                "annotate the name with gl.constexpr"
            )
        if not int32.get_int_min_value() <= bound <= int32.get_int_max_value():
            raise ValueError(f"arange's bound {bound} does not fit int32")
    count = last - first
    if count <= 0:
        raise ValueError(f"arange's end argument must be greater than the start argument, not {last} after {first}")
    if count & (count - 1):
        raise ValueError(
            f"arange's range must be a power of 2, not {count} (from {first} to {last}); "
            f"take {1 << count.bit_length()} and mask off the rest"
        )
    tile = distributed_type(int32, (count,), layout_or_auto(layout, "arange"))
    return _builder.emit("make_range", [], tile, start=first, end=last)


def require_layout(layout: Any, operation: str) -> DistributedLayout:
    """The layout that an operation was given; `ValueError` where it is missing or none."""
    layout = _unwrap_if_constexpr(layout)
    if layout is None:
        raise ValueError(f"{operation} needs a layout, such as layout=gl.BlockedLayout([1], [32], [4], [0])")
    if not isinstance(layout, DistributedLayout):
        raise ValueError(f"{operation} needs a layout of a tile in registers, not {layout!r}")
    return layout


def layout_or_auto(layout: Any, operation: str) -> DistributedLayout:
    """The layout that an operation was given, an AutoLayout where it is missing; `ValueError` for what is none."""
    return AutoLayout() if _unwrap_if_constexpr(layout) is None else require_layout(layout, operation)


@builtin
def full(
    shape: Iterable[int] | language_tuple | constexpr,
    value: Any,
    dtype: ScalarType | constexpr,
    layout: DistributedLayout | constexpr | None = None,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> tensor:
    """A tile of `shape` whose every element is `value`, a number, scalar or tile of one, converted to `dtype`.

    An empty shape gives a scalar and needs no layout; elsewhere the layout is an AutoLayout where none is given.
    Errors: `TypeError` for a number that is no integer, or is negative, where the type is an (unsigned) integer;
    `ValueError` for a `value` of several elements, and extents that are no powers of two.
    """
    extents, element = shape_of(shape), element_type(dtype)
    value = _unwrap_if_constexpr(value)
    if isinstance(value, tensor):
        if isinstance(value.type, distributed_type):
            if value.type.numel != 1:
                raise ValueError(f"full only accepts size-1 tensor as a value, not {value!r}")
            value = _builder.emit("to_scalar", [value], value.dtype)
        scalar = conversion.convert(value, element, _builder)
    else:
        scalar = _number_of_type(value, element, _builder)
    if not extents:
        return scalar
    return _builder.splat(scalar, distributed_type(element, extents, layout_or_auto(layout, "full")))


@builtin
def full_like(
    input: tensor,  # noqa: A002 - the name that kernel authors write
    value: Any,
    shape: Any = None,
    dtype: ScalarType | constexpr | None = None,
    layout: DistributedLayout | constexpr | None = None,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> tensor:
    """`full` with the shape, element type and layout of `input` where they are not given.

    Errors: those of `full`; `AssertionError` for a shape of another rank than the layout's.
    """
    like = input.type
    extents = input.type.shape if _unwrap_if_constexpr(shape) is None else shape
    element = input.dtype if dtype is None or _unwrap_if_constexpr(dtype) is None else dtype
    if _unwrap_if_constexpr(layout) is None and isinstance(like, distributed_type):
        layout = like.layout
    return full(extents, value, element, layout, _builder=_builder)


@builtin
def zeros_like(
    input: tensor,  # noqa: A002 - the name that kernel authors write
    shape: Any = None,
    dtype: ScalarType | constexpr | None = None,
    layout: DistributedLayout | constexpr | None = None,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> tensor:
    """`full_like` with zero."""
    return full_like(input, 0, shape, dtype, layout, _builder=_builder)


def _number_of_type(value: Any, element: ScalarType, builder: KernelBuilder) -> tensor:
    if not isinstance(value, bool | int | float):
        raise TypeError(f"full needs a number or scalar as a value, not {value!r}")
    if isinstance(element, pointer_type):
        raise TypeError(f"full cannot make {element} from a number")
    if element.is_int() and not element.is_bool():
        if isinstance(value, float) and value != 0.0:
            raise TypeError(f"full cannot make {element} from {value}, which is no integer")
        if value < 0 and not element.signed:
            raise TypeError(f"full cannot make {element} from {value}, which is negative")
    return builder.constant(value, element)


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape argument as plain integers; `TypeError` where an extent is no compile-time integer."""
    extents = unwrap(shape)
    if isinstance(extents, int) and not isinstance(extents, bool):
        extents = (extents,)
    plain = []
    for extent in extents:
        number = _unwrap_if_constexpr(extent)
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"shape element {number!r} must have type `constexpr[int]`")
        plain.append(number)
    return (*plain,)


def element_type(element: Any) -> ScalarType:
    """An element type argument; `TypeError` where it is none."""
    element = _unwrap_if_constexpr(element)
    if not isinstance(element, dtype | pointer_type):
        raise TypeError(f"an element type such as gl.float32 is needed, not {element!r}")
    return element


@builtin
def to_tensor(x: Any, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """A Python number as a run-time scalar; a tensor as it is.

    `bool` gives int1, `int` the first of int32, uint32, int64, uint64 that holds it, `float` float32, or float64 where
    float32 could only hold it as a denormal or not at all.
    Errors: `ValueError` for an integer beyond 64 bits, `TypeError` for anything that is no number.
    """
    return to_operand(x, _builder)


@builtin
def cast(
    input: Any,  # noqa: A002 - the name that kernel authors write
    dtype: ScalarType | constexpr,
    fp_downcast_rounding: str | constexpr | None = None,
    bitcast: bool | constexpr = False,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> tensor:
    """The same numbers as another element type (`x.to(dtype)`); with `bitcast=True` the same bits.

    Float to integer truncates toward zero; anything to int1 is `!= 0`; narrowing floats round to nearest even, or
    toward zero with `fp_downcast_rounding="rtz"`. Pointers convert to and from 64-bit integers.
    Errors: `ValueError` for a rounding where nothing is narrowed, and for a bitcast between widths;
    `AssertionError` for types that do not convert.
    """
    value, element = to_operand(input, _builder), element_type(dtype)
    if _unwrap_if_constexpr(bitcast):
        return conversion.bitcast(value, element, _builder)
    return conversion.convert(value, element, _builder, _unwrap_if_constexpr(fp_downcast_rounding))


def __getattr__(name: str) -> Any:
    """The rest of the language and of what marks functions and records, which programs import from here as well."""
    if name in _OF_THE_PACKAGE:
        return getattr(glueball, _OF_THE_PACKAGE[name])
    return getattr(glueball.language, name)
