"""Asynchronous copies: every width, masks, destinations and ways to wait; what the machine code makes of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.codegen import disassembly
from glueball.errors import CompilationError
from glueball.language.nvidia.ampere import CachePolicy, FractionalEvictionPolicy, async_copy, mbarrier
from tests.kernels.harness import EXECUTORS, random_array, run
from tests.kernels.machine_code import needs_disassembler

PLAIN = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
LAYOUTS = {
    "swizzled": gl.SwizzledSharedLayout(8, 1, 8, [1, 0]),
    "nvmma": gl.NVMMASharedLayout(128, 16),
    "padded": gl.PaddedSharedLayout.with_identity_for([[64, 8]], [32, 64], [1, 0]),
    "linear": gl.SharedLinearLayout([[0, 1 << i] for i in range(6)] + [[1 << i, 0] for i in range(5)]),
}


def rows(elements: int) -> gl.BlockedLayout:
    """Threads along rows of 64, each with so many elements side by side."""
    across = min(32, 64 // elements)
    return gl.BlockedLayout([1, elements], [32 // across, across], [4, 1], [1, 0])


@glueball.jit
def places(M: gl.constexpr, N: gl.constexpr, layout: gl.constexpr):
    row = gl.arange(0, M, layout=gl.SliceLayout(1, layout))[:, None]
    return row, gl.arange(0, N, layout=gl.SliceLayout(0, layout))[None, :]


@glueball.jit
def through(x, y, shared: gl.constexpr, layout: gl.constexpr, policy: gl.constexpr):
    row, column = places(32, 64, layout)
    view = gl.allocate_shared_memory(x.dtype.element_ty, [32, 64], shared)
    async_copy.async_load(view, x + row * 64 + column, cache_policy=policy)
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.store(y + row * 64 + column, view.load(layout))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("dtype", "elements"),
    [
        ("float32", 1),
        ("float32", 2),
        ("float32", 4),
        ("float16", 2),
        ("float16", 8),
        ("int8", 4),
        ("int8", 16),
        ("int64", 2),
    ],
)
def test_every_width(executor: str, dtype: str, elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((32, 64), dtype)
    y = np.zeros_like(x)
    run(executor, monkeypatch, through[(1,)], x, y, PLAIN, rows(elements), None)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_destination(executor: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((32, 64), np.float16)
    y = np.zeros_like(x)
    run(executor, monkeypatch, through[(1,)], x, y, LAYOUTS[name], rows(8), None)
    np.testing.assert_array_equal(x, y)


@glueball.jit
def masked(x, y, height, width, shared: gl.constexpr, layout: gl.constexpr):
    row, column = places(32, 64, layout)
    view = gl.allocate_shared_memory(gl.float32, [32, 64], shared)
    view.store(gl.full([32, 64], -1.0, gl.float32, layout))
    async_copy.async_load(view, x + row * width + column, (row < height) & (column < width))
    async_copy.commit_group()
    async_copy.wait_group()
    gl.store(y + row * 64 + column, view.load(layout))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("height", "width"), [(32, 64), (20, 64), (7, 48), (32, 33), (0, 64)])
def test_zeros_where_the_mask_is_false(executor: str, height: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((max(height, 1), width), np.float32)
    y = np.ones((32, 64), np.float32)
    run(executor, monkeypatch, masked[(1,)], x, y, height, width, LAYOUTS["swizzled"], rows(4))
    expected = np.zeros_like(y)
    expected[:height, :width] = x[:height]
    np.testing.assert_array_equal(y, expected)


@glueball.jit
def pipelined(x, y, count, STAGES: gl.constexpr, shared: gl.constexpr, layout: gl.constexpr):
    """Sums of tiles that come through a ring of buffers."""
    row, column = places(32, 64, layout)
    place = row * 64 + column
    ring = gl.allocate_shared_memory(gl.float32, [STAGES, 32, 64], shared)
    for i in gl.static_range(STAGES - 1):
        async_copy.async_load(ring.index(i), x + i * 2048 + place, mask=i < count)
        async_copy.commit_group()
    total = gl.zeros([32, 64], gl.float32, layout)
    for i in range(count):
        ahead = i + STAGES - 1
        async_copy.async_load(ring.index(ahead % STAGES), x + ahead * 2048 + place, mask=ahead < count)
        async_copy.commit_group()
        async_copy.wait_group(STAGES - 1)
        total += ring.index(i % STAGES).load(layout)
    async_copy.wait_group(0)
    gl.store(y + place, total)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_ring_of_buffers(executor: str, stages: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).integers(-8, 8, (count, 32, 64)).astype(np.float32)
    y = np.zeros((32, 64), np.float32)
    run(executor, monkeypatch, pipelined[(1,)], x, y, count, stages, LAYOUTS["swizzled"], rows(4))
    np.testing.assert_array_equal(y, x.sum(0))


@glueball.jit
def by_mbarrier(x, y, INCREMENT: gl.constexpr, shared: gl.constexpr, layout: gl.constexpr):
    row, column = places(32, 64, layout)
    view = gl.allocate_shared_memory(gl.float32, [32, 64], shared)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1 if INCREMENT else 128)
    for i in range(3):
        async_copy.async_load(view, x + i * 2048 + row * 64 + column)
        async_copy.mbarrier_arrive(bar, increment_count=INCREMENT)
        if INCREMENT:
            mbarrier.arrive(bar)
        mbarrier.wait(bar, i & 1)
        gl.store(y + i * 2048 + row * 64 + column, view.load(layout))
    mbarrier.invalidate(bar)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("increment", [True, False])
def test_arrival_at_an_mbarrier(executor: str, increment: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((3, 32, 64), np.float32)
    y = np.zeros_like(x)
    run(executor, monkeypatch, by_mbarrier[(1,)], x, y, increment, LAYOUTS["swizzled"], rows(4))
    np.testing.assert_array_equal(x, y)


POLICIES: dict[str, tuple[Any, str]] = {
    "first level": (CachePolicy("ca"), r"cp\.async\.ca\.shared\.global \["),
    "second level": (CachePolicy(".cg"), r"cp\.async\.cg\.shared\.global \["),
    "first level's priority has no meaning": (CachePolicy(l1="evict_last"), r"cp\.async\.cg\.shared\.global \["),
    "priority": (
        CachePolicy(l2=FractionalEvictionPolicy("evict_first", 0.5)),
        r"createpolicy\.fractional\.L2::evict_first\.b64 policy, 0\.5;.*cp\.async\.cg\.shared\.global\.L2::cache_hint ",
    ),
    "two priorities": (
        CachePolicy(l2=FractionalEvictionPolicy("evict_last", 0.25, "evict_first")),
        r"createpolicy\.fractional\.L2::evict_last\.L2::evict_first\.b64 policy, 0\.25;",
    ),
    "prefetch": (CachePolicy(l2_prefetch_size=128), r"cp\.async\.cg\.shared\.global\.L2::128B "),
    "everything": (
        CachePolicy(None, "evict_first", FractionalEvictionPolicy("evict_first", 1.0), 256),
        r"cp\.async\.cg\.shared\.global\.L2::cache_hint\.L2::256B ",
    ),
    "any target's": (
        gl.CachePolicy(".cg", "evict_last"),
        r"L2::evict_last.*cp\.async\.cg\.shared\.global\.L2::cache_hint ",
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_cache_policies(name: str) -> None:
    policy, text = POLICIES[name]
    x = np.zeros((32, 64), np.float16)
    kernel = glueball.compile_only(through, x, x, LAYOUTS["swizzled"], rows(8), policy, target="sm_80")
    assert re.search(text, kernel.asm["ptx"])


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", ["priority", "everything"])
def test_policies_change_no_values(executor: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((32, 64), np.float16)
    y = np.zeros_like(x)
    run(executor, monkeypatch, through[(1,)], x, y, LAYOUTS["swizzled"], rows(8), POLICIES[name][0])
    np.testing.assert_array_equal(x, y)


@glueball.jit
def narrow(x, limit, shared: gl.constexpr, layout: gl.constexpr):
    row, column = places(32, 64, layout)
    view = gl.allocate_shared_memory(x.dtype.element_ty, [32, 64], shared)
    async_copy.async_load(view, x + row * 64 + column, mask=column < limit)


@pytest.mark.parametrize(
    ("dtype", "shared", "layout", "limit", "found"),
    [
        ("float16", PLAIN, rows(1), 64, "2 bytes: side by side in global memory"),
        ("float16", PLAIN, rows(8), 33, "2 bytes: side by side in global memory"),
        ("int8", PLAIN, rows(2), 64, "2 bytes: side by side in global memory"),
        ("float16", gl.SwizzledSharedLayout(1, 1, 1, [0, 1]), rows(8), 64, "2 bytes: the shared layout does not keep"),
    ],
)
def test_copies_of_fewer_than_4_bytes(dtype: str, shared: Any, layout: Any, limit: int, found: str) -> None:
    with pytest.raises(CompilationError, match="does not support transfers smaller than 4 bytes") as caught:
        _ = glueball.compile_only(narrow, np.zeros((32, 64), dtype), limit, shared, layout, target="sm_80").asm["ptx"]
    assert f"calculated this as {found}" in caught.value.error_message
    assert "async_copy.async_load(view" in caught.value.location.excerpt()


@needs_disassembler
def test_machine_code() -> None:
    """Sixteen bytes an instruction, past the first level, and nothing spills."""
    x = np.zeros((32, 64), np.float16)
    kernel = glueball.compile_only(through, x, x, LAYOUTS["swizzled"], rows(8), None, target="sm_90a")
    copies = [line.text for line in disassembly.line_table(kernel.asm["cubin"]) if "LDGSTS" in line.text]
    assert len(copies) == 32 * 64 * 2 // 16 // 128
    assert all("BYPASS" in text and ".128" in text for text in copies)
    assert kernel.n_spills == 0
