"""Matrices as the lanes of a warp group hold them, and back: rearrangements of NumPy arrays, lane by lane."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from glueball.sim.masks import Array, Booleans
from glueball.thread.ir import Attributes
from glueball.thread.nvidia.matrix_operands import ADDRESS_UNIT, MatrixOperand
from glueball.thread.nvidia.warpgroup import LEFT_WORDS

WARP_ROWS = 16


@dataclass(frozen=True, slots=True)
class Factor:
    """A matrix for a warp group: elements as they are multiplied, and which are undefined, `[block, step, row, k]`."""

    values: Array
    poison: Booleans | None


def steps_by_part(attributes: Attributes) -> list[tuple[list[int], list[int]]]:
    """For each part of the accumulators, the numbers of its steps' matrices, left and right, by their places."""
    lefts: dict[int, int] = {}
    rights: dict[int, int] = {}
    parts: dict[int, tuple[list[int], list[int]]] = {}
    for step in attributes["steps"]:
        left, right = parts.setdefault(step.accumulator, ([], []))
        left.append(step.left if attributes["left"] is None else lefts.setdefault(step.left, len(lefts)))
        right.append(rights.setdefault(step.right, len(rights)))
    return [parts[part] for part in sorted(parts)]


@lru_cache(maxsize=256)
def operand_addresses(
    base: int, operand: MatrixOperand, starts: tuple[int, ...], rows: int, inner: int, size: int
) -> tuple[Array, Array]:
    """The byte addresses of elements, `[step, row, k]`, and the pieces of 16 bytes that they lie in, each once."""
    found = operand.addresses(base + np.array(starts), rows, inner, size)
    return found, np.unique(found // ADDRESS_UNIT) * ADDRESS_UNIT


def along_k(steps: Array) -> Array:
    """`[block, step, row, k]` as `[block, row, k of all steps]`."""
    return np.moveaxis(steps, 1, 2).reshape(steps.shape[0], steps.shape[2], -1)


def undefined_sums(
    left: Factor, right: Factor, lefts: list[int], rights: list[int], totals: Booleans | None
) -> Booleans | None:
    """Which sums are undefined, `[block, row, column]`: those with an undefined element or addend."""
    found = totals
    if left.poison is not None:
        rows = np.asarray(along_k(left.poison[:, lefts]).any(axis=2))[:, :, None]
        found = rows if found is None else found | rows
    if right.poison is not None:
        columns = np.asarray(along_k(right.poison[:, rights]).any(axis=2))[:, None, :]
        found = columns if found is None else found | columns
    return found


def rows_of_accumulators(held: Array) -> Array:
    """Accumulators `[cta, warp, lane, register]` of an instruction as `[cta, row, column]`."""
    ctas, warps, _, count = held.shape
    apart = held.reshape(ctas, warps, 8, 4, count // 4, 2, 2)
    return apart.transpose(0, 1, 5, 2, 4, 3, 6).reshape(ctas, warps * WARP_ROWS, count * 2)


def accumulators_of_rows(rows: Array) -> Array:
    """The reverse of `rows_of_accumulators`."""
    ctas, height, width = rows.shape
    apart = rows.reshape(ctas, height // WARP_ROWS, 2, 8, width // 8, 4, 2)
    return apart.transpose(0, 1, 3, 5, 4, 2, 6).reshape(ctas, height // WARP_ROWS, 32, width // 2)


def steps_of_registers(held: Array, size: int) -> Array:
    """Left matrices in registers `[cta, warp, lane, register]` as `[cta, step, row, k]`."""
    ctas, warps, _, count = held.shape
    run = max(1, 4 // size)
    steps = count // (LEFT_WORDS * run)
    apart = held.reshape(ctas, warps, 8, 4, steps, 2, 2, run)
    moved = apart.transpose(0, 4, 1, 6, 2, 5, 3, 7)
    return moved.reshape(ctas, steps, warps * WARP_ROWS, 8 * run)
