"""From a plan to launches: layouts, descriptors, memory that splits meet in, copies of what bulk copies cannot move."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import glueball.language as gl
from glueball.kernels.arrays import empty, powers_below
from glueball.kernels.ladder import Launch
from glueball.kernels.matrix_products.counters import counters
from glueball.kernels.matrix_products.direct import copy_matrix, multiply_direct, multiply_vector
from glueball.kernels.matrix_products.forms import Form, Plan
from glueball.kernels.matrix_products.plans import programs_of
from glueball.kernels.matrix_products.problems import GRANULE, ITEM_BYTES, Matrix, Problem, stored_by_threads
from glueball.kernels.matrix_products.specialized import multiply_specialized
from glueball.language import BlockedLayout, NVMMADistributedLayout, NVMMASharedLayout, SwizzledSharedLayout
from glueball.layouts.strides import coalesced_layout
from glueball.nvidia.hopper import TensorDescriptor
from glueball.runtime import driver
from glueball.runtime.host_functions import cdiv

WARPS = 4
LANES = 32
COPIED_TILE = (64, 64)
SIMULATED_MULTIPROCESSORS = 132
KEPT = 1024
"""Forms and descriptors that are kept for later calls."""
TYPES = {
    "float16": gl.float16,
    "bfloat16": gl.bfloat16,
    "float32": gl.float32,
    "float8_e4m3fn": gl.float8e4nv,
    "float8_e5m2": gl.float8e5,
}


Block = tuple[tuple[int, ...], NVMMASharedLayout]
"""What a copy moves: its shape, and how it lies in shared memory."""


@dataclass(frozen=True, slots=True)
class Arrays:
    """The arrays of a problem; `row_scale`, `column_scale` and `bias` are `None` where there are none."""

    a: Any
    b: Any
    c: Any
    row_scale: Any = None
    column_scale: Any = None
    bias: Any = None

    def swapped(self) -> Arrays:
        """Those of the transposed product."""
        return replace(self, a=self.b, b=self.a, row_scale=self.column_scale, column_scale=self.row_scale)

    @property
    def factors(self) -> tuple[Any, Any, Any]:
        """What sums are multiplied by, and what is added to them."""
        return self.row_scale, self.column_scale, self.bias


def launches(problem: Problem, plan: Plan, arrays: Arrays) -> list[Launch]:
    """What computes a product by a plan, in order: copies of operands, then the product."""
    if plan.swapped:
        problem, arrays = problem.swapped(), arrays.swapped()
    found: list[Launch] = []
    for name, copied in zip(("a", "b"), problem.copied, strict=True):
        if copied and plan.kind == "specialized":
            matrix: Matrix = getattr(problem, name)
            packed = matrix.packed(name == "b" if problem.narrow else matrix.turned)
            launch = copy_launch(matrix, packed, getattr(arrays, name))
            found.append(launch)
            problem, arrays = replace(problem, **{name: packed}), replace(arrays, **{name: launch.arguments[1]})
    make = {"specialized": specialized_launch, "direct": direct_launch, "vector": vector_launch}[plan.kind]
    return [*found, make(problem, plan, arrays)]


def copy_launch(matrix: Matrix, packed: Matrix, source: Any) -> Launch:
    """Copies a matrix to new memory, the second argument."""
    if packed.turned:
        matrix, packed = matrix.transposed(), packed.transposed()
    batches, rows, columns = packed.shape
    destination = empty(source, (batches, rows, packed.strides[1]))
    bits = 8 * matrix.itemsize
    vector = vector_of(matrix)
    keywords = {
        "TILE": COPIED_TILE,
        "load_layout": coalesced_layout(COPIED_TILE, matrix.strides[1:], bits, WARPS, lanes=LANES, vector=vector),
        "store_layout": coalesced_layout(COPIED_TILE, packed.strides[1:], bits, WARPS, lanes=LANES, vector=vector),
        "num_warps": WARPS,
    }
    arguments = (source, destination, rows, columns, *matrix.strides, packed.strides[0], packed.strides[1])
    grid = (cdiv(rows, COPIED_TILE[0]), cdiv(columns, COPIED_TILE[1]), batches)
    return Launch(copy_matrix, grid, arguments, keywords, 2 * matrix.elements * matrix.itemsize)


def specialized_launch(problem: Problem, plan: Plan, arrays: Arrays) -> Launch:
    """The launch of `multiply_specialized`."""
    tiles = tile_count(problem, plan)
    programs = plan.programs or programs_of(plan, multiprocessors_of(arrays.c))
    split = tiles % programs if plan.tail else tiles
    items = tiles - split + split * plan.splits
    a_block, b_block, c_block = blocks(problem, plan)
    arguments = (
        descriptor(problem.a, arrays.a, a_block), descriptor(problem.b, arrays.b, b_block),
        arrays.c if stored_by_threads(problem.c) else descriptor(problem.c, arrays.c, c_block),
        problem.batches, problem.c.strides, *arrays.factors, *meeting_place(arrays.c, plan, split, split * plan.parts),
    )  # fmt: skip
    keywords = {"FORM": specialized_form(problem, plan), "num_warps": WARPS, "num_ctas": plan.ctas}
    return Launch(multiply_specialized, (min(items, programs),), arguments, keywords, traffic(problem))


@functools.lru_cache(maxsize=KEPT)
def blocks(problem: Problem, plan: Plan) -> tuple[Block, Block, Block]:
    """What copies move at a time of `a`, `b` and the result; CTAs have different rows, and all of `b`."""
    height, width, step = plan.block
    height //= plan.parts
    steps = powers_below(plan.ctas)
    rows, everything = [[each, 0] for each in steps], [[0, 0] for _ in steps]
    return (
        block_of((height, step), problem.a.dtype, rows, turned=problem.a.turned),
        block_of((step, width), problem.b.dtype, everything, turned=problem.b.turned),
        block_of((height, width // plan.chunks), problem.c.dtype, rows, turned=False),
    )


def block_of(extents: tuple[int, int], dtype: str, cga: list[list[int]], *, turned: bool) -> Block:
    """A block of rows and columns of one batch, in the order of its descriptor."""
    step = -1 if turned else 1
    shape = (1, *extents[::step])
    bases = [[0, *basis[::step]] for basis in cga]
    return shape, NVMMASharedLayout.get_default_for(list(shape), TYPES[dtype], cga_layout=bases)


def direct_launch(problem: Problem, plan: Plan, arrays: Arrays) -> Launch:
    """The launch of `multiply_direct`."""
    tiles = tile_count(problem, plan)
    arguments = (
        arrays.a, arrays.b, arrays.c, problem.rows, problem.columns, problem.inner, *batch_strides(problem.a),
        *batch_strides(problem.b), *batch_strides(problem.c), *arrays.factors,
        *meeting_place(arrays.c, plan, tiles, tiles),
    )  # fmt: skip
    keywords = {"FORM": direct_form(problem, plan), "num_warps": WARPS}
    return Launch(multiply_direct, (tiles, plan.splits), arguments, keywords, traffic(problem))


def vector_launch(problem: Problem, plan: Plan, arrays: Arrays) -> Launch:
    """The launch of `multiply_vector`."""
    tiles = tile_count(problem, plan)
    a, b, c = (batch_strides(matrix) for matrix in (problem.a, problem.b, problem.c))
    arguments = (
        arrays.a, arrays.b, arrays.c, problem.columns, problem.inner, a[0], a[2], *b, c[0], c[2], *arrays.factors,
        *meeting_place(arrays.c, plan, tiles, tiles),
    )  # fmt: skip
    keywords = {"FORM": vector_form(problem, plan), "num_warps": WARPS}
    return Launch(multiply_vector, (tiles, plan.splits), arguments, keywords, traffic(problem))


def tile_count(problem: Problem, plan: Plan) -> int:
    """Tiles of all batches."""
    tiles: int = problem.batches * cdiv(problem.rows, plan.block[0]) * cdiv(problem.columns, plan.block[1])
    return tiles


@functools.lru_cache(maxsize=KEPT)
def specialized_form(problem: Problem, plan: Plan) -> Form:
    """What `multiply_specialized` is compiled for."""
    (_, *piece), layout = blocks(problem, plan)[2]
    return Form(
        *plan.block, plan.group, plan.splits, problem.a.turned, problem.b.turned,
        int(problem.a.shape[0] > 1), int(problem.b.shape[0] > 1), plan.stages, plan.parts, plan.chunks,
        TYPES[problem.c.dtype], layout, stored_layout(problem.c, piece) if stored_by_threads(problem.c) else None,
        tail=plan.tail, ctas=plan.ctas, **finishing(problem),
    )  # fmt: skip


@functools.lru_cache(maxsize=KEPT)
def direct_form(problem: Problem, plan: Plan) -> Form:
    """What `multiply_direct` is compiled for."""
    height, width, step = plan.block
    a_layout, a_shared = loaded_layouts(problem.a, (height, step))
    b_layout, b_shared = loaded_layouts(problem.b, (step, width))
    warps = [2, 2] if height >= 32 else [1, 4]
    return Form(
        height, width, step, plan.group, plan.splits,
        a_layout=a_layout, b_layout=b_layout, a_shared=a_shared, b_shared=b_shared,
        sum_layout=NVMMADistributedLayout([2, 0], warps, [16, 8]),
        store_layout=stored_layout(problem.c, (height, width)), **finishing(problem),
    )  # fmt: skip


@functools.lru_cache(maxsize=KEPT)
def vector_form(problem: Problem, plan: Plan) -> Form:
    """What `multiply_vector` is compiled for."""
    _, width, step = plan.block
    return Form(
        1, width, step, plan.group, plan.splits, b_layout=loaded_layouts(problem.b, (step, width))[0],
        store_layout=BlockedLayout([1, 1], [1, LANES], [1, WARPS], [1, 0]), **finishing(problem),
    )  # fmt: skip


def finishing(problem: Problem) -> dict[str, Any]:
    """What a form says of finished tiles."""
    return {
        "rows_scaled": problem.row_scale == "each",
        "columns_scaled": problem.column_scale == "each",
        "bias_axis": max(problem.bias_axis, 0),
        "activation": problem.activation,
    }


def batch_strides(matrix: Matrix) -> tuple[int, int, int]:
    """Strides, 0 for the batch of a matrix that serves all of them."""
    batch, row, column = matrix.strides
    return batch if matrix.shape[0] > 1 else 0, row, column


def traffic(problem: Problem) -> int:
    """Bytes of the operands and the result, each counted once."""
    return sum(matrix.elements * matrix.itemsize for matrix in (problem.a, problem.b, problem.c))


def loaded_layouts(matrix: Matrix, tile: tuple[int, int]) -> tuple[Any, SwizzledSharedLayout]:
    """How a tile is loaded, along the neighbours in memory, and how it lies in shared memory, along the same.

    Rows of 128 bytes of 16-bit elements are permuted by eight 16-byte pieces, so that matrix loads meet no conflicts.
    """
    bits = 8 * matrix.itemsize
    strides = (1, tile[0]) if matrix.turned else (tile[1], 1)
    vector = vector_of(matrix)
    layout = coalesced_layout(tile, strides, bits, WARPS, lanes=LANES, vector=vector)
    per_phase = max(1, 64 // tile[0 if matrix.turned else 1])
    order = [0, 1] if matrix.turned else [1, 0]
    return layout, SwizzledSharedLayout(8, per_phase, max(1, 8 // per_phase), order)


def stored_layout(matrix: Matrix, tile: Sequence[int]) -> Any:
    """How a tile of the result is stored."""
    strides = (1, tile[0]) if matrix.turned else (tile[1], 1)
    return coalesced_layout(tile, strides, 8 * matrix.itemsize, WARPS, lanes=LANES, vector=vector_of(matrix))


def vector_of(matrix: Matrix) -> int:
    """Elements that a thread moves at once: 16 bytes where every line starts at a multiple of that, else one."""
    return GRANULE // matrix.itemsize if matrix.bulk else 1


class Place:
    """Where an array of a device starts, without keeping it alive: what a kept descriptor has for a base."""

    __slots__ = ("device", "dtype", "pointer")

    def __init__(self, pointer: int, dtype: str, device: int) -> None:
        self.pointer = pointer
        self.dtype = SimpleNamespace(name=dtype)
        self.device = SimpleNamespace(id=device)

    def data_ptr(self) -> int:
        """The address."""
        return self.pointer

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:  # the name is the protocol's
        kind = f"|V{ITEM_BYTES[self.dtype.name]}"
        return {"shape": (1,), "typestr": kind, "data": (self.pointer, False), "strides": None, "version": 3}


def descriptor(matrix: Matrix, array: Any, block: Block) -> TensorDescriptor:
    """The descriptor of a matrix, its near dimension last; of a device's memory one that is kept for later calls."""
    if getattr(array, "is_cuda", False):
        return _kept_descriptor(array.data_ptr(), array.device.index or 0, matrix, block)
    return _descriptor(matrix, array, block)


@functools.lru_cache(maxsize=KEPT)
def _kept_descriptor(pointer: int, device: int, matrix: Matrix, block: Block) -> TensorDescriptor:
    return _descriptor(matrix, Place(pointer, matrix.dtype, device), block)


def _descriptor(matrix: Matrix, base: Any, block: Block) -> TensorDescriptor:
    if matrix.turned:
        matrix = matrix.transposed()
    batches, rows, columns = matrix.shape
    pitch = matrix.strides[1] if rows > 1 else matrix.packed(turned=False).strides[1]
    distance = matrix.strides[0] if batches > 1 else rows * pitch
    return TensorDescriptor(base, [batches, rows, columns], [distance, pitch, 1], list(block[0]), block[1])


def meeting_place(like: Any, plan: Plan, tiles: int, slots: int) -> tuple[Any, Any]:
    """Memory for the sums of all splits, and the counters of those that have arrived; `None` without splits."""
    if plan.splits == 1:
        return None, None
    height, width, _ = plan.block
    return empty(like, (tiles * plan.splits * height * width,), "float32"), counters(like, slots)


def multiprocessors_of(array: Any) -> int:
    """Multiprocessors where kernels on this array run; an H200's on the simulator."""
    if not getattr(array, "is_cuda", False):
        return SIMULATED_MULTIPROCESSORS
    return _multiprocessors(array.device.index or 0)


@functools.cache
def _multiprocessors(device: int) -> int:
    return driver.active.utils.get_device_properties(device)["multiprocessor_count"]
