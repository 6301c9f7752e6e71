"""The tile IR: operations on whole tiles in structured regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from glueball.location import UNKNOWN_LOCATION, SourceLocation
from glueball.tile.types import TileType


class Value:
    """A tile or scalar: the result of an operation, or an argument of a region or function."""

    __slots__ = ("name", "operation", "type")

    def __init__(self, value_type: TileType, name: str = "", operation: Operation | None = None) -> None:
        self.type = value_type
        self.name = name
        self.operation = operation


class Operation:
    """One operation; `opcode` names its row in the table of `glueball.tile.operations`."""

    __slots__ = ("attributes", "location", "opcode", "operands", "regions", "results")

    def __init__(
        self,
        opcode: str,
        operands: Sequence[Value],
        result_types: Sequence[TileType],
        attributes: dict[str, Any] | None = None,
        regions: Sequence[Region] = (),
        location: SourceLocation = UNKNOWN_LOCATION,
    ) -> None:
        self.opcode = opcode
        self.operands = list(operands)
        self.attributes = attributes or {}
        self.regions = list(regions)
        self.location = location
        self.results = [Value(result_type, operation=self) for result_type in result_types]

    @property
    def result(self) -> Value:
        """The only result."""
        (result,) = self.results
        return result


class Region:
    """Operations in order, ended by `yield` where the parent takes values; `arguments` are bound by the parent."""

    __slots__ = ("arguments", "operations")

    def __init__(self, arguments: Sequence[Value] = ()) -> None:
        self.arguments = list(arguments)
        self.operations: list[Operation] = []

    def walk(self) -> Iterator[Operation]:
        """Every operation, outer before inner, in order."""
        for operation in self.operations:
            yield operation
            for region in operation.regions:
                yield from region.walk()


@dataclass(frozen=True, slots=True)
class ArgumentFacts:
    """What specialisation knows of a kernel argument: its value (or address) is a multiple of `divisibility`."""

    divisibility: int = 1


@dataclass(slots=True)
class TileFunction:
    """A kernel: run-time arguments, body, and what it was compiled for.

    A program of it runs on `num_ctas` CTAs of `num_warps` warps each. `shared_bytes` (of each CTA) and the `offset`
    attributes of `allocate_shared` are filled in by the placement pass; `global_scratch_bytes` are those that a launch
    provides for every CTA.
    """

    name: str
    arguments: list[Value]
    facts: list[ArgumentFacts]
    body: Region
    num_warps: int
    lanes: int
    location: SourceLocation = UNKNOWN_LOCATION
    shared_bytes: int = 0
    global_scratch_bytes: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    num_ctas: int = 1


class Builder:
    """Appends operations at the end of the current region, stamped with the current location."""

    __slots__ = ("location", "region")

    def __init__(self, region: Region) -> None:
        self.region = region
        self.location = UNKNOWN_LOCATION

    def create(
        self,
        opcode: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[TileType] = (),
        attributes: dict[str, Any] | None = None,
        regions: Sequence[Region] = (),
    ) -> Operation:
        """A new operation at the end of the region."""
        operation = Operation(opcode, operands, result_types, attributes, regions, self.location)
        self.region.operations.append(operation)
        return operation
