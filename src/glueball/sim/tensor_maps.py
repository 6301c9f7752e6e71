"""Tensor maps that kernels make: each gets a number in the launch, under which bulk copies find it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glueball.errors import SimulationError
from glueball.sim.masks import NOBODY
from glueball.tensor_map import ELEMENTS, TensorMap
from glueball.thread.ir import Attributes

if TYPE_CHECKING:
    from glueball.sim.machine import Machine

WORD_BYTES = 4


def make_tensor_map(machine: Machine, attributes: Attributes, *operands: Any) -> Any:
    """The number of a new tensor map of the one block of a group; its bytes are not written anywhere.

    The shared memory in which it is built is, so that what else uses it is found. `SimulationError` for a map that the
    copy engine refuses.
    """
    offset, lane, _, first_warp, _, *numbers = operands
    predicate = machine.predicate(first_warp)
    if predicate is not NOBODY:
        zero = np.zeros((1, 1, 1), np.int32)
        machine.shared.store(attributes, offset + WORD_BYTES * lane, predicate, [zero], (None,))
    maps = machine.launch.tensor_maps
    maps.append(_described(machine, attributes, [int(np.asarray(number).reshape(-1)[0]) for number in numbers]))
    return np.int64(len(maps) - 1)


def _described(machine: Machine, attributes: Attributes, numbers: Sequence[int]) -> TensorMap:
    kind = attributes["tensor"]
    base, *sizes = numbers
    strides = [size // ELEMENTS[kind.element].bytes for size in sizes[kind.rank :]]
    try:
        return TensorMap(
            base=base,
            shape=tuple(sizes[: kind.rank][::-1]),
            strides=(*strides[::-1], 1),
            element=kind.element,
            box=kind.box,
            swizzle=kind.swizzle,
            fill=attributes["fill"],
        )
    except ValueError as error:
        raise SimulationError(str(error), machine.location) from None
