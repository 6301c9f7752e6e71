"""`dot_fma`: every element type bit by bit against steps of one rounding, layouts, replicas, and each error."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball import numerics
from glueball.errors import CompilationError
from tests.kernels import random_layouts
from tests.kernels.harness import EXECUTORS, random_array
from tests.kernels.library import BFLOAT16, normal
from tests.kernels.test_reductions import run_on, tile_of

P = gl.BlockedLayout([2, 2], [4, 8], [2, 2], [1, 0])
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


@glueball.jit
def product_kernel(a, b, c, out, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, P: gl.constexpr):
    left = gl.convert_layout(tile_of(a, M, K, P), gl.DotOperandLayout(0, P, 0))
    right = gl.convert_layout(tile_of(b, K, N, P), gl.DotOperandLayout(1, P, 0))
    total = gl.dot_fma(left, right, tile_of(c, M, N, P))
    row, column = gl.arange(0, M, gl.SliceLayout(1, P)), gl.arange(0, N, gl.SliceLayout(0, P))
    gl.static_assert(total.type.layout == P and total.dtype == c.dtype.element_ty)
    gl.store(out + row[:, None] * N + column[None, :], total)


def stepwise(a, b, c):
    """k from 0 up; each step in the type of `c`, rounded once."""
    total, kind = c, c.dtype
    left, right = (each.astype(np.float64 if kind.kind == "f" else np.int64).astype(kind) for each in (a, b))
    for k in range(a.shape[-1]):
        factors = left[..., :, k, None], right[..., None, k, :]
        total = numerics.fused_multiply_add(*factors, total) if kind.kind == "f" else factors[0] * factors[1] + total
    return total


TYPES = [
    (np.float32, np.float32, np.float32),
    (np.float64, np.float64, np.float64),
    (np.float16, np.float16, np.float16),
    (np.float16, np.float16, np.float32),
    (BFLOAT16, BFLOAT16, np.float32),
    (E4M3, E4M3, np.float32),
    (E4M3, E5M2, np.float16),
    (np.int8, np.int8, np.int32),
    (np.uint8, np.uint8, np.int32),
]


def identity(value):
    return "-".join(np.dtype(each).name for each in value)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("types", TYPES, ids=identity)
def test_products_bit_by_bit(types, executor, monkeypatch):
    left, right, total = types
    for target, lanes in [("sm_90a", 32), ("gfx942", 64)]:
        if executor == "gpu" and lanes == 64:
            continue
        layout = gl.BlockedLayout([2, 2], [lanes // 8, 8], [2, 2], [1, 0])
        for rows, columns, inner in [(16, 32, 16), (64, 16, 4)]:
            a, b = random_array((rows, inner), left), random_array((inner, columns), right, 1)
            c, out = random_array((rows, columns), total, 2), np.zeros((rows, columns), total)
            run_on(executor, monkeypatch, target, product_kernel, a, b, c, out, rows, columns, inner, layout)
            np.testing.assert_array_equal(out, stepwise(a, b, c))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_products_in_random_layouts(executor, monkeypatch):
    """Tiles smaller and larger than what the layout covers at a time, so that elements have replicas."""
    random = np.random.default_rng(5)
    for _ in range(6):
        layout = random_layouts.blocked(random, 32, 4)
        rows, columns, inner = (1 << int(random.integers(6)) for _ in range(3))
        a, b = normal((rows, inner)), normal((inner, columns), seed=1)
        c, out = normal((rows, columns), seed=2), np.zeros((rows, columns), np.float32)
        run_on(executor, monkeypatch, "sm_90a", product_kernel, a, b, c, out, rows, columns, inner, layout)
        np.testing.assert_array_equal(out, stepwise(a, b, c), f"{rows} x {columns} x {inner} in {layout}")


@pytest.mark.parametrize("executor", EXECUTORS)
def test_infinities_and_what_is_too_large(executor, monkeypatch):
    a = np.array([[np.inf, 0.0], [3e38, -3e38], [1e-30, 1e-30], [np.nan, 1.0]], np.float32)
    b = np.array([[1.0, 10.0, 1e-20, 0.0], [2.0, 10.0, -1e-20, 1.0]], np.float32)
    c = np.array([[0.0, -0.0, 1.0, 5.0]] * 4, np.float32)
    out = np.zeros((4, 4), np.float32)
    run_on(executor, monkeypatch, "sm_90a", product_kernel, a, b, c, out, 4, 4, 2, P)
    np.testing.assert_array_equal(out, stepwise(a, b, c))


@glueball.jit
def batch_kernel(a, b, out, B: gl.constexpr, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, P: gl.constexpr):
    left: gl.constexpr = gl.DotOperandLayout(0, P, 0)
    right: gl.constexpr = gl.DotOperandLayout(1, P, 0)
    x = gl.load(a + places(B, M, K, left))
    y = gl.load(b + places(B, K, N, right))
    total = gl.dot_fma(x, y, gl.zeros([B, M, N], gl.float32, P))
    gl.store(out + places(B, M, N, P), total)


@glueball.jit
def places(B: gl.constexpr, M: gl.constexpr, N: gl.constexpr, layout: gl.constexpr):
    batch = gl.arange(0, B, gl.SliceLayout(1, gl.SliceLayout(2, layout)))[:, None, None]
    row = gl.arange(0, M, gl.SliceLayout(0, gl.SliceLayout(2, layout)))[None, :, None]
    column = gl.arange(0, N, gl.SliceLayout(0, gl.SliceLayout(1, layout)))[None, None, :]
    return (batch * M + row) * N + column


@pytest.mark.parametrize("executor", EXECUTORS)
def test_batches(executor, monkeypatch):
    layout = gl.BlockedLayout([1, 2, 2], [2, 4, 4], [2, 1, 2], [2, 1, 0])
    a, b, out = normal((4, 8, 8)), normal((4, 8, 16), seed=1), np.zeros((4, 8, 16), np.float32)
    run_on(executor, monkeypatch, "sm_90a", batch_kernel, a, b, out, 4, 8, 16, 8, layout)
    np.testing.assert_array_equal(out, stepwise(a, b, np.zeros_like(out)))


def test_steps_are_multiply_adds_in_registers():
    arguments = ("*fp32:16",) * 4
    code = glueball.compile_only(product_kernel, *arguments, 32, 32, 8, P, target="sm_90a").asm["ptx"]
    assert code.count("fma.rn.f32") == 32 * 32 * 8 // 128
    assert not [line for line in code.splitlines() if "mul.rn.f32" in line or "add.rn.f32" in line]


@glueball.jit
def wrong_kernel(A: gl.constexpr, B: gl.constexpr, C: gl.constexpr, shapes: gl.constexpr, layouts: gl.constexpr):
    a = gl.full(shapes[0], 1, A, layouts[0])
    b = gl.full(shapes[1], 1, B, layouts[1])
    gl.dot_fma(a, b, gl.full(shapes[2], 0, C, layouts[2]))


OTHER = gl.BlockedLayout([1, 1], [4, 8], [4, 1], [1, 0])
LEFT, RIGHT = gl.DotOperandLayout(0, P, 0), gl.DotOperandLayout(1, P, 0)
MATRIX = gl.NVMMADistributedLayout([2, 0], [2, 2], [16, 8])
FLOATS, PLACES = (gl.float32,) * 3, (LEFT, RIGHT, P)
SQUARES = ((16, 16),) * 3
WRONG = [
    (FLOATS, SQUARES, (LEFT, RIGHT, MATRIX), "acc must have a BlockedLayout"),
    (FLOATS, SQUARES, (P, RIGHT, P), "a must have a DotOperandLayout"),
    (FLOATS, SQUARES, (LEFT, P, P), "b must have a DotOperandLayout"),
    (FLOATS, SQUARES, (LEFT, RIGHT, OTHER), "a's parent layout must be the same as acc's layout"),
    (FLOATS, SQUARES, (LEFT, gl.DotOperandLayout(1, OTHER, 0), P), "b's parent layout must be the same"),
    (FLOATS, SQUARES, (RIGHT, RIGHT, P), "a's operand index must be 0, not 1"),
    (FLOATS, SQUARES, (LEFT, LEFT, P), "b's operand index must be 1, not 0"),
    (FLOATS, ((16, 8), (16, 16), (16, 16)), PLACES, "last dimension of a and the second to last of b must agree"),
    (FLOATS, ((16, 8), (8, 16), (16, 32)), PLACES, "acc must have the shape of the product"),
    ((gl.float16, gl.float32, gl.float32), SQUARES, PLACES, "Both operands must be same dtype. Got fp16 and fp32"),
    ((gl.int32, gl.int32, gl.int32), SQUARES, PLACES, "Unsupported lhs dtype int32"),
    ((gl.int8, gl.int8, gl.float32), SQUARES, PLACES, "int8 accumulates in int32, so acc cannot be fp32"),
    ((gl.float16, gl.float16, gl.bfloat16), SQUARES, PLACES, "acc cannot be bf16"),
    ((gl.float32, gl.float32, gl.float64), SQUARES, PLACES, "fp32 accumulates in fp32"),
]  # fmt: skip


@pytest.mark.parametrize(("types", "shapes", "layouts", "message"), WRONG, ids=[case[-1] for case in WRONG])
def test_wrong_operands(types, shapes, layouts, message):
    with pytest.raises(CompilationError) as caught:
        glueball.compile_only(wrong_kernel, *types, shapes, layouts, target="sm_90a")
    assert message in str(caught.value)
    assert isinstance(caught.value.__cause__, AssertionError)


def test_ranks_must_agree():
    cube = gl.BlockedLayout([1, 2, 2], [1, 4, 8], [1, 2, 2], [2, 1, 0])
    layouts = (gl.DotOperandLayout(0, cube, 0), gl.DotOperandLayout(1, cube, 0), gl.SliceLayout(0, cube))
    with pytest.raises(CompilationError, match="acc must have a BlockedLayout"):
        shapes = ((1, 16, 16), (1, 16, 16), (16, 16))
        glueball.compile_only(wrong_kernel, *FLOATS, shapes, layouts, target="sm_90a")


def test_large_products_warn():
    wide = gl.BlockedLayout([2, 2], [4, 8], [8, 4], [1, 0])
    layouts = (gl.DotOperandLayout(0, wide, 0), gl.DotOperandLayout(1, wide, 0), wide)
    shapes = ((128, 64), (64, 128), (128, 128))
    with pytest.warns(UserWarning, match="Large dot FMA instruction size 128x128x64 may have slow compile times"):
        glueball.compile_only(wrong_kernel, *FLOATS, shapes, layouts, target="sm_90a", num_warps=32)
