"""Reductions and scans along an axis, with any function that combines two elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.function import JITCallable
from glueball.language.rearranging import coordinate_tile, flattened
from glueball.language.regions import end_region, function_argument, region_of
from glueball.language.shape import insert_dimension
from glueball.language.tensor import tensor
from glueball.language.tuple import tuple as language_tuple
from glueball.tile.ir import Region
from glueball.tile.operations.reductions import reduced_type
from glueball.tile.types import TileType, distributed_type


def _inputs(value: Any, operation: str) -> tuple[list[tensor], distributed_type]:
    """The tiles of an operation on one or several, all of one shape and layout."""
    tensors: list[tensor] = []
    for each in value.values if isinstance(value, language_tuple) else [value]:
        if not isinstance(each, tensor) or not isinstance(each.type, distributed_type):
            raise ValueError(f"{operation} works on a tile or a tuple of tiles, not on {each!r}")
        tensors.append(each)
    if not tensors:
        raise ValueError(f"{operation} needs at least one tile")
    first = tensors[0].type
    assert isinstance(first, distributed_type)
    for each in tensors[1:]:
        assert isinstance(each.type, distributed_type)
        if each.type.shape != first.shape:
            raise ValueError(f"{operation} needs tiles of equal shapes, not {first.shape} and {each.type.shape}")
        if not first.same_placement(each.type):
            raise ValueError(f"{operation} needs tiles with matching layouts, not {first} and {each.type}")
    return tensors, first


def axis_of(axis: Any, rank: int, operation: str) -> int:
    """A dimension given as an integer, which may be negative; `ValueError` where there is none such."""
    number = _unwrap_if_constexpr(axis)
    if isinstance(number, bool) or not isinstance(number, int) or not -rank <= number < rank:
        raise ValueError(f"invalid axis {number!r} for {operation}: the tile has {rank} dimensions")
    return number % rank


def _combining(tensors: Sequence[tensor], function: Any, operation: str, builder: KernelBuilder) -> Region:
    """The region that combines two elements of each tile; `TypeError` where it does not give one of each type."""
    combine = function_argument(function, operation, "combine_fn")
    types = [each.dtype for each in tensors]
    region, results = region_of(combine, [*types, *types], operation, builder)
    found = [result.type for result in results]
    if found != types:
        raise TypeError(
            f"the function `{combine.__name__}` of {operation} must return ({', '.join(map(str, types))}), the types "
            f"of the elements it combines, not ({', '.join(map(str, found))})"
        )
    end_region(region, results, builder)
    return region


def _emit(
    opcode: str, tensors: Sequence[tensor], types: Sequence[TileType], region: Region, builder: KernelBuilder,
    **attributes: Any,
) -> list[tensor]:  # fmt: skip
    operation = builder.create(opcode, [each.handle for each in tensors], types, attributes, [region])
    return [tensor(result) for result in operation.results]


def _as_given(results: list[tensor], value: Any) -> Any:
    return language_tuple(results) if isinstance(value, language_tuple) else results[0]


@builtin
def reduce(
    input: Any,  # noqa: A002 - the name that kernel authors write
    axis: int | constexpr | None,
    combine_fn: JITCallable,
    keep_dims: bool | constexpr = False,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> Any:
    """The elements along `axis` (of all dimensions with None) combined by a jitted function, for one tile or several.

    For n tiles `combine_fn` takes 2 n scalars, one element of each tile and then another one of each, and returns n.
    It must be associative and commutative. The order is a balanced binary tree over the registers of a thread, then
    lanes, then warps, as the layout has them, the same on every executor. The result is in SliceLayout(axis, P) of the
    tile's layout P, or in P with an extent of 1 with `keep_dims`; of a tile of one dimension it is a scalar.
    Errors: `ValueError` for an axis out of range, tiles that differ in shape or layout, `keep_dims` without an axis and
    a function that accesses memory; `TypeError` for what is no jitted function or returns other types.
    """
    tensors, tile = _inputs(input, "reduce")
    keep = bool(_unwrap_if_constexpr(keep_dims))
    if _unwrap_if_constexpr(axis) is None:
        if keep:
            raise ValueError("reduce over all dimensions gives a scalar, no distributed_type that keep_dims could keep")
        tensors, tile = _inputs(language_tuple([flattened(each, _builder) for each in tensors]), "reduce")
        axis = 0
    along = axis_of(axis, len(tile.shape), "reduce")
    region = _combining(tensors, combine_fn, "reduce", _builder)
    types = [reduced_type(tile.with_element_ty(each.dtype), along) for each in tensors]
    results = _emit("reduce", tensors, types, region, _builder, axis=along)
    if keep:
        results = [_kept(result, tile, along, _builder) for result in results]
    return _as_given(results, input)


def _kept(result: tensor, tile: distributed_type, axis: int, builder: KernelBuilder) -> tensor:
    if isinstance(result.type, distributed_type):
        return insert_dimension(result, axis, builder)
    return builder.splat(result, distributed_type(result.dtype, (1,), tile.layout))


@builtin
def associative_scan(
    input: Any,  # noqa: A002 - the name that kernel authors write
    axis: int | constexpr,
    combine_fn: JITCallable,
    reverse: bool | constexpr = False,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> Any:
    """Every element combined with all before it along `axis` (after it with `reverse`), for one tile or several.

    `combine_fn` is as for `reduce`, and need not be commutative: what comes earlier is its first half of arguments. The
    result is placed as the input. The order follows the layout, the same on every executor: the registers of a thread
    one after the other, lanes by doubling, warps one after the other; what comes before an element is put together from
    the warps inwards.
    Errors: as `reduce`.
    """
    tensors, tile = _inputs(input, "associative_scan")
    along = axis_of(axis, len(tile.shape), "associative_scan")
    region = _combining(tensors, combine_fn, "associative_scan", _builder)
    types = [each.type for each in tensors]
    results = _emit(
        "associative_scan", tensors, types, region, _builder, axis=along, reverse=bool(_unwrap_if_constexpr(reverse))
    )
    return _as_given(results, input)


@builtin
def coordinates(
    input: tensor,  # noqa: A002
    axis: int | constexpr,
    *,
    _builder: KernelBuilder = HIDDEN,
) -> tensor:
    """Each element's coordinate along an axis: an int32 tile of the input's shape and layout."""
    _, tile = _inputs(input, "coordinates")
    return coordinate_tile(tile, axis_of(axis, len(tile.shape), "coordinates"), _builder)
