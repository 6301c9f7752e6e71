"""The copy ladder: one job, told in rungs from naive to right, each a kernel with its layouts and launch.

A rung takes a source and a destination of the same shape (any object with `shape` and strides: NumPy, torch) and
gives the launch. Every rung computes `destination[...] = source`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from glueball.kernels import copy
from glueball.language import BlockedLayout
from glueball.layouts.strides import coalesced_layout
from glueball.runtime.host_functions import cdiv
from glueball.runtime.jit import JITFunction

BLOCK = 2048
WARPS = 4
TILE = 128


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with everything that `kernel[grid](*arguments, **keywords)` needs; `bytes` it reads plus writes."""

    kernel: JITFunction
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    bytes: int

    def run(self) -> Any:
        """Launches."""
        return self.kernel[self.grid](*self.arguments, **self.keywords)


@dataclass(frozen=True, slots=True)
class Rung:
    """One step: its letter, what it teaches, the view of the tensors it works on, and how it launches."""

    name: str
    title: str
    view: str
    launch: Callable[[Any, Any, int], Launch] = field(repr=False)


def strides_of(array: Any) -> tuple[int, ...]:
    """Strides in elements of a NumPy or torch array."""
    if callable(getattr(array, "stride", None)):
        strides: tuple[int, ...] = tuple(array.stride())
        return strides
    itemsize: int = array.dtype.itemsize
    return tuple(stride // itemsize for stride in array.strides)


def _moved(array: Any) -> int:
    itemsize: int = array.dtype.itemsize
    elements: int = math.prod(array.shape)
    return 2 * elements * itemsize


def one_dimensional(size_per_thread: int, lanes: int, warps: int = WARPS) -> BlockedLayout:
    """Neighbouring elements in a thread, neighbouring threads side by side."""
    return BlockedLayout([size_per_thread], [lanes], [warps], [0])


def launch_scalar(source: Any, destination: Any, _: int) -> Launch:
    """Rung (a)."""
    (count,) = source.shape
    grid = (cdiv(count, BLOCK),)
    return Launch(
        copy.copy_scalar, grid, (source, destination, count), {"XBLOCK": BLOCK, "num_warps": WARPS}, _moved(source)
    )


def launch_1d(size_per_thread: int, block: int = BLOCK, warps: int = WARPS, cache: str = "") -> Callable[..., Launch]:
    """Rung (b): a 1-D tile with that many elements side by side in a thread."""

    def launch(source: Any, destination: Any, lanes: int) -> Launch:
        (count,) = source.shape
        keywords = {"XBLOCK": block, "layout": one_dimensional(size_per_thread, lanes, warps), "num_warps": warps}
        if cache:
            keywords["CACHE"] = cache
        return Launch(copy.copy_1d, (cdiv(count, block),), (source, destination, count), keywords, _moved(source))

    return launch


def _tile_arguments(source: Any, destination: Any) -> tuple[Any, ...]:
    return (source, destination, *source.shape, *strides_of(source), *strides_of(destination))


def _grid(shape: tuple[int, ...], x_block: int, y_block: int) -> tuple[int, int]:
    return cdiv(shape[0], x_block), cdiv(shape[1], y_block)


def launch_2d(
    x_block: int, y_block: int, *, order: list[int] | None = None, warps: int = WARPS, vector: int = 1
) -> Callable[..., Launch]:
    """Rungs (c) to (f): one layout for both sides, the source's own or one that runs along `order`."""

    def launch(source: Any, destination: Any, lanes: int) -> Launch:
        tile = (x_block, y_block)
        strides = strides_of(source) if order is None else tuple(order.index(axis) + 1 for axis in (0, 1))
        layout = coalesced_layout(tile, strides, 8 * source.dtype.itemsize, warps, lanes=lanes, vector=vector)
        keywords = {"layout": layout, "XBLOCK": x_block, "YBLOCK": y_block, "num_warps": warps}
        grid = _grid(source.shape, x_block, y_block)
        return Launch(copy.copy_2d, grid, _tile_arguments(source, destination), keywords, _moved(source))

    return launch


def side_by_side(strides: tuple[int, ...], lanes: int, warps: int) -> BlockedLayout:
    """Lanes along the dimension whose elements are neighbours, and warps along it as well."""
    if strides[1] == 1:
        return BlockedLayout([1, 1], [1, lanes], [1, warps], [1, 0])
    return BlockedLayout([1, 1], [lanes, 1], [warps, 1], [0, 1])


def launch_converting(
    x_block: int, y_block: int, warps: int, vector: int = 1, *, warps_side_by_side: bool = False
) -> Callable[..., Launch]:
    """Rungs (f) and (g): each side in a layout that its strides ask for, warps one below the other or side by side."""

    def layout(array: Any, lanes: int) -> BlockedLayout:
        if warps_side_by_side:
            return side_by_side(strides_of(array), lanes, warps)
        bits = 8 * array.dtype.itemsize
        return coalesced_layout((x_block, y_block), strides_of(array), bits, warps, lanes=lanes, vector=vector)

    def launch(source: Any, destination: Any, lanes: int) -> Launch:
        keywords = {
            "load_layout": layout(source, lanes),
            "store_layout": layout(destination, lanes),
            "XBLOCK": x_block,
            "YBLOCK": y_block,
            "num_warps": warps,
        }
        grid = _grid(source.shape, x_block, y_block)
        return Launch(copy.copy_converting, grid, _tile_arguments(source, destination), keywords, _moved(source))

    return launch


RUNGS: tuple[Rung, ...] = (
    Rung("a", "scalar loop", "flat", launch_scalar),
    *(Rung(f"b{size}", f"1-D tile, {size} a thread", "flat", launch_1d(size)) for size in (1, 2, 4, 8, 16)),
    Rung("c", "2-D tile, contiguous", "matrix", launch_2d(1, BLOCK)),
    Rung("d-wrong", "transposed, wrong layout", "transposed", launch_2d(1, BLOCK, order=[1, 0])),
    Rung("d-right", "transposed, right layout", "transposed", launch_2d(BLOCK, 1)),
    Rung("e-plain", "every other row", "every_other_row", launch_2d(1, BLOCK)),
    Rung("e-trick", "every other row, transposed", "every_other_row_transposed", launch_2d(512, 1, vector=4)),
    Rung("f-rows", "opposite layouts, rows", "opposite", launch_2d(1, BLOCK, order=[1, 0])),
    Rung("f-columns", "opposite layouts, columns", "opposite", launch_2d(BLOCK, 1, order=[0, 1])),
    Rung("f-converted", "opposite layouts, converted", "opposite", launch_converting(TILE, TILE, WARPS)),
    Rung(
        "f-along",
        "converted, warps side by side",
        "opposite",
        launch_converting(TILE, TILE, WARPS, warps_side_by_side=True),
    ),
    Rung("g-1d", "best 1-D copy", "flat", launch_1d(4, block=1024, warps=8, cache=".cg")),
    Rung("g-opposite", "best opposite layouts", "opposite", launch_converting(64, 64, 16, vector=2)),
)


def tensors(view: str, make: Callable[[tuple[int, int]], Any], rows: int, columns: int) -> tuple[Any, Any]:
    """Source and destination for a rung; `make(shape)` gives a contiguous array of that shape."""
    if view == "flat":
        return make((rows, columns)).reshape(-1), make((rows, columns)).reshape(-1)
    if view == "matrix":
        return make((rows, columns)), make((rows, columns))
    if view == "transposed":
        return make((rows, columns)).T, make((rows, columns)).T
    if view == "every_other_row":
        return make((2 * rows, columns))[::2], make((rows, columns))
    if view == "every_other_row_transposed":
        return make((2 * rows, columns))[::2].T, make((rows, columns)).T
    if view == "opposite":
        return make((rows, columns)), make((columns, rows)).T
    raise ValueError(f"unknown view {view!r}")
