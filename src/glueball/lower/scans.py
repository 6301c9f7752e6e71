"""Scans within a warp: serially over registers, by doubling over lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glueball.layouts.linear import LinearLayout
from glueball.layouts.scans import ThreadScan
from glueball.lower.context import Context, lowers
from glueball.lower.linear import lane_id, linear_combination, warp_id
from glueball.lower.regions import Combine, Registers, chosen, columns, combination, exchanged, shifted_lanes
from glueball.lower.terms import Term
from glueball.thread import arithmetic
from glueball.thread.builder import Builder
from glueball.thread.ir import Value
from glueball.tile.ir import Operation
from glueball.tile.types import distributed_type


@dataclass(frozen=True, slots=True)
class Prefix:
    """What comes before an element; `present` tells where anything does, None for everywhere."""

    values: Registers
    present: Value | None = None


@dataclass(frozen=True, slots=True)
class Scanner:
    """Scans with one combination, in one direction."""

    builder: Builder
    combine: Combine
    reverse: bool

    def join(self, first: Prefix | None, second: Prefix | None) -> Prefix | None:
        """Both prefixes combined where both are there, else the one that is."""
        if first is None or second is None:
            return first or second
        values = self.combine(first.values, second.values)
        if second.present is not None:
            values = chosen(self.builder, second.present, values, first.values)
        if first.present is None:
            return Prefix(values)
        values = chosen(self.builder, first.present, values, second.values)
        if second.present is None:
            return Prefix(values)
        return Prefix(values, self.builder.logical_or(first.present, second.present))

    def apply(self, before: Prefix | None, values: Registers) -> Registers:
        """An element combined with what comes before it."""
        if before is None:
            return values
        both = self.combine(before.values, values)
        return both if before.present is None else chosen(self.builder, before.present, both, values)

    def serial(self, elements: Sequence[Registers]) -> list[Registers]:
        """Elements in the order of the scan, each combined with those before it."""
        found = [elements[0]]
        for element in elements[1:]:
            found.append(self.combine(found[-1], element))
        return found

    def doubling(
        self, totals: list[Registers], bits: Sequence[int], *, last: bool
    ) -> tuple[list[Prefix], list[Registers]]:
        """Prefixes over lane bits, and the totals of all their lanes, which the `last` segment does not need."""
        for step in range(len(bits)):
            totals = [
                self.apply(Prefix(*shifted), own)
                for own, shifted in zip(totals, self.shifted(totals, bits, 1 << step), strict=True)
            ]
        before = [Prefix(*shifted) for shifted in self.shifted(totals, bits, 1)]
        if not last:
            mask = sum(1 << bit for bit in bits)
            totals = exchanged(self.builder, totals, self.last_lane(mask))
        return before, totals

    def last_lane(self, mask: int) -> Value:
        """The last one in the direction of the scan of the lanes that differ in some bits only."""
        builder = self.builder
        if self.reverse:
            return builder.logical_and(lane_id(builder), builder.constant("i32", ~mask))
        return builder.logical_or(lane_id(builder), builder.constant("i32", mask))

    def shifted(self, totals: Sequence[Registers], bits: Sequence[int], distance: int) -> list[tuple[Registers, Value]]:
        """What the lane so many places before has, and whether there is one."""
        first = bits[0]
        if tuple(bits) == tuple(range(first, first + len(bits))):
            mask = (1 << len(bits)) - 1 << first
            attributes = {"mask": mask, "distance": distance << first, "reverse": self.reverse}
            return [shifted_lanes(self.builder, values, attributes) for values in totals]
        builder = self.builder
        position = linear_combination(builder, lane_id(builder), _spread(bits), whole=False)
        if self.reverse:
            position = builder.logical_xor(position, builder.constant("i32", (1 << len(bits)) - 1))
        present = builder.compare(arithmetic.COMPARE_SIGNED, "ge", position, builder.constant("i32", distance))
        earlier = builder.sub(position, builder.constant("i32", distance))
        if self.reverse:
            earlier = builder.logical_xor(earlier, builder.constant("i32", -1))
        others = builder.logical_and(lane_id(builder), builder.constant("i32", ~sum(1 << bit for bit in bits)))
        place = linear_combination(builder, earlier, [1 << bit for bit in bits], whole=False)
        source = builder.select(present, builder.add(others, place), lane_id(builder))
        return [(values, present) for values in exchanged(builder, totals, source)]

    def later(self, lanes: int, warps: int) -> Value:
        """Whether a thread comes after the first, by its masked lane and warp bits."""
        builder = self.builder
        parts = builder.constant("i32", 0)
        for identifier, mask in ((lane_id, lanes), (warp_id, warps)):
            if mask:
                part = builder.logical_and(identifier(builder), builder.constant("i32", mask))
                part = builder.logical_xor(part, builder.constant("i32", mask if self.reverse else 0))
                parts = builder.logical_or(parts, part)
        return builder.compare(arithmetic.COMPARE_SIGNED, "ne", parts, builder.constant("i32", 0))

    def order(self, size: int) -> list[int]:
        """Indices of registers in the order of the scan."""
        return list(reversed(range(size))) if self.reverse else list(range(size))


def _spread(bits: Sequence[int]) -> list[int]:
    """The bases of the map from the bits of a lane to its place among those along the axis."""
    bases = [0] * (max(bits) + 1)
    for place, bit in enumerate(bits):
        bases[bit] = 1 << place
    return bases


@dataclass(slots=True)
class Level:
    """What one segment adds: a prefix for each group index, whose lower bits the segments below have used up."""

    shift: int
    size: int
    prefixes: dict[int, Prefix | None]


@dataclass(frozen=True, slots=True)
class Scanned:
    """A group of registers: those scanned within the own segment, what comes before each of them, and the total."""

    inside: list[Registers]
    before: list[Prefix | None]
    total: Registers


@lowers("scan_warp")
def scan_warp(context: Context, operation: Operation) -> None:
    """Every group of registers is scanned on its own.

    With totals, what comes before a block of the own segment is bound on its own, and not yet combined with it.
    """
    plan, exclusive = operation.attributes["plan"], operation.attributes["exclusive"]
    assert isinstance(plan, ThreadScan)
    scanner = Scanner(context.builder, combination(context, operation.regions[0]), operation.attributes["reverse"])
    held = columns(context, [context.terms(operand) for operand in operation.operands])
    groups = [
        _scan_group(scanner, plan, [held[register] for register in group], exclusive=exclusive) for group in plan.groups
    ]
    found: dict[int, Registers] = {}
    for registers, group in zip(plan.groups, groups, strict=True):
        scanned = group.inside if plan.totals else _joined(scanner, group, exclusive=exclusive)
        found.update(zip(registers, scanned, strict=True))
    results = [found[register] for register in plan.copies]
    before = [_values(groups[number].before[index], groups[number].inside[index]) for number, index in plan.before]
    totals = [groups[number].total for number in plan.totals]
    bound = iter(operation.results)
    for rows in (results, before, totals):
        if rows:
            for position in range(len(operation.operands)):
                context.bind(next(bound), tuple(Term(row[position]) for row in rows))


def _values(prefix: Prefix | None, otherwise: Registers) -> Registers:
    return otherwise if prefix is None else prefix.values


def _joined(scanner: Scanner, group: Scanned, *, exclusive: bool) -> list[Registers]:
    pairs = zip(group.before, group.inside, strict=True)
    return [_values(*pair) if exclusive else scanner.apply(*pair) for pair in pairs]


def _scan_group(scanner: Scanner, plan: ThreadScan, elements: list[Registers], *, exclusive: bool) -> Scanned:
    """The elements of a group scanned, and their total."""
    totals, shift = dict(enumerate(elements)), 0
    start = elements
    levels: list[Level] = []
    for number, segment in enumerate(plan.segments):
        last = number == len(plan.segments) - 1 and not plan.totals
        if segment.level == "lane":
            prefixes, values = scanner.doubling(list(totals.values()), segment.bits, last=last)
            levels.append(Level(shift, 0, dict(zip(totals, prefixes, strict=True))))
            totals = dict(zip(totals, values, strict=True))
            continue
        inside, before, totals = _scan_registers(scanner, totals, shift, len(segment.bits))
        if number == 0 and not exclusive:
            start = [inside[index] for index in range(len(elements))]
        else:
            levels.append(Level(shift, len(segment.bits), before))
        shift += len(segment.bits)
    found = []
    for index in range(len(start)):
        prefix: Prefix | None = None
        for level in reversed(levels):
            prefix = scanner.join(prefix, level.prefixes[index >> level.shift << level.shift])
        found.append(prefix)
    return Scanned(start, found, totals[0])


def _scan_registers(
    scanner: Scanner, totals: dict[int, Registers], shift: int, count: int
) -> tuple[dict[int, Registers], dict[int, Prefix | None], dict[int, Registers]]:
    """A register segment: elements with and without themselves, by group index, and the totals of what is above."""
    inside: dict[int, Registers] = {}
    before: dict[int, Prefix | None] = {}
    above: dict[int, Registers] = {}
    mask = ((1 << count) - 1) << shift
    for base in [index for index in totals if not index & mask]:
        places = [base | step << shift for step in scanner.order(1 << count)]
        scanned = scanner.serial([totals[place] for place in places])
        inside.update(zip(places, scanned, strict=True))
        before[places[0]] = None
        before.update({place: Prefix(values) for place, values in zip(places[1:], scanned, strict=False)})
        above[base] = scanned[-1]
    return inside, before, above


@lowers("scan_finish")
def scan_finish(context: Context, operation: Operation) -> None:
    """Each register combined with what comes before its block of each of several sizes, greatest first."""
    scanner = Scanner(context.builder, combination(context, operation.regions[0]), operation.attributes["reverse"])
    axis, count = operation.attributes["axis"], len(operation.results)
    source = operation.results[0].type
    assert isinstance(source, distributed_type)
    *tiles, elements = (operation.operands[start : start + count] for start in range(0, len(operation.operands), count))
    inside = columns(context, [context.terms(operand) for operand in elements])
    levels: list[Blocks] = []
    whole = source.shape[axis]
    for operands in tiles:
        kind = operands[0].type
        assert isinstance(kind, distributed_type)
        step = source.shape[axis] // kind.shape[axis]
        held = columns(context, [context.terms(operand) for operand in operands])
        levels.append(_blocks(scanner, kind.linear, axis, step, whole // step, held))
        whole = step
    found = []
    for register, image in enumerate(source.linear.table("register").tolist()):
        prefix: Prefix | None = None
        for level in levels:
            prefix = scanner.join(prefix, level.before(source.linear.unflatten(image)))
        found.append(scanner.apply(prefix, inside[register]))
    for position, result in enumerate(operation.results):
        context.bind(result, tuple(Term(values[position]) for values in found))


@dataclass(frozen=True, slots=True)
class Blocks:
    """What comes before each block of `step` elements along an axis, by the flat index of the block.

    The first of every `count` blocks has nothing before it: `first` is its place among the registers of a thread, and
    `later` says that the thread's lane and warp make it another one.
    """

    linear: LinearLayout
    axis: int
    step: int
    count: int
    values: dict[int, Registers]
    first: int
    later: Value

    def before(self, place: Sequence[int]) -> Prefix:
        """What comes before the block with an element, given by what a register adds to the thread's place."""
        block = [*place[: self.axis], place[self.axis] // self.step, *place[self.axis + 1 :]]
        values = self.values[self.linear.flatten(block)]
        return Prefix(values, self.later if block[self.axis] % self.count == self.first else None)


def _blocks(
    scanner: Scanner, linear: LinearLayout, axis: int, step: int, count: int, held: Sequence[Registers]
) -> Blocks:
    values: dict[int, Registers] = {}
    for image, registers in zip(linear.table("register").tolist(), held, strict=True):
        values.setdefault(image, registers)
    moving = {
        name: [basis[axis] if basis[axis] < count else 0 for basis in linear.bases[name]]
        for name in ("register", "lane", "warp")
    }
    lanes, warps = (sum(1 << bit for bit, distance in enumerate(moving[name]) if distance) for name in ("lane", "warp"))
    first = sum(moving["register"]) if scanner.reverse else 0
    return Blocks(linear, axis, step, count, values, first, scanner.later(lanes, warps))
