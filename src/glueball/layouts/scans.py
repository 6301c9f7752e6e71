"""In which order the elements along one axis of a tensor are scanned.

The bits of the coordinate along the axis are taken from the lowest up, in *segments* of bits that belong to the same
level: registers of a thread, lanes of a warp, warps. Each segment scans the totals of the blocks that the segments
below it have scanned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glueball.layouts import f2
from glueball.layouts.base import HARDWARE
from glueball.layouts.linear import LinearLayout
from glueball.layouts.reductions import AxisSpread, axis_spread, rearranged, separated


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring bits of the coordinate along an axis: `level` is `register`, `lane` or `warp`.

    `bits` are the index bits of that level, lowest coordinate bit first. Registers are scanned one after the other.
    Lanes are scanned by doubling: for each bit, every lane takes what the lane 2^bit before it has in front of its own.
    """

    level: str
    bits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScanOrder:
    """The segments along an axis: those `below` the warps', the warp bits, and those `above`.

    Where there are warp bits, the totals of the blocks below are brought together in every warp, which scans them in
    registers, and then goes on with the segments above.

    What comes before an element is put together from the outermost segment to the innermost, and last of all combined
    with the element, which has been scanned among the registers of the lowest segment if that is one of registers.
    """

    linear: LinearLayout
    axis: int
    below: tuple[Segment, ...]
    warps: tuple[int, ...]
    above: tuple[Segment, ...]

    @property
    def own(self) -> tuple[Segment, ...]:
        """The lowest segment where that is one of registers, whose elements each thread scans on its own."""
        return self.below[:1] if self.below and self.below[0].level == "register" else ()


def scan_layout(linear: LinearLayout, axis: int) -> LinearLayout:
    """A map that can be scanned along an axis as it is: the map itself, or one close to it.

    Every index bit must move along the axis by a power of two, or not at all, and the warps' must be neighbours. Every
    CTA holds all of the axis.
    """
    spread = axis_spread(separated(linear, axis), axis)
    suits = not spread.blocks and _segments(spread) is not None
    return spread.linear if suits else rearranged(linear, axis, in_ctas=True)


def scan_order(linear: LinearLayout, axis: int) -> ScanOrder:
    """The segments of a map that `scan_layout` gave."""
    segments = _segments(axis_spread(linear, axis))
    assert segments is not None
    levels = [segment.level for segment in segments]
    if "warp" not in levels:
        return ScanOrder(linear, axis, tuple(segments), (), ())
    place = levels.index("warp")
    return ScanOrder(linear, axis, tuple(segments[:place]), segments[place].bits, tuple(segments[place + 1 :]))


def _segments(spread: AxisSpread) -> list[Segment] | None:
    """The segments, lowest first; None where some bit is no power of two or the warps' bits are apart."""
    owners: dict[int, tuple[str, int]] = {}
    for level, pairs in zip(HARDWARE, (spread.registers, spread.lanes, spread.warps), strict=False):
        for bit, distance in pairs:
            if distance & (distance - 1):
                return None
            owners[distance] = (level, bit)
    segments: list[Segment] = []
    for _, (level, bit) in sorted(owners.items()):
        if segments and segments[-1].level == level:
            segments[-1] = Segment(level, (*segments[-1].bits, bit))
        else:
            segments.append(Segment(level, (bit,)))
    return None if [segment.level for segment in segments].count("warp") > 1 else segments


def totals_layout(order: ScanOrder) -> LinearLayout:
    """The map of the totals of the blocks below the warps: one element of the axis for each block."""
    return blocks_layout(order, order.below)


def blocks_layout(order: ScanOrder, segments: Sequence[Segment]) -> LinearLayout:
    """The map of one element of the axis for each block that the lowest segments make up."""
    linear, axis = order.linear, order.axis
    count = sum(len(segment.bits) for segment in segments)
    removed = {(segment.level, bit) for segment in segments for bit in segment.bits}
    free = linear.free_variables()["register"]
    shape = list(linear.shape)
    shape[axis] >>= count
    bases: dict[str, list[list[int]]] = {name: [] for name in HARDWARE}
    for name in HARDWARE:
        for bit, basis in enumerate(linear.bases[name]):
            if name == "register" and ((name, bit) in removed or free >> bit & 1):
                continue
            bases[name].append([value >> count if index == axis else value for index, value in enumerate(basis)])
    return LinearLayout.from_bases(bases, shape)


def gathered_totals(totals: LinearLayout, order: ScanOrder) -> LinearLayout:
    """The map in which every warp holds the totals of all warps: the warps' bits become the lowest register bits."""
    shift = totals.shifts()[order.axis]
    mask = (totals.shape[order.axis] - 1) << shift
    moved = [1 << (shift + index) for index in range(len(order.warps))]
    bases = {
        "register": [*moved, *totals.flat_bases("register")],
        "lane": totals.flat_bases("lane"),
        "warp": [basis & ~mask for basis in totals.flat_bases("warp")],
        "block": totals.flat_bases("block"),
    }
    return LinearLayout.from_flat_bases(bases, totals.shape)


@dataclass(frozen=True, slots=True)
class ThreadScan:
    """How a warp scans what it holds: each of `groups` lists registers by their coordinate bits in the segments.

    `groups[i]` maps the index in the register segments (their bits together, lowest first) to a register. Register i of
    the result is register `copies[i]` of these. `totals[i]` is the group whose total is register i of the totals, and
    `before[i]` the group and the index there of the block that register i of what comes before each block is about.
    """

    segments: tuple[Segment, ...]
    groups: tuple[tuple[int, ...], ...]
    copies: tuple[int, ...]
    totals: tuple[int, ...] = ()
    before: tuple[tuple[int, int], ...] = ()


def plan_thread_scan(
    linear: LinearLayout,
    axis: int,
    segments: tuple[Segment, ...],
    totals: LinearLayout | None = None,
    before: LinearLayout | None = None,
) -> ThreadScan:
    """The scan of the lowest bits along an axis, those of `segments`.

    With it go the registers of its `totals`, and of what comes `before` each block of the own segment of registers.
    """
    free = linear.free_variables()["register"]
    moving = [bit for segment in segments if segment.level == "register" for bit in segment.bits]
    kept = [bit for bit in range(linear.bits("register")) if bit not in moving and not free >> bit & 1]
    images = linear.table("register").tolist()
    holder: dict[int, int] = {}
    for register, image in enumerate(images):
        holder.setdefault(image, register)
    members = [f2.apply([1 << bit for bit in moving], index) for index in range(1 << len(moving))]
    bases = [f2.apply([1 << bit for bit in kept], index) for index in range(1 << len(kept))]
    groups = tuple(tuple(holder[images[base | member]] for member in members) for base in bases)
    copies = tuple(holder[image] for image in images)
    wanted: tuple[int, ...] = ()
    if totals is not None:
        number = {_shortened(images[base], linear, axis, totals): index for index, base in enumerate(bases)}
        wanted = tuple(number[image] for image in totals.table("register").tolist())
    blocks: tuple[tuple[int, int], ...] = ()
    if before is not None:
        places: dict[int, tuple[int, int]] = {}
        for group, base in enumerate(bases):
            for index, member in enumerate(members):
                places.setdefault(_shortened(images[base | member], linear, axis, before), (group, index))
        blocks = tuple(places[image] for image in before.table("register").tolist())
    return ThreadScan(segments, groups, copies, wanted, blocks)


def _shortened(flat: int, linear: LinearLayout, axis: int, blocks: LinearLayout) -> int:
    """The flat index of the block along an axis that holds an element."""
    place = list(linear.unflatten(flat))
    place[axis] //= linear.shape[axis] // blocks.shape[axis]
    return blocks.flatten(place)
