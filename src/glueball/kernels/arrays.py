"""What the launching functions need of NumPy and torch arrays, and the layouts that rows ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from glueball.kernels.ladder import one_dimensional, strides_of
from glueball.language import BlockedLayout
from glueball.layouts.strides import coalesced_layout
from glueball.runtime.devices import default_target, device_target, multiprocessors
from glueball.runtime.host_functions import cdiv, next_power_of_2
from glueball.targets import Target

VECTOR_BYTES = 16
HELD = 32
"""Elements of a row that a thread holds as float32: four 16-byte loads of a 16-bit type in flight."""
LONGEST_HELD = 16384
"""The longest row that one program holds; see `plan_rows`."""
L1_ROW_BYTES = 65536
"""Rows up to this size stay in the first-level cache of a multiprocessor four at a time."""


SIMULATED_MULTIPROCESSORS = 132
"""For how many multiprocessors kernels on host arrays are launched: those of an H200."""


def target_of(array: Any) -> Target:
    """The target where kernels on this array run."""
    return device_target(array.device.index or 0) if getattr(array, "is_cuda", False) else default_target()


def multiprocessors_of(array: Any) -> int:
    """Multiprocessors where kernels on this array run."""
    if getattr(array, "is_cuda", False):
        return multiprocessors(array.device.index or 0)
    return SIMULATED_MULTIPROCESSORS


def lanes_of(array: Any) -> int:
    """Lanes of a warp where kernels on this array run."""
    return target_of(array).lanes


def empty(like: Any, shape: tuple[int, ...], dtype: str | None = None) -> Any:
    """A new array of the framework and place of `like`, with a dtype of that name, or the same dtype with None."""
    if isinstance(like, np.ndarray):
        kind = like.dtype if dtype is None else np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
        return np.empty(shape, kind)
    import torch

    return like.new_empty(shape) if dtype is None else like.new_empty(shape, dtype=getattr(torch, dtype))


def zeros(like: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """As `empty`, all zero."""
    array = empty(like, shape, dtype)
    array[...] = 0
    return array


def dtype_name(array: Any) -> str:
    """The dtype's name, as NumPy, ml_dtypes and torch all have it."""
    return str(array.dtype).removeprefix("torch.")


def as_rows(array: Any, name: str) -> Any:
    """The array as a matrix whose rows are its last dimension; `ValueError` where that is empty or not contiguous."""
    if not array.shape or array.shape[-1] == 0:
        raise ValueError(f"{name} needs a last dimension with elements, and has the shape {tuple(array.shape)}")
    rows = math.prod(array.shape[:-1])
    matrix = array.reshape(rows, array.shape[-1])
    step = strides_of(matrix)[-1]
    if step != 1 and rows and matrix.shape[-1] > 1:
        raise ValueError(f"the elements of a row of {name} must be neighbours, not {step} apart; make it contiguous")
    return matrix


def row_stride(matrix: Any) -> int:
    """Elements from one row to the next."""
    return strides_of(matrix)[0]


def check_line(array: Any, name: str, columns: int) -> None:
    """`ValueError` where an array is not a contiguous line of that length."""
    if tuple(array.shape) != (columns,):
        raise ValueError(f"{name} must have the shape ({columns},), not {tuple(array.shape)}")
    as_rows(array, name)


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How a program works on rows.

    `parts` 0: it holds `rows` whole rows of up to `block` columns. Else it goes over one row in steps of `parts` pieces
    of `block` columns, once for each pass, `parts` loads of a thread being in flight at a time.
    """

    rows: int
    block: int
    parts: int
    warps: int

    def layout(self, element_bits: int, lanes: int) -> BlockedLayout:
        """The layout of a tile: 16 bytes a thread side by side, lanes and then warps along the row."""
        shape = (self.parts or self.rows, self.block)
        if self.parts == 0:
            return coalesced_layout(shape, (self.block, 1), element_bits, self.warps, lanes=lanes, vector="widest")
        width = max(1, min(8 * VECTOR_BYTES // element_bits, self.block // (lanes * self.warps)))
        return BlockedLayout([1, width], [1, lanes], [1, self.warps], [1, 0])

    def keywords(self, element_bits: int, lanes: int) -> dict[str, Any]:
        """The launch keywords that rows share."""
        extent = {"PARTS": self.parts} if self.parts else {"ROWS": self.rows}
        layout = self.layout(element_bits, lanes)
        return {**extent, "BLOCK": self.block, "layout": layout, "num_warps": self.warps}

    def grid(self, rows: int) -> tuple[int]:
        """Programs for that many rows."""
        return (cdiv(rows, self.rows),)


def plan_rows(columns: int, itemsize: int, lanes: int = 32) -> RowPlan:
    """The plan for rows of that many elements.

    What limits the rate is the bytes that a multiprocessor has in flight, some 40 KiB for memory of 4.8 TB/s; several
    programs must be resident, for while one reduces it loads nothing. Up to `LONGEST_HELD` columns a program holds its
    row at `HELD` elements a thread, some 64 registers, so that 32 warps are resident: 64 KiB of a 16-bit type in
    flight. Short rows share a program, a row to each warp or part of one, so that reductions stay within warps.

    A row of 32768 as float32 takes half of the register file, which leaves one program and no overlap. Such rows are
    read twice, by four programs of 8 warps at a time: their rows of 64 KiB together fit the first-level cache, and the
    second pass goes backward, so that it begins with what was read last. Longer rows (131072 of 16 bits: 256 KiB) go
    to one program of 16 warps a multiprocessor, whose 64 elements a thread leave no room for a second one: 132 rows
    are 34 MB and stay in the second-level cache of 50 MB, and the last part of each in the first-level one.
    """
    block = next_power_of_2(columns)
    if block <= HELD * lanes:
        warps = 4
        return RowPlan(max(1, min(warps * HELD * lanes // block, 64)), block, 0, warps)
    if block <= LONGEST_HELD:
        return RowPlan(1, block, 0, max(1, block // (HELD * lanes)))
    vector = VECTOR_BYTES // itemsize
    if columns * itemsize <= L1_ROW_BYTES:
        return RowPlan(1, 8 * lanes * vector, 4, 8)
    return RowPlan(1, 16 * lanes * vector, 8, 16)


def line(block: int, warps: int, bits: int, lanes: int) -> BlockedLayout:
    """A 1-D layout of 16-byte vectors, fewer where the tile is too short for every thread to have one."""
    width = max(1, min(8 * VECTOR_BYTES // bits, block // (lanes * warps)))
    return one_dimensional(width, lanes, warps)


def powers_below(count: int) -> list[int]:
    """The powers of two below a power of two: the steps of as many CTAs, warps or lanes, as bases of a layout."""
    return [1 << bit for bit in range(count.bit_length() - 1)]
