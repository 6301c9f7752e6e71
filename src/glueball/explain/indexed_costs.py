"""Accesses of shared memory at indices along a dimension, one element at a time, where the indices are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from glueball.explain.affine import Affine, Array
from glueball.explain.pointers import Known
from glueball.explain.shared_costs import request_traffic
from glueball.explain.traffic import SharedTraffic
from glueball.layouts import LinearLayout
from glueball.layouts.linear import IndexArray
from glueball.targets import Target
from glueball.tile.shared_views import Descriptor, coordinate_offsets, paddings

BY_INDEX_NOTE = "bank conflicts depend on the indices, so wavefronts are not counted"


class Placement(Protocol):
    """Where elements lie in shared memory."""

    def offsets(self, coordinates: Sequence[IndexArray]) -> IndexArray:
        """The offsets, in elements, of those with some coordinates, given dimension by dimension."""


@dataclass(frozen=True, slots=True)
class RowByRow:
    """Scratch memory in which a tile of a shape lies row by row."""

    shape: tuple[int, ...]

    def offsets(self, coordinates: Sequence[IndexArray]) -> IndexArray:
        """The offsets, in elements, of those with some coordinates, given dimension by dimension."""
        places = np.zeros(1, np.int64)
        for extent, coordinate in zip(self.shape, coordinates, strict=True):
            places = places * extent + coordinate
        return places


@dataclass(frozen=True, slots=True)
class InView:
    """A view, which is a whole one where its layout pads."""

    kind: Descriptor

    def offsets(self, coordinates: Sequence[IndexArray]) -> IndexArray:
        """The offsets, in elements, of those with some coordinates, given dimension by dimension."""
        places = np.zeros(1, np.int64)
        for column, coordinate in zip(coordinate_offsets(self.kind), coordinates, strict=True):
            for bit, offset in enumerate(column):
                places = places ^ (coordinate >> bit & 1) * offset
        return np.asarray(places + sum(places // interval * size for interval, size in paddings(self.kind.layout)))


@dataclass(frozen=True, slots=True)
class Indexed:
    """One instruction for each register of a tile of indices along `axis`, each for an element of `width` bytes.

    `once` says that copies of an index do nothing, as those of stores.
    """

    linear: LinearLayout
    axis: int
    placement: Placement
    width: int
    load: bool
    once: bool = False


@dataclass(frozen=True, slots=True)
class Indices:
    """Indices that are `starts` at a tile's first element, for each program or for all, and go on by `strides`."""

    starts: Array
    strides: tuple[int, ...]


def known_indices(found: Known) -> Indices | None:
    """The indices of a tile; `None` where they are not known."""
    if not isinstance(found, Affine) or found.base.values is None or found.steps:
        return None
    strides = [stride.value for stride in found.strides]
    known = tuple(stride for stride in strides if stride is not None)
    return Indices(found.base.values, known) if len(known) == len(strides) else None


def indexed_traffic(access: Indexed, indices: Indices, executions: Array, target: Target) -> SharedTraffic:
    """The traffic of all executions, by all warps of all CTAs, given how often each program comes to it."""
    starts = np.broadcast_to(indices.starts, executions.shape)
    total = SharedTraffic()
    for start in np.unique(starts[executions > 0]).tolist():
        once = _traffic(access, start, indices.strides, target)
        total += once.times(int(executions[starts == start].sum()))
    return total


@lru_cache(maxsize=256)
def _traffic(access: Indexed, start: int, strides: tuple[int, ...], target: Target) -> SharedTraffic:
    linear = access.linear
    idle = linear.free_variables() if access.once else {"register": 0, "lane": 0, "warp": 0}
    registers, warps = (linear.table(name)[_active(linear, name, idle)] for name in ("register", "warp"))
    requests = np.bitwise_xor.outer(np.bitwise_xor.outer(registers, warps), linear.table("block")).ravel()
    total = SharedTraffic()
    for request in requests.tolist():
        coordinates = linear.coordinates(request ^ linear.table("lane"))
        along = start + sum(stride * each for stride, each in zip(strides, coordinates, strict=True))
        coordinates[access.axis] = np.asarray(along)
        places = access.placement.offsets(coordinates) * access.width
        lanes = np.where(_active(linear, "lane", idle), places, -1)
        total += request_traffic(lanes, access.width, target, load=access.load)
    return total


def _active(linear: LinearLayout, name: str, idle: dict[str, int]) -> Array:
    return np.asarray(np.arange(linear.size(name)) & idle[name] == 0)
