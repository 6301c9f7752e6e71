"""Expands gathers and histograms: by shuffles where a warp has what its threads look for, else by scratch memory."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

from glueball.layouts.gathers import plan_warp_gather
from glueball.targets import Target
from glueball.tile.ir import Operation, TileFunction, Value
from glueball.tile.passes.rewriting import Sequel, rewrite
from glueball.tile.types import distributed_type, int32

SCRATCH_ALIGNMENT = 16


def expand_gathers(function: TileFunction, _: Target) -> None:
    """Replaces every `gather` and `histogram`."""
    numbers = itertools.count()
    rules = {"gather": _gather, "histogram": _histogram}
    rewrite(function, {name: functools.partial(rule, numbers) for name, rule in rules.items()})


def scratch(sequel: Sequel, name: str, kind: distributed_type) -> str:
    """Allocates scratch memory for the elements of a tile."""
    size = max(kind.numel * kind.element_ty.itemsize, SCRATCH_ALIGNMENT)
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
    name = scratch(sequel, f"gather_{next(numbers)}", source.type)
    sequel.add("scratch_write", (source,), (), allocation=name)
    return sequel.add("scratch_gather", (index,), types, allocation=name, axis=axis, shape=source.type.shape)


def _histogram(numbers: Iterator[int], operation: Operation, sequel: Sequel) -> Sequence[Value]:
    bins = operation.result.type
    assert isinstance(bins, distributed_type)
    name = scratch(sequel, f"histogram_{next(numbers)}", bins)
    (zero,) = sequel.add("constant", (), [int32], value=0)
    (zeros,) = sequel.add("splat", (zero,), [bins])
    sequel.add("scratch_write", (zeros,), (), allocation=name)
    sequel.add("scratch_count", operation.operands, (), allocation=name)
    return sequel.add("scratch_read", (), [bins], allocation=name)
