"""Copies of arrays of any rank and strides: by bulk copies where their rules allow it, else by plain loads."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from glueball.kernels import bulk_copies
from glueball.kernels.arrays import empty, lanes_of
from glueball.kernels.boxes import (
    GRANULE,
    LONGEST_SIDE,
    MOST_DIMENSIONS,
    ROW_BYTES,
    box_of,
    descriptor,
    item_bytes,
    priority,
    streaming_priority,
    why_not_bulk,
)
from glueball.kernels.ladder import Launch, strides_of
from glueball.layouts.strides import coalesced_layout
from glueball.runtime.host_functions import cdiv, next_power_of_2

PLAIN_WARPS = 8
PLAIN_TILE = 64
PLAIN_ELEMENTS = 4096
LEAST_TURNED = 16
"""The least extent of a side that a transposing box has."""


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """How boxes are copied: `box_bytes` at most; priorities in the second-level cache, such as `evict_first`."""

    box_bytes: int = 131072
    load_priority: str = ""
    store_priority: str = ""


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """How boxes are transposed: their sides along the source's rows and the result's, in bytes; `boxes` to a program.

    Rows of 256 bytes are the shortest that memory likes. Priorities as above.
    """

    source_bytes: int = 256
    result_bytes: int = 256
    warps: int = 16
    boxes: int = 2
    load_priority: str = ""
    store_priority: str = ""


Plan = TypeVar("Plan", CopyPlan, TurnPlan)
TURN_PLANS = {4: TurnPlan(), 2: TurnPlan(warps=8, boxes=1), 1: TurnPlan(128, 128, 8, 1)}
"""By bytes of an element: the fastest on an H200, and of one byte what registers have room for."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two arrays dimension by dimension, in the order of the result's strides, those that lie together merged."""

    shape: tuple[int, ...]
    source: tuple[int, ...]
    destination: tuple[int, ...]

    @property
    def fastest(self) -> int:
        """The dimension along which the source's elements are neighbours; the last one where there is none."""
        found = [axis for axis, stride in enumerate(self.source) if stride == 1]
        return found[-1] if found else len(self.shape) - 1


def paired(shape: tuple[int, ...], source: tuple[int, ...], destination: tuple[int, ...]) -> Pairing:
    """The pairing of two arrays of a shape with strides in elements; of one element at least one dimension is left."""
    axes = [axis for axis, extent in enumerate(shape) if extent > 1]
    axes.sort(key=lambda axis: (-abs(destination[axis]), -abs(source[axis]), axis))
    kept: list[tuple[int, int, int]] = []
    for axis in axes:
        extent, one, other = shape[axis], source[axis], destination[axis]
        if kept and kept[-1][1] == one * extent and kept[-1][2] == other * extent:
            extent *= kept.pop()[0]
        kept.append((extent, one, other))
    kept = kept or [(1, 1, 1)]
    return Pairing(*(tuple(each) for each in zip(*kept, strict=True)))


def divided(pairing: Pairing) -> Pairing:
    """The same with a long last dimension in lines of up to 256 elements, so that boxes are of several lines."""
    *outer, extent = pairing.shape
    line = min(extent & -extent, LONGEST_SIDE)
    if extent <= LONGEST_SIDE or len(outer) + 2 > MOST_DIMENSIONS or line < GRANULE:
        return pairing
    return Pairing(
        (*outer, extent // line, line),
        (*pairing.source[:-1], line, 1),
        (*pairing.destination[:-1], line, 1),
    )


def launch_copy(source: Any, destination: Any, plan: CopyPlan | TurnPlan | None = None) -> Launch:
    """The launch that copies an array to one of the same shape and dtype, neither of them empty.

    Elements that are neighbours along the same dimension of both go by bulk copies box by box; along different ones
    the boxes are transposed. `ValueError` where a plan for either is given and the rules of bulk copies forbid it.
    """
    first, second = _as_words(source, destination)
    pairing = paired(tuple(first.shape), strides_of(first), strides_of(second))
    turned = len(pairing.shape) > 1 and pairing.fastest != len(pairing.shape) - 1
    reason = _why_not(first, second, pairing, turned)
    if isinstance(plan, TurnPlan) != turned and plan is not None:
        reason = reason or "the plan is for boxes that are transposed, or not, and the arrays ask for the contrary"
    if plan is not None and reason:
        raise ValueError(f"bulk copies do not copy these arrays: {reason}")
    moved = 2 * math.prod(source.shape) * item_bytes(source)
    if reason:
        return _launch_plain(first, second, pairing, moved)
    if turned:
        turn_plan = plan if isinstance(plan, TurnPlan) else _streaming(TURN_PLANS[item_bytes(first)], first, moved)
        return _launch_turned(first, second, pairing, turn_plan, moved)
    copy_plan = plan if isinstance(plan, CopyPlan) else _streaming(CopyPlan(), first, moved)
    return _launch_boxes(first, second, divided(pairing), copy_plan, moved)


def _streaming(plan: Plan, source: Any, moved: int) -> Plan:
    return replace(plan, load_priority=streaming_priority(source, moved))


def _as_words(source: Any, destination: Any) -> tuple[Any, Any]:
    """Both with integers for elements, whatever they are; those of 8 bytes as pairs where they lie side by side."""
    if not source.shape:
        source, destination = source.reshape(1), destination.reshape(1)
    size = item_bytes(source)
    if size == 8:
        strides = zip(strides_of(source), strides_of(destination), strict=True)
        for axis, pair in enumerate(strides):
            if pair == (1, 1):
                order = [each for each in range(len(source.shape)) if each != axis] + [axis]
                return _viewed(_permuted(source, order), 4), _viewed(_permuted(destination, order), 4)
    return _viewed(source, size), _viewed(destination, size)


def _permuted(array: Any, order: list[int]) -> Any:
    return array.transpose(order) if isinstance(array, np.ndarray) else array.permute(order)


def _viewed(array: Any, size: int) -> Any:
    if isinstance(array, np.ndarray):
        return array.view(f"int{8 * size}")
    import torch

    return array.view(getattr(torch, f"int{8 * size}"))


def _why_not(first: Any, second: Any, pairing: Pairing, turned: bool) -> str:
    orders = [list(range(len(pairing.shape)))] * 2
    if turned:
        orders = [_turned_order(pairing), _kept_order(pairing)]
        sides = (pairing.shape[pairing.fastest], pairing.shape[-1])
        if min(sides) < LEAST_TURNED:
            return f"a transposed box has at least {LEAST_TURNED} elements a side, and the extents are {list(sides)}"
    for array, strides, order in zip((first, second), (pairing.source, pairing.destination), orders, strict=True):
        ordered = [[each[axis] for axis in order] for each in (pairing.shape, strides)]
        if reason := why_not_bulk(array, *ordered, written=array is second):
            return reason
    return ""


def _kept_order(pairing: Pairing) -> list[int]:
    """Dimensions of the result for a transposing copy: the source's fastest one comes last but one."""
    others = [axis for axis in range(len(pairing.shape) - 1) if axis != pairing.fastest]
    return [*others, pairing.fastest, len(pairing.shape) - 1]


def _turned_order(pairing: Pairing) -> list[int]:
    *others, row, column = _kept_order(pairing)
    return [*others, column, row]


def _launch_boxes(first: Any, second: Any, pairing: Pairing, plan: CopyPlan, moved: int) -> Launch:
    box = box_of(pairing.shape, item_bytes(first), plan.box_bytes)
    counts = tuple(cdiv(extent, side) for extent, side in zip(pairing.shape, box, strict=True))
    descriptors = (
        descriptor(first, pairing.shape, pairing.source, box),
        descriptor(second, pairing.shape, pairing.destination, box),
    )
    keywords = {**_policies(plan), "num_warps": 1}
    return Launch(bulk_copies.copy_box, (math.prod(counts),), (*descriptors, counts), keywords, moved)


def _policies(plan: CopyPlan | TurnPlan) -> dict[str, Any]:
    return {"LOAD_POLICY": priority(plan.load_priority), "STORE_POLICY": priority(plan.store_priority)}


def _launch_turned(first: Any, second: Any, pairing: Pairing, plan: TurnPlan, moved: int) -> Launch:
    size = item_bytes(first)
    kept, turned = _kept_order(pairing), _turned_order(pairing)
    shape = [pairing.shape[axis] for axis in kept]
    wanted = zip((plan.source_bytes, plan.result_bytes), shape[-2:], strict=True)
    rows, columns = (max(ROW_BYTES, min(side, next_power_of_2(extent) * size)) // size for side, extent in wanted)
    box = [*([1] * (len(kept) - 2)), rows, columns]
    counts = tuple(cdiv(extent, side) for extent, side in zip(shape, box, strict=True))
    total = math.prod(counts)
    descriptors = [
        descriptor(array, [pairing.shape[axis] for axis in order], [strides[axis] for axis in order], sides)
        for array, strides, order, sides in (
            (first, pairing.source, turned, [*box[:-2], columns, rows]),
            (second, pairing.destination, kept, box),
        )
    ]
    layouts = [
        coalesced_layout((rows, columns), strides, 8 * size, plan.warps, vector=GRANULE // size)
        for strides in ((1, rows), (columns, 1))
    ]
    keywords = {
        "read_layout": layouts[0],
        "write_layout": layouts[1],
        "BOXES": plan.boxes,
        **_policies(plan),
        "num_warps": plan.warps,
    }
    grid = (cdiv(total, plan.boxes),)
    return Launch(bulk_copies.turn_boxes, grid, (*descriptors, counts, total), keywords, moved)


def _launch_plain(first: Any, second: Any, pairing: Pairing, moved: int) -> Launch:
    """A tile spans the dimensions along which source and result are contiguous, or the last two."""
    size, lanes = item_bytes(first), lanes_of(first)
    if len(pairing.shape) == 1:
        pairing = Pairing((1, *pairing.shape), (0, *pairing.source), (0, *pairing.destination))
    last = len(pairing.shape) - 1
    row = pairing.fastest if pairing.fastest != last else last - 1
    outer = [axis for axis in range(last) if axis != row]
    if row == pairing.fastest:
        tile = (PLAIN_TILE, PLAIN_TILE)
    else:
        columns = min(next_power_of_2(pairing.shape[last]), PLAIN_ELEMENTS // 2)
        tile = (min(next_power_of_2(pairing.shape[row]), PLAIN_ELEMENTS // columns), columns)
    source, destination = ((each[row], each[last]) for each in (pairing.source, pairing.destination))
    across, down = cdiv(pairing.shape[last], tile[1]), cdiv(pairing.shape[row], tile[0])
    grid = (across * down * math.prod(pairing.shape[axis] for axis in outer),)
    places = [tuple(each[axis] for axis in outer) for each in (pairing.shape, pairing.source, pairing.destination)]
    vector = max(1, 8 // size)
    layouts = [
        coalesced_layout(tile, strides, 8 * size, PLAIN_WARPS, lanes=lanes, vector=vector)
        for strides in (source, destination)
    ]
    arguments = (first, second, *places, pairing.shape[row], pairing.shape[last], *source, *destination)
    keywords = {
        "load_layout": layouts[0],
        "store_layout": layouts[1],
        "XBLOCK": tile[0],
        "YBLOCK": tile[1],
        "num_warps": PLAIN_WARPS,
    }
    return Launch(bulk_copies.copy_strided, grid, arguments, keywords, moved)


def copy_array(source: Any, destination: Any = None, plan: CopyPlan | TurnPlan | None = None) -> Any:
    """Copies an array of any rank and strides to another one of its shape and dtype, or to a new contiguous one.

    Arrays whose addresses and strides are multiples of 16 bytes, of up to five dimensions once those that lie together
    count as one, go by bulk copies where the device has them, transposed on the way if need be; others by plain loads.
    Gives the destination. `ValueError` for arrays that differ in shape or dtype, and for a plan that is not possible.
    """
    if destination is None:
        destination = empty(source, tuple(source.shape))
    if source.shape != destination.shape or source.dtype != destination.dtype:
        raise ValueError(
            f"source and destination must agree, not {source.dtype} {tuple(source.shape)} and {destination.dtype} "
            f"{tuple(destination.shape)}"
        )
    if math.prod(source.shape) == 0:
        return destination
    if any(extent > 1 and stride == 0 for extent, stride in zip(source.shape, strides_of(destination), strict=True)):
        raise ValueError("the elements of the destination must not share memory")
    launch_copy(source, destination, plan).run()
    return destination
