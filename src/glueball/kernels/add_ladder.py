"""The addition ladder: `out = x + y` of matrices, told in rungs from plain loads to warp-specialised bulk copies.

A rung takes two operands and a result of one shape, NumPy or torch, and gives the launch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from glueball.kernels import addition
from glueball.kernels.arrays import lanes_of, multiprocessors_of, row_stride
from glueball.kernels.boxes import LONGEST_SIDE, descriptor, item_bytes, why_not_bulk
from glueball.kernels.ladder import Launch, strides_of
from glueball.language import SwizzledSharedLayout
from glueball.layouts.strides import coalesced_layout
from glueball.runtime.host_functions import cdiv
from glueball.runtime.jit import JITFunction

ROW_AFTER_ROW = SwizzledSharedLayout(1, 1, 1, [1, 0])


@dataclass(frozen=True, slots=True)
class AddPlan:
    """How matrices are added: tiles of `rows` x `columns` elements, `warps` that add, a ring of `stages` tiles.

    `programs` are those of a multiprocessor, which go from tile to tile; 0 stands for a program a tile.
    """

    rows: int
    columns: int
    warps: int
    stages: int = 1
    programs: int = 0


@dataclass(frozen=True, slots=True)
class AddRung:
    """One step: its name, what it does, its kernel, and the plan that is best known for it."""

    name: str
    title: str
    kernel: JITFunction
    plan: AddPlan
    launcher: Callable[[AddRung, Any, Any, Any, AddPlan], Launch] = field(repr=False)

    def launch(self, x: Any, y: Any, out: Any, plan: AddPlan | None = None) -> Launch:
        """The launch for matrices of one shape and dtype. `ValueError` for what the rung cannot move."""
        return self.launcher(self, x, y, out, plan or self.plan)


def _tiles(shape: tuple[int, int], plan: AddPlan) -> tuple[int, int]:
    """Tiles that cover a row, and tiles in all."""
    across = cdiv(shape[1], plan.columns)
    return across, across * cdiv(shape[0], plan.rows)


def _grid(x: Any, tiles: int, plan: AddPlan) -> tuple[int]:
    return (min(tiles, plan.programs * multiprocessors_of(x)) if plan.programs else tiles,)


def _moved(x: Any) -> int:
    elements: int = math.prod(x.shape)
    return 3 * elements * item_bytes(x)


def _launch_pointers(rung: AddRung, x: Any, y: Any, out: Any, plan: AddPlan) -> Launch:
    """The rungs whose threads compute addresses."""
    across, tiles = _tiles(x.shape, plan)
    keywords: dict[str, Any] = {
        "XBLOCK": plan.rows,
        "YBLOCK": plan.columns,
        "layout": _layout(x, plan),
        "num_warps": plan.warps,
    }
    if plan.stages > 1:
        keywords["STAGES"] = plan.stages
    if "shared" in rung.kernel.rules:
        keywords["shared"] = ROW_AFTER_ROW
    sizes = (*x.shape, across, *((tiles,) if plan.programs else ()))
    strides = (row_stride(x), row_stride(y), row_stride(out))
    return Launch(rung.kernel, _grid(x, tiles, plan), (x, y, out, *sizes, *strides), keywords, _moved(x))


def _launch_descriptors(rung: AddRung, x: Any, y: Any, out: Any, plan: AddPlan) -> Launch:
    """The rungs that copy through descriptors."""
    if reason := why_not_ring(x, y, out):
        raise ValueError(f"bulk copies do not add these: {reason}")
    across, tiles = _tiles(x.shape, plan)
    block = (plan.rows, plan.columns)
    descriptors = [descriptor(array, array.shape, strides_of(array), block) for array in (x, y, out)]
    keywords: dict[str, Any] = {"layout": _layout(x, plan), "num_warps": plan.warps}
    if plan.stages > 1:
        keywords["STAGES"] = plan.stages
    sizes = (across, *((tiles,) if plan.programs else ()))
    return Launch(rung.kernel, _grid(x, tiles, plan), (*descriptors, *sizes), keywords, _moved(x))


def why_not_ring(x: Any, y: Any, out: Any) -> str:
    """Why bulk copies cannot move operands and result of an addition; empty if they can."""
    for name, array in (("x", x), ("y", y), ("out", out)):
        if reason := why_not_bulk(array, array.shape, strides_of(array), written=array is out):
            return f"of {name}, {reason}"
    return ""


def _layout(x: Any, plan: AddPlan) -> Any:
    tile = (plan.rows, plan.columns)
    bits = 8 * item_bytes(x)
    return coalesced_layout(tile, (plan.columns, 1), bits, plan.warps, lanes=lanes_of(x), vector="widest")


ADD_RUNGS: tuple[AddRung, ...] = (
    AddRung("plain", "plain loads", addition.add_plain, AddPlan(8, 256, 4), _launch_pointers),
    AddRung("copied", "cp.async, one tile", addition.add_copied, AddPlan(8, 256, 4), _launch_pointers),
    AddRung("double", "cp.async, two buffers", addition.add_copied_ring, AddPlan(8, 256, 4, 2, 6), _launch_pointers),
    AddRung("triple", "cp.async, three buffers", addition.add_copied_ring, AddPlan(8, 256, 4, 3, 4), _launch_pointers),
    AddRung("bulk", "bulk copies, one tile", addition.add_bulk, AddPlan(32, 256, 8), _launch_descriptors),
    AddRung("ring", "bulk copies, a ring", addition.add_bulk_ring, AddPlan(32, 256, 8, 3, 1), _launch_descriptors),
    AddRung(
        "partitions",
        "bulk copies, warps apart",
        addition.add_partitions,
        AddPlan(32, 256, 8, 3, 1),
        _launch_descriptors,
    ),
)


def rung_named(name: str) -> AddRung:
    """The rung of that name."""
    (found,) = (rung for rung in ADD_RUNGS if rung.name == name)
    return found


def lines(array: Any, shape: tuple[int, ...]) -> Any:
    """A contiguous array whose elements fill whole lines of 256 as a matrix of such lines; None for any other."""
    count = math.prod(shape)
    contiguous = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    held = all(
        extent == 1 or stride == dense
        for extent, stride, dense in zip(shape, strides_of(array), contiguous, strict=True)
    )
    if count == 0 or count % LONGEST_SIDE or not held:
        return None
    return array.reshape(count // LONGEST_SIDE, LONGEST_SIDE)
