"""Whether elements along an axis can be found by shuffles alone, and how."""

from __future__ import annotations

from dataclasses import dataclass

from glueball.layouts import f2
from glueball.layouts.linear import LinearLayout
from glueball.layouts.reductions import axis_spread, is_separated, without_axis

MOST_SHUFFLES = 16


@dataclass(frozen=True, slots=True)
class WarpGather:
    """How a thread finds an element along an axis within its warp.

    The lane that holds it has the own lane's bits `keep` and those that `lanes` gives for the bits of the index. Of the
    registers `sources[i]` there, for result register i, it is the one that `registers` gives the number of.
    """

    keep: int
    lanes: tuple[int, ...]
    registers: tuple[int, ...]
    sources: tuple[tuple[int, ...], ...]


def plan_warp_gather(source: LinearLayout, index: LinearLayout, axis: int) -> WarpGather | None:
    """The gather by shuffles; None where elements may be in another warp, or it would take many shuffles."""
    if not is_separated(source, axis):
        return None
    spread = axis_spread(source, axis)
    if spread.warps or spread.blocks:
        return None
    for name in ("lane", "warp", "block"):
        own, wanted = (
            [without_axis(basis, layout.shape, axis) for basis in layout.flat_bases(name)] for layout in (source, index)
        )
        if own != wanted:
            return None
    moving = [1 << bit for bit, _ in spread.registers]
    if index.size("register") << len(moving) > MOST_SHUFFLES:
        return None
    holder: dict[int, int] = {}
    for register, image in enumerate(source.table("register").tolist()):
        place = source.unflatten(image)
        if place[axis] == 0:
            holder.setdefault(without_axis(image, source.shape, axis), register)
    members = [f2.apply(moving, number) for number in range(1 << len(moving))]
    sources = []
    for image in index.table("register").tolist():
        base = holder.get(without_axis(image, index.shape, axis))
        if base is None:
            return None
        sources.append(tuple(base ^ member for member in members))
    distances = f2.Echelon([distance for _, distance in (*spread.registers, *spread.lanes)])
    bits = (source.shape[axis] - 1).bit_length()
    combinations = [distances.solve(1 << bit) or 0 for bit in range(bits)]
    mask = (1 << len(moving)) - 1
    lane_bits = [1 << bit for bit, _ in spread.lanes]
    return WarpGather(
        keep=(1 << source.bits("lane")) - 1 - sum(lane_bits),
        lanes=tuple(f2.apply(lane_bits, combination >> len(moving)) for combination in combinations),
        registers=tuple(combination & mask for combination in combinations),
        sources=tuple(sources),
    )
