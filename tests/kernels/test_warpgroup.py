"""`warpgroup_mma`: every type, operand and swizzle, waits, predicates, and each error."""

from __future__ import annotations

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError
from glueball.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_accumulator,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)
from glueball.nvidia.hopper import TensorDescriptor
from tests.kernels.harness import EXECUTORS, run
from tests.kernels.matrices import BFLOAT16, E4M3, E5M2, ELEMENTS, places, product, whole
from tests.kernels.test_reductions import run_on

HALF, SINGLE = np.float16, np.float32


@glueball.jit
def operand(pointer, ROWS: gl.constexpr, COLUMNS: gl.constexpr, P: gl.constexpr, S: gl.constexpr, TURNED: gl.constexpr):
    """A matrix in shared memory; `TURNED` says that it lies there, and in global memory, transposed."""
    if TURNED:
        tile = gl.load(pointer + places(COLUMNS, ROWS, P))
        return gl.allocate_shared_memory(tile.dtype, [COLUMNS, ROWS], S, tile).permute((1, 0))
    tile = gl.load(pointer + places(ROWS, COLUMNS, P))
    return gl.allocate_shared_memory(tile.dtype, [ROWS, COLUMNS], S, tile)


@glueball.jit
def product_kernel(
    a,
    b,
    c,
    out,
    flag,
    M: gl.constexpr,
    N: gl.constexpr,
    K: gl.constexpr,
    L: gl.constexpr,
    P: gl.constexpr,
    S: gl.constexpr,
    TURNED: gl.constexpr,
    REGISTERS: gl.constexpr,
    USE: gl.constexpr,
    MOST: gl.constexpr,
):
    x = operand(a, M, K, P, S[0], TURNED[0])
    y = operand(b, K, N, P, S[1], TURNED[1])
    fence_async_shared()
    total = gl.load(c + places(M, N, L))
    use_acc = flag > 0 if USE is None else USE
    if REGISTERS:
        x = x.load(gl.DotOperandLayout(0, L, 32 // x.dtype.primitive_bitwidth))
    total = warpgroup_mma(x, y, total, use_acc=use_acc, max_num_imprecise_acc=MOST)
    gl.static_assert(total.type.layout == L and total.dtype == c.dtype.element_ty)
    gl.store(out + places(M, N, L), total)


def matrix_layout(warps, columns, dtype):
    return gl.NVMMADistributedLayout([3, 0], warps, [16, columns, 32 // np.dtype(dtype).itemsize])


def shared_layout(shape, dtype, swizzle=None):
    if swizzle is None:
        return gl.NVMMASharedLayout.get_default_for(list(shape), ELEMENTS[dtype])
    return gl.NVMMASharedLayout(swizzle, 8 * np.dtype(dtype).itemsize, 2)


def case(
    left,
    right,
    total,
    shape,
    columns,
    warps,
    *,
    turned=(False, True),
    registers=False,
    use=True,
    most=None,
    swizzle=None,
):
    """The constants of `product_kernel`, and its warps."""
    rows, width, inner = shape
    first, second = ((rows, inner), (inner, width))
    shapes = (first[::-1] if turned[0] else first, second[::-1] if turned[1] else second)
    shared = tuple(shared_layout(each, kind, swizzle) for each, kind in zip(shapes, (left, right), strict=True))
    count = warps[0] * warps[1]
    layout = gl.BlockedLayout([1, 4], [4, 8], [count, 1], [1, 0])
    constants = (*shape, matrix_layout(warps, columns, left), layout, shared, turned, registers, use, most)
    return (left, right, total), shapes, constants, count


def check(executor, monkeypatch, found, flag=1):
    (left, right, total), shapes, constants, count = found
    turned, use = constants[6], constants[8]
    a, b, c = whole(shapes[0], left), whole(shapes[1], right, 1), whole(constants[:2], total, 2)
    out = np.zeros_like(c)
    run_on(executor, monkeypatch, "sm_90a", product_kernel, a, b, c, out, flag, *constants, num_warps=count)
    added = c if use is True or (use is None and flag > 0) else None
    expected = product(a.T if turned[0] else a, b.T if turned[1] else b, added, total)
    np.testing.assert_array_equal(out, expected)


TYPES = [
    (HALF, HALF, SINGLE), (HALF, HALF, HALF), (BFLOAT16, BFLOAT16, SINGLE), (SINGLE, SINGLE, SINGLE),
    (E4M3, E4M3, SINGLE), (E5M2, E4M3, SINGLE), (E4M3, E5M2, HALF), (np.int8, np.int8, np.int32),
    (np.uint8, np.uint8, np.int32),
]  # fmt: skip


def name_of(value):
    return np.dtype(value).name if isinstance(value, type) else str(value)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize(("left", "right", "total"), TYPES, ids=name_of)
def test_every_type(left, right, total, registers, executor, monkeypatch):
    check(executor, monkeypatch, case(left, right, total, (64, 64, 128), 64, [4, 1], registers=registers))
    check(executor, monkeypatch, case(left, right, total, (128, 64, 64), 32, [4, 1], registers=registers))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)], ids=name_of)
@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_every_swizzle_and_order(swizzle, turned, executor, monkeypatch):
    check(executor, monkeypatch, case(HALF, HALF, SINGLE, (128, 128, 64), 64, [4, 1], turned=turned, swizzle=swizzle))
    check(executor, monkeypatch, case(HALF, HALF, SINGLE, (64, 64, 128), 64, [4, 1], turned=turned, swizzle=swizzle))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("dtype", "swizzle"), [(SINGLE, 32), (SINGLE, 64), (E4M3, 32), (np.int8, 64)], ids=name_of)
def test_swizzles_of_other_types(dtype, swizzle, executor, monkeypatch):
    total = np.int32 if dtype == np.int8 else SINGLE
    check(executor, monkeypatch, case(dtype, dtype, total, (64, 64, 128), 64, [4, 1], swizzle=swizzle))


SHAPES = [
    ((64, 8, 64), 8, [4, 1]), ((64, 16, 16), 16, [4, 1]), ((64, 256, 32), 256, [4, 1]), ((128, 64, 64), 16, [4, 1]),
    ((128, 128, 64), 128, [8, 1]), ((256, 64, 64), 64, [8, 1]), ((64, 64, 64), 64, [8, 1]), ((64, 128, 64), 64, [4, 2]),
    ((128, 128, 64), 32, [4, 2]), ((64, 64, 64), 64, [4, 2]),
]  # fmt: skip


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize(("shape", "columns", "warps"), SHAPES, ids=name_of)
def test_shapes_and_warps(shape, columns, warps, registers, executor, monkeypatch):
    for turned in [(False, True), (False, False)]:
        swizzle = 32 if shape[1] == 16 or shape[2] == 16 else None
        if turned == (False, False) and shape[1] < 16:
            continue
        found = case(HALF, HALF, SINGLE, shape, columns, warps, turned=turned, registers=registers, swizzle=swizzle)
        check(executor, monkeypatch, found)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize(("use", "flag"), [(False, 0), (None, 0), (None, 1)])
def test_whether_to_add(use, flag, registers, executor, monkeypatch):
    check(
        executor, monkeypatch, case(HALF, HALF, SINGLE, (64, 128, 64), 64, [4, 1], use=use, registers=registers), flag
    )


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("most", "use", "flag"), [(32, True, 1), (64, None, 0), (100, None, 1), (128, False, 1)])
def test_partial_sums_of_8_bit_floats(most, use, flag, executor, monkeypatch):
    found = case(E4M3, E5M2, SINGLE, (128, 64, 128), 64, [4, 1], use=use, most=most)
    check(executor, monkeypatch, found, flag)


@glueball.jit
def one_wait_kernel(a, b, out, PENDING: gl.constexpr, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    """Two sums at once: the first may be used while the second is under way."""
    x = operand(a, 64, 64, P, S, False)
    y = operand(b, 64, 64, P, S, False)
    fence_async_shared()
    one = warpgroup_mma(x, y, gl.full([64, 64], 1, gl.float32, L), is_async=True)
    two = warpgroup_mma(x, y, gl.zeros([64, 64], gl.float32, L), is_async=True)
    one = warpgroup_mma_wait(num_outstanding=PENDING, deps=[one])
    gl.store(out + places(64, 64, L), one)
    two, x = warpgroup_mma_wait(deps=(two, x))
    gl.store(out + 4096 + places(64, 64, L), two)
    gl.store(out + 8192 + places(64, 64, P), x.load(P).to(gl.float32))


SQUARE = matrix_layout([4, 1], 64, HALF)
WIDE = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
SWIZZLED = gl.NVMMASharedLayout(128, 16, 2)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("pending", [0, 1])
def test_a_sum_is_used_while_another_one_goes_on(pending, executor, monkeypatch):
    a, b, out = whole((64, 64), HALF), whole((64, 64), HALF, 1), np.zeros((3, 64, 64), SINGLE)
    run_on(executor, monkeypatch, "sm_90a", one_wait_kernel, a, b, out, pending, SQUARE, WIDE, SWIZZLED)
    expected = product(a, b, None, SINGLE)
    np.testing.assert_array_equal(out, np.stack([expected + 1, expected, a.astype(SINGLE)]))


@glueball.jit
def split_kernel(a, b, out, n, PENDING: gl.constexpr, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    """Two sums of products under way together, for the halves of a matrix."""
    x = operand(a, 64, 128, P, S, False)
    y = operand(b, 128, 128, P, S, False)
    fence_async_shared()
    one = warpgroup_mma_init(gl.zeros([64, 64], gl.float32, L))
    two = warpgroup_mma_init(gl.zeros([64, 64], gl.float32, L))
    for i in range(n):
        one, two = warpgroup_mma_wait(PENDING, deps=(one, two))
        one = warpgroup_mma(x, y.slice(0, 64, dim=1), one, use_acc=i > 0, is_async=True)
        two = warpgroup_mma(x, y.slice(64, 64, dim=1), two, use_acc=i > 0, is_async=True)
    one, two = warpgroup_mma_wait(0, deps=(one, two))
    at = gl.arange(0, 64, gl.SliceLayout(1, L))[:, None] * 128 + gl.arange(0, 64, gl.SliceLayout(0, L))[None, :]
    gl.store(out + at, one)
    gl.store(out + 64 + at, two)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("pending", [0, 2, 3])
def test_products_one_after_another(n, pending, executor, monkeypatch):
    """Products with the same accumulators need no wait between."""
    a, b, out = whole((64, 128), HALF), whole((128, 128), HALF, 1), np.zeros((64, 128), SINGLE)
    run_on(executor, monkeypatch, "sm_90a", split_kernel, a, b, out, n, pending, SQUARE, WIDE, SWIZZLED)
    np.testing.assert_array_equal(out, product(a, b, None, SINGLE) * n)


@glueball.aggregate
class Total:
    """A sum, with or without a product under way."""

    value: gl.tensor | warpgroup_mma_accumulator
    products: gl.tensor

    @glueball.jit
    def add(self, x, y):
        value, _ = self.settled()
        return Total(warpgroup_mma(x, y, value, is_async=True), self.products + 1)

    @glueball.jit
    def settled(self):
        return warpgroup_mma_wait(0, deps=(self.value,)), self.products


@glueball.jit
def record_kernel(a, b, out, n, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    """A tile becomes an accumulator in the first round, in a record and in a tuple."""
    x, y = operand(a, 64, 64, P, S, False), operand(b, 64, 64, P, S, False)
    fence_async_shared()
    total = Total(gl.zeros([64, 64], gl.float32, L), gl.to_tensor(0))
    pair = (gl.zeros([64, 64], gl.float32, L), 0)
    for i in range(n):
        total = total.add(x, y)
        pair = (warpgroup_mma(x, y, warpgroup_mma_wait(0, deps=(pair[0],)), is_async=True), i)
    value, products = total.settled()
    gl.store(out + places(64, 64, L), value + products)
    gl.store(out + 4096 + places(64, 64, L), warpgroup_mma_wait(0, deps=(pair[0],)))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_loops_carry_accumulators_in_records_and_tuples(executor, monkeypatch):
    a, b, out = whole((64, 64), HALF), whole((64, 64), HALF, 1), np.zeros((2, 64, 64), SINGLE)
    run_on(executor, monkeypatch, "sm_90a", record_kernel, a, b, out, 3, SQUARE, WIDE, SWIZZLED)
    expected = product(a, b, None, SINGLE) * 3
    np.testing.assert_array_equal(out, np.stack([expected + 3, expected]))


@glueball.jit
def changed_kernel(a, b, n, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    x, y = operand(a, 64, 64, P, S, False), operand(b, 64, 64, P, S, False)
    total = gl.zeros([64, 64], gl.float32, L)
    for _ in range(n):
        total = warpgroup_mma(x, y, total, is_async=True)
    warpgroup_mma_wait(0, deps=(total,))


def test_a_tile_of_its_own_stays_a_tile():
    half = np.zeros(4096, HALF)
    with pytest.raises(CompilationError, match="Loop-carried variable total has initial type"):
        glueball.compile_only(changed_kernel, half, half, 3, SQUARE, WIDE, SWIZZLED, target="sm_90a")


@glueball.jit
def refilled_kernel(a, b, out, n, L: gl.constexpr, P: gl.constexpr, S: gl.constexpr):
    """Both factors on the left are written anew in every round, after one wait for the two products of the last one."""
    x = gl.load(a + places(64, 64, P))
    y = operand(b, 64, 64, P, S, False)
    left = gl.allocate_shared_memory(x.dtype, [2, 64, 64], S)
    total = warpgroup_mma_init(gl.zeros([64, 64], gl.float32, L))
    for _ in range(n):
        total = warpgroup_mma_wait(0, deps=(total,))
        left.index(0).store(x)
        left.index(1).store(x + x)
        fence_async_shared()
        total = warpgroup_mma(left.index(0), y, total, is_async=True)
        total = warpgroup_mma(left.index(1), y, total, is_async=True)
    gl.store(out + places(64, 64, L), warpgroup_mma_wait(0, deps=(total,)))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_one_wait_frees_the_factors_of_several_products(executor, monkeypatch):
    a, b, out = whole((64, 64), HALF), whole((64, 64), HALF, 1), np.zeros((64, 64), SINGLE)
    run_on(executor, monkeypatch, "sm_90a", refilled_kernel, a, b, out, 3, SQUARE, WIDE, SWIZZLED)
    np.testing.assert_array_equal(out, product(a, b, None, SINGLE) * 9)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_sums_of_any_numbers(executor, monkeypatch):
    """Within the rounding of a sum of K products, in several blocks."""
    random = np.random.default_rng(11)
    a, b = (random.standard_normal((64, 64)).astype(HALF) for _ in range(2))
    out = np.zeros((3, 64, 64), SINGLE)
    run_on(executor, monkeypatch, "sm_90a", one_wait_kernel, a, b, out, 0, SQUARE, WIDE, SWIZZLED)
    bound = (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) + 1) * 64 * 2.0**-23
    assert (np.abs(out[1] - product(a, b, None, np.float64)) <= bound).all()


@glueball.jit
def wrong_kernel(
    A: gl.constexpr,
    B: gl.constexpr,
    C: gl.constexpr,
    shapes: gl.constexpr,
    layouts: gl.constexpr,
    options: gl.constexpr,
    IN_REGISTERS: gl.constexpr,
):
    total = gl.full(shapes[2], 0, C, layouts[2])
    b = gl.allocate_shared_memory(B, shapes[1], layouts[1])
    a = gl.full(shapes[0], 1, A, layouts[0]) if IN_REGISTERS else gl.allocate_shared_memory(A, shapes[0], layouts[0])
    warpgroup_mma(a, b, total, precision=options[0], max_num_imprecise_acc=options[1])


def refusal(types, shapes, layouts, options, target="sm_90a"):
    in_registers = not isinstance(layouts[0], gl.NVMMASharedLayout | gl.SwizzledSharedLayout)
    with pytest.raises(CompilationError) as caught:
        glueball.compile_only(wrong_kernel, *types, shapes, layouts, options, in_registers, target=target)
    return str(caught.value)


HALVES, SQUARES = (gl.float16, gl.float16, gl.float32), ((64, 64),) * 3
SHARED = (SWIZZLED, SWIZZLED, SQUARE)
BYTES = gl.NVMMASharedLayout(64, 8, 2)
WORDS, TURNED_WORDS = (gl.NVMMASharedLayout(128, 32, 2, transposed=turned) for turned in (False, True))
TURNED_BYTES = gl.NVMMASharedLayout(64, 8, 2, transposed=True)
QUARTERS = matrix_layout([4, 1], 64, np.int8)
NONE = (None, None)
PLAIN, UNALIGNED = gl.NVMMASharedLayout(0, 16, 2), gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
INTEGERS, TINY = (gl.int8, gl.int8, gl.int32), (gl.float8e5, gl.float8e5, gl.float32)
NO_LAYOUT = "failed to find valid wgmma layout for operand {} in shared memory"
K_MAJOR = "WGMMA requires K-major operands for this type"
LAYOUT_ERRORS = [
    ((SWIZZLED, SWIZZLED, WIDE), "expected acc in an NVMMADistributedLayout of version 3"),
    ((WIDE, SWIZZLED, SQUARE), "expected a in DotOperandLayout(0, layout of acc, 2)"),
    (
        (gl.DotOperandLayout(0, SQUARE, 4), SWIZZLED, SQUARE),
        "in-register LHS operand must have a kWidth of 2 but got 4",
    ),
    ((SWIZZLED, SWIZZLED, matrix_layout([4, 1], 64, SINGLE)), "instr_shape must be [16, N, 16] for fp16"),
    ((SWIZZLED, SWIZZLED, matrix_layout([2, 2], 64, HALF)), "WGMMA requires num_warps to be divisible by 4"),
    ((PLAIN, SWIZZLED, SQUARE), NO_LAYOUT.format("A")),
    ((SWIZZLED, PLAIN, SQUARE), NO_LAYOUT.format("B")),
    ((UNALIGNED, SWIZZLED, SQUARE), "operand A must start at a multiple of 1024 bytes"),
]
WRONG = [
    *((HALVES, SQUARES, layouts, NONE, message) for layouts, message in LAYOUT_ERRORS),
    (HALVES, ((64, 64), (64, 64), (64, 128)), SHARED, NONE, "multiplies M x K by K x N to M x N"),
    (HALVES, ((32, 64), (64, 64), (32, 64)), SHARED, NONE, "takes multiples of 64 rows"),
    ((gl.float16, gl.bfloat16, gl.float32), SQUARES, SHARED, NONE, "one element type, not of fp16 and bf16"),
    ((gl.bfloat16, gl.bfloat16, gl.bfloat16), SQUARES, SHARED, NONE, "cannot add products of bf16 up in bf16"),
    ((gl.int16, gl.int16, gl.int32), SQUARES, SHARED, NONE, "there are no products of those"),
    (INTEGERS, SQUARES, (BYTES, BYTES, QUARTERS), NONE, K_MAJOR),
    (INTEGERS, SQUARES, (TURNED_BYTES, TURNED_BYTES, QUARTERS), NONE, K_MAJOR),
    (
        (gl.float32,) * 3,
        SQUARES,
        (WORDS, TURNED_WORDS, matrix_layout([4, 1], 64, SINGLE)),
        ("ieee", None),
        "warpgroup_mma of float32 has the precision 'tf32' only, not 'ieee'",
    ),
    (HALVES, SQUARES, SHARED, ("exact", None), "the precision of warpgroup_mma must be one of tf32, "),
    (TINY, SQUARES, (BYTES, TURNED_BYTES, QUARTERS), (None, 128), "max_num_imprecise_acc (128) must be <= K (64)"),
    (TINY, SQUARES, (BYTES, TURNED_BYTES, QUARTERS), (None, 16), "max_num_imprecise_acc is less than 32"),
]


@pytest.mark.parametrize(("types", "shapes", "layouts", "options", "message"), WRONG, ids=[case[-1] for case in WRONG])
def test_wrong_operands(types, shapes, layouts, options, message):
    assert message in refusal(types, shapes, layouts, options)


@pytest.mark.parametrize("precision", ["tf32", "IEEE", "bf16x6"])
def test_a_precision_is_about_float32_alone(precision):
    glueball.compile_only(wrong_kernel, *HALVES, SQUARES, SHARED, (precision, None), False, target="sm_90a")


@pytest.mark.parametrize("target", ["sm_80", "sm_100a", "sm_120a"])
def test_targets_without_the_instruction(target):
    assert "`warpgroup_mma` needs sm_90a" in refusal(HALVES, SQUARES, SHARED, NONE, target)


@glueball.jit
def wrong_wait(DEPS: gl.constexpr, COUNT: gl.constexpr):
    warpgroup_mma_wait(COUNT, deps=DEPS)


@pytest.mark.parametrize(
    ("deps", "count", "message"),
    [
        (None, 0, "warpgroup_mma_wait deps must be given"),
        ((1,), 0, "deps hold accumulators, tiles and views, not"),
        ((), -1, "num_outstanding must be an int from 0 on"),
    ],
)
def test_wrong_waits(deps, count, message):
    with pytest.raises(CompilationError) as caught:
        glueball.compile_only(wrong_wait, deps, count, target="sm_90a")
    assert message in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


@glueball.jit
def square_below_the_diagonal(source, target, K: gl.constexpr, layout: gl.constexpr):
    row, column = gl.program_id(0), gl.program_id(1)
    if column > row:
        return
    left = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    right = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    word = mbarrier.allocate_mbarrier()
    mbarrier.init(word, count=1)
    total = gl.zeros([64, 64], gl.float32, layout)
    for step in range(K // 64):
        mbarrier.expect(word, 2 * source.nbytes_per_cta)
        tma.async_load(source, [row * 64, step * 64], word, left)
        tma.async_load(source, [column * 64, step * 64], word, right)
        mbarrier.wait(word, step & 1)
        total = warpgroup_mma(left, right.permute((1, 0)), total)
    m = row * 64 + gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    n = column * 64 + gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    gl.store(target + m[:, None] * 128 + n[None, :], total)


def test_products_of_blocks_beside_blocks_that_end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(3).integers(-4, 5, (128, 192)).astype(np.float16)
    y = np.zeros((128, 128), np.float32)
    shared = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    layout = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    source = TensorDescriptor.from_tensor(x, [64, 64], shared)
    run("sim", monkeypatch, square_below_the_diagonal[(2, 2)], source, y, 192, layout)
    expected = x.astype(np.float32) @ x.T.astype(np.float32)
    expected[:64, 64:] = 0
    np.testing.assert_array_equal(y, expected)
