"""Index arithmetic that wraps: a fault where an active lane uses the result, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import IntegerOverflowError
from glueball.thread.ir import Value
from tests.sim.kernels import Kernel

STRIDE = 131072
FAR = 16384  # FAR * STRIDE is 2^31
LINE = gl.BlockedLayout([1], [32], [1], [0])
NARROW, WIDE = (gl.BlockedLayout([size], [32], [warps], [0]) for size, warps in ((1, 4), (4, 4)))
PAIRS = gl.BlockedLayout([2], [32], [1], [0])


@pytest.fixture(autouse=True)
def _on_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "sim")


@glueball.jit
def rows_apart(x, y, rows, step, stride):
    place = gl.arange(0, 32, layout=LINE)
    row = place * step
    mask = row < rows
    value = gl.load(x + row * stride, mask=mask)
    gl.store(y + place, value, mask=mask)


@glueball.jit
def rows_apart_replaced(x, y, rows, step, stride):
    place = gl.arange(0, 32, layout=LINE)
    row = place * step
    gl.store(y + place, gl.load(x + row * stride, mask=row < rows, other=0.0))


@glueball.jit
def rows_apart_wide(x, y, rows, step, stride):
    place = gl.arange(0, 32, layout=LINE)
    row = place * step
    gl.store(y + place, gl.load(x + row.to(gl.int64) * stride, mask=row < rows, other=0.0))


def caret(error: IntegerOverflowError) -> str:
    assert error.location is not None
    return error.location.text()[error.location.column : error.location.end_column]


@pytest.mark.parametrize("kernel", [rows_apart, rows_apart_replaced])
def test_lanes_beyond_the_tensor_may_wrap(kernel: Any) -> None:
    x, y = np.full(4, 5, np.float32), np.full(32, 7, np.float32)
    kernel[(1,)](x, y, 1, FAR, STRIDE, num_warps=1)
    rest = 7 if kernel is rows_apart else 0
    assert y.tolist() == [5] + [rest] * 31


@pytest.mark.parametrize("kernel", [rows_apart, rows_apart_replaced])
def test_lanes_inside_the_tensor_may_not(kernel: Any) -> None:
    x, y = np.full(4, 5, np.float32), np.zeros(32, np.float32)
    with pytest.raises(IntegerOverflowError) as caught:
        kernel[(2,)](x, y, FAR + 1, FAR, STRIDE, num_warps=1)
    error = caught.value
    assert caret(error) == "row * stride"
    assert sorted(error.details["values"]) == [FAR, STRIDE]
    assert (error.details["program"], error.details["warp"], error.details["lane"]) == ((0, 0, 0), 0, 1)
    assert f"the product of {STRIDE} and {FAR} does not fit 32 bits, and an address depends on it" in str(error)
    assert "gl.int64" in str(error)


def test_the_largest_product_that_fits_is_no_overflow() -> None:
    """Its address is far outside, which is another fault."""
    x, y = np.full(4, 5, np.float32), np.zeros(32, np.float32)
    with pytest.raises(IndexError, match=str((FAR - 1) * STRIDE)):
        rows_apart[(1,)](x, y, FAR, FAR - 1, STRIDE, num_warps=1)


def test_64_bits_do_not_wrap() -> None:
    x, y = np.full(4, 5, np.float32), np.zeros(32, np.float32)
    with pytest.raises(IndexError, match=str(FAR * STRIDE)):
        rows_apart_wide[(1,)](x, y, FAR + 1, FAR, STRIDE, num_warps=1)
    with pytest.raises(IntegerOverflowError, match="64 bits") as caught:
        rows_apart_wide[(1,)](x, y, FAR + 1, FAR, 1 << 50, num_warps=1)
    assert sorted(caught.value.details["values"]) == [FAR, 1 << 50]


@glueball.jit
def scalar_row(x, y, row, stride, guard):
    if guard > 0:
        gl.store(y, gl.load(x + row * stride))


def test_scalars() -> None:
    x, y = np.full(4, 5, np.float32), np.zeros(1, np.float32)
    scalar_row[(1,)](x, y, FAR, STRIDE, 0, num_warps=1)
    with pytest.raises(IntegerOverflowError) as caught:
        scalar_row[(1,)](x, y, FAR, STRIDE, 2, num_warps=1)
    assert caret(caught.value) == "row * stride"


@glueball.jit
def constant_stride(x, y, rows, step: gl.constexpr, stride: gl.constexpr):
    place = gl.arange(0, 64, layout=PAIRS)
    row = place * step
    gl.store(y + place, gl.load(x + row * stride, mask=row < rows, other=0.0))


def test_constant_parts_of_an_index_wrap_too() -> None:
    """The second register of a thread is 16384 rows after the first: its constant alone does not fit."""
    x, y = np.full(4, 5, np.float32), np.zeros(64, np.float32)
    constant_stride[(1,)](x, y, 1, FAR, STRIDE, num_warps=1)
    assert y.tolist() == [5] + [0] * 63
    with pytest.raises(IntegerOverflowError) as caught:
        constant_stride[(1,)](x, y, FAR + 1, FAR, STRIDE, num_warps=1)
    assert caught.value.details["lane"] == 0


@glueball.jit
def compared(x, y, n, stride):
    place = gl.arange(0, 32, layout=LINE) * stride
    gl.store(y + place, gl.load(x + place, mask=place < n, other=0.0), mask=place < n)


def test_a_mask_computed_from_it() -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    with pytest.raises(IntegerOverflowError, match=r"a mask at .* depends on it") as caught:
        compared[(1,)](x, y, 4, 1 << 30, num_warps=1)
    assert sorted(caught.value.details["values"]) == [2, 1 << 30]
    assert caught.value.details["used"].line > caught.value.location.line


@glueball.jit
def wrapping_values(y, factor):
    place = gl.arange(0, 32, layout=LINE)
    gl.store(y + place, place * factor + factor)


def test_arithmetic_that_is_no_index_wraps() -> None:
    y = np.zeros(32, np.int32)
    wrapping_values[(1,)](y, 1 << 30, num_warps=1)
    assert y.tolist() == [((lane + 1) << 30) % (1 << 32) - ((((lane + 1) >> 1) & 1) << 32) for lane in range(32)]


@glueball.jit
def through_a_conversion(x, y, rows, stride, narrow: gl.constexpr, wide: gl.constexpr):
    place = gl.arange(0, 128, layout=narrow)
    row = gl.convert_layout(place * stride, wide)
    target = gl.arange(0, 128, layout=wide)
    mask = target < rows
    gl.store(y + target, gl.load(x + row, mask=mask), mask=mask)


Use = Callable[[Kernel, Value, Value], None]


def stored(kernel: Kernel, total: Value, address: Value) -> None:
    kernel.store(address, total, kind="i32")


def stored_after_more(kernel: Kernel, total: Value, address: Value) -> None:
    kernel.store(address, kernel.do("add_no_wrap", kernel.do("and", total, 1), 1), kind="i32")


def as_an_address(kernel: Kernel, total: Value, address: Value) -> None:
    distance = kernel.do("sign_extend", kernel.do("mul", total, 4), to="i64")
    kernel.load(kernel.add(address, distance), kind="i32")


def as_a_mask(kernel: Kernel, total: Value, address: Value) -> None:
    kernel.store(address, kernel.i32(1), kernel.less(total, 5), kind="i32")


def as_a_condition(kernel: Kernel, total: Value, address: Value) -> None:
    with kernel.when(kernel.less(total, 5)):
        kernel.store(address, kernel.i32(1), kind="i32")


def as_a_bound(kernel: Kernel, total: Value, _: Value) -> None:
    kernel.loop(kernel.i32(0), total, kernel.i32(1 << 20), [], lambda index: ())


def carried_by_a_loop(kernel: Kernel, total: Value, address: Value) -> None:
    (last,) = kernel.loop(0, 3, 1, [kernel.i32(0)], lambda _, carried: (kernel.add(carried, total),))
    kernel.store(address, last, kind="i32")


def through_shared_memory(kernel: Kernel, total: Value, address: Value) -> None:
    at = kernel.mul(kernel.lane(), kernel.i32(4))
    kernel.store(at, total, space="shared", kind="i32", allocation="buffer")
    back = kernel.load(at, space="shared", kind="i32", allocation="buffer")
    kernel.store(address, back, kind="i32")


def shuffled(kernel: Kernel, total: Value, address: Value) -> None:
    kernel.store(address, kernel.do("shuffle", total, kernel.do("xor", kernel.lane(), 1)), kind="i32")


USES: list[Use] = [
    stored, stored_after_more, as_an_address, as_a_mask, as_a_condition, as_a_bound, carried_by_a_loop,
    through_shared_memory, shuffled,
]  # fmt: skip


def kernel_with(use: Use) -> Kernel:
    """Lanes from `n` on overflow at line 10; the sum is used at line 20 or later."""
    kernel = Kernel()
    kernel.allocate("buffer", 128)
    y, n = kernel.pointer("y", "int32"), kernel.scalar("n")
    lane = kernel.lane()
    far = kernel.select(kernel.less(lane, n), kernel.i32(0), kernel.i32(2**31 - 1))
    kernel.at(10)
    total = kernel.do("add_no_wrap", far, kernel.do("add", lane, 1))
    kernel.at(20)
    use(kernel, total, kernel.address(y, lane))
    return kernel


@pytest.mark.parametrize("use", USES)
def test_every_use_reports_the_arithmetic(use: Use) -> None:
    kernel, y = kernel_with(use), np.zeros(32 * 4, np.int32)
    kernel.run((1,), y, 32)
    with pytest.raises(IntegerOverflowError) as caught:
        kernel.run((1,), y, 31)
    error = caught.value
    assert error.location is not None
    assert (error.location.line, error.details["used"].line) == (10, 20)
    assert error.details["lane"] == (30 if use is shuffled else 31)
    if use is not shuffled:
        assert error.details["values"] == (2**31 - 1, 32)


def unused(kernel: Kernel, total: Value, address: Value) -> None:
    kernel.do("mul", total, 3)
    kernel.store(address, kernel.i32(3), kind="i32")


def not_chosen(kernel: Kernel, total: Value, address: Value) -> None:
    kernel.store(address, kernel.select(kernel.less(kernel.lane(), 16), total, kernel.i32(3)), kind="i32")


def masked_off(kernel: Kernel, total: Value, address: Value) -> None:
    kernel.store(address, total, kernel.less(kernel.lane(), 16), kind="i32")


def in_the_other_branch(kernel: Kernel, total: Value, address: Value) -> None:
    with kernel.when(kernel.less(kernel.lane(), 16)):
        kernel.store(address, total, kind="i32")


@pytest.mark.parametrize("use", [unused, not_chosen, masked_off, in_the_other_branch])
def test_what_nobody_uses_may_wrap(use: Use) -> None:
    y = np.zeros(32, np.int32)
    kernel_with(use).run((1,), y, 16)
    assert y[:16].tolist() == ([3] * 16 if use is unused else list(range(1, 17)))
    if use is not unused:
        with pytest.raises(IntegerOverflowError):
            kernel_with(use).run((1,), y, 15)


def test_each_round_of_a_loop_reports_its_own_values() -> None:
    kernel = Kernel()
    y, n = kernel.pointer("y", "int32"), kernel.scalar("n")
    kernel.at(10)

    def body(index: Value, _: Value) -> tuple[Value]:
        return (kernel.do("mul_no_wrap", kernel.add(index, kernel.lane()), n),)

    (last,) = kernel.loop(0, 4, 1, [kernel.i32(0)], body)
    kernel.at(20)
    kernel.store(kernel.address(y, kernel.lane()), last, kernel.less(kernel.lane(), 6), kind="i32")
    out = np.zeros(32, np.int32)
    kernel.run((1,), out, 2**27)  # lanes from 16 on wrap, and are masked off
    assert out[:6].tolist() == [(lane + 3) * 2**27 for lane in range(6)]
    with pytest.raises(IntegerOverflowError) as caught:
        kernel.run((1,), out, 2**28)
    assert caught.value.details["values"] == (8, 2**28)


def test_a_conversion_passes_it_on() -> None:
    x, y = np.ones(1, np.float32), np.zeros(128, np.float32)
    through_a_conversion[(1,)](x, y, 1, 1 << 30, NARROW, WIDE, num_warps=4)
    assert y.tolist() == [1] + [0] * 127
    with pytest.raises(IntegerOverflowError) as caught:
        through_a_conversion[(1,)](np.ones(1, np.float32), y, 128, 1 << 25, NARROW, WIDE, num_warps=4)
    assert caret(caught.value) == "place * stride"
    assert sorted(caught.value.details["values"]) == [64, 1 << 25]
