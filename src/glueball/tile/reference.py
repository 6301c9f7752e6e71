"""The reference executor: runs tile IR on whole NumPy arrays, one program after another, threads ignored.

It is the oracle for everything below the tile IR. Masked-off elements of a load without `other` are poison, and so is
what is computed from them; storing one, or deciding or addressing by one, is an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from glueball.tile.argument_memory import ArgumentMemory
from glueball.tile.ir import Region, TileFunction, Value
from glueball.tile.operations import TILE_OPERATIONS, TileArray
from glueball.tile.operations.definition import numpy_type
from glueball.tile.shared_arena import SharedArena
from glueball.tile.types import dtype, pointer_type
from glueball.tile.verifier import verify_structure


def run(function: TileFunction, grid: Sequence[int], arguments: Sequence[Any]) -> None:
    """Run every program of a grid of one to three extents; arrays are written in place.

    `arguments` has one entry per run-time argument: a NumPy array (of any strides) for a pointer, a Python or NumPy
    number for a scalar. Pointer arithmetic counts elements from the array's first one in memory order of the storage.
    Errors: `TypeError`, `ValueError` or `OverflowError` for arguments that do not fit the function,
    `VerificationError` for a function that breaks a rule, subclasses of `SimulationError` for faults of the kernel.
    """
    verify_structure(function)
    extents = _grid(grid)
    if len(arguments) != len(function.arguments):
        raise TypeError(f"kernel `{function.name}` takes {len(function.arguments)} arguments, not {len(arguments)}")
    memory = ArgumentMemory()
    values = [_bind(memory, *pair) for pair in zip(function.arguments, arguments, strict=True)]
    environment = dict(zip(function.arguments, values, strict=True))
    with np.errstate(all="ignore"):
        for z, y, x in itertools.product(*map(range, reversed(extents))):
            _Program((x, y, z), extents, memory, dict(environment)).run(function.body)


class _Program:
    """One program instance; `environment` holds what every value was bound to last."""

    __slots__ = ("arena", "environment", "grid", "memory", "program", "shared")

    def __init__(
        self,
        program: tuple[int, int, int],
        grid: tuple[int, int, int],
        memory: ArgumentMemory,
        environment: dict[Value, TileArray],
    ) -> None:
        self.program = program
        self.grid = grid
        self.memory = memory
        self.environment = environment
        self.shared: dict[str, TileArray] = {}
        self.arena = SharedArena(program)

    def run(self, region: Region, arguments: Sequence[TileArray] = ()) -> list[TileArray]:
        """Run a region; the operands of the `yield` that ends it."""
        environment = self.environment
        environment.update(zip(region.arguments, arguments, strict=True))
        operands: list[TileArray] = []
        for operation in region.operations:
            operands = [environment[operand] for operand in operation.operands]
            results = TILE_OPERATIONS[operation.opcode].reference(self, operation, operands)
            environment.update(zip(operation.results, results, strict=True))
        return operands if region.operations and region.operations[-1].opcode == "yield" else []


def _grid(grid: Sequence[int]) -> tuple[int, int, int]:
    if not 1 <= len(grid) <= 3 or any(extent < 0 for extent in grid):
        raise ValueError(f"a grid has one to three extents, none negative, not {tuple(grid)}")
    x, y, z = (*(int(extent) for extent in grid), 1, 1)[:3]
    return x, y, z


def _bind(memory: ArgumentMemory, parameter: Value, argument: Any) -> TileArray:
    """What a parameter's argument is to the program: the address of an array, or a number of the parameter's type."""
    kind = parameter.type
    if isinstance(kind, pointer_type):
        if not isinstance(argument, np.ndarray):
            raise TypeError(f"argument `{parameter.name}` is a {kind}, so it must be an array, not {argument!r}")
        itemsize = kind.element_ty.itemsize
        if argument.itemsize != itemsize:
            raise TypeError(f"argument `{parameter.name}` is a {kind}, so it cannot be an array of {argument.dtype}")
        return TileArray(np.asarray(memory.add(parameter.name, argument, itemsize), np.int64))
    if not isinstance(kind, dtype):
        raise TypeError(f"argument `{parameter.name}` cannot be a {kind}")
    if isinstance(argument, np.ndarray) and argument.ndim:
        raise TypeError(f"argument `{parameter.name}` is an {kind}, not an array")
    if kind.is_int() and not kind.is_bool():
        number = int(argument)
        if number != argument:
            raise TypeError(f"argument `{parameter.name}` is an {kind}, not {argument!r}")
        if not kind.get_int_min_value() <= number <= kind.get_int_max_value():
            raise OverflowError(f"argument `{parameter.name}` is an {kind}, which {number} does not fit")
        return TileArray(np.asarray(number, kind.numpy))
    return TileArray(np.asarray(argument).astype(numpy_type(kind)))
