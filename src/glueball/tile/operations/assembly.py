"""The author's own assembly, elementwise or on all registers of a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glueball.errors import NotSimulatedError, SimulationError
from glueball.layouts import LinearLayout
from glueball.location import SourceLocation
from glueball.ptx import Uninterpreted, Word
from glueball.tile.ir import Operation
from glueball.tile.operations.definition import (
    Array,
    Machine,
    OperationDefinition,
    TileArray,
    fault,
    initialized,
    numpy_type,
)
from glueball.tile.operations.gathers import register_groups
from glueball.tile.operations.regions import alike_tiles
from glueball.tile.operations.rules import expect_alike
from glueball.tile.types import TileType, distributed_type

REGISTER_BITS = 32
"""Narrower elements go packed into a register as wide, where an author allows it."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """What stands for assembly where it cannot run: a function of the author's, its interpretation, or nothing.

    The function takes one array for each element of the operands, in the order of the assembly's, and gives one array,
    or a tuple of them, one for each element of the results.
    """

    name: str
    function: Callable[..., Any] | None
    count: int

    def __call__(self, location: SourceLocation, arrays: Sequence[Array]) -> Sequence[Array]:
        """The results. `NotSimulatedError` where nothing stands for it; `SimulationError` for too few or too many."""
        if self.function is None:
            raise self._missing("", location)
        try:
            found = self.function(*arrays)
        except Uninterpreted as error:
            raise self._missing(f", since {error}", location) from error
        results = list(found) if isinstance(found, tuple | list) else [found]
        if self.count == 0:
            results = []
        if len(results) != self.count:
            raise SimulationError(
                f"the function that stands for `{self.name}` gave {len(results)} arrays, not {self.count}", location
            )
        return results

    def _missing(self, reason: str, location: SourceLocation) -> NotSimulatedError:
        return NotSimulatedError(
            f"`{self.name}` runs on a GPU only{reason}: pass simulate=f, a Python function of NumPy arrays, to say "
            "what it does elsewhere",
            location,
        )


def packed_words(value_type: TileType, pack: int) -> list[Word]:
    """How `pack` elements of a value lie in registers: 8-bit and 16-bit ones side by side, booleans alone."""
    element = numpy_type(value_type)
    fitting = 1 if element == np.bool_ else max(1, REGISTER_BITS // (8 * element.itemsize))
    count = min(pack, fitting)
    return [Word(element, count)] * (pack // count)


def _check_elementwise(operation: Operation) -> None:
    source, pack = alike_tiles(operation), operation.attributes["pack"]
    if source.linear.size("register") % pack:
        raise fault(
            operation, f"takes {pack} elements of a thread at a time, which holds {source.linear.size('register')}"
        )
    expect_alike(operation, *operation.operands, *operation.results)


def _check_threads(operation: Operation) -> None:
    for value in (*operation.operands, *operation.results):
        if isinstance(value.type, distributed_type):
            value.type.layout.linear(value.type.shape)


def _elementwise(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    kind, pack = operation.operands[0].type, operation.attributes["pack"]
    assert isinstance(kind, distributed_type)
    groups = register_groups(kind, pack)
    arrays = [
        initialized(machine, operation, operand, "operand").reshape(-1)[groups[:, index]]
        for operand in operands
        for index in range(pack)
    ]
    found = operation.attributes["simulate"](operation.location, arrays)
    results = []
    for position, result in enumerate(operation.results):
        values = np.empty(kind.numel, numpy_type(result.type))
        for index in range(pack):
            values[groups[:, index]] = found[position * pack + index]
        results.append(TileArray(values.reshape(kind.shape)))
    return results


def held(linear: LinearLayout) -> Array:
    """The flat index of the element that each register of each thread holds: `[register, thread]`."""
    lanes = linear.table("register")[:, None, None] ^ linear.table("lane")[:, None] ^ linear.table("warp")
    return lanes.reshape(linear.size("register"), -1)


def _registers(value_type: TileType, values: Array) -> list[Array]:
    """What the threads hold, one array for each register."""
    if not isinstance(value_type, distributed_type):
        return [values]
    return list(values.reshape(-1)[held(value_type.linear)])


def _threads(machine: Machine, operation: Operation, operands: Sequence[TileArray]) -> Sequence[TileArray]:
    arrays = []
    for value, operand in zip(operation.operands, operands, strict=True):
        arrays += _registers(value.type, initialized(machine, operation, operand, "operand"))
    found = list(operation.attributes["simulate"](operation.location, arrays))
    results = []
    for result in operation.results:
        kind = result.type
        if not isinstance(kind, distributed_type):
            results.append(TileArray(np.asarray(np.ravel(found.pop(0))[0], numpy_type(kind))))
            continue
        places = held(kind.linear)
        values = np.empty(kind.numel, numpy_type(kind))
        for row in places:
            values[row] = found.pop(0)
        results.append(TileArray(values.reshape(kind.shape)))
    return results


ATTRIBUTES = frozenset({"assembly", "constraints", "simulate", "is_pure"})

ASSEMBLY_OPERATIONS = (
    OperationDefinition(
        "assembly_elementwise", "The author's assembly on `pack` registers of each tile at a time.",
        _check_elementwise, _elementwise, pure=False, attributes=ATTRIBUTES | {"pack"},
    ),
    OperationDefinition(
        "assembly", "The author's assembly on all registers of a thread.", _check_threads, _threads, pure=False,
        attributes=ATTRIBUTES,
    ),
)  # fmt: skip
