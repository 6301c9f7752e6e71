"""Scans within a warp: serially over registers, bit by bit over lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glueball.layouts.scans import Segment, ThreadScan
from glueball.lower.context import Context, lowers
from glueball.lower.linear import lane_id, warp_id
from glueball.lower.regions import Combine, Registers, chosen, columns, combination, exchanged
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

    def bitwise(
        self, totals: list[Registers], bits: Sequence[int], *, last: bool
    ) -> tuple[list[Prefix], list[Registers]]:
        """Prefixes over lane bits, and the totals of all their lanes, which the `last` segment does not need."""
        builder, below = self.builder, 0
        before: list[Prefix] = []
        for index, bit in enumerate(bits):
            partner = builder.logical_xor(lane_id(builder), builder.constant("i32", 1 << bit))
            received = exchanged(builder, totals, partner)
            upper = self.later(1 << bit, 0)
            present = None if index == 0 else self.later(below, 0)
            grown = [
                self.join(Prefix(other), Prefix(before[number].values, present) if before else None)
                for number, other in enumerate(received)
            ]
            assert all(prefix is not None for prefix in grown)
            values = [prefix.values for prefix in grown if prefix is not None]
            if before:
                pairs = zip(values, before, strict=True)
                values = [chosen(builder, upper, new, old.values) for new, old in pairs]
            below |= 1 << bit
            before = [Prefix(each, self.later(below, 0)) for each in values]
            if not last or index < len(bits) - 1:
                totals = [self._ordered(upper, *pair) for pair in zip(totals, received, strict=True)]
        return before, totals

    def _ordered(self, upper: Value, own: Registers, other: Registers) -> Registers:
        first, second = chosen(self.builder, upper, other, own), chosen(self.builder, upper, own, other)
        return self.combine(first, second)

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


@dataclass(slots=True)
class Level:
    """What one segment adds: a prefix for each group index, whose lower bits the segments below have used up."""

    shift: int
    size: int
    prefixes: dict[int, Prefix | None]


@lowers("scan_warp")
def scan_warp(context: Context, operation: Operation) -> None:
    """Every group of registers is scanned on its own; their totals, if asked for, are bound too."""
    plan, exclusive = operation.attributes["plan"], operation.attributes["exclusive"]
    assert isinstance(plan, ThreadScan)
    scanner = Scanner(context.builder, combination(context, operation.regions[0]), operation.attributes["reverse"])
    held = columns(context, [context.terms(operand) for operand in operation.operands])
    found: dict[int, Registers] = {}
    totals: list[Registers] = []
    for group in plan.groups:
        scanned, total = _scan_group(
            scanner, plan.segments, [held[register] for register in group], exclusive, plan.totals != ()
        )
        found.update(zip(group, scanned, strict=True))
        totals.append(total)
    count = len(operation.operands)
    for position in range(count):
        terms = tuple(Term(found[register][position]) for register in plan.copies)
        context.bind(operation.results[position], terms)
    for position, result in enumerate(operation.results[count:]):
        context.bind(result, tuple(Term(totals[group][position]) for group in plan.totals))


def _scan_group(
    scanner: Scanner, segments: Sequence[Segment], elements: list[Registers], exclusive: bool, wants_total: bool
) -> tuple[list[Registers], Registers]:
    """The elements of a group scanned, and their total."""
    totals, shift = dict(enumerate(elements)), 0
    start = elements
    levels: list[Level] = []
    for number, segment in enumerate(segments):
        last = number == len(segments) - 1 and not wants_total
        if segment.level == "lane":
            prefixes, values = scanner.bitwise(list(totals.values()), segment.bits, last=last)
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
    for index, element in enumerate(start):
        prefix: Prefix | None = None
        for level in reversed(levels):
            prefix = scanner.join(prefix, level.prefixes[index >> level.shift << level.shift])
        if exclusive:
            found.append(element if prefix is None else prefix.values)
        else:
            found.append(scanner.apply(prefix, element))
    return found, totals[0]


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
    """Each register combined with the prefix of its block, unless that is the first."""
    scanner = Scanner(context.builder, combination(context, operation.regions[0]), operation.attributes["reverse"])
    axis = operation.attributes["axis"]
    count = len(operation.operands) // 2
    blocks, source = operation.operands[0].type, operation.operands[count].type
    assert isinstance(blocks, distributed_type) and isinstance(source, distributed_type)
    before = columns(context, [context.terms(operand) for operand in operation.operands[:count]])
    inside = columns(context, [context.terms(operand) for operand in operation.operands[count:]])
    step = source.shape[axis] // blocks.shape[axis]
    linear = blocks.linear
    masks = [sum(1 << bit for bit, basis in enumerate(linear.bases[name]) if basis[axis]) for name in ("lane", "warp")]
    holder: dict[int, int] = {}
    for register, image in enumerate(linear.table("register").tolist()):
        holder.setdefault(image, register)
    first = sum(basis[axis] for basis in linear.bases["register"]) if scanner.reverse else 0
    found = []
    for register, image in enumerate(source.linear.table("register").tolist()):
        place = list(source.linear.unflatten(image))
        place[axis] //= step
        values = before[holder[linear.flatten(place)]]
        present = scanner.later(*masks) if place[axis] == first else None
        found.append(scanner.apply(Prefix(values, present), inside[register]))
    for position, result in enumerate(operation.results):
        context.bind(result, tuple(Term(values[position]) for values in found))
