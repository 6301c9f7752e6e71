"""Tile IR as text in MLIR's style, for people; nothing reads it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from glueball.layouts import (
    BlockedLayout,
    DistributedLinearLayout,
    Layout,
    NVMMASharedLayout,
    PaddedSharedLayout,
    SharedLinearLayout,
    SliceLayout,
    SwizzledSharedLayout,
)
from glueball.location import UNKNOWN_LOCATION, SourceLocation
from glueball.tile.ir import Operation, Region, TileFunction, Value
from glueball.tile.types import TileType, distributed_type, shared_memory_descriptor_type

_ALIASES: dict[type[Layout], str] = {
    BlockedLayout: "blocked",
    SliceLayout: "slice",
    DistributedLinearLayout: "linear",
    SwizzledSharedLayout: "swizzled",
    NVMMASharedLayout: "mma",
    PaddedSharedLayout: "padded",
    SharedLinearLayout: "shared_linear",
}


def print_function(function: TileFunction, locations: bool = False) -> str:
    """The function as text, ending in a newline: layouts first, each with a short name, then the operations.

    `locations` adds to every operation its place in the author's source as a comment.
    """
    return _Printer(function, locations).text()


class _Printer:
    def __init__(self, function: TileFunction, locations: bool) -> None:
        self.function = function
        self.locations = locations
        self.names: dict[Value, str] = {}
        self.uses: dict[str, int] = {}
        self.layouts = _aliases(function)

    def text(self) -> str:
        lines = [f"#{alias} = {layout!r}" for layout, alias in self.layouts.items()]
        if lines:
            lines.append("")
        function = self.function
        arguments = []
        for argument, facts in zip(function.arguments, function.facts, strict=True):
            known = f" {{divisibility = {facts.divisibility}}}" if facts.divisibility > 1 else ""
            arguments.append(self.bind(argument) + known)
        shared = f", shared_bytes = {function.shared_bytes}" if function.shared_bytes else ""
        lines.append(
            f"kernel @{function.name}({', '.join(arguments)})\n"
            f"    attributes {{num_warps = {function.num_warps}, lanes = {function.lanes}{shared}}} {{"
            f"{self.comment(function.location)}"
        )
        lines.extend(self.region(function.body, "  "))
        lines.append("}")
        return "\n".join(lines) + "\n"

    def region(self, region: Region, indent: str) -> Iterator[str]:
        for operation in region.operations:
            yield from self.operation(operation, indent)

    def operation(self, operation: Operation, indent: str) -> Iterator[str]:
        head = operation.opcode
        if operation.operands:
            head += " " + ", ".join(f"%{self.names.get(operand, '<undefined>')}" for operand in operation.operands)
        if operation.attributes:
            head += " {" + ", ".join(f"{name} = {value!r}" for name, value in operation.attributes.items()) + "}"
        types = [self.type(value.type) for value in operation.results or operation.operands]
        if types:
            head += " : " + ", ".join(types)
        results = ", ".join(f"%{self.name(result)}" for result in operation.results)
        line = f"{indent}{results} = {head}" if results else indent + head
        comment = self.comment(operation.location)
        if not operation.regions:
            yield line + comment
            return
        for position, region in enumerate(operation.regions):
            opening = f"{line} " if position == 0 else f"{indent}}}, "
            arguments = ", ".join(self.bind(argument) for argument in region.arguments)
            yield f"{opening}{{{f' ({arguments}):' if arguments else ''}{comment if position == 0 else ''}"
            yield from self.region(region, indent + "  ")
        yield indent + "}"

    def bind(self, value: Value) -> str:
        """A value where it is bound: name and type."""
        return f"%{self.name(value)}: {self.type(value.type)}"

    def name(self, value: Value) -> str:
        """A new name: the author's where there is one, with a number where it is taken, else a number."""
        base = value.name or str(len(self.names))
        uses = self.uses.get(base, 0)
        self.uses[base] = uses + 1
        self.names[value] = f"{base}${uses}" if uses else base
        return self.names[value]

    def type(self, value_type: TileType) -> str:
        if not isinstance(value_type, distributed_type | shared_memory_descriptor_type):
            return str(value_type)
        extents = "x".join(map(str, value_type.shape))
        if isinstance(value_type, shared_memory_descriptor_type):
            alloc = f", part of {list(value_type.alloc_shape)}" if value_type.alloc_shape != value_type.shape else ""
            return f"view<{extents}x{value_type.element_ty}, #{self.layouts[value_type.layout]}{alloc}>"
        return f"tile<{extents}x{value_type.element_ty}, #{self.layouts[value_type.layout]}>"

    def comment(self, location: SourceLocation) -> str:
        return f"  // {location}" if self.locations and location != UNKNOWN_LOCATION else ""


def _aliases(function: TileFunction) -> dict[Layout, str]:
    """A short name for every layout, in order of appearance."""
    aliases: dict[Layout, str] = {}
    counts: dict[str, int] = {}
    for value in _values(function):
        if not isinstance(value.type, distributed_type | shared_memory_descriptor_type):
            continue
        if value.type.layout in aliases:
            continue
        base = _ALIASES.get(type(value.type.layout), "layout")
        number = counts.get(base, 0)
        counts[base] = number + 1
        aliases[value.type.layout] = f"{base}{number or ''}"
    return aliases


def _values(function: TileFunction) -> Iterable[Value]:
    yield from function.arguments
    for operation in function.body.walk():
        yield from operation.operands
        yield from operation.results
        for region in operation.regions:
            yield from region.arguments
