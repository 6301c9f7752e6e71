"""Elements found by index, counted by value, or mapped by a function of the author's."""

from __future__ import annotations

from typing import Any

from glueball.language.broadcasting import broadcast_all, to_operand
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.conversion import convert
from glueball.language.core import require_layout
from glueball.language.function import JITCallable
from glueball.language.reductions import axis_of
from glueball.language.regions import end_region, function_argument, region_of
from glueball.language.shape import tile_argument
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.layouts import DistributedLayout
from glueball.tile.types import distributed_type, dtype, int32


@builtin
def gather(src: tensor, index: tensor, axis: int | constexpr, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """The elements of `src` that `index` (integers) names along `axis`, in the shape and layout of `index`.

    Extents but that along the axis are equal; the layouts may differ. An index outside of the dimension is undefined,
    and reported where it can be.
    Errors: `ValueError` for scalars, ranks or extents that differ, an axis out of range, and an index of no integers.
    """
    src, source = tile_argument(src, "gather")
    index, places = tile_argument(index, "gather")
    if not index.dtype.is_int() or index.dtype.is_bool():
        raise ValueError(f"gather's index must be of integers, not {index.dtype}")
    if len(source.shape) != len(places.shape):
        raise ValueError(
            f"gather's source and index must have the same rank, not shapes {list(source.shape)} and "
            f"{list(places.shape)}"
        )
    along = axis_of(axis, len(source.shape), "gather")
    for other, (extent, found) in enumerate(zip(source.shape, places.shape, strict=True)):
        if other != along and extent != found:
            raise ValueError(
                f"index dim {other} of gather must match the corresponding source dim: {found} is not {extent}"
            )
    operands = [src, convert(index, int32, _builder)]
    return _builder.emit("gather", operands, places.with_element_ty(source.element_ty), axis=along)


@builtin
def histogram(
    input: tensor,  # noqa: A002 - the name that kernel authors write
    num_bins: int | constexpr,
    mask: Any = None,
    layout: DistributedLayout | constexpr | None = None,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> tensor:
    """How many elements of `input` (integers in one dimension) have each value below `num_bins`: int32 in `layout`.

    Elements whose `mask` is false do not count. Other values are undefined, and reported where they can be.
    Errors: `ValueError` for a scalar, more dimensions, what is no integer, a mask that is not boolean, `num_bins` that
    is no power of two, and a missing layout.
    """
    x, tile = tile_argument(input, "histogram")
    if len(tile.shape) != 1:
        raise ValueError(f"histogram only supports 1D input, not the shape {list(tile.shape)}")
    if not x.dtype.is_int() or x.dtype.is_bool():
        raise ValueError(f"histogram only supports integer input, not {x.dtype}")
    if _unwrap_if_constexpr(layout) is None:
        raise ValueError("histogram requires a destination layout: histogram(x, num_bins, layout=...)")
    bins = _unwrap_if_constexpr(num_bins)
    if isinstance(bins, bool) or not isinstance(bins, int):
        raise ValueError(f"histogram's num_bins must be a compile-time integer, not {bins!r}")
    result = distributed_type(int32, (bins,), require_layout(layout, "histogram"))
    operands = [convert(x, int32, _builder)]
    chosen = _unwrap_if_constexpr(mask)
    if chosen is not None:
        value = to_operand(chosen, _builder)
        if not value.dtype.is_bool():
            raise ValueError(f"histogram's mask must be boolean (int1), not {value.dtype}")
        operands = broadcast_all([*operands, value], _builder)
    return _builder.emit("histogram", operands, result)


@builtin
def map_elementwise(
    scalar_fn: JITCallable,
    *args: Any,
    pack: int | constexpr = 1,
    _builder: KernelBuilder = HIDDEN,
) -> Any:
    """A jitted function applied to the elements of tiles, which broadcast; it may branch and loop per element.

    With `pack=n` it gets n elements that a thread holds next to one another, those of the first tile first, and gives
    n of each result, those of the first result first. One result is a tile, several are a tuple of tiles.
    Errors: `ValueError` without tiles, for a thread that does not hold a multiple of n elements, and for a function
    that accesses memory; `TypeError` for what is no jitted function, another number of parameters, and results that are
    no multiple of n.
    """
    function = function_argument(scalar_fn, "map_elementwise", "scalar_fn")
    count = _unwrap_if_constexpr(pack)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"map_elementwise's pack must be a positive compile-time integer, not {count!r}")
    if not args:
        raise ValueError("map_elementwise needs at least one tile")
    operands = broadcast_all([to_operand(value, _builder) for value in args], _builder)
    first = operands[0].type
    if not isinstance(first, distributed_type):
        raise ValueError("map_elementwise needs at least one tile, and got scalars only")
    if count > 1 and (held := first.linear.size("register")) % count:
        raise ValueError(f"map_elementwise takes {count} elements of a thread at a time, but each holds {held}")
    types = [operand.dtype for operand in operands for _ in range(count)]
    region, results = region_of(function, types, "map_elementwise", _builder)
    if len(results) % count:
        raise TypeError(
            f"`{function.__name__}` must return {count} elements of each result of map_elementwise, not {len(results)}"
        )
    end_region(region, results, _builder)
    given = [_result_type(results[start : start + count], first) for start in range(0, len(results), count)]
    handles = [operand.handle for operand in operands]
    operation = _builder.create("map_elementwise", handles, given, {"pack": count}, [region])
    found = [tensor(result) for result in operation.results]
    return found[0] if len(found) == 1 else language_tuple(found)


def _result_type(elements: list[tensor], tile: distributed_type) -> distributed_type:
    kinds = {element.dtype for element in elements}
    (kind,) = kinds if len(kinds) == 1 else (None,)
    if kind is None or not isinstance(kind, dtype):
        raise TypeError(f"the elements of one result of map_elementwise differ in type: {', '.join(map(str, kinds))}")
    return tile.with_element_ty(kind)
