"""Operations that move elements or make them, for every element type: the bits that NumPy moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.tile.types import DTYPES
from tests.kernels.harness import EXECUTORS, run

M, N = gl.constexpr(8), gl.constexpr(16)
SIZE = gl.constexpr(128)
ROWS = gl.constexpr(gl.BlockedLayout([1, 2], [4, 8], [4, 1], [1, 0]))
COLUMNS = gl.constexpr(gl.BlockedLayout([2, 1], [2, 16], [2, 2], [0, 1]))
TURNED = gl.constexpr(gl.BlockedLayout([2, 1], [8, 4], [1, 4], [0, 1]))
FRAGMENT = gl.constexpr(gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8]))
OPERAND = gl.constexpr(gl.DotOperandLayout(0, FRAGMENT.value, 2))
LINE = gl.constexpr(gl.BlockedLayout([2], [32], [4], [0]))
DENSE = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
DENSE_LINE = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))
STORED = {"int1": np.bool_, "float8e4b15": np.uint8}
TYPES = [name for name in DTYPES if name != "void"]


@glueball.jit
def index_of(layout: gl.constexpr):
    rows = gl.arange(0, M, gl.SliceLayout(1, layout))[:, None]
    return rows * N + gl.arange(0, N, gl.SliceLayout(0, layout))[None, :]


@glueball.jit
def shapes_kernel(x, out, kind: gl.constexpr):
    x = x.to(gl.pointer_type(kind))
    out = out.to(gl.pointer_type(kind))
    index = index_of(ROWS)
    tile = gl.load(x + index)
    gl.static_assert(tile.dtype == kind)
    moved = gl.convert_layout(gl.convert_layout(tile, COLUMNS), FRAGMENT)
    gl.store(out + index, gl.convert_layout(gl.convert_layout(moved, OPERAND), ROWS))
    turned = gl.permute(tile, 1, 0)
    gl.store(out + SIZE + gl.permute(index, 1, 0), turned)
    gl.store(out + 2 * SIZE + index, turned.T)
    flat = gl.reshape(tile, [SIZE])
    gl.store(out + 3 * SIZE + gl.ravel(index), flat)
    pair = gl.join(tile, tile)
    first, second = gl.split(pair)
    place = gl.split(gl.join(index, index))[0]
    gl.store(out + 4 * SIZE + place, first)
    gl.store(out + 5 * SIZE + place, second)
    row = gl.load(x + gl.arange(0, N, gl.SliceLayout(0, ROWS)))
    wide = gl.expand_dims(row, 0)
    gl.store(out + 6 * SIZE + index, wide.broadcast_to(M, N))
    column = gl.load(x + gl.arange(0, M, gl.SliceLayout(1, ROWS)))[:, None]
    grown, kept = gl.broadcast(column, tile)
    gl.store(out + 7 * SIZE + index, grown)
    gl.store(out + 8 * SIZE + index, gl.where(index % 3 == 0, tile, grown))
    gl.store(out + 9 * SIZE + index, gl.gather(kept, N - 1 - index % N, 1))
    masked = gl.load(x + index, mask=index < 50, other=0.0)
    gl.store(out + 10 * SIZE + index, masked, mask=index < 100)
    gl.store(out + 11 * SIZE + index, gl.full([M, N], gl.load(x + 3), kind, ROWS))
    gl.store(out + 12 * SIZE + index, gl.zeros([M, N], kind, ROWS))
    gl.store(out + 13 * SIZE + index, gl.full_like(tile, gl.load(x + 5)))
    gl.store(out + 14 * SIZE + index, gl.zeros_like(tile))


@glueball.jit
def views_kernel(x, out, kind: gl.constexpr):
    x = x.to(gl.pointer_type(kind))
    out = out.to(gl.pointer_type(kind))
    index = index_of(ROWS)
    tile = gl.load(x + index)
    view = gl.allocate_shared_memory(kind, [M, N], DENSE, tile)
    gl.store(out + index, view.load(ROWS))
    halves = view.slice(M // 2, M // 2).load(ROWS)
    rows = gl.arange(0, M // 2, gl.SliceLayout(1, ROWS))[:, None]
    gl.store(out + SIZE + rows * N + gl.arange(0, N, gl.SliceLayout(0, ROWS))[None, :], halves)
    gl.store(out + 2 * SIZE + gl.permute(index, 1, 0), view.permute((1, 0)).load(TURNED))
    gl.store(out + 3 * SIZE + gl.arange(0, SIZE, LINE), view.reshape([SIZE]).load(LINE))
    gl.store(out + 4 * SIZE + index, view.gather(M - 1 - index // N, 0))
    view.scatter(tile, M - 1 - index // N, 0)
    gl.store(out + 5 * SIZE + index, view.load(ROWS))
    many = gl.allocate_shared_memory(kind, [3, M, N], DENSE)
    for number in range(3):
        many.index(number).store(tile)
    gl.store(out + 6 * SIZE + index, many.index(2).load(ROWS))
    again = view.reinterpret(kind, [SIZE], DENSE_LINE)._reinterpret(kind, [SIZE], DENSE_LINE)
    again.store(gl.load(x + SIZE - 1 - gl.arange(0, SIZE, LINE)))
    gl.store(out + 7 * SIZE + index, view.load(ROWS))
    view._keep_alive()


def bits(kind: str, count: int) -> np.ndarray:
    """Any bits of an element type that all executors keep as they are: booleans are 0 or 1."""
    random = np.random.default_rng(len(kind))
    numpy_type = np.dtype(STORED.get(kind, getattr(gl, kind).numpy))
    if kind == "int1":
        return random.integers(0, 2, count).astype(np.bool_)
    return random.integers(0, 256, count * numpy_type.itemsize, dtype=np.uint8).view(numpy_type)


def launched(executor: str, kernel: Any, kind: str, parts: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """The 8 by 16 input and the parts of the output, as bits."""
    x = bits(kind, 128)
    out = np.zeros(parts * 128, x.dtype)
    with pytest.MonkeyPatch.context() as patch:
        run(executor, patch, lambda *arrays: kernel[(1,)](*arrays, getattr(gl, kind)), x, out)
    word = f"u{x.dtype.itemsize}"
    return x.view(word).reshape(8, 16), list(out.view(word).reshape(parts, 128))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("kind", TYPES)
def test_shapes(kind: str, executor: str) -> None:
    x, parts = launched(executor, shapes_kernel, kind, 15)
    index = np.arange(128).reshape(8, 16)
    grown = np.broadcast_to(x.reshape(-1)[:8, None], (8, 16))
    expected = [
        x, x, x, x, x, x, np.broadcast_to(x[:1], (8, 16)), grown, np.where(index % 3 == 0, x, grown), x[:, ::-1],
        np.where(index < 50, x, 0), np.full_like(x, x[0, 3]), 0 * x, np.full_like(x, x[0, 5]), 0 * x,
    ]  # fmt: skip
    for number, (part, wanted) in enumerate(zip(parts, expected, strict=True)):
        np.testing.assert_array_equal(part, wanted.reshape(-1), f"part {number}")


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind != "int1"])
def test_views(kind: str, executor: str) -> None:
    x, parts = launched(executor, views_kernel, kind, 8)
    half = np.concatenate([x[4:], np.zeros_like(x[4:])])
    expected = [x, half, x, x, x[::-1], x[::-1], x, x.reshape(-1)[::-1]]
    for number, (part, wanted) in enumerate(zip(parts, expected, strict=True)):
        np.testing.assert_array_equal(part, wanted.reshape(-1), f"part {number}")
