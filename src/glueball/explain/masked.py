"""Masked accesses of global memory, counted element by element where a mask cuts through a tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from glueball.explain.affine import Array, Mask
from glueball.explain.traffic import Traffic
from glueball.layouts import LinearLayout, global_access
from glueball.layouts.memory import SECTOR_BYTES

EVERYWHERE = 1 << 40
"""A margin that is above zero wherever a tile is."""
NOWHERE = -1 << 40
"""An address below all others, of lanes that take no part."""
Margin = tuple[int, tuple[int, ...]]
"""What a mask's margin is at the first element of a tile, and how it changes along each dimension."""


def margins_of(mask: Mask, programs: int) -> list[tuple[Array, tuple[int, ...]]] | None:
    """The margins of a mask in so many programs; `None` where one is not known."""
    if mask.margins is None:
        return None
    found = []
    for margin in mask.margins:
        strides = [stride.value for stride in margin.strides]
        known = tuple(stride for stride in strides if stride is not None)
        if margin.base.values is None or margin.steps or len(known) < len(strides):
            return None
        found.append((np.broadcast_to(margin.base.values, (programs,)), known))
    return found


def parted(
    margins: Sequence[tuple[Array, tuple[int, ...]]], shape: tuple[int, ...], executions: Array
) -> tuple[Array, Iterator[tuple[tuple[Margin, ...], Array]]]:
    """Executions by programs that the mask leaves whole tiles, and those of others for each way in which it cuts.

    There are at most about as many ways as the tile has elements.
    """
    whole = executions.copy()
    cut = executions > 0
    firsts = []
    for first, strides in margins:
        ends = [stride * (extent - 1) for stride, extent in zip(strides, shape, strict=True)]
        inside = first + sum(min(0, end) for end in ends) > 0
        whole = np.where(inside, whole, 0)
        cut = cut & (first + sum(max(0, end) for end in ends) > 0)
        firsts.append(np.where(inside, EVERYWHERE, first))
    chosen = np.flatnonzero(cut & (whole == 0))
    return whole, _ways(margins, firsts, chosen, executions)


def _ways(
    margins: Sequence[tuple[Array, tuple[int, ...]]], firsts: Sequence[Array], chosen: Array, executions: Array
) -> Iterator[tuple[tuple[Margin, ...], Array]]:
    if not chosen.size:
        return
    ways, which = np.unique(np.stack([first[chosen] for first in firsts], axis=1), axis=0, return_inverse=True)
    for number, way in enumerate(ways.tolist()):
        held = np.zeros_like(executions)
        mine = chosen[which.reshape(-1) == number]
        held[mine] = executions[mine]
        yield tuple((first, strides) for first, (_, strides) in zip(way, margins, strict=True)), held


@lru_cache(maxsize=1024)
def masked_traffic(
    linear: LinearLayout,
    strides: tuple[int, ...],
    element_bits: int,
    vector: int,
    residue: int,
    margins: tuple[Margin, ...],
    store: bool,
) -> Traffic:
    """Traffic of one execution of a tile that a mask cuts; a mask does not change inside of a vector.

    A vector starts at a multiple of its size, so that it lies in one sector.
    """
    size = vector * element_bits // 8
    access = global_access(linear, strides, element_bits, base_alignment=size, store=store, vector_bytes=size)
    free = linear.free_variables() if store else {}
    places = linear.table("register")[[group[0] for group in access.registers]]
    for name in ("warp", "block", "lane"):
        kept = np.arange(linear.size(name))
        kept = kept[kept & free.get(name, 0) == 0]
        places = places[..., None] ^ linear.table(name)[kept]
    places = places.reshape(-1, places.shape[-1])
    coordinates = linear.coordinates(places)
    active = np.ones(places.shape, bool)
    for first, along in margins:
        active &= first + sum(stride * index for stride, index in zip(along, coordinates, strict=True)) > 0
    distances = sum(stride * index for stride, index in zip(strides, coordinates, strict=True))
    addresses = residue + np.asarray(distances) * (element_bits // 8)
    starts = np.sort(np.where(active, addresses, NOWHERE), axis=1)
    sectors, distinct = starts // SECTOR_BYTES, starts != NOWHERE
    requests = int(np.count_nonzero(distinct.any(axis=1)))
    entered = distinct.copy()
    distinct[:, 1:] &= starts[:, 1:] != starts[:, :-1]
    entered[:, 1:] &= sectors[:, 1:] != sectors[:, :-1]
    return Traffic(requests, int(np.count_nonzero(entered)), int(np.count_nonzero(distinct)) * size)
