"""Which shared memory the views of a kernel look at, on any path of control."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from glueball.tile.ir import Operation, Region, TileFunction, Value
from glueball.tile.shared_views import (
    Descriptor,
    allocated_bytes,
    buffer_bytes,
    element_addresses,
    footprint,
    padded,
    slice_offset,
)
from glueball.tile.types import shared_memory_descriptor_type


@dataclass(frozen=True, slots=True)
class Place:
    """Where a view may start in an allocation: at byte `base` and element offset `mixed`, None where not known.

    All its bytes are among those from `low` to before `high`.
    """

    allocation: str
    base: int | None
    mixed: int
    low: int
    high: int


Places = frozenset[Place]
NOWHERE: Places = frozenset()


def is_view(value: Value) -> bool:
    """Whether a value is a view of shared memory."""
    return isinstance(value.type, shared_memory_descriptor_type)


def views_of(function: TileFunction) -> dict[Value, Places]:
    """Every place that each view of a function may have."""
    found: dict[Value, Places] = {}
    count = -1
    while count != (count := sum(map(len, found.values()))):
        for operation in function.body.walk():
            _visit(operation, found)
    return found


def _visit(operation: Operation, found: dict[Value, Places]) -> None:
    if operation.opcode == "allocate_shared":
        for result in operation.results:
            assert isinstance(result.type, shared_memory_descriptor_type)
            place = Place(operation.attributes["name"], 0, 0, 0, allocated_bytes(result.type))
            found[result] = frozenset({place})
    elif operation.opcode == "view_none":
        found[operation.result] = NOWHERE
    elif operation.opcode.startswith("view_"):
        for result in filter(is_view, operation.results):
            source = operation.operands[0]
            assert isinstance(source.type, shared_memory_descriptor_type)
            kind = source.type
            found[result] = frozenset(_narrowed(operation, kind, place) for place in found.get(source, NOWHERE))
    else:
        _join(operation, found)


def _join(operation: Operation, found: dict[Value, Places]) -> None:
    """Lets views flow into and out of the regions of an operation."""
    if operation.opcode == "if":
        for region in operation.regions:
            _flow(_yielded(region), operation.results, found)
    elif operation.opcode == "for":
        (body,) = operation.regions
        for values in (operation.operands[3:], _yielded(body)):
            _flow(values, body.arguments[1:], found)
            _flow(values, operation.results, found)
    elif operation.opcode == "while":
        condition, body = operation.regions
        _flow(operation.operands, condition.arguments, found)
        _flow(_yielded(body), condition.arguments, found)
        passed = _yielded(condition)[1:]
        _flow(passed, body.arguments, found)
        _flow(passed, operation.results, found)


def _yielded(region: Region) -> Sequence[Value]:
    last = region.operations[-1:]
    return last[0].operands if last and last[0].opcode == "yield" else ()


def _flow(values: Sequence[Value], into: Sequence[Value], found: dict[Value, Places]) -> None:
    for value, target in zip(values, into, strict=True) if values else ():
        if is_view(target):
            found[target] = found.get(target, NOWHERE) | found.get(value, NOWHERE)


def _narrowed(operation: Operation, kind: Descriptor, place: Place) -> Place:
    """The place of a view that an operation makes of another."""
    if operation.opcode == "view_index":
        index = operation.operands[1].operation
        if index is None or index.opcode != "constant" or place.base is None:
            return replace(place, base=None)
        start = place.base + index.attributes["value"] * buffer_bytes(kind)
        return replace(place, base=start, low=start, high=min(place.high, start + buffer_bytes(kind)))
    if operation.opcode == "view_slice":
        start, dim = operation.attributes["start"], operation.attributes["dim"]
        if not kind.is_buffered:
            return replace(place, mixed=place.mixed ^ slice_offset(kind, start, dim))
        if dim > 0:
            return replace(place, mixed=place.mixed ^ slice_offset(kind, start, dim - 1))
        if place.base is None:
            return place
        size = buffer_bytes(kind)
        low = place.base + start * size
        return replace(place, base=low, low=low, high=min(place.high, low + operation.attributes["length"] * size))
    if operation.opcode == "view_reinterpret" and place.base is not None:
        start = place.base + padded(place.mixed, kind.layout) * kind.element_ty.itemsize
        return replace(place, base=start, mixed=0, low=start, high=min(place.high, start + footprint(kind)))
    if operation.opcode == "view_reinterpret":
        return replace(place, mixed=0)
    return place


def bytes_of(place: Place, kind: Descriptor, offset: int) -> int:
    """The bytes that a view at a place may touch, as a mask over shared memory; its allocation starts at `offset`."""
    if place.base is None:
        return ((1 << (place.high - place.low)) - 1) << (offset + place.low)
    touched = np.zeros(place.high, bool)
    addresses = element_addresses(kind, place.base, place.mixed).ravel()
    for byte in range(kind.element_ty.itemsize):
        touched[addresses + byte] = True
    packed = np.packbits(touched, bitorder="little").tobytes()
    return int.from_bytes(packed, "little") << offset


@dataclass(frozen=True, slots=True)
class Group:
    """Allocations among which control flow chooses: views of them count from the first one's start.

    An allocation that no other one meets is a group by itself.
    """

    name: str
    members: tuple[str, ...]


def labels_of(allocations: Iterable[Operation]) -> dict[str, str]:
    """What to call every allocation: as the author calls the view of it, with a number where that is taken."""
    labels: dict[str, str] = {}
    for operation in allocations:
        name = operation.attributes["name"]
        wanted = label = next((result.name for result in operation.results if result.name), name)
        number = 0
        while label in labels.values():
            number += 1
            label = f"{wanted}_{number}"
        labels[name] = label
    return labels


def groups_of(labels: Mapping[str, str], views: Mapping[Value, Places]) -> dict[str, Group]:
    """The group of every allocation, of which `labels` has what it is called."""
    groups = {name: {name} for name in labels}
    for places in views.values():
        members = set().union(*(groups[place.allocation] for place in places))
        for member in members:
            groups[member] = members
    result = {}
    for name, members in groups.items():
        ordered = tuple(each for each in groups if each in members)
        result[name] = Group("+".join(labels[each] for each in ordered), ordered)
    return result
