"""What the threads of a program do to shared memory: passes over the banks, by the swizzle and who holds what."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glueball.explain.report import SharedTraffic
from glueball.layouts import LinearLayout, f2
from glueball.layouts.linear import IndexArray
from glueball.layouts.memory import WORD_BYTES, merged, merges_loads, wavefronts
from glueball.targets import Target
from glueball.tile.shared_moves import matrix_moves, vector_elements
from glueball.tile.shared_views import Descriptor, is_whole, leaves_cta, paddings, tile_ctas, tile_offsets

ROW_BYTES = 16
MATRIX_ROWS = 8


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """How a tile moves to or from a view: `bytes` a lane and instruction, in `matrices` of 8 x 8 unless those are 0."""

    bytes: int
    matrices: int
    once: SharedTraffic


def view_access(linear: LinearLayout, kind: Descriptor, target: Target, *, store: bool) -> SharedAccess | None:
    """The cost of one access of a tile by all warps.

    `None` where it depends on more than the layouts: in parts of padded views, and in the memory of other CTAs.
    """
    if leaves_cta(linear, kind):
        return None
    offsets, size = tile_offsets(linear, kind), kind.element_ty.itemsize
    free = linear.free_variables() if store else {"lane": 0, "warp": 0}
    warps = offsets.size("warp") >> free["warp"].bit_count()
    moves = matrix_moves(linear, kind, target, store=store)
    if moves is not None:
        lanes = np.array([f2.apply(moves.lanes, lane) for lane in range(offsets.size("lane"))]) * size
        lanes[MATRIX_ROWS * moves.matrices :] = -1
        traffic = _request(lanes, ROW_BYTES, target, load=not store).times(len(moves.groups) * warps)
        return SharedAccess(WORD_BYTES * moves.matrices, moves.matrices, traffic)
    vector = vector_elements(offsets, tile_ctas(linear, kind), kind)
    if not paddings(kind.layout):
        return SharedAccess(
            vector * size, 0, _vectors(offsets, free, vector, size, target, load=not store, warps=warps)
        )
    if not is_whole(kind) or free["lane"] or free["warp"]:
        return None
    return SharedAccess(vector * size, 0, _padded(offsets, kind, vector, target, load=not store))


def copied_access(linear: LinearLayout, kind: Descriptor, vector: int, target: Target) -> SharedTraffic | None:
    """The cost of writing a tile by copies of `vector` elements a lane; `None` as for `view_access`."""
    offsets, size, free = tile_offsets(linear, kind), kind.element_ty.itemsize, linear.free_variables()
    if paddings(kind.layout):
        if not is_whole(kind) or free["lane"] or free["warp"]:
            return None
        return _padded(offsets, kind, vector, target, load=False)
    warps = offsets.size("warp") >> free["warp"].bit_count()
    return _vectors(offsets, free, vector, size, target, load=False, warps=warps)


def _vectors(
    offsets: LinearLayout, free: dict[str, int], vector: int, size: int, target: Target, *, load: bool, warps: int
) -> SharedTraffic:
    """Registers and warps only XOR a constant into all addresses, which renames banks: every access costs the same."""
    idle = np.arange(offsets.size("lane")) & free["lane"]
    lanes = np.where(idle, -1, offsets.table("lane") * size)
    instructions = (1 << f2.rank(offsets.flat_bases("register"))) // vector
    return _request(lanes, vector * size, target, load=load).times(instructions * warps)


def _padded(offsets: LinearLayout, kind: Descriptor, vector: int, target: Target, *, load: bool) -> SharedTraffic:
    """Padding moves every access elsewhere in the banks."""
    lanes, size = offsets.table("lane") & -vector, kind.element_ty.itemsize
    total = SharedTraffic()
    for warp in (offsets.table("warp") & -vector).tolist():
        for start in np.unique(offsets.table("register") & -vector).tolist():
            places = lanes ^ start ^ warp
            moved = places + sum(places // interval * padding for interval, padding in paddings(kind.layout))
            total += _request(np.asarray(moved * size), vector * size, target, load=load)
    return total


def _request(lanes: IndexArray, width: int, target: Target, *, load: bool) -> SharedTraffic:
    """One instruction of a warp whose lanes access `width` bytes at those offsets; lanes below 0 take no part."""
    together = target.shared_banks * WORD_BYTES // max(WORD_BYTES, width)
    phases = [lanes[start : start + together] for start in range(0, len(lanes), together)]
    if load and merges_loads(len(lanes), target.shared_banks):
        phases = merged(phases)
    least = sum(bool((phase >= 0).any()) for phase in phases)
    return SharedTraffic(1, wavefronts(lanes, width, target.shared_banks, load=load), least)
