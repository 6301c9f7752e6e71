"""`mma_v2`: every type and run along K, batches, layouts and shapes, operands through shared memory, and each error."""

from __future__ import annotations

import re

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError, UninitializedReadError
from glueball.language.nvidia.ampere import mma_v2
from tests.kernels.harness import EXECUTORS
from tests.kernels.matrices import BFLOAT16, E4M3, E5M2, ELEMENTS, batch_places, places, product, whole
from tests.kernels.test_reductions import run_on

L = gl.NVMMADistributedLayout([2, 0], [2, 2], [16, 8])


@glueball.jit
def product_kernel(a, b, c, out, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, L: gl.constexpr, KW: gl.constexpr):
    x = gl.load(a + places(M, K, gl.DotOperandLayout(0, L, KW)))
    y = gl.load(b + places(K, N, gl.DotOperandLayout(1, L, KW)))
    total = mma_v2(x, y, gl.load(c + places(M, N, L)))
    gl.static_assert(total.type.layout == L and total.dtype == c.dtype.element_ty)
    gl.store(out + places(M, N, L), total)


TYPES = [
    (np.float16, np.float16, np.float32, "m16n8k16.row.col.f32.f16.f16.f32"),
    (np.float16, np.float16, np.float16, "m16n8k16.row.col.f16.f16.f16.f16"),
    (BFLOAT16, BFLOAT16, np.float32, "m16n8k16.row.col.f32.bf16.bf16.f32"),
    (np.float32, np.float32, np.float32, "m16n8k8.row.col.f32.tf32.tf32.f32"),
    (E4M3, E4M3, np.float32, "m16n8k32.row.col.f32.e4m3.e4m3.f32"),
    (E5M2, E4M3, np.float32, "m16n8k32.row.col.f32.e5m2.e4m3.f32"),
    (E5M2, E5M2, np.float16, "m16n8k32.row.col.f16.e5m2.e5m2.f16"),
    (np.int8, np.int8, np.int32, "m16n8k32.row.col.satfinite.s32.s8.s8.s32"),
    (np.uint8, np.uint8, np.int32, "m16n8k32.row.col.satfinite.s32.u8.u8.s32"),
    (np.float64, np.float64, np.float64, "m8n8k4.row.col.f64.f64.f64.f64"),
]
CASES = [
    (left, right, total, name, bits * 8 // (np.dtype(left).itemsize * 64))
    for left, right, total, name in TYPES
    for bits in (32, 64, 128)
    if bits >= 8 * np.dtype(left).itemsize
]


def name_of(value):
    return str(value) if isinstance(value, int | str) else np.dtype(value).name


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("left", "right", "total", "name", "width"), CASES, ids=name_of)
def test_every_type_and_run(left, right, total, name, width, executor, monkeypatch):
    for rows, columns, inner in [(32, 16, 64), (64, 32, 128)]:
        a, b, c = whole((rows, inner), left), whole((inner, columns), right, 1), whole((rows, columns), total, 2)
        out = np.zeros_like(c)
        run_on(executor, monkeypatch, "sm_90a", product_kernel, a, b, c, out, rows, columns, inner, L, width)
        np.testing.assert_array_equal(out, product(a, b, c, total))


def signature(*types):
    return [f"*{ELEMENTS[kind].name}:16" for kind in types]


@pytest.mark.parametrize(("left", "right", "total", "name", "width"), CASES, ids=name_of)
def test_instructions(left, right, total, name, width):
    """One for each piece of the tile that a warp has, on every generation that has the type."""
    inner = max(64, 4 * width)
    rows, columns, depth = (int(extent) for extent in re.findall(r"\d+", name.split(".")[0]))
    count = 32 * 32 * inner // (rows * columns * depth) // 4
    for target in ("sm_80", "sm_90a", "sm_100a", "sm_120a"):
        if target == "sm_80" and left in (E4M3, E5M2):
            continue
        arguments = [*signature(left, right, total, total), 32, 32, inner, L, width]
        kernel = glueball.compile_only(product_kernel, *arguments, target=target)
        found = re.findall(r"mma\.sync\.aligned\.([\w.]+)", kernel.asm["ptx"])
        assert found == [name] * count
        assert kernel.n_spills in (0, None)


SHAPES = [([4, 1], 64, 8, 32), ([1, 4], 16, 64, 16), ([2, 2], 16, 8, 16), ([8, 1], 64, 16, 48), ([1, 1], 32, 32, 16)]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_layouts_and_shapes(executor, monkeypatch):
    """Tiles smaller and larger than what the warps multiply at a time, so that some have copies."""
    random = np.random.default_rng(3)
    cases = [(warps, rows, columns, 1 << inner.bit_length() - 1) for warps, rows, columns, inner in SHAPES]
    for _ in range(6):
        warps = [1 << int(random.integers(3)), 1 << int(random.integers(2))]
        cases.append((warps, *(1 << int(random.integers(3, 7)) for _ in range(2)), 1 << int(random.integers(4, 7))))
    for warps, rows, columns, inner in cases:
        layout = gl.NVMMADistributedLayout([2, 0], warps, [16, 8])
        a, b, c = (
            whole((rows, inner), np.float16),
            whole((inner, columns), np.float16, 1),
            whole((rows, columns), np.int8),
        )
        c = c.astype(np.float32)
        out = np.zeros_like(c)
        arguments = (a, b, c, out, rows, columns, inner, layout, 2)
        run_on(executor, monkeypatch, "sm_90a", product_kernel, *arguments, num_warps=warps[0] * warps[1])
        np.testing.assert_array_equal(out, product(a, b, c, np.float32), f"{rows} x {columns} x {inner} by {warps}")


@glueball.jit
def batch_kernel(a, b, out, B: gl.constexpr, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, L: gl.constexpr):
    x = gl.load(a + batch_places(B, M, K, gl.DotOperandLayout(0, L, 2)))
    y = gl.load(b + batch_places(B, K, N, gl.DotOperandLayout(1, L, 2)))
    gl.store(out + batch_places(B, M, N, L), mma_v2(x, y, gl.zeros([B, M, N], gl.float32, L)))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("warps", [[1, 2, 2], [4, 1, 1], [2, 1, 2]])
def test_batches(warps, executor, monkeypatch):
    layout = gl.NVMMADistributedLayout([2, 0], warps, [1, 16, 8])
    a, b, out = whole((4, 32, 16), BFLOAT16), whole((4, 16, 16), BFLOAT16, 1), np.zeros((4, 32, 16), np.float32)
    run_on(executor, monkeypatch, "sm_90a", batch_kernel, a, b, out, 4, 32, 16, 16, layout)
    np.testing.assert_array_equal(out, product(a, b, None, np.float32))


@glueball.jit
def shared_kernel(
    a,
    b,
    out,
    M: gl.constexpr,
    N: gl.constexpr,
    K: gl.constexpr,
    L: gl.constexpr,
    KW: gl.constexpr,
    P: gl.constexpr,
    layouts: gl.constexpr,
):
    """Operands and result go through shared memory; K in two halves, one after the other."""
    left = gl.allocate_shared_memory(a.dtype.element_ty, [M, K], layouts[0], gl.load(a + places(M, K, P)))
    right = gl.allocate_shared_memory(b.dtype.element_ty, [K, N], layouts[1], gl.load(b + places(K, N, P)))
    total = gl.zeros([M, N], gl.int32 if a.dtype.element_ty.is_int() else gl.float32, L)
    for half in gl.static_range(2):
        x = left.slice(half * (K // 2), K // 2, dim=1).load(gl.DotOperandLayout(0, L, KW))
        y = right.slice(half * (K // 2), K // 2, dim=0).load(gl.DotOperandLayout(1, L, KW))
        total = mma_v2(x, y, total)
    result = gl.allocate_shared_memory(out.dtype.element_ty, [M, N], layouts[2])
    result.store(total.to(out.dtype.element_ty))
    gl.store(out + places(M, N, P), result.load(P))


P = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
SHARED = [
    (np.float16, np.float16, 2, {"ldmatrix.x4": 8, "ldmatrix.x4.trans": 8, "stmatrix.x4": 4}),
    (BFLOAT16, BFLOAT16, 4, {"ldmatrix.x4.trans": 8, "stmatrix.x4": 4}),
    (np.float32, np.float32, 1, {"ldmatrix.x4": 16}),
    (np.int8, np.int8, 4, {"ldmatrix.x4": 4}),
    (E4M3, np.float16, 4, {"ldmatrix.x4": 4, "stmatrix.x4": 4}),
]


def shared_case(left, result):
    shapes = [(64, 64)] * 3
    kinds = (ELEMENTS[left], ELEMENTS[left], ELEMENTS[result])
    return tuple(
        gl.NVMMASharedLayout.get_default_for(list(shape), kind) for shape, kind in zip(shapes, kinds, strict=True)
    )


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("left", "result", "width", "moves"), SHARED, ids=lambda value: "" if isinstance(value, dict) else name_of(value)
)
def test_operands_through_shared_memory(left, result, width, moves, executor, monkeypatch):
    a, b, out = whole((64, 64), left), whole((64, 64), left, 1), np.zeros((64, 64), result)
    layouts = shared_case(left, result)
    run_on(executor, monkeypatch, "sm_90a", shared_kernel, a, b, out, 64, 64, 64, L, width, P, layouts)
    np.testing.assert_array_equal(out, product(a, b, None, np.int32 if left == np.int8 else np.float32).astype(result))


@pytest.mark.parametrize(
    ("left", "result", "width", "moves"), SHARED, ids=lambda value: "" if isinstance(value, dict) else name_of(value)
)
def test_shared_operands_move_by_matrices(left, result, width, moves):
    arguments = [*signature(left, left, result), 64, 64, 64, L, width, P, shared_case(left, result)]
    text = glueball.compile_only(shared_kernel, *arguments, target="sm_90a").asm["ptx"]
    found = re.findall(r"((?:ld|st)matrix)\.sync\.aligned\.m8n8\.(x\d)(\.trans)?", text)
    counts = {".".join(filter(None, (kind, many, "trans" if turned else ""))): 0 for kind, many, turned in found}
    for kind, many, turned in found:
        counts[".".join(filter(None, (kind, many, "trans" if turned else "")))] += 1
    assert counts == moves


@pytest.mark.parametrize("executor", EXECUTORS)
def test_integers_saturate(executor, monkeypatch):
    """After every instruction: what is beyond the ends is lost before the next one."""
    a, b = np.full((16, 64), 127, np.int8), np.full((64, 8), 127, np.int8)
    a[1, 32:] = -127
    a[2] = -127
    c, out = np.full((16, 8), 2**31 - 1, np.int32), np.zeros((16, 8), np.int32)
    c[2] = -(2**31)
    layout = gl.NVMMADistributedLayout([2, 0], [1, 1], [16, 8])
    run_on(executor, monkeypatch, "sm_90a", product_kernel, a, b, c, out, 16, 8, 64, layout, 4, num_warps=1)
    assert (out[0] == 2**31 - 1).all() and (out[2] == -(2**31)).all()
    assert (out[1] == 2**31 - 1 - 127 * 127 * 32).all()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_units_see_ten_bits_of_float32(executor, monkeypatch):
    a, b = whole((16, 8), np.float32) + np.float32(2**-12), whole((8, 8), np.float32, 1)
    c, out = np.zeros((16, 8), np.float32), np.zeros((16, 8), np.float32)
    layout = gl.NVMMADistributedLayout([2, 0], [1, 1], [16, 8])
    run_on(executor, monkeypatch, "sm_90a", product_kernel, a, b, c, out, 16, 8, 8, layout, 1, num_warps=1)
    seen = (a.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    assert (seen != a).any()
    np.testing.assert_array_equal(out, product(seen, b, c, np.float32))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_sums_of_any_numbers(executor, monkeypatch):
    """Within the rounding of a sum of K products."""
    random = np.random.default_rng(11)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((64, 256), (256, 64)))
    c, out = random.standard_normal((64, 64)).astype(np.float32), np.zeros((64, 64), np.float32)
    run_on(executor, monkeypatch, "sm_90a", product_kernel, a, b, c, out, 64, 64, 256, L, 2)
    bound = (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) + np.abs(c)) * 256 * 2.0**-23
    assert (np.abs(out - product(a, b, c, np.float64)) <= bound).all()


@glueball.jit
def masked_kernel(a, b, out, rows, L: gl.constexpr, COPY: gl.constexpr):
    at = places(32, 16, gl.DotOperandLayout(0, L, 2))
    x = gl.load(a + at, mask=at < rows * 16)
    y = gl.load(b + places(16, 16, gl.DotOperandLayout(1, L, 2)))
    total = mma_v2(x, y, gl.zeros([32, 16], gl.float32, L))
    to = places(32, 16, L)
    gl.store(out + to, total, mask=to < COPY * 16)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_undefined_rows_stay_in_their_rows(executor, monkeypatch):
    a, b, out = whole((32, 16), np.float16), whole((16, 16), np.float16, 1), np.zeros((32, 16), np.float32)
    run_on(executor, monkeypatch, "sm_90a", masked_kernel, a, b, out, 21, L, 21)
    np.testing.assert_array_equal(out[:21], product(a, b, None, np.float32)[:21])
    assert (out[21:] == 0).all()


@pytest.mark.parametrize("executor", ["reference", "sim"])
def test_undefined_sums_are_not_stored(executor, monkeypatch):
    a, b, out = whole((32, 16), np.float16), whole((16, 16), np.float16, 1), np.zeros((32, 16), np.float32)
    with pytest.raises(UninitializedReadError):
        run_on(executor, monkeypatch, "sm_90a", masked_kernel, a, b, out, 21, L, 22)


@glueball.jit
def wrong_kernel(
    A: gl.constexpr,
    B: gl.constexpr,
    C: gl.constexpr,
    shapes: gl.constexpr,
    layouts: gl.constexpr,
    PRECISION: gl.constexpr,
):
    a = gl.full(shapes[0], 1, A, layouts[0])
    b = gl.full(shapes[1], 1, B, layouts[1])
    mma_v2(a, b, gl.full(shapes[2], 0, C, layouts[2]), PRECISION)


HALVES, SQUARES = (gl.float16, gl.float16, gl.float32), ((32, 32),) * 3
BLOCKED = gl.BlockedLayout([1, 1], [4, 8], [2, 2], [1, 0])
HOPPER = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 32, 16])
OTHER = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])


def operands(parent=L, width=2, indices=(0, 1), total=L):
    return (*(gl.DotOperandLayout(index, parent, width) for index in indices), total)


LAYOUT_ERRORS = [
    (HALVES, SQUARES, (BLOCKED, operands()[1], L), "a must have a DotOperandLayout"),
    (HALVES, SQUARES, (operands()[0], BLOCKED, L), "b must have a DotOperandLayout"),
    (HALVES, SQUARES, operands(total=BLOCKED), "acc must have an NVMMADistributedLayout"),
    (HALVES, SQUARES, (*operands()[:2], HOPPER), "an NVMMADistributedLayout of version [2, 0], not [3, 0]"),
    (HALVES, SQUARES, operands(parent=OTHER), "a's parent layout must be the same as acc's layout"),
    (HALVES, SQUARES, (operands()[0], *operands(OTHER)[1:]), "b's parent layout must be the same as acc's layout"),
    (HALVES, SQUARES, operands(indices=(1, 1)), "a's operand index must be 0, not 1"),
    (HALVES, SQUARES, operands(indices=(0, 0)), "b's operand index must be 1, not 0"),
    (HALVES, SQUARES, (operands()[0], *operands(width=4)[1:]), "a and b must have one k_width, not 2 and 4"),
    (HALVES, ((32, 16), (32, 32), (32, 32)), operands(), "mma_v2 multiplies M x K by K x N to M x N"),
    (HALVES, ((32, 32), (32, 32), (32, 16)), operands(), "mma_v2 multiplies M x K by K x N to M x N"),
    (HALVES, ((32, 8), (8, 32), (32, 32)), operands(), "Input shapes should have M >= 1, N >= 1 and K >= 16"),
    (HALVES, ((32, 16), (16, 32), (32, 32)), operands(width=8), "K >= 32 for fp16 with a k_width of 8"),
    ((gl.float16, gl.bfloat16, gl.float32), SQUARES, operands(), "Both operands must be same dtype. Got fp16 and bf16"),
    ((gl.bfloat16, gl.bfloat16, gl.bfloat16), SQUARES, operands(), "bf16 accumulates in fp32, so acc cannot be bf16"),
    ((gl.int16, gl.int16, gl.int32), SQUARES, operands(), "Unsupported lhs dtype int16"),
    ((gl.int8, gl.int8, gl.float32), SQUARES, operands(width=4), "int8 accumulates in int32, so acc cannot be fp32"),
]  # fmt: skip


def refusal(types, shapes, layouts, precision=None, target="sm_90a"):
    with pytest.raises(CompilationError) as caught:
        glueball.compile_only(wrong_kernel, *types, shapes, layouts, precision, target=target)
    return caught.value


@pytest.mark.parametrize(
    ("types", "shapes", "layouts", "message"), LAYOUT_ERRORS, ids=[case[-1] for case in LAYOUT_ERRORS]
)
def test_wrong_operands(types, shapes, layouts, message):
    error = refusal(types, shapes, layouts)
    assert message in str(error)
    assert isinstance(error.__cause__, AssertionError)


@pytest.mark.parametrize("precision", ["ieee", "tf32x3", "bf16x3"])
def test_there_is_one_precision(precision):
    types = (gl.float32,) * 3
    error = refusal(types, SQUARES, operands(width=1), precision)
    assert f"mma_v2 of float32 has the input_precision 'tf32' only, not '{precision}'" in str(error)
    glueball.compile_only(wrong_kernel, *types, SQUARES, operands(width=1), "tf32", target="sm_90a")
    glueball.compile_only(wrong_kernel, *HALVES, SQUARES, operands(), precision, target="sm_90a")


def test_unknown_precisions():
    message = "the input_precision of mma_v2 must be one of tf32, "
    assert message in str(refusal(HALVES, SQUARES, operands(), "exact"))


def test_runs_of_other_lengths():
    assert "k_width must be 2, 4 or 8 for fp16" in str(refusal(HALVES, SQUARES, operands(width=1)))
    assert "k_width must be 4, 8 or 16 for int8" in str(refusal((gl.int8, gl.int8, gl.int32), SQUARES, operands()))


def test_targets_without_the_instruction():
    types = (gl.float8e4nv, gl.float8e4nv, gl.float32)
    assert "`mma_v2 of fp8e4nv` needs sm_89" in str(refusal(types, SQUARES, operands(width=4), target="sm_80"))
    assert "`mma_v2` needs an NVIDIA GPU" in str(refusal(HALVES, SQUARES, operands(), target="gfx1250"))
