"""Builds kernels from arguments as they would be launched, and runs them on the reference executor."""

from __future__ import annotations

from typing import Any

import numpy as np

from glueball.frontend import build
from glueball.language.constexpr import constexpr
from glueball.language.function import JITCallable
from glueball.targets import TARGETS
from glueball.tile import reference
from glueball.tile.ir import Operation, TileFunction
from glueball.tile.passes import resolve_layouts
from glueball.tile.types import DTYPES, TileType, distributed_type, dtype, pointer_type
from glueball.tile.verifier import verify

TARGET = TARGETS["sm_90a"]


def element_of_array(array: np.ndarray) -> dtype:
    return next(item for item in DTYPES.values() if item.numpy_name == array.dtype.name)


def type_of(value: Any) -> TileType | constexpr:
    if isinstance(value, np.ndarray):
        return pointer_type(element_of_array(value))
    if isinstance(value, np.generic):
        return next(item for item in DTYPES.values() if item.numpy_name == value.dtype.name)
    if isinstance(value, dtype | pointer_type | distributed_type | constexpr):
        return value
    return constexpr(value)


def build_kernel(function: JITCallable, /, num_warps: int = 4, **arguments: Any) -> TileFunction:
    """The verified tile function: arrays and NumPy numbers are run-time arguments, anything else a constant."""
    types = {name: type_of(value) for name, value in arguments.items()}
    tile = build(function, types, {}, num_warps=num_warps, target=TARGET, name=function.__name__)
    resolve_layouts(tile, TARGET)
    verify(tile, TARGET)
    return tile


def run_kernel(
    function: JITCallable, grid: tuple[int, ...] = (1,), /, num_warps: int = 4, **arguments: Any
) -> TileFunction:
    tile = build_kernel(function, num_warps, **arguments)
    reference.run(tile, grid, [value for value in arguments.values() if isinstance(value, np.ndarray | np.generic)])
    return tile


def operations(tile: TileFunction, opcode: str) -> list[Operation]:
    return [operation for operation in tile.body.walk() if operation.opcode == opcode]
