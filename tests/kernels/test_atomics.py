"""Atomic accesses: exactly once for each element, whatever the layout; values, results, words and errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError
from tests.kernels import random_layouts
from tests.kernels.harness import EXECUTORS, run
from tests.kernels.test_reductions import TARGETS, run_on

LINE = gl.BlockedLayout([1], [32], [4], [0])


@glueball.jit
def change(pointer, value, mask, kind: gl.constexpr, sem: gl.constexpr, scope: gl.constexpr):
    if kind == "add":
        return gl.atomic_add(pointer, value, mask, sem, scope)
    elif kind == "max":
        return gl.atomic_max(pointer, value, mask, sem, scope)
    elif kind == "min":
        return gl.atomic_min(pointer, value, mask, sem, scope)
    elif kind == "and":
        return gl.atomic_and(pointer, value, mask, sem, scope)
    elif kind == "or":
        return gl.atomic_or(pointer, value, mask, sem, scope)
    elif kind == "xor":
        return gl.atomic_xor(pointer, value, mask, sem, scope)
    else:
        return gl.atomic_xchg(pointer, value, mask, sem, scope)


@glueball.jit
def change_kernel(target, x, old, limit, N: gl.constexpr, kind: gl.constexpr, sem: gl.constexpr, scope: gl.constexpr,
                  layout: gl.constexpr):  # fmt: skip
    index = gl.arange(0, N, layout)
    found = change(target + index, gl.load(x + index), index < limit, kind, sem, scope)
    gl.store(old + index, found, index < limit)


COMBINE = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exchange": lambda _, new: new,
}
WHOLE = [np.int32, np.uint32, np.int64, np.uint64]
CASES = [
    *((kind, dtype) for kind in COMBINE for dtype in WHOLE),
    *(("add", dtype) for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)),
    *((kind, dtype) for kind in ("max", "min", "exchange") for dtype in (np.float32, np.float64)),
]


def numbers(random, dtype, size):
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        return random.integers(np.iinfo(kind).min, np.iinfo(kind).max, size, dtype=kind, endpoint=True)
    return (random.standard_normal(size) * 8).astype(kind)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("kind", "dtype"), CASES, ids=lambda case: case if isinstance(case, str) else np.dtype(case).name
)
def test_changes_give_what_was_there(kind, dtype, executor, monkeypatch):
    random = np.random.default_rng(len(kind))
    target, x = numbers(random, dtype, 256), numbers(random, dtype, 256)
    before, old = target.copy(), np.zeros(256, dtype)
    run_on(executor, monkeypatch, "sm_90a", change_kernel, target, x, old, 200, 256, kind, None, None, LINE)
    np.testing.assert_array_equal(old[:200], before[:200])
    with np.errstate(over="ignore"):
        wanted = COMBINE[kind](before[:200], x[:200]).astype(before.dtype)
    np.testing.assert_array_equal(target[:200], wanted)
    np.testing.assert_array_equal(target[200:], before[200:])


@glueball.jit
def replicated_kernel(counts, seen, M: gl.constexpr, N: gl.constexpr, layout: gl.constexpr):
    rows = gl.arange(0, M, gl.SliceLayout(1, layout))
    columns = gl.arange(0, N, gl.SliceLayout(0, layout))
    place = rows[:, None] * N + columns[None, :]
    old = gl.atomic_add(counts + place, place + 1)
    gl.store(seen + place, old)
    total = gl.sum(old)
    gl.store(seen + M * N, total)
    line = gl.atomic_add(counts + rows, 1)
    gl.store(seen + M * N + 1 + rows, line)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("target", "lanes"), TARGETS)
def test_each_element_once_in_random_layouts(target, lanes, executor, monkeypatch):
    random = np.random.default_rng(lanes)
    for _ in range(8):
        warps = 1 << int(random.integers(4))
        layout = random_layouts.any_layout(random, lanes, warps, (8, 16))
        counts = np.arange(128, dtype=np.int32) * 3
        seen = np.zeros(128 + 1 + 8, np.int32)
        run_on(executor, monkeypatch, target, replicated_kernel, counts, seen, 8, 16, layout, num_warps=warps)
        np.testing.assert_array_equal(seen[:128], np.arange(128) * 3, f"{layout}")
        assert seen[128] == 3 * 127 * 64
        np.testing.assert_array_equal(counts[8:], np.arange(8, 128) * 4 + 1)
        np.testing.assert_array_equal(counts[:8], np.arange(8) * 4 + 2)
        np.testing.assert_array_equal(seen[129:], np.arange(8) * 4 + 1)


@glueball.jit
def scalar_kernel(counter, out, N: gl.constexpr, layout: gl.constexpr):
    mine = gl.atomic_add(counter, 1)
    gl.store(out + mine * N + gl.arange(0, N, layout), gl.program_id(0) + gl.zeros([N], gl.int32, layout))
    gl.atomic_max(counter + 1, gl.program_id(0), sem="relaxed")
    won = gl.atomic_cas(counter + 2, 0, gl.program_id(0) + 1) == 0
    if won:
        gl.atomic_xchg(counter + 3, gl.program_id(0) + 1, sem="release", scope="sys")


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("warps", [1, 4])
def test_scalars_once_for_each_program(warps, executor, monkeypatch):
    counter, out = np.zeros(4, np.int32), np.full((10, 64), -1, np.int32)
    layout = gl.BlockedLayout([1], [32], [warps], [0])
    run(
        executor,
        monkeypatch,
        lambda *given: scalar_kernel[(10,)](*given, 64, layout, num_warps=warps),
        counter,
        out,
    )
    assert counter[:2].tolist() == [10, 9] and 1 <= counter[2] <= 10 and counter[3] == counter[2]
    np.testing.assert_array_equal(np.sort(out[:, 0]), np.arange(10))
    assert (out == out[:, :1]).all()


@glueball.jit
def colliding_kernel(sums, x, N: gl.constexpr, layout: gl.constexpr):
    index = gl.program_id(0) * N + gl.arange(0, N, layout)
    gl.atomic_add(sums + index % 4, gl.load(x + index), sem="relaxed")


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_collisions_all_count(dtype, executor, monkeypatch):
    x = (np.arange(1024) % 7).astype(dtype)
    sums = np.zeros(4, dtype)
    run(executor, monkeypatch, lambda *given: colliding_kernel[(4,)](*given, 256, LINE), sums, x)
    np.testing.assert_array_equal(sums, x.reshape(-1, 4).sum(0))


@glueball.jit
def exchange_kernel(target, expected, new, old, N: gl.constexpr, layout: gl.constexpr):
    index = gl.arange(0, N, layout)
    found = gl.atomic_cas(target + index, gl.load(expected + index), gl.load(new + index))
    gl.store(old + index, found)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", [np.int16, np.uint32, np.int64, np.float32])
def test_compare_and_exchange(dtype, executor, monkeypatch):
    random = np.random.default_rng(0)
    target = random.integers(0, 3, 128).astype(dtype)
    before, expected, new = target.copy(), random.integers(0, 3, 128).astype(dtype), numbers(random, dtype, 128)
    old = np.zeros(128, dtype)
    run_on(executor, monkeypatch, "sm_90a", exchange_kernel, target, expected, new, old, 128, LINE)
    np.testing.assert_array_equal(old, before)
    np.testing.assert_array_equal(target, np.where(before == expected, new, before))


@glueball.jit
def load_store_kernel(x, out, flags, N: gl.constexpr, layout: gl.constexpr):
    index = gl.arange(0, N, layout)
    value = gl.atomic_load(x + index, mask=index < 100, sem="relaxed", scope="cta")
    gl.atomic_store(out + index, value, mask=index < 100)
    here = gl.atomic_poll(flags + index % 2, 1, timeout_ns=2000)
    gl.atomic_store(out + N + index, here, sem="relaxed", scope="sys")
    gl.store(out + 2 * N, gl.atomic_poll(flags, 1).to(gl.int8))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("size", [64, 128])
def test_loads_stores_and_polls(size, executor, monkeypatch):
    x, out = np.arange(size, dtype=np.int8), np.full(2 * size + 1, 9, np.int8)
    run_on(executor, monkeypatch, "sm_90a", load_store_kernel, x, out, np.array([1, 0], np.int32), size, LINE)
    np.testing.assert_array_equal(out[: min(size, 100)], x[:100])
    assert (out[100:size] == 9).all()
    np.testing.assert_array_equal(out[size : 2 * size], (np.arange(size) + 1) % 2)
    assert out[-1] == 1


@glueball.jit
def relay_kernel(tokens, out):
    program = gl.program_id(0)
    gl.atomic_poll(tokens, gl.num_programs(0) - 1 - program)
    gl.store(out + program, gl.load(tokens))
    gl.atomic_add(tokens, 1, sem="release")


@pytest.mark.parametrize("executor", ["sim", pytest.param("gpu", marks=[pytest.mark.gpu, pytest.mark.torch])])
def test_programs_wait_for_one_another(executor, monkeypatch):
    tokens, out = np.zeros(1, np.int32), np.zeros(5, np.int32)
    run(executor, monkeypatch, relay_kernel[(5,)], tokens, out)
    assert out.tolist() == [4, 3, 2, 1, 0] and tokens[0] == 5


def test_all_threads_wait_for_what_one_polls():
    kernel = glueball.compile_only(relay_kernel, "*i32", "*i32", target="sm_90a")
    names = [instruction.record.name for instruction in kernel.thread.body.walk()]
    assert names.index("atomic_load") < names.index("barrier") < names.index("global_load")


@glueball.jit
def float_extreme_kernel(target, x, N: gl.constexpr, layout: gl.constexpr):
    index = gl.arange(0, N, layout)
    gl.atomic_max(target + index, gl.load(x + index))
    gl.atomic_min(target + N + index, gl.load(x + index))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_extremes_of_all_signs(dtype, executor, monkeypatch):
    corners = np.array([-np.inf, -3.0, -1e-40, -0.0, 0.0, 1e-40, 2.0, np.inf], dtype)
    held, x = (each.reshape(-1).astype(dtype) for each in np.meshgrid(corners, corners))
    target = np.concatenate([held, held])
    layout = gl.BlockedLayout([1], [32], [2], [0])
    run_on(executor, monkeypatch, "sm_90a", float_extreme_kernel, target, x, 64, layout, num_warps=2)
    np.testing.assert_array_equal(target[:64], np.maximum(held, x))
    np.testing.assert_array_equal(target[64:], np.minimum(held, x))


@pytest.mark.parametrize("target", ["sm_90a", "gfx942", "gfx1250"])
@pytest.mark.parametrize("sem", ["acquire", "release", "acq_rel", "relaxed"])
@pytest.mark.parametrize("scope", ["cta", "gpu", "sys"])
def test_every_word_makes_code(scope, sem, target):
    for kind, element in (("add", "fp32"), ("max", "u32"), ("exchange", "i64")):
        layout = gl.BlockedLayout([1], [64 if target == "gfx942" else 32], [4], [0])
        kernel = glueball.compile_only(
            change_kernel,
            f"*{element}",
            f"*{element}",
            f"*{element}",
            "i32",
            256,
            kind,
            sem,
            scope,
            layout,
            target=target,
        )
        text = kernel.asm["ptx" if target == "sm_90a" else "amdgcn"]
        assert f"atom.{sem}.{scope}.global" in text if target == "sm_90a" else "atomic" in text


def test_a_result_that_nobody_uses_is_not_fetched():
    kernel = glueball.compile_only(colliding_kernel, "*fp32", "*fp32", 256, LINE, target="sm_90a")
    assert "red.relaxed.gpu.global.add.f32" in kernel.asm["ptx"] and "atom." not in kernel.asm["ptx"]


@glueball.jit
def wrong_kernel(x, case: gl.constexpr, layout: gl.constexpr):
    index = gl.arange(0, 128, layout)
    if case == "sem":
        gl.atomic_add(x, 1, sem="strong")
    elif case == "scope":
        gl.atomic_add(x, 1, scope="grid")
    elif case == "load":
        gl.atomic_load(x, sem="release")
    elif case == "narrow":
        gl.atomic_add(x.to(gl.pointer_type(gl.int8)), 1)
    elif case == "bool":
        gl.atomic_xchg(x.to(gl.pointer_type(gl.int1)), 1)
    elif case == "half":
        gl.atomic_max(x.to(gl.pointer_type(gl.float16)), 1)
    elif case == "bits":
        gl.atomic_and(x.to(gl.pointer_type(gl.float32)), 1)
    elif case == "pointer":
        gl.atomic_add(index, 1)
    elif case == "grow":
        gl.atomic_add(x, index)
    elif case == "mask":
        gl.atomic_add(x + index, 1, mask=index)
    elif case == "compare":
        gl.atomic_cas(x + index, 1, 2)
    elif case == "poll":
        gl.atomic_poll(x.to(gl.pointer_type(gl.float32)), 1)
    else:
        gl.atomic_poll(x, 1, timeout_ns=-1)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("sem", "Memory semantic 'strong' not supported"),
        ("scope", "Memory scope 'grid' not supported"),
        ("load", "Memory semantic 'release' not supported"),
        ("narrow", "atomic_add does not support int8"),
        ("bool", "atomic_xchg does not support int1"),
        ("half", "atomic_max does not support fp16"),
        ("bits", "atomic_and does not support fp32"),
        ("pointer", "Unsupported ptr type"),
        ("grow", "cannot be block type if pointer argument is not a block"),
        ("mask", "a mask must be boolean"),
        ("compare", "ptr type matches cmp type"),
        ("poll", "only supports integers"),
        ("timeout", "must not be negative"),
    ],
)
def test_errors(case, message, monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    with pytest.raises(CompilationError, match=message):
        wrong_kernel[(1,)](np.zeros(256, np.int32), case, LINE)
