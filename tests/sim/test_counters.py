"""Counts equal a brute-force count of sectors and of wavefronts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glueball.sim.counters import Counts, count_global, count_shared
from glueball.sim.masks import Array, Mask
from tests.layouts.shared_accesses import count as count_access
from tests.layouts.shared_accesses import measured_loads
from tests.sim.kernels import Kernel

CTAS, WARPS = 2, 3


def brute_global(addresses: Array, mask: Array, width: int) -> Counts:
    counts = Counts()
    for row, active in zip(addresses.reshape(-1, addresses.shape[2]), mask.reshape(-1, mask.shape[2]), strict=True):
        touched = {int(address) + byte for address in row[active] for byte in range(width)}
        if touched:
            counts.add(Counts(1, len({byte // 32 for byte in touched}), len(touched)))
    return counts


def brute_shared(offsets: Array, mask: Array, width: int, banks: int, load: bool) -> Counts:
    counts = Counts()
    lanes = offsets.shape[2]
    for row, active in zip(offsets.reshape(-1, lanes), mask.reshape(-1, lanes), strict=True):
        starts = [int(offset) if takes_part else None for offset, takes_part in zip(row, active, strict=True)]
        wavefronts, ideal = count_access(starts, width, banks, load=load)
        counts.add(Counts(requests=int(active.any()), wavefronts=wavefronts, ideal_wavefronts=ideal))
    return counts


@st.composite
def accesses(draw: st.DrawFn, shared: bool) -> tuple[Array, Mask, int, int]:
    """Addresses, mask, width and lanes: any axis may be equal for all threads."""
    lanes = draw(st.sampled_from([32, 64]))
    width = draw(st.sampled_from([1, 2, 4, 8, 16]))
    full = (CTAS, WARPS, lanes)
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    extents = [draw(st.booleans()) for _ in full]
    shape = tuple(extent if own else 1 for extent, own in zip(full, extents, strict=True))
    reach = draw(st.sampled_from([4, 64, 1000]))
    pattern = draw(st.sampled_from(["random", "sorted", "strided", "alike"]))
    words = random.integers(0, reach, shape)
    if pattern == "sorted":
        words = np.sort(words, axis=2)
    if pattern == "alike" and shape[2] > 1:
        words = words[:, :, np.arange(lanes) & ~draw(st.sampled_from([1, 2, 3, 4]))]
    if pattern == "strided":
        words = words[:, :, :1] + np.arange(shape[2]) * draw(st.integers(0, 33))
    if shared:
        words = np.broadcast_to(words, (shape[0], *full[1:]))
    mask: Mask = None
    if draw(st.booleans()):
        own = [draw(st.booleans()) for _ in full]
        likely = draw(st.sampled_from([0.1, 0.5, 0.95]))
        sizes = tuple(extent if each else 1 for extent, each in zip(full, own, strict=True))
        mask = random.random(sizes) < likely
        if shared:
            mask = np.broadcast_to(mask, (shape[0] if sizes[0] == 1 else CTAS, *full[1:]))
            words = np.broadcast_to(words, mask.shape)
    return words.astype(np.int64) * width, mask, width, lanes


@settings(max_examples=200, deadline=None)
@given(accesses(shared=False))
def test_sectors_by_brute_force(access: tuple[Array, Mask, int, int]) -> None:
    addresses, mask, width, lanes = access
    full = (CTAS, WARPS, lanes)
    expected = brute_global(
        np.broadcast_to(addresses, full), np.broadcast_to(True if mask is None else mask, full), width
    )
    assert count_global(addresses, mask, width, CTAS, WARPS) == expected


@settings(max_examples=200, deadline=None)
@given(accesses(shared=True), st.sampled_from([32, 64]), st.booleans())
def test_wavefronts_by_brute_force(access: tuple[Array, Mask, int, int], banks: int, load: bool) -> None:
    offsets, mask, width, lanes = access
    full = (CTAS, WARPS, lanes)
    expected = brute_shared(
        np.broadcast_to(offsets, full), np.broadcast_to(True if mask is None else mask, full), width, banks, load
    )
    assert count_shared(offsets, mask, width, banks, CTAS, load=load) == expected


def test_wavefronts_of_loads_are_those_of_the_hardware() -> None:
    for width, starts, measured in measured_loads():
        offsets = np.array(starts).reshape(1, 1, 32)
        assert count_shared(offsets, None, width, 32, 1, load=True).wavefronts == measured, (width, starts)


def test_warps_in_which_all_lanes_take_part_load_in_fewer_wavefronts() -> None:
    offsets = np.broadcast_to((np.arange(32) >> 1) * 16, (1, 2, 32))
    mask = np.ones((1, 2, 32), bool)
    assert count_shared(offsets, mask, 16, 32, 1, load=True) == Counts(2, wavefronts=4, ideal_wavefronts=4)
    mask[0, 1, 0] = False
    assert count_shared(offsets, mask, 16, 32, 1, load=True) == Counts(2, wavefronts=5, ideal_wavefronts=5)
    assert count_shared(offsets, mask, 16, 32, 1) == Counts(2, wavefronts=8, ideal_wavefronts=8)


@pytest.mark.parametrize(("per_thread", "sectors"), [(1, 4), (2, 8), (4, 16), (8, 32), (16, 32)])
def test_sectors_of_the_copy_sweep(per_thread: int, sectors: int) -> None:
    """Blocks of 2048 elements, `per_thread` neighbouring ones to a thread: the hardware's own figures."""
    kernel = Kernel(4)
    x, y, n = kernel.pointer("x"), kernel.pointer("y"), kernel.scalar("n")
    vector = min(per_thread, 4)
    base = kernel.add(
        kernel.mul(kernel.program_id(0), kernel.i32(2048)), kernel.mul(kernel.thread(), kernel.i32(per_thread))
    )
    for first in range(0, 2048, 128 * per_thread):
        for part in range(0, per_thread, vector):
            mask = kernel.less(base, kernel.add(n, kernel.i32(-first - part)))
            shift = 4 * (first + part)
            value = kernel.load(kernel.address(x, base), mask, count=vector, offset=shift)
            kernel.store(kernel.address(y, base), value, mask, offset=shift)
    data = np.random.default_rng(0).random(1 << 16, np.float32)
    out = np.zeros_like(data)
    report = kernel.run((32,), data, out, data.size)
    assert (out == data).all()
    for counts in (report.global_loads, report.global_stores):
        assert counts.requests == data.size // 32 // vector
        assert counts.sectors == sectors * counts.requests
        assert counts.useful_bytes == data.nbytes
        assert counts.efficiency == {16: 0.5, 8: 0.5}.get(per_thread, 1.0)
    lines = report.by_location()
    assert sum(len(entries) for entries in lines.values()) == len(report.instructions)


def test_instructions_issued_by_warps_with_an_active_lane() -> None:
    kernel = Kernel(4)
    n = kernel.scalar("n")
    with kernel.when(kernel.less(kernel.thread(), n)):
        kernel.do("barrier")
    outer = sum(1 for instruction in kernel.body.instructions if instruction.record.name != "if")
    assert kernel.run((6,), 0).instructions_issued == 6 * 4 * outer
    assert kernel.run((6,), 128).instructions_issued == 6 * 4 * (outer + 1)
