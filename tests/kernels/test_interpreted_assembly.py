"""Assembly that kernels write, without a function that stands for it: the same values on every executor."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import SimulationError, UninitializedReadError
from tests.kernels.harness import EXECUTORS, random_array
from tests.kernels.test_reductions import run_on

LINE = gl.BlockedLayout([4], [32], [1], [0])
COUNT = 128


@glueball.jit
def activation_kernel(x, out, layout: gl.constexpr):
    index = gl.arange(0, 128, layout)
    found = gl.inline_asm_elementwise(
        """{ .reg .f32 e, t;
             mul.rn.f32 e, $1, 0fBFB8AA3B; ex2.approx.f32 e, e;
             add.rn.f32 t, e, 0f3F800000; div.full.f32 $0, $1, t; }""",
        "=f,f", [gl.load(x + index)], gl.float32, True, 1,
    )  # fmt: skip
    gl.store(out + index, found)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_approximations(executor, monkeypatch):
    x, out = random_array((COUNT,), np.float32), np.zeros(COUNT, np.float32)
    run_on(executor, monkeypatch, "sm_90a", activation_kernel, x, out, LINE, num_warps=1)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(out, wide / (1 + np.exp(-wide)), rtol=1e-5)


@glueball.jit
def planes_kernel(low, high, out, layout: gl.constexpr):
    index = gl.arange(0, 128, layout)
    joined = gl.inline_asm_elementwise(
        "prmt.b32 $0, $2, $3, 0x5140; prmt.b32 $1, $2, $3, 0x7362;",
        "=r,=r,r,r", [gl.load(low + index), gl.load(high + index)], gl.uint16, True, 4,
    )  # fmt: skip
    gl.store(out + index, joined)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_packed_bytes(executor, monkeypatch):
    low, high = random_array((COUNT,), np.uint8), random_array((COUNT,), np.uint8, 1)
    out = np.zeros(COUNT, np.uint16)
    run_on(executor, monkeypatch, "sm_90a", planes_kernel, low, high, out, LINE, num_warps=1)
    np.testing.assert_array_equal(out, low.astype(np.uint16) | high.astype(np.uint16) << 8)


@glueball.jit
def narrow_kernel(x, y, out, layout: gl.constexpr):
    index = gl.arange(0, 128, layout)
    pair = gl.inline_asm_elementwise(
        "cvt.rn.satfinite.e4m3x2.f32 $0, $2, $1;", "=h,f,f", [gl.load(x + index), gl.load(y + index)],
        dtype=gl.uint16, is_pure=True, pack=1,
    )  # fmt: skip
    back = gl.inline_asm_elementwise("cvt.rn.f16x2.e4m3x2 $0, $1;", "=r,h", [pair], gl.uint32, True, 1)
    gl.store(out + index, back)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_narrow_floats(executor, monkeypatch):
    x, y = random_array((COUNT,), np.float32) * 30, random_array((COUNT,), np.float32, 1)
    out = np.zeros(COUNT, np.uint32)
    run_on(executor, monkeypatch, "sm_90a", narrow_kernel, x, y, out, LINE, num_warps=1)
    expected = np.stack([np.clip(each, -448, 448).astype(ml_dtypes.float8_e4m3fn) for each in (x, y)], axis=-1)
    np.testing.assert_array_equal(out.view(np.float16).reshape(-1, 2), expected.astype(np.float16))


@glueball.jit
def sort_kernel(x, out, bound, layout: gl.constexpr):
    index = gl.arange(0, 128, layout)
    found = gl.inline_asm(
        """{ .reg .pred p; .reg .b32 t;
             setp.gt.s32 p, $4, $5; selp.b32 $0, $5, $4, p; selp.b32 $1, $4, $5, p;
             setp.gt.s32 p, $6, $7; selp.b32 $2, $7, $6, p; selp.b32 $3, $6, $7, p;
             setp.lt.s32 p, $0, $8; @p mov.b32 t, $8; @!p mov.b32 t, $0; mov.b32 $0, t; }""",
        ("=&r", "r", "r"), (gl.load(x + index), bound), gl.load(x + index).type,
    )  # fmt: skip
    gl.store(out + index, found)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_predicates_on_all_registers_of_a_thread(executor, monkeypatch):
    x, out = random_array((COUNT,), np.int32), np.zeros(COUNT, np.int32)
    run_on(executor, monkeypatch, "sm_90a", sort_kernel, x, out, 12345, LINE, num_warps=1)
    expected = np.sort(x.reshape(-1, 2)).reshape(-1, 4)
    expected[:, 0] = np.maximum(expected[:, 0], 12345)
    np.testing.assert_array_equal(out.reshape(-1, 4), expected)


@glueball.jit
def halves_kernel(x, y, out, layout: gl.constexpr):
    index = gl.arange(0, 128, layout)
    found = gl.inline_asm_elementwise(
        "fma.rn.bf16x2 $0, $1, $2, $1;", "=r,r,r", [gl.load(x + index), gl.load(y + index)], gl.bfloat16, True, 2
    )
    gl.store(out + index, found.to(gl.float32))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_packed_halves(executor, monkeypatch):
    x, y = (random_array((COUNT,), ml_dtypes.bfloat16, seed) for seed in (0, 1))
    out = np.zeros(COUNT, np.float32)
    run_on(executor, monkeypatch, "sm_90a", halves_kernel, x, y, out, LINE, num_warps=1)
    exact = x.astype(np.float64) * y.astype(np.float64) + x.astype(np.float64)
    np.testing.assert_array_equal(out, exact.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32))


@glueball.jit
def refused_kernel(x, text: gl.constexpr, layout: gl.constexpr):
    index = gl.arange(0, 128, layout)
    gl.store(x + index, gl.inline_asm_elementwise(text, "=r,r", [gl.load(x + index)], gl.int32, False, 1))


@pytest.mark.parametrize("executor", ["reference", "sim"])
@pytest.mark.parametrize(
    ("text", "target", "reason"),
    [
        (
            "shfl.sync.bfly.b32 $0, $1, 1, 31, -1;",
            "sm_90a",
            r", since `shfl.sync.* is not in the table of instructions",
        ),
        ("mov.u32 $0, %laneid;", "sm_90a", ", since `mov.u32.*`%laneid` is a special register.*"),
        ("v_add_u32 $0, $1, $1", "gfx942", ""),
    ],
)
def test_refused(text, target, reason, executor, monkeypatch):
    x, layout = np.zeros(COUNT, np.int32), gl.BlockedLayout([128 // 64], [64], [1], [0]) if target == "gfx942" else LINE
    with pytest.raises(SimulationError, match=f"runs on a GPU only{reason}: pass simulate=") as caught:
        run_on(executor, monkeypatch, target, refused_kernel, x, text, layout, num_warps=1)
    assert "inline_asm_elementwise(text" in str(caught.value)


@glueball.jit
def masked_kernel(x, out, bound, stored, layout: gl.constexpr):
    index = gl.arange(0, 128, layout)
    values = gl.load(x + index, mask=index < bound)
    found = gl.inline_asm_elementwise("add.s32 $0, $1, 1;", "=r,r", [values], gl.int32, True, 1)
    gl.store(out + index, found, mask=index < stored)


def test_undefined_lanes_stay_undefined(monkeypatch):
    x, out = random_array((COUNT,), np.int32) // 2, np.zeros(COUNT, np.int32)
    run_on("sim", monkeypatch, "sm_90a", masked_kernel, x, out, 100, 100, LINE, num_warps=1)
    np.testing.assert_array_equal(out[:100], x[:100] + 1)
    with pytest.raises(UninitializedReadError):
        run_on("sim", monkeypatch, "sm_90a", masked_kernel, x, out, 100, 101, LINE, num_warps=1)
