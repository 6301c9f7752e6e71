"""Thread IR as text in MLIR's style, for people; nothing reads it back."""

from __future__ import annotations

from collections.abc import Iterator

from glueball.location import UNKNOWN_LOCATION, SourceLocation
from glueball.thread.ir import Function, Instruction, Region, Value


def print_function(function: Function, locations: bool = False) -> str:
    """The function as text, ending in a newline: parameters and shared buffers first, then the instructions.

    `locations` adds to every instruction its place in the author's source as a comment.
    """
    parameters = []
    for parameter in function.parameters:
        known = f" {{divisibility = {parameter.value.divisibility}}}" if parameter.value.divisibility > 1 else ""
        behind = parameter.descriptor or parameter.pointee
        pointee = f" -> {behind}" if behind else ""
        parameters.append(f"%{parameter.value.number} {parameter.name}: {parameter.value.type}{pointee}{known}")
    attributes = (
        f"num_warps = {function.num_warps}, target = {function.target.name}, shared_bytes = {function.shared_bytes}"
    )
    lines = [
        f"kernel @{function.name}({', '.join(parameters)}) attributes {{{attributes}}} {{"
        + _comment(function.location, locations)
    ]
    lines += [
        f"  shared {item.name}: {item.bytes} bytes at {item.offset}, alignment {item.alignment}"
        for item in function.allocations.values()
    ]
    lines += _region(function.body, "  ", locations)
    return "\n".join([*lines, "}"]) + "\n"


def _region(region: Region, indent: str, locations: bool) -> Iterator[str]:
    for instruction in region.instructions:
        yield from _instruction(instruction, indent, locations)


def _instruction(instruction: Instruction, indent: str, locations: bool) -> Iterator[str]:
    head = instruction.record.name
    if instruction.operands:
        head += " " + ", ".join(map(repr, instruction.operands))
    shown = {name: value for name, value in instruction.attributes.items() if name != "types"}
    if shown:
        head += " {" + ", ".join(f"{name} = {value!r}" for name, value in shown.items()) + "}"
    types = [value.type for value in instruction.results or instruction.operands]
    if types:
        head += " : " + ", ".join(types)
    results = ", ".join(map(repr, instruction.results))
    line = f"{indent}{results} = {head}" if results else indent + head
    comment = _comment(instruction.location, locations)
    if not instruction.regions:
        yield line + comment
        return
    for position, region in enumerate(instruction.regions):
        opening = f"{line} " if position == 0 else f"{indent}}}, "
        arguments = ", ".join(_bound(argument) for argument in region.arguments)
        yield f"{opening}{{{f' ({arguments}):' if arguments else ''}{comment if position == 0 else ''}"
        yield from _region(region, indent + "  ", locations)
    yield indent + "}"


def _bound(value: Value) -> str:
    return f"{value!r}: {value.type}"


def _comment(location: SourceLocation, locations: bool) -> str:
    return f"  // {location}" if locations and location != UNKNOWN_LOCATION else ""
