"""The reference executor: runs tile IR on whole NumPy arrays, one program after another, threads ignored.

It is the oracle for everything below the tile IR. Masked-off elements of a load without `other` are poison, and so is
what is computed from them; storing one, or deciding or addressing by one, is an error.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glueball.tensor_map import MappedArray, TensorMap
from glueball.tile.argument_memory import ArgumentMemory
from glueball.tile.coroutines import TakingTurns
from glueball.tile.ir import Region, TileFunction, Value
from glueball.tile.operations import TILE_OPERATIONS, TileArray
from glueball.tile.operations.definition import numpy_type
from glueball.tile.shared_arena import SharedArena
from glueball.tile.types import dtype, pointer_type, tensor_descriptor_type
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
    memory, tensor_maps = ArgumentMemory(), list[TensorMap]()
    values = [_bind(memory, tensor_maps, *pair) for pair in zip(function.arguments, arguments, strict=True)]
    environment = dict(zip(function.arguments, values, strict=True))
    with np.errstate(all="ignore"):
        for z, y, x in itertools.product(*map(range, reversed(extents))):
            program = _Program((x, y, z), extents, memory, dict(environment), tensor_maps, function.num_ctas)
            program.run(function.body)


class _Program:
    """One program instance; `environment` holds what every value was bound to last."""

    __slots__ = ("_turns", "arena", "environment", "grid", "memory", "program", "shared", "tensor_maps")

    def __init__(
        self,
        program: tuple[int, int, int],
        grid: tuple[int, int, int],
        memory: ArgumentMemory,
        environment: dict[Value, TileArray],
        tensor_maps: Sequence[TensorMap] = (),
        num_ctas: int = 1,
    ) -> None:
        self.tensor_maps = list(tensor_maps)
        self._turns: TakingTurns | None = None
        self.program = program
        self.grid = grid
        self.memory = memory
        self.environment = environment
        self.shared: dict[str, TileArray] = {}
        self.arena = SharedArena(program, num_ctas)

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

    def run_partitions(self, regions: Sequence[Region]) -> list[TileArray]:
        """Runs regions side by side; what the first one yields."""
        self._turns = TakingTurns()
        try:
            return self._turns.run([functools.partial(self._run_apart, region) for region in regions])[0]
        finally:
            self._turns = None

    def _run_apart(self, region: Region) -> list[TileArray]:
        with np.errstate(all="ignore"):
            return self.run(region)

    def wait_until(self, condition: Callable[[], bool]) -> bool:
        """Lets other partitions run until a condition holds; False where none can make it hold."""
        return condition() if self._turns is None else self._turns.wait_until(condition)


def _grid(grid: Sequence[int]) -> tuple[int, int, int]:
    if not 1 <= len(grid) <= 3 or any(extent < 0 for extent in grid):
        raise ValueError(f"a grid has one to three extents, none negative, not {tuple(grid)}")
    x, y, z = (*(int(extent) for extent in grid), 1, 1)[:3]
    return x, y, z


def _bind(memory: ArgumentMemory, tensor_maps: list[TensorMap], parameter: Value, argument: Any) -> TileArray:
    """What a parameter's argument is to the program.

    The address of an array, the number of a tensor map, or a number of the parameter's type.
    """
    kind = parameter.type
    if isinstance(kind, tensor_descriptor_type):
        if not isinstance(argument, MappedArray):
            raise TypeError(f"argument `{parameter.name}` is a {kind}, so it must be a tensor map, not {argument!r}")
        address = memory.add(parameter.name, argument.array, kind.element_ty.itemsize)
        tensor_maps.append(replace(argument.map, base=address))
        return TileArray(np.asarray(len(tensor_maps) - 1, np.int64))
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
