"""What the threads of a program do to shared memory: passes over the banks, by the swizzle and who holds what."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glueball.explain.traffic import SharedTraffic
from glueball.layouts import LinearLayout, f2
from glueball.layouts.linear import IndexArray
from glueball.layouts.memory import WORD_BYTES, merged, merges_loads, wavefronts
from glueball.layouts.plans import SharedAccess as TripAccess
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
    """The cost of one access of a tile by all warps of a CTA, by matrices or vectors; `None` as for `vector_access`."""
    moves = matrix_moves(linear, kind, target, store=store)
    if moves is None:
        return vector_access(linear, kind, target, store=store)
    lanes = np.array([f2.apply(moves.lanes, lane) for lane in range(linear.size("lane"))]) * kind.element_ty.itemsize
    lanes[MATRIX_ROWS * moves.matrices :] = -1
    warps = linear.size("warp") >> (linear.free_variables()["warp"].bit_count() if store else 0)
    once = request_traffic(lanes, ROW_BYTES, target, load=False).times(len(moves.groups) * warps)
    return SharedAccess(WORD_BYTES * moves.matrices, moves.matrices, once)


def vector_access(linear: LinearLayout, kind: Descriptor, target: Target, *, store: bool) -> SharedAccess | None:
    """The cost of one access of a tile, perhaps in the memory of several CTAs, by all warps of a CTA.

    `None` where it depends on more than the layouts: in parts of padded views.
    """
    vector = vector_elements(tile_offsets(linear, kind), tile_ctas(linear, kind), kind)
    free = linear.free_variables() if store else {"lane": 0, "warp": 0}
    once = _vectors(linear, kind, free, vector, target, load=not store)
    return None if once is None else SharedAccess(vector * kind.element_ty.itemsize, 0, once)


def copied_access(linear: LinearLayout, kind: Descriptor, vector: int, target: Target) -> SharedTraffic | None:
    """The cost of writing a tile by copies of `vector` elements a lane; `None` as for `vector_access`."""
    return _vectors(linear, kind, linear.free_variables(), vector, target, load=False)


def round_trip_access(access: TripAccess, element_bytes: int, target: Target, *, store: bool) -> SharedTraffic:
    """The cost of one side of a conversion through shared memory, for one warp that takes part, in all its rounds."""
    positions = access.positions.table("lane")
    index = np.arange(len(positions))
    active = index < MATRIX_ROWS * access.matrices if access.matrices else index & access.idle_lanes == 0
    offsets = (positions & ((1 << access.scratch_bits) - 1)) * element_bytes
    above = positions >> access.scratch_bits
    rounds, ctas = above & ((1 << access.round_bits) - 1), above >> access.round_bits
    width = ROW_BYTES if access.matrices else access.vector * element_bytes
    load = not (store or access.matrices or access.ranks)
    total = SharedTraffic()
    for number in np.unique(rounds[active]):
        lanes = np.where(active & (rounds == number), offsets, -1)
        total += request_traffic(lanes, width, target, load=load, ctas=ctas)
    return total.times(len(access.groups))


def _vectors(
    linear: LinearLayout, kind: Descriptor, free: dict[str, int], vector: int, target: Target, *, load: bool
) -> SharedTraffic | None:
    """Registers and warps only XOR a constant into all addresses, which renames banks: every access costs the same.

    The same goes for the CTAs in whose memory lanes access.
    """
    offsets, ctas, size = tile_offsets(linear, kind), tile_ctas(linear, kind), kind.element_ty.itemsize
    remote = leaves_cta(linear, kind)
    if paddings(kind.layout):
        if remote or not is_whole(kind) or any(offsets.flat_bases("block")):
            return None
        return _padded(offsets, kind, free, vector, target, load=load)
    lanes = np.where(np.arange(offsets.size("lane")) & free["lane"], -1, offsets.table("lane") * size)
    pairs = zip(offsets.flat_bases("register"), ctas.flat_bases("register"), strict=True)
    instructions = (1 << f2.rank(offset + offsets.shape[0] * cta for offset, cta in pairs)) // vector
    warps = offsets.size("warp") >> free["warp"].bit_count()
    once = request_traffic(lanes, vector * size, target, load=load and not remote, ctas=ctas.table("lane"))
    return once.times(instructions * warps)


def _padded(
    offsets: LinearLayout, kind: Descriptor, free: dict[str, int], vector: int, target: Target, *, load: bool
) -> SharedTraffic:
    """Padding moves every access elsewhere in the banks."""
    lanes, size = offsets.table("lane") & -vector, kind.element_ty.itemsize
    idle = np.arange(offsets.size("lane")) & free["lane"] != 0
    warps = offsets.table("warp")[np.arange(offsets.size("warp")) & free["warp"] == 0]
    total = SharedTraffic()
    for warp in (warps & -vector).tolist():
        for start in np.unique(offsets.table("register") & -vector).tolist():
            places = lanes ^ start ^ warp
            moved = places + sum(places // interval * padding for interval, padding in paddings(kind.layout))
            total += request_traffic(np.where(idle, -1, moved * size), vector * size, target, load=load)
    return total


def request_traffic(
    lanes: IndexArray, width: int, target: Target, *, load: bool, ctas: IndexArray | None = None
) -> SharedTraffic:
    """One instruction of a warp whose lanes access `width` bytes at those offsets; lanes below 0 take no part.

    `ctas` tells apart the lanes that access the memory of different CTAs.
    """
    if ctas is not None and ctas.any():
        parts = [np.where(ctas == cta, lanes, -1) for cta in np.unique(ctas[lanes >= 0])]
        served = [request_traffic(part, width, target, load=load) for part in parts]
        return SharedTraffic(1, sum(part.wavefronts for part in served), sum(part.least for part in served))
    together = target.shared_banks * WORD_BYTES // max(WORD_BYTES, width)
    phases = [lanes[start : start + together] for start in range(0, len(lanes), together)]
    if load and merges_loads(len(lanes), target.shared_banks):
        phases = merged(phases)
    least = sum(bool((phase >= 0).any()) for phase in phases)
    return SharedTraffic(1, wavefronts(lanes, width, target.shared_banks, load=load), least)
