"""How the elements along one axis of a tensor are spread over threads, and in which order they are combined.

A *slot* is where a thread holds an element along the axis. Slots are numbered by the register bits that move along the
axis, then the lane bits, the warp bits and the CTA bits, lowest first. A reduction combines them in a balanced binary
tree: the neighbours of bit 0 first, so first within threads, then between lanes, then between warps, then between CTAs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from glueball.layouts import f2
from glueball.layouts.base import HARDWARE
from glueball.layouts.linear import IndexArray, LinearLayout
from glueball.layouts.tiles import unit

VECTOR_BYTES = 16


@dataclass(frozen=True, slots=True)
class AxisSpread:
    """Which index bits of each level move along an axis, and by how much: pairs (bit, distance), lowest bit first.

    The map is such that every bit moves along the axis or across it, and bits that only replicate do not move at all
    along it.
    """

    linear: LinearLayout
    axis: int
    registers: tuple[tuple[int, int], ...]
    lanes: tuple[tuple[int, int], ...]
    warps: tuple[tuple[int, int], ...]
    blocks: tuple[tuple[int, int], ...]

    @property
    def slots(self) -> IndexArray:
        """The coordinate along the axis of each slot."""
        distances = [distance for _, distance in (*self.registers, *self.lanes, *self.warps, *self.blocks)]
        return LinearLayout.from_flat_bases({"slot": distances}, (self.linear.shape[self.axis],)).table("slot")

    @property
    def shift(self) -> int:
        """The lowest bit of the axis in a flat index."""
        return self.linear.shifts()[self.axis]

    def across(self, flat: int) -> int:
        """A flat index without its coordinate along the axis."""
        return without_axis(flat, self.linear.shape, self.axis)


def without_axis(flat: int, shape: Sequence[int], axis: int) -> int:
    """A flat index in a shape as one in that shape without a dimension."""
    inner = math.prod(shape[axis + 1 :])
    return flat // (inner * shape[axis]) * inner + flat % inner


def axis_spread(linear: LinearLayout, axis: int) -> AxisSpread:
    """The spread along an axis of a map that `is_separated`."""
    shift = linear.shifts()[axis]
    mask = (linear.shape[axis] - 1) << shift
    moving = [
        tuple((bit, (basis & mask) >> shift) for bit, basis in enumerate(linear.flat_bases(name)) if basis & mask)
        for name in HARDWARE
    ]
    return AxisSpread(linear, axis, *moving)


def is_separated(linear: LinearLayout, axis: int) -> bool:
    """Whether every index bit moves either along the axis or across it, and none that replicates moves along it."""
    mask = (linear.shape[axis] - 1) << linear.shifts()[axis]
    free = linear.free_variables()
    for name in HARDWARE:
        for bit, basis in enumerate(linear.flat_bases(name)):
            if basis & mask and (basis & ~mask or free.get(name, 0) >> bit & 1):
                return False
    return True


def separated(linear: LinearLayout, axis: int) -> LinearLayout:
    """A map that `is_separated`, with the same lanes and warps: the map itself, or one close to it."""
    return linear if is_separated(linear, axis) else rearranged(linear, axis)


def rearranged(linear: LinearLayout, axis: int, *, in_ctas: bool = False) -> LinearLayout:
    """A map that `is_separated`, by powers of two, and walks an axis by registers, lanes, warps, then CTAs.

    Lanes, warps and CTAs move across the axis as in the given map where that leads to new elements, else along it.
    With `in_ctas`, every CTA holds all of the axis.
    """
    shift, bits = linear.shifts()[axis], (linear.shape[axis] - 1).bit_length()
    mask = ((1 << bits) - 1) << shift
    across, along = f2.Echelon(), f2.Echelon()
    choices: dict[str, list[int | None]] = {}
    for name in ("block", "lane", "warp"):
        chosen: list[int | None] = []
        for basis in linear.flat_bases(name):
            if across.add(basis & ~mask):
                chosen.append(basis & ~mask)
            elif in_ctas and name == "block":
                chosen.append(0)
            else:
                chosen.append(None if along.add(basis & mask) else 0)
        choices[name] = chosen
    count = bits - sum(value is None for chosen in choices.values() for value in chosen)
    registers = [1 << (shift + bit) for bit in range(count)]
    position = shift + count
    columns: dict[str, list[int]] = {}
    for name in ("lane", "warp", "block"):
        columns[name] = []
        for value in choices[name]:
            columns[name].append(1 << position if value is None else value)
            position += value is None
    total = linear.elements.bit_length() - 1
    registers += [1 << bit for bit in range(total) if not mask >> bit & 1 and across.add(1 << bit)]
    return LinearLayout.from_flat_bases({"register": registers, **columns}, linear.shape, linear.outputs)


def warp_partials(spread: AxisSpread) -> LinearLayout:
    """The map after every warp has combined its own elements: the axis has one element per warp and CTA along it.

    All lanes hold the result of their warp.
    """
    linear, axis = spread.linear, spread.axis
    levels = (spread.registers, spread.lanes, spread.warps, spread.blocks)
    moving = {name: dict(pairs) for name, pairs in zip(HARDWARE, levels, strict=True)}
    free = linear.free_variables()["register"]
    shape = list(linear.shape)
    shape[axis] = 1 << (len(spread.warps) + len(spread.blocks))
    bases: dict[str, list[Sequence[int]]] = {name: [] for name in HARDWARE}
    step = 1
    for name in HARDWARE:
        for bit, basis in enumerate(linear.bases[name]):
            if bit not in moving[name]:
                if name != "register" or not free >> bit & 1:
                    bases[name].append(basis)
            elif name == "lane":
                bases[name].append(unit(axis, 0, len(shape)))
            elif name != "register":
                bases[name].append(unit(axis, step, len(shape)))
                step *= 2
    return LinearLayout.from_bases(bases, shape)


def gathered(partials: LinearLayout, axis: int, element_bytes: int, *, lanes: bool) -> LinearLayout:
    """The map in which every warp holds all elements along an axis that was spread over warps and CTAs.

    As many as fill one access go to the registers of a thread; with `lanes`, the others to lanes that hold copies,
    where there are enough of those. Where there are not, and the axis is spread over warps as well as over CTAs, it
    stays spread over CTAs; else all go to registers.
    """
    shift, bits = partials.shifts()[axis], (partials.shape[axis] - 1).bit_length()
    mask = ((1 << bits) - 1) << shift
    blocks = partials.flat_bases("block")
    in_ctas = [basis & mask for basis in blocks if basis & mask]
    lane_bases = list(partials.flat_bases("lane"))
    spare = [bit for bit, basis in enumerate(lane_bases) if basis == 0]
    most = (VECTOR_BYTES // element_bytes).bit_length() - 1
    if bits - most > len(spare) and 0 < len(in_ctas) < bits:
        bits -= len(in_ctas)
        mask &= ~sum(in_ctas)
    direct = min(bits, most)
    if lanes and len(spare) >= bits - direct:
        for bit, position in zip(range(direct, bits), spare, strict=False):
            lane_bases[position] = 1 << (shift + bit)
    else:
        direct = bits
    bases = {
        "register": [*(1 << (shift + bit) for bit in range(direct)), *partials.flat_bases("register")],
        "lane": lane_bases,
        "warp": [basis & ~mask for basis in partials.flat_bases("warp")],
        "block": [basis & ~mask for basis in blocks],
    }
    return LinearLayout.from_flat_bases(bases, partials.shape)


def without_dimension(linear: LinearLayout, axis: int) -> LinearLayout:
    """A map onto a shape whose extent along an axis is 1, onto the shape without it."""
    shape = (*linear.shape[:axis], *linear.shape[axis + 1 :])
    return LinearLayout.from_flat_bases({name: linear.flat_bases(name) for name in HARDWARE}, shape)


@dataclass(frozen=True, slots=True)
class WarpReduction:
    """How a warp combines what it holds along an axis.

    Each of `groups` lists registers of a thread in the order of their slots; the groups' results are combined over the
    lane masks `lanes`. Register i of the result is that of group `copies[i]`. Every lane combines in the order that
    starts with itself; with `broadcast` the lanes whose bits `lanes` are zero then hand their results to the others.
    """

    groups: tuple[tuple[int, ...], ...]
    lanes: tuple[int, ...]
    copies: tuple[int, ...]
    broadcast: bool


def plan_warp_reduction(spread: AxisSpread, result: LinearLayout | None, *, broadcast: bool) -> WarpReduction:
    """The combination within each warp, with the registers of a result map (None: of a scalar).

    `result` is onto the shape of `warp_partials`, or onto that without the axis where its extent there is 1.
    """
    linear = spread.linear
    free = linear.free_variables()["register"]
    moving = [bit for bit, _ in spread.registers]
    kept = [bit for bit in range(linear.bits("register")) if bit not in moving and not free >> bit & 1]
    members = [f2.apply([1 << bit for bit in moving], index) for index in range(1 << len(moving))]
    groups: list[tuple[int, ...]] = []
    number: dict[int, int] = {}
    images = linear.table("register").tolist()
    for index in range(1 << len(kept)):
        base = f2.apply([1 << bit for bit in kept], index)
        number[spread.across(images[base])] = len(groups)
        groups.append(tuple(base | member for member in members))
    if result is None:
        copies: tuple[int, ...] = (0,)
    else:
        whole = len(result.shape) < len(linear.shape)
        wanted = result.table("register").tolist()
        copies = tuple(number[image if whole else without_axis(image, result.shape, spread.axis)] for image in wanted)
    lanes = tuple(1 << bit for bit, _ in spread.lanes)
    return WarpReduction(tuple(groups), lanes, copies, broadcast)
