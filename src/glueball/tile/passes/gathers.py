"""Expands gathers and histograms: by shuffles where a warp has what its threads look for, else by scratch memory."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

from glueball.layouts import DistributedLinearLayout, LinearLayout, f2
from glueball.layouts.base import HARDWARE
from glueball.layouts.gathers import plan_warp_gather
from glueball.layouts.reductions import without_axis
from glueball.targets import Target
from glueball.tile.ir import Operation, TileFunction, Value
from glueball.tile.passes.rewriting import Sequel, rewrite
from glueball.tile.types import distributed_type, dtype, int32, pointer_type

SCRATCH_ALIGNMENT = 16


def expand_gathers(function: TileFunction, _: Target) -> None:
    """Replaces every `gather` and `histogram`."""
    numbers = itertools.count()
    rules = {"gather": _gather, "histogram": _histogram}
    rewrite(function, {name: functools.partial(rule, numbers) for name, rule in rules.items()})


def scratch(sequel: Sequel, name: str, kind: distributed_type, element: dtype | pointer_type | None = None) -> str:
    """Allocates scratch memory for as many elements as a tile has, of its type or another one."""
    size = max(kind.numel * (element or kind.element_ty).itemsize, SCRATCH_ALIGNMENT)
    sequel.add("allocate_shared", (), (), name=name, bytes=size, alignment=SCRATCH_ALIGNMENT, offset=0)
    return name


def _gather(numbers: Iterator[int], operation: Operation, sequel: Sequel) -> Sequence[Value]:
    axis = operation.attributes["axis"]
    source, index = operation.operands
    assert isinstance(source.type, distributed_type) and isinstance(index.type, distributed_type)
    plan = plan_warp_gather(source.type.linear, index.type.linear, axis)
    types = [operation.result.type]
    if plan is not None:
        return sequel.add("gather_warp", (source, index), types, axis=axis, plan=plan)
    if not _is_at_hand(source.type.linear, index.type.linear, axis):
        source = in_every_cta(sequel, source)
    assert isinstance(source.type, distributed_type)
    place = _only_place(index, axis)
    if place is not None and 0 <= place < source.type.shape[axis]:
        name = scratch(sequel, f"gather_{next(numbers)}", index.type, source.type.element_ty)
        sequel.add("scratch_write_slice", (source,), (), allocation=name, axis=axis, place=place)
        return sequel.add("scratch_read", (), types, allocation=name)
    name = scratch(sequel, f"gather_{next(numbers)}", source.type)
    sequel.add("scratch_write", (source,), (), allocation=name)
    return sequel.add("scratch_gather", (index,), types, allocation=name, axis=axis, shape=source.type.shape)


def _only_place(index: Value, axis: int) -> int | None:
    """The one place along an axis that is looked for, once in each row, where it is known."""
    assert isinstance(index.type, distributed_type)
    splat = index.operation
    if index.type.shape[axis] != 1 or splat is None or splat.opcode != "splat":
        return None
    constant = splat.operands[0].operation
    return constant.attributes["value"] if constant is not None and constant.opcode == "constant" else None


def _is_at_hand(source: LinearLayout, index: LinearLayout, axis: int) -> bool:
    """Whether all that a CTA may look for along an axis is among what it holds."""
    columns = {
        name: [[without_axis(basis, each.shape, axis) for basis in each.flat_bases(name)] for each in (source, index)]
        for name in HARDWARE
    }
    shift = source.shifts()[axis]
    if any(basis >> shift & (source.shape[axis] - 1) for basis in source.flat_bases("block")):
        return False
    held = f2.Echelon(basis for name in HARDWARE[:3] for basis in columns[name][0])
    wanted = [basis for name in HARDWARE[:3] for basis in columns[name][1]]
    wanted += [own ^ other for own, other in zip(*columns["block"], strict=True)]
    return all(basis in held for basis in wanted)


def _histogram(numbers: Iterator[int], operation: Operation, sequel: Sequel) -> Sequence[Value]:
    bins = operation.result.type
    assert isinstance(bins, distributed_type)
    name = scratch(sequel, f"histogram_{next(numbers)}", bins)
    (zero,) = sequel.add("constant", (), [int32], value=0)
    (zeros,) = sequel.add("splat", (zero,), [whole_type(bins)])
    sequel.add("scratch_write", (zeros,), (), allocation=name)
    counted = [in_every_cta(sequel, operand) for operand in operation.operands]
    sequel.add("scratch_count", counted, (), allocation=name)
    return sequel.add("scratch_read", (), [bins], allocation=name)


def whole_type(kind: distributed_type) -> distributed_type:
    """The type of a tile of which every CTA holds all elements: the same one where that is so already."""
    linear = kind.linear
    inside = [basis for name in ("register", "lane", "warp") for basis in linear.flat_bases(name)]
    others = f2.independent(linear.flat_bases("block"), inside)
    if not any(linear.flat_bases("block")):
        return kind
    bases = {
        "register": (*linear.flat_bases("register"), *others),
        "lane": linear.flat_bases("lane"),
        "warp": linear.flat_bases("warp"),
        "block": (0,) * linear.bits("block"),
    }
    layout = DistributedLinearLayout.from_linear(LinearLayout.from_flat_bases(bases, linear.shape))
    return distributed_type(kind.element_ty, kind.shape, layout)


def in_every_cta(sequel: Sequel, value: Value) -> Value:
    """A tile of which every CTA holds all elements."""
    assert isinstance(value.type, distributed_type)
    return sequel.convert(value, whole_type(value.type))
