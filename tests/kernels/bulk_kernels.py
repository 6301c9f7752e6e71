"""Kernels that move blocks of tensors by bulk copies, for tests of what comes where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import glueball
import glueball.language as gl
from glueball.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from glueball.nvidia.hopper import TensorDescriptor

LINE = gl.BlockedLayout([1], [32], [4], [0])


@glueball.jit
def moves(source, target, where, to):
    """One block from one tensor to another, through shared memory alone."""
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.nbytes_per_cta)
    tma.async_load(source, where, bar, view)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    tma.async_store(target, to, view)
    tma.store_wait(pendings=0)


@glueball.jit
def reads(source, y, where, layout: gl.constexpr):
    """One block of a tensor to a dense array."""
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.block_type.nbytes)
    tma.async_load(source, where, bar, view)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    M: gl.constexpr = source.block_shape[0]
    N: gl.constexpr = source.block_shape[1]
    row = gl.arange(0, M, layout=gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, N, layout=gl.SliceLayout(0, layout))[None, :]
    gl.store(y + row * N + column, view.load(layout))


@glueball.jit
def writes(x, target, where, REDUCE: gl.constexpr, layout: gl.constexpr):
    """A dense array to one block of a tensor, or combined with it."""
    M: gl.constexpr = target.block_shape[0]
    N: gl.constexpr = target.block_shape[1]
    row = gl.arange(0, M, layout=gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, N, layout=gl.SliceLayout(0, layout))[None, :]
    view = gl.allocate_shared_memory(target.dtype, target.block_shape, target.layout)
    view.store(gl.load(x + row * N + column))
    fence_async_shared()
    if REDUCE == "add":
        tma.async_atomic_add(target, where, view)
    elif REDUCE == "min":
        tma.async_atomic_min(target, where, view)
    elif REDUCE == "max":
        tma.async_atomic_max(target, where, view)
    elif REDUCE == "and":
        tma.async_atomic_and(target, where, view)
    elif REDUCE == "or":
        tma.async_atomic_or(target, where, view)
    elif REDUCE == "xor":
        tma.async_atomic_xor(target, where, view)
    else:
        tma.async_store(target, where, view)
    tma.store_wait(0, read_only=False)


def described(array: Any, block: Sequence[int], swizzle: int, **more: Any) -> TensorDescriptor:
    """A descriptor of an array, on the host or a device."""
    bits = array.itemsize * 8 if isinstance(array, np.ndarray) else array.element_size() * 8
    layout = gl.NVMMASharedLayout(swizzle, bits, len(block))
    return TensorDescriptor.from_tensor(array, list(block), layout, **more)


def rows_of(shape: Sequence[int], elements: int = 1) -> gl.BlockedLayout:
    """A layout for a tile whose rows have at least one element a lane."""
    across = max(1, min(32, shape[-1] // elements))
    return gl.BlockedLayout([1, elements], [32 // across, across], [4, 1], [1, 0])


def block_of(array: np.ndarray[Any, Any], where: Sequence[int], block: Sequence[int], fill: Any = 0) -> Any:
    """The block of an array at coordinates, `fill` outside of it."""
    found = np.full(block, fill, array.dtype)
    inside, there = region(array.shape, where, block)
    found[inside] = array[there]
    return found


def region(
    shape: Sequence[int], where: Sequence[int], block: Sequence[int]
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The part of a block that lies inside of a tensor: in coordinates of the block and of the tensor."""
    inside, there = [], []
    for extent, start, side in zip(shape, where, block, strict=True):
        first, last = max(start, 0), max(min(start + side, extent), start, 0)
        inside.append(slice(first - start, last - start))
        there.append(slice(first, last))
    return tuple(inside), tuple(there)


Launch = Callable[..., Any]
