"""What bulk copies ask of global memory, box by box."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from glueball.explain.affine import Array
from glueball.explain.traffic import Traffic
from glueball.layouts.memory import SECTOR_BYTES
from glueball.tensor_map import GRANULE, TensorMap
from glueball.tile.bulk_boxes import boxes_of, parts_of
from glueball.tile.types import tensor_descriptor_type


def bulk_traffic(
    kind: tensor_descriptor_type,
    tensor: TensorMap,
    places: Sequence[Array],
    taps: Sequence[Array],
    executions: Array,
    *,
    store: bool,
    once: bool,
) -> Traffic:
    """Traffic of the copies of a block by the programs that execute one, at coordinates `places`, outermost first.

    Of CTAs with the same part of a block all load it, but only one stores it, and only one loads where that is `once`.
    """
    programs = np.flatnonzero(executions)
    if programs.size == 0:
        return Traffic()
    first = np.stack([np.broadcast_to(place, executions.shape)[programs] for place in places], axis=1)
    moved = [np.broadcast_to(tap, executions.shape)[programs] for tap in taps]
    parts = parts_of(kind)
    repeated = 1 if store or once else (1 << len(kind.layout.cga_layout)) // len(parts)
    total = Traffic()
    for part, start in itertools.product(parts, boxes_of(kind).starts):
        corner = np.array(part) + np.array(start)
        if kind.im2col:
            pixels = first + np.array([0] * (len(places) - 1) + [corner[-1]])
            total += _elements(tensor, pixels, np.stack(moved, axis=1), store=store)
        elif any(step != 1 for step in tensor.steps):
            total += _elements(tensor, first + corner, None, store=store)
        else:
            total += _rows(tensor, first + corner, store=store)
    return total.times(repeated)


def _rows(tensor: TensorMap, first: Array, *, store: bool) -> Traffic:
    """Boxes of rows of neighbours, of which those that follow one another may share a sector.

    Stores write rows to the end of their last 16 bytes, but nothing beyond the last row.
    """
    *outer, side = tensor.box_shape
    begins, inside = np.zeros((len(first), 1), np.int64), np.ones((len(first), 1), bool)
    for axis, extent in enumerate(outer):
        index = first[:, axis, None] + np.arange(extent)
        within = (index >= 0) & (index < tensor.shape[axis])
        distance = index * tensor.strides[axis]
        begins = (begins[:, :, None] + distance[:, None, :]).reshape(len(first), -1)
        inside = (inside[:, :, None] & within[:, None, :]).reshape(len(first), -1)
    end: Array | int = tensor.shape[-1]
    if store:
        piece = GRANULE // tensor.item_bytes
        last = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.strides, strict=True))
        end = np.minimum(-(-tensor.shape[-1] // piece) * piece, last + 1 - begins)
    start, stop = first[:, -1:], first[:, -1:] + side
    left, right = np.clip(start, 0, end), np.clip(stop, 0, end)
    inside = inside & (right > left)
    low = (tensor.base + (begins + left) * tensor.item_bytes) // SECTOR_BYTES
    high = (tensor.base + (begins + right) * tensor.item_bytes - 1) // SECTOR_BYTES
    begun, ended = (np.broadcast_to(same, inside.shape) for same in (left == start, right == stop))
    shared = inside[:, 1:] & inside[:, :-1] & begun[:, 1:] & ended[:, :-1] & (high[:, :-1] == low[:, 1:])
    sectors = int((high - low + 1)[inside].sum()) - int(np.count_nonzero(shared))
    useful = int(((right - left) * inside).sum()) * tensor.item_bytes
    return Traffic(len(first), sectors, useful)


def _elements(tensor: TensorMap, first: Array, taps: Array | None, *, store: bool) -> Traffic:
    """Boxes of any other map, element by element."""
    offsets, inside = tensor.elements(first, taps, store=store)
    sectors = (tensor.base + offsets * tensor.item_bytes) // SECTOR_BYTES
    new = (sectors[:, 1:] != sectors[:, :-1]) | ~inside[:, :-1]
    count = int(np.count_nonzero(inside[:, 0])) + int(np.count_nonzero(new & inside[:, 1:]))
    return Traffic(len(first), count, int(np.count_nonzero(inside)) * tensor.item_bytes)
