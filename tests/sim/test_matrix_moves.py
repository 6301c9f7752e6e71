"""Matrices between shared memory and registers, against the PTX ISA's tables of who holds what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glueball.errors import DeadlockError, SharedMemoryRaceError, UninitializedReadError
from tests.sim.kernels import Kernel

NUMPY = {"i8": np.uint8, "i16": np.uint16, "i32": np.uint32}
COUNTS = [1, 2, 4]


def row_address(kernel: Kernel, stride: int) -> Any:
    """Lane i gives the address of row i."""
    return kernel.mul(kernel.lane(), kernel.i32(stride))


def element_addresses(kernel: Kernel, pointer: Any, count: int, size: int) -> list[Any]:
    """Where each lane's elements lie in an array `[lane, element]`."""
    base = kernel.mul(kernel.lane(), kernel.i32(count))
    return [kernel.address(pointer, kernel.add(base, kernel.i32(index)), size) for index in range(count)]


def held(rows: np.ndarray, matrices: int, kind: str, transposed: bool) -> np.ndarray:
    """What lane l holds of matrices in memory `[row, 8]` of 16-bit elements: `[lane, element]`, by the ISA's tables."""
    result = np.zeros((32, 2 * matrices), np.uint16)
    for matrix in range(matrices):
        for lane in range(32):
            for half in range(2):
                row, column = lane // 4, 2 * (lane % 4) + half
                if transposed:
                    row, column = column, row
                result[lane, 2 * matrix + half] = rows[8 * matrix + row, column]
    return result.view(NUMPY[kind])


def loading(matrices: int, kind: str, transposed: bool, stride: int = 16, barrier: bool = True) -> Kernel:
    """x `[row, 16 bytes]` -> shared memory -> matrices -> y `[lane, element]`."""
    kernel = Kernel()
    x, y = kernel.pointer("x"), kernel.pointer("y")
    kernel.allocate("buffer", 32 * stride)
    words = [
        kernel.load(kernel.address(x, kernel.add(kernel.mul(kernel.lane(), kernel.i32(4)), kernel.i32(i))), kind="i32")
        for i in range(4)
    ]
    kernel.store(row_address(kernel, stride), words, space="shared", kind="i32", allocation="buffer")
    kernel.at(5)
    if barrier:
        kernel.do("barrier")
    options = {"allocation": "buffer", "type": kind, "matrices": matrices, "offset": 0, "transposed": transposed}
    found = kernel.do("load_matrix", row_address(kernel, stride), **options)
    found = found if isinstance(found, tuple) else (found,)
    size = np.dtype(NUMPY[kind]).itemsize
    for address, value in zip(element_addresses(kernel, y, len(found), size), found, strict=True):
        kernel.store(address, value, kind=kind)
    return kernel


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", ["i8", "i16", "i32"])
@pytest.mark.parametrize("matrices", COUNTS)
def test_loads(matrices: int, kind: str, transposed: bool) -> None:
    x = np.random.default_rng(0).integers(0, 1 << 16, (32, 8), np.uint16)
    y = np.zeros((32, 4 * matrices), np.uint8).view(NUMPY[kind])
    report = loading(matrices, kind, transposed).run((1,), x.view(np.uint32), y)
    assert np.array_equal(y, held(x, matrices, kind, transposed))
    assert report.matrix_loads.requests == 1
    assert report.matrix_loads.wavefronts == report.matrix_loads.ideal_wavefronts == matrices


def test_rows_in_the_same_banks_conflict() -> None:
    x = np.zeros((32, 8), np.uint16)
    y = np.zeros((32, 4), np.uint32)
    counts = loading(4, "i32", False, stride=128).run((1,), x.view(np.uint32), y).matrix_loads
    assert (counts.wavefronts, counts.ideal_wavefronts) == (32, 4)


def storing(matrices: int, kind: str, transposed: bool, whole: bool = True) -> Kernel:
    """x `[lane, element]` -> matrices -> shared memory -> y `[row, 16 bytes]`."""
    kernel = Kernel()
    x, y = kernel.pointer("x"), kernel.pointer("y")
    kernel.allocate("buffer", 512)
    size = np.dtype(NUMPY[kind]).itemsize
    count = 4 * matrices // size
    values = [kernel.load(address, kind=kind) for address in element_addresses(kernel, x, count, size)]
    options = {"allocation": "buffer", "type": kind, "matrices": matrices, "offset": 0, "transposed": transposed}
    kernel.at(4)
    mask = kernel.less(kernel.lane(), 32 if whole else 31)
    kernel.do("store_matrix", row_address(kernel, 16), mask, *values, masked=True, **options)
    kernel.do("barrier")
    rows = kernel.less(kernel.lane(), 8 * matrices)
    zeros = [kernel.i32(0)] * 4
    words = kernel.load(row_address(kernel, 16), rows, zeros, space="shared", kind="i32", count=4, allocation="buffer")
    for address, value in zip(element_addresses(kernel, y, 4, 4), words, strict=True):
        kernel.store(address, value, rows, kind="i32")
    return kernel


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", ["i8", "i16", "i32"])
@pytest.mark.parametrize("matrices", COUNTS)
def test_stores_undo_loads(matrices: int, kind: str, transposed: bool) -> None:
    rows = np.random.default_rng(1).integers(0, 1 << 16, (32, 8), np.uint16)
    x = held(rows, matrices, kind, transposed)
    y = np.zeros((32, 4), np.uint32)
    report = storing(matrices, kind, transposed).run((1,), x, y)
    assert np.array_equal(y[: 8 * matrices], rows.view(np.uint32)[: 8 * matrices])
    assert report.matrix_stores.wavefronts == matrices


def test_a_barrier_is_needed() -> None:
    x, y = np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.uint32)
    kernel = loading(4, "i32", False, barrier=False)
    load = next(item for item in kernel.body.walk() if item.record.name == "load_matrix")
    load.operands = [kernel.i32(0)]
    with pytest.raises(SharedMemoryRaceError):
        kernel.run((1,), x, y)


def test_a_warp_moves_as_a_whole() -> None:
    with pytest.raises(DeadlockError, match=r"without all of its lanes, .* lane 31"):
        storing(4, "i32", False, whole=False).run((1,), np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.uint32))


def test_what_was_never_written_is_not_read() -> None:
    kernel = Kernel()
    kernel.allocate("buffer", 512)
    options = {"allocation": "buffer", "type": "i32", "matrices": 4, "offset": 0, "transposed": False}
    kernel.do("load_matrix", row_address(kernel, 16), **options)
    with pytest.raises(UninitializedReadError):
        kernel.run((1,))


@pytest.mark.parametrize("transposed", [False, True])
def test_undefined_elements_stay_undefined(transposed: bool) -> None:
    kernel = Kernel()
    x, y = kernel.pointer("x"), kernel.pointer("y")
    kernel.allocate("buffer", 512)
    place = kernel.address(x, kernel.lane())
    one = kernel.load(place, kernel.less(kernel.lane(), 31), kind="i32")
    zeros = [kernel.i32(0)] * 3
    kernel.store(row_address(kernel, 16), [one, *zeros], space="shared", kind="i32", allocation="buffer")
    kernel.do("barrier")
    options = {"allocation": "buffer", "type": "i16", "matrices": 4, "offset": 0, "transposed": transposed}
    found = kernel.do("load_matrix", row_address(kernel, 16), **options)
    # Row 31 is row 7 of the last matrix: its first word is with lane 28, or by halves with lanes 3 and 7.
    holders = [7, 6] if transposed else [6, 7]
    safe = kernel.less(kernel.lane(), 3 if transposed else 28)
    for index, address in zip(holders, element_addresses(kernel, y, 2, 2), strict=True):
        kernel.store(address, found[index], safe, kind="i16")
    arguments = np.ones(32, np.uint32), np.zeros((32, 2), np.uint16)
    kernel.run((1,), *arguments)
    bad = 7
    kernel.store(kernel.address(y, 0, 2), found[bad], kind="i16")
    with pytest.raises(UninitializedReadError):
        kernel.run((1,), *arguments)
