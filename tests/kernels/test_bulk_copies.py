"""Bulk copies: blocks of every rank, type and swizzle, the edges of tensors, reductions, views, machine code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.codegen import disassembly
from glueball.errors import OutOfBoundsError
from glueball.language.nvidia.hopper import CachePolicy, FractionalEvictionPolicy, fence_async_shared, mbarrier, tma
from tests.kernels.bulk_kernels import block_of, described, moves, reads, region, rows_of, writes
from tests.kernels.harness import EXECUTORS, random_array, run
from tests.kernels.machine_code import needs_disassembler

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT8 = np.dtype(ml_dtypes.float8_e4m3fn)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("shape", "block", "where", "swizzle"),
    [
        ((1000,), (256,), (512,), 0),
        ((1000,), (512,), (480,), 0),
        ((40, 72), (16, 64), (16, 8), 128),
        ((40, 72), (16, 32), (-8, 56), 64),
        ((40, 72), (16, 32), (32, -16), 32),
        ((300, 72), (256, 64), (100, 0), 128),
        ((40, 200), (16, 128), (8, 40), 128),
        ((5, 12, 72), (2, 8, 64), (3, 6, 16), 128),
        ((5, 12, 136), (4, 4, 128), (0, 4, 8), 128),
        ((3, 4, 5, 24), (1, 2, 4, 16), (2, 3, -1, 16), 32),
        ((2, 3, 4, 5, 16), (2, 1, 2, 4, 16), (0, 2, 1, 2, 0), 32),
        ((2, 3, 4, 5, 16), (1, 2, 4, 2, 8), (1, 2, 3, 4, 8), 0),
    ],
    ids=str,
)
def test_blocks_of_every_rank(
    executor: str, shape: Any, block: Any, where: Any, swizzle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies outside of the tensor comes as zeros and is left out going back, which cannot begin before it."""
    x = random_array(shape, np.float16)
    y = np.ones(shape, np.float16)
    to = tuple(max(place, 0) for place in where)

    def launch(source: Any, target: Any) -> Any:
        return moves[(1,)](described(source, block, swizzle), described(target, block, swizzle), tuple(where), to)

    run(executor, monkeypatch, launch, x, y)
    expected = np.ones(shape, np.float16)
    inside, there = region(shape, to, block)
    expected[there] = block_of(x, where, block)[inside]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("executor", ["reference", "sim"])
def test_a_store_cannot_begin_before_the_tensor(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = random_array((40, 72), np.float16), np.ones((40, 72), np.float16)

    def launch(source: Any, target: Any) -> Any:
        return moves[(1,)](described(source, (16, 64), 128), described(target, (16, 64), 128), (0, 0), (-8, 0))

    with pytest.raises(OutOfBoundsError, match="cannot start at negative coordinates"):
        run(executor, monkeypatch, launch, x, y)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_store_ends_rows_at_sixteen_bytes(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last row apart, behind which another array may lie."""
    x, whole = random_array((16, 64), np.float32), np.ones((16, 64), np.float32)

    def launch(source: Any, target: Any) -> Any:
        return moves[(1,)](described(source, (16, 32), 128), described(target, (16, 32), 128), (0, 0), (0, 0))

    run(executor, monkeypatch, launch, x, whole[:, :27])
    np.testing.assert_array_equal(whole[:15, :28], x[:15, :28])
    np.testing.assert_array_equal(whole[:, 28:], np.ones((16, 36), np.float32))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32", BFLOAT16, FLOAT8]
)
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_types_and_swizzles(executor: str, dtype: Any, swizzle: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((40, 256), dtype)
    block = (16, 128)
    y = np.zeros(block, dtype)
    where = (30, 128 + 16 // x.itemsize)
    layout = rows_of(block)
    run(executor, monkeypatch, lambda x, y: reads[(1,)](described(x, block, swizzle), y, where, layout), x, y)
    np.testing.assert_array_equal(y.view(f"u{x.itemsize}"), block_of(x, where, block).view(f"u{x.itemsize}"))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", ["float16", "float32", BFLOAT16])
def test_nan_outside(executor: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((20, 64), dtype)
    block, where = (16, 32), (10, 48)
    y = np.zeros(block, dtype)
    layout = rows_of(block)
    run(executor, monkeypatch, lambda x, y: reads[(1,)](described(x, block, 64, padding="nan"), y, where, layout), x, y)
    np.testing.assert_array_equal(y.astype(np.float32), block_of(x, where, block, np.nan).astype(np.float32))


def rounded_to_tf32(values: Any) -> Any:
    """Ten bits of fraction, ties to even; what is not finite as it is."""
    words = values.view(np.uint32)
    rounded = (words + 0xFFF + ((words >> 13) & 1)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded, words).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_rounding_to_tf32(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((16, 32), np.float32)
    x[0, :4] = [np.inf, -np.inf, 1 + 2.0**-11, 1 + 3 * 2.0**-11]
    y = np.zeros_like(x)
    layout = rows_of(x.shape)
    run(
        executor, monkeypatch,
        lambda x, y: reads[(1,)](described(x, x.shape, 128, round_f32_to_tf32=True), y, (0, 0), layout), x, y,
    )  # fmt: skip
    np.testing.assert_array_equal(y, rounded_to_tf32(x))
    assert (x != y).any()


REDUCTIONS = {
    "add": (np.add, ["float16", "float32", "int32", "uint32", BFLOAT16]),
    "min": (np.minimum, ["float16", "int32", "uint32", BFLOAT16]),
    "max": (np.maximum, ["float16", "int32", "uint32", BFLOAT16]),
    "and": (np.bitwise_and, ["int32", "uint32"]),
    "or": (np.bitwise_or, ["int32", "uint32"]),
    "xor": (np.bitwise_xor, ["int32", "uint32"]),
}


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("operator", "dtype"), [(name, dtype) for name, (_, dtypes) in REDUCTIONS.items() for dtype in dtypes], ids=str
)
def test_reductions(executor: str, operator: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements outside of the tensor are left out."""
    block, where = (16, 32), (10, 8)
    x, y = random_array(block, dtype), random_array((20, 40), dtype, seed=1)
    if x.dtype.kind != "f" or operator == "add":
        x, y = (values.astype(np.int8).astype(dtype) if values.dtype.kind == "f" else values for values in (x, y))
    expected = y.copy()
    inside, there = region(y.shape, where, block)
    with np.errstate(over="ignore"):
        expected[there] = REDUCTIONS[operator][0](expected[there], x[inside])
    layout = rows_of(block)
    run(executor, monkeypatch, lambda x, y: writes[(1,)](x, described(y, block, 32), where, operator, layout), x, y)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_reductions_of_many_programs(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    block = (8, 32)
    x, y = np.ones(block, np.int32), np.zeros(block, np.int32)
    layout = rows_of(block)
    run(executor, monkeypatch, lambda x, y: writes[(9,)](x, described(y, block, 128), (0, 0), "add", layout), x, y)
    np.testing.assert_array_equal(y, 9)


@glueball.jit
def adds(a, b, c, STAGES: gl.constexpr, layout: gl.constexpr):
    """A row of blocks, loads several blocks ahead, one store behind."""
    M: gl.constexpr = a.block_shape[0]
    N: gl.constexpr = a.block_shape[1]
    row = gl.program_id(0) * M
    bars = mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        mbarrier.init(bars.index(i), count=1)
    left = gl.allocate_shared_memory(a.dtype, [STAGES, M, N], a.layout)
    right = gl.allocate_shared_memory(b.dtype, [STAGES, M, N], b.layout)
    result = gl.allocate_shared_memory(c.dtype, [M, N], c.layout)
    count = gl.cdiv(a.shape[1], N)
    for i in range(gl.minimum(count, STAGES)):
        starts(a, b, row, i * N, bars.index(i), left.index(i), right.index(i))
    for i in range(count):
        slot = i % STAGES
        mbarrier.wait(bars.index(slot), (i // STAGES) & 1)
        total = left.index(slot).load(layout) + right.index(slot).load(layout)
        if i + STAGES < count:
            starts(a, b, row, (i + STAGES) * N, bars.index(slot), left.index(slot), right.index(slot))
        tma.store_wait(0)
        result.store(total)
        fence_async_shared()
        tma.async_store(c, [row, i * N], result)
    tma.store_wait(0)
    for i in gl.static_range(STAGES):
        mbarrier.invalidate(bars.index(i))


@glueball.jit
def starts(a, b, row, column, bar, left, right):
    mbarrier.expect(bar, a.nbytes_per_cta + b.nbytes_per_cta)
    tma.async_load(a, [row, column], bar, left)
    tma.async_load(b, [row, column], bar, right)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("shape", [(64, 256), (70, 200), (32, 32)])
def test_pipeline(executor: str, stages: int, shape: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (np.random.default_rng(seed).integers(-99, 99, shape).astype(np.float32) for seed in (0, 1))
    c = np.zeros_like(a)
    block = (32, 32)
    layout = rows_of(block, 4)

    def launch(*arrays: Any) -> Any:
        return adds[(glueball.cdiv(shape[0], 32),)](*(described(each, block, 128) for each in arrays), stages, layout)

    run(executor, monkeypatch, launch, a, b, c)
    np.testing.assert_array_equal(c, a + b)


@glueball.jit
def by_parts(source, y, PLANES: gl.constexpr, layout: gl.constexpr):
    """Blocks of rank 3 into slices of a view of rank 2, only where the predicate holds."""
    whole = gl.allocate_shared_memory(source.dtype, [4 * PLANES * 8, 64], layout=gl.NVMMASharedLayout(128, 16))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, 4 * source.nbytes_per_cta)
    for i in gl.static_range(6):
        part = whole.slice((i % 4) * PLANES * 8, PLANES * 8, dim=0)
        tma.async_load(source, [i * PLANES, 0, 0], bar, part, pred=i < 4)
    mbarrier.wait(bar, 0)
    row = gl.arange(0, 4 * PLANES * 8, layout=gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))[None, :]
    gl.store(y + row * 64 + column, whole.load(layout))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_views_and_predicates(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((8, 8, 64), np.float16)
    y = np.zeros((64, 64), np.float16)
    layout = rows_of(y.shape)
    run(executor, monkeypatch, lambda x, y: by_parts[(1,)](described(x, (2, 8, 64), 128), y, 2, layout), x, y)
    np.testing.assert_array_equal(y, x.reshape(64, 64))


@glueball.jit
def stores_in_other_turns(target, layout: gl.constexpr):
    """The second program stores first, then the first program twice; all wait together in the end."""
    program = gl.program_id(0)
    block = gl.allocate_shared_memory(target.dtype, target.block_shape, target.layout)
    for i in range(3):
        if (i > 0) == (program == 0):
            tma.store_wait(0)
            block.store(gl.full(target.block_shape, i + 1, target.dtype, layout))
            fence_async_shared()
            tma.async_store(target, [i * target.block_shape[0], 0], block)
    tma.store_wait(0)


@pytest.mark.parametrize("schedule", ["in_order", "random", "late"])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_programs_that_store_in_other_turns(executor: str, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_SCHEDULE", schedule)
    y, layout = np.zeros((24, 32), np.float32), rows_of((8, 32))
    run(executor, monkeypatch, lambda y: stores_in_other_turns[(2,)](described(y, (8, 32), 128), layout), y)
    np.testing.assert_array_equal(y, np.repeat([1, 2, 3], 8)[:, None] + np.zeros(32))


@glueball.jit
def coordinates_of_any_type(source, target, i, j):
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.nbytes_per_cta)
    tma.async_load(source, (i.to(gl.int64), j.to(gl.uint8)), bar, view)
    mbarrier.wait(bar, gl.program_id(0))
    tma.async_store(target, [i.to(gl.int16), gl.program_id(1)], view)
    tma.store_wait(0)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_coordinates_of_any_integer_type(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = random_array((32, 64), np.float16), np.zeros((32, 64), np.float16)
    block = (8, 32)

    def launch(x: Any, y: Any) -> Any:
        return coordinates_of_any_type[(1,)](described(x, block, 64), described(y, block, 64), 8, 16)

    run(executor, monkeypatch, launch, x, y)
    expected = np.zeros_like(y)
    expected[8:16, :32] = x[8:16, 16:48]
    np.testing.assert_array_equal(y, expected)


def compiled(kernel: Any, *arguments: Any, num_warps: int = 4) -> Any:
    return glueball.compile_only(kernel, *arguments, num_warps=num_warps, target="sm_90a")


@pytest.mark.parametrize(
    ("block", "swizzle", "messages"),
    [((512, 128), 0, 2), ((512, 128), 32, 16), ((512, 128), 64, 8), ((512, 128), 128, 4), ((128, 128), 128, 2)],
)
@pytest.mark.parametrize("num_warps", [1, 4, 8])
def test_messages(block: Sequence[int], swizzle: int, messages: int, num_warps: int) -> None:
    """A block of float16 is as many boxes as it takes, warps taking turns; one commit for a store."""
    x = described(np.zeros((1024, 256), np.float16), block, swizzle)
    ptx = compiled(moves, x, x, (0, 0), (0, 0), num_warps=num_warps).asm["ptx"]
    rounds = -(-messages // num_warps)
    assert len(re.findall(r"cp\.async\.bulk\.tensor\.2d\.shared::cta\.global", ptx)) == rounds
    assert len(re.findall(r"cp\.async\.bulk\.tensor\.2d\.global\.shared::cta", ptx)) == rounds
    assert len(re.findall(r"cp\.async\.bulk\.commit_group", ptx)) == 1
    assert f"{block[0] * block[1] * 2};" in re.search(r"mbarrier\.arrive\.expect_tx.*", ptx)[0]  # type: ignore[index]


@needs_disassembler
@pytest.mark.parametrize("num_warps", [1, 4])
def test_machine_code(num_warps: int) -> None:
    """Every bulk copy is guarded by the choice of one lane, which a single warp needs none for; nothing spills."""
    a = described(np.zeros((64, 256), np.float32), (32, 32), 128)
    kernel = compiled(adds, a, a, a, 3, gl.BlockedLayout([1, 4], [4, 8], [num_warps, 1], [1, 0]), num_warps=num_warps)
    texts = [line.text for line in disassembly.line_table(kernel.asm["cubin"])]
    copies = [text for text in texts if re.search(r"UTMALDG|UTMASTG", text)]
    elections = [text for text in texts if "ELECT" in text]
    assert len(copies) == 5
    assert bool(elections) == (num_warps > 1)
    assert not [text for text in texts if re.search(r"\b(LDL|STL)\b", text)]
    assert kernel.n_spills == 0
    guarded = re.findall(r"@%p\d+ cp\.(?:reduce\.)?async\.bulk\.tensor", kernel.asm["ptx"])
    assert len(guarded) == len(copies)


@glueball.jit
def with_policy(source, target, policy: gl.constexpr):
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.nbytes_per_cta)
    tma.async_load(source, (0, 0), bar, view, cache_policy=policy)
    mbarrier.wait(bar, 0)
    tma.async_store(target, (0, 0), view, cache_policy=policy)
    tma.store_wait(0)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_cache_policies(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_array((16, 64), np.float16)
    y = np.zeros_like(x)
    policy = CachePolicy(l2=FractionalEvictionPolicy("evict_last", 0.5))

    def launch(x: Any, y: Any) -> Any:
        return with_policy[(1,)](described(x, x.shape, 128), described(y, y.shape, 128), policy)

    run(executor, monkeypatch, launch, x, y)
    np.testing.assert_array_equal(x, y)
    ptx = compiled(with_policy, *(described(each, x.shape, 128) for each in (x, y)), policy).asm["ptx"]
    assert ptx.count("createpolicy.fractional.L2::evict_last.b64 policy, 0.5;") == 2
    assert ptx.count(".L2::cache_hint") == 2
