"""Replacing operations by others, in every region."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from glueball.errors import CompilationError, LayoutError
from glueball.location import SourceLocation
from glueball.tile.ir import Operation, Region, TileFunction, Value
from glueball.tile.types import TileType


class Sequel:
    """The operations that take the place of one, all at its location."""

    __slots__ = ("location", "operations")

    def __init__(self, location: SourceLocation) -> None:
        self.location = location
        self.operations: list[Operation] = []

    def add(
        self, opcode: str, operands: Sequence[Value], types: Sequence[TileType], regions: Sequence[Region] = (),
        **attributes: object,
    ) -> list[Value]:  # fmt: skip
        """Appends an operation; its results."""
        operation = Operation(opcode, operands, types, attributes, regions, self.location)
        self.operations.append(operation)
        return operation.results

    def convert(self, value: Value, wanted: TileType) -> Value:
        """The value in another layout; itself where it has that one."""
        if value.type == wanted:
            return value
        return self.add("convert_layout", (value,), [wanted])[0]


Rule = Callable[[Operation, Sequel], Sequence[Value]]
"""Appends what replaces an operation; the values that replace its results."""


def rewrite(function: TileFunction, rules: Mapping[str, Rule]) -> None:
    """Replaces every operation that has a rule. `CompilationError` at the line of one that cannot be."""
    _rewrite_region(function.body, rules, {})


def _rewrite_region(region: Region, rules: Mapping[str, Rule], renamed: dict[Value, Value]) -> None:
    result: list[Operation] = []
    for operation in region.operations:
        operation.operands = [renamed.get(operand, operand) for operand in operation.operands]
        for inner in operation.regions:
            _rewrite_region(inner, rules, renamed)
        rule = rules.get(operation.opcode)
        if rule is None:
            result.append(operation)
            continue
        sequel = Sequel(operation.location)
        try:
            values = rule(operation, sequel)
        except LayoutError as error:
            raise CompilationError(str(error), operation.location) from error
        result += sequel.operations
        renamed.update(zip(operation.results, values, strict=True))
    region.operations[:] = result
