"""8 x 8 matrices of 16 bits between shared memory and the registers of a warp, lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glueball.sim.masks import Array, Booleans, Mask
from glueball.sim.memory import WORDS
from glueball.sim.shared import Placement, SharedMemory
from glueball.thread.conversion import NUMPY
from glueball.thread.ir import BITS, Attributes
from glueball.thread.nvidia.matrix_moves import ROW_BYTES, ROWS, elements

ELEMENT_BYTES = 2
_LANES = np.arange(32)[:, None]
_PAIR = np.arange(2)[None, :]
# Row and column of a matrix that each lane holds, `[lane, half of its word]`.
_ROW, _COLUMN = np.broadcast_arrays(_LANES // 4, _LANES % 4 * 2 + _PAIR)


def _held(transposed: bool) -> tuple[Array, Array]:
    return (_COLUMN, _ROW) if transposed else (_ROW, _COLUMN)


def load_matrix(
    shared: SharedMemory, attributes: Attributes, offset: Any, predicate: Mask
) -> tuple[tuple[Array, ...], list[Mask]]:
    """Values and poison of every lane, one array per element."""
    placement = _place(shared, attributes, offset, predicate, "read")
    touch = shared.touch(placement, ROW_BYTES, shared.machine.at)
    shared.record_read(placement, touch, ROW_BYTES)
    rows = shared.words_of(placement, ROW_BYTES)[..., : ROWS * attributes["matrices"]]
    lanes = _to_lanes(np.ascontiguousarray(rows)[..., None].view(np.uint8), attributes)
    found = lanes.view(NUMPY[attributes["type"]])
    count = elements(attributes)
    values = tuple(found[..., index] for index in range(count))
    poison = shared.shadow.get_poison(touch)
    if poison is None:
        return values, [None] * count
    spread = np.zeros((poison.shape[0], placement.offsets.size, ROW_BYTES), bool)
    spread[:, placement.lanes] = np.repeat(poison, ROW_BYTES // poison.shape[2], axis=2)
    undefined = spread.reshape(-1, *shared.shape[1:], ROW_BYTES)
    flags: Array = _to_lanes(undefined[..., : ROWS * attributes["matrices"], :], attributes)
    flags = np.asarray(flags.reshape(*flags.shape[:-1], count, -1).any(axis=-1))
    return values, [flags[..., index] for index in range(count)]


def store_matrix(
    shared: SharedMemory,
    attributes: Attributes,
    offset: Any,
    predicate: Mask,
    values: Sequence[Any],
    poison: Sequence[Mask],
) -> None:
    """Stores what every lane holds, one array per element, with its poison."""
    placement = _place(shared, attributes, offset, predicate, "written")
    touch = shared.touch(placement, ROW_BYTES, shared.machine.at)
    held = np.empty((*shared.shape, len(values)), NUMPY[attributes["type"]])
    for index, value in enumerate(values):
        held[..., index] = value
    rows = _to_rows(held.view(np.uint8), attributes)
    words = np.zeros(shared.shape, WORDS[ROW_BYTES])
    words[..., : rows.shape[2]] = rows.view(WORDS[ROW_BYTES])[..., 0]
    shared.record_write(placement, touch, ROW_BYTES, words)
    shared.shadow.set_poison(touch, _row_poison(placement, attributes, poison, ROW_BYTES // shared.shadow.granule))


def _place(shared: SharedMemory, attributes: Attributes, offset: Any, predicate: Mask, verb: str) -> Placement:
    """The rows of the matrices, each at the lane that gives its address."""
    gives: Booleans = np.arange(shared.shape[2]).reshape(1, 1, -1) < ROWS * attributes["matrices"]
    return shared.place(attributes, offset, gives if predicate is None else gives & predicate, ROW_BYTES, verb)


def _to_lanes(rows: Array, attributes: Attributes) -> Array:
    """From `[..., row of a matrix, byte]` to `[..., lane, byte]`."""
    matrices = rows.reshape(*rows.shape[:-2], attributes["matrices"], ROWS, ROWS, ELEMENT_BYTES)
    row, column = _held(attributes["transposed"])
    held = matrices[..., row, column, :]
    lanes = np.moveaxis(held, -4, -3)
    return np.ascontiguousarray(lanes).reshape(*lanes.shape[:-3], -1)


def _to_rows(lanes: Array, attributes: Attributes) -> Array:
    """From `[..., lane, byte]` to `[..., row of a matrix, byte]`."""
    count = attributes["matrices"]
    held = lanes.reshape(*lanes.shape[:-1], count, 2, ELEMENT_BYTES)
    matrices = np.empty((*lanes.shape[:-2], count, ROWS, ROWS, ELEMENT_BYTES), lanes.dtype)
    row, column = _held(attributes["transposed"])
    matrices[..., row, column, :] = np.moveaxis(held, -3, -4)
    return matrices.reshape(*lanes.shape[:-2], count * ROWS, ROW_BYTES)


def _row_poison(placement: Placement, attributes: Attributes, poison: Sequence[Mask], granules: int) -> Mask:
    if all(element is None for element in poison):
        return None
    given = [np.zeros((), bool) if element is None else element for element in poison]
    shape = np.broadcast_shapes(placement.offsets.shape, *(element.shape for element in given))
    flags = np.zeros((*shape, len(poison), BITS[attributes["type"]] // 8), bool)
    for index, element in enumerate(given):
        flags[..., index, :] = np.broadcast_to(element, shape)[..., None]
    rows = _to_rows(flags.reshape(*shape, -1), attributes)
    spread = np.zeros((*shape, ROW_BYTES), bool)
    spread[..., : rows.shape[-2], :] = rows
    pieces = spread.reshape(shape[0] // placement.offsets.shape[0], -1, granules, ROW_BYTES // granules)
    return np.asarray(pieces[:, placement.lanes].any(axis=3))
