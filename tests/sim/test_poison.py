"""Undefined values of masked-off lanes: free to exist, never to be used."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from glueball.errors import UninitializedReadError
from glueball.thread.ir import Value
from tests.sim.kernels import Kernel

Use = Callable[[Kernel, Value, Value, Value], None]


def kernel_with(use: Use) -> Kernel:
    """Loads `i32` elements below `n` without a replacement at line 10, then uses them at line 20."""
    kernel = Kernel()
    kernel.allocate("buffer", 256)
    x, y, n = kernel.pointer("x", "int32"), kernel.pointer("y", "int32"), kernel.scalar("n")
    lane = kernel.lane()
    mask = kernel.less(lane, n)
    kernel.at(10)
    value = kernel.load(kernel.address(x, lane), mask, kind="i32")
    kernel.at(20)
    use(kernel, value, kernel.address(y, lane), mask)
    return kernel


def stored(kernel: Kernel, value: Value, address: Value, _: Value) -> None:
    kernel.store(address, value, kind="i32")


def stored_after_arithmetic(kernel: Kernel, value: Value, address: Value, _: Value) -> None:
    total = kernel.do("mul", kernel.do("add_no_wrap", value, 1), 0)
    kernel.store(address, kernel.do("bitcast", total, to="f32"))


def address_of_a_load(kernel: Kernel, value: Value, address: Value, _: Value) -> None:
    kernel.load(kernel.add(address, kernel.do("sign_extend", kernel.do("mul", value, 0), to="i64")), kind="i32")


def mask_of_a_store(kernel: Kernel, value: Value, address: Value, _: Value) -> None:
    kernel.store(address, value, kernel.less(value, 5), kind="i32")


def condition(kernel: Kernel, value: Value, address: Value, _: Value) -> None:
    with kernel.when(kernel.less(value, 5)):
        kernel.store(address, kernel.i32(1), kind="i32")


def bound(kernel: Kernel, value: Value, _: Value, __: Value) -> None:
    kernel.loop(kernel.i32(0), value, kernel.i32(1), [], lambda index: ())


def carried(kernel: Kernel, value: Value, address: Value, _: Value) -> None:
    (total,) = kernel.loop(0, 3, 1, [kernel.i32(0)], lambda _, total: (kernel.add(total, value),))
    kernel.store(address, total, kind="i32")


def merged(kernel: Kernel, value: Value, address: Value, _: Value) -> None:
    (chosen,) = kernel.choose(kernel.less(kernel.lane(), 30), lambda: (kernel.i32(3),), lambda: (value,), ["i32"])
    kernel.store(address, chosen, kind="i32")


def shuffled(kernel: Kernel, value: Value, address: Value, mask: Value) -> None:
    kernel.store(address, kernel.do("shuffle", value, kernel.do("xor", kernel.lane(), 1)), mask, kind="i32")


def through_shared(kernel: Kernel, value: Value, address: Value, mask: Value) -> None:
    at = kernel.mul(kernel.lane(), kernel.i32(4))
    kernel.store(at, value, space="shared", kind="i32", allocation="buffer")
    back = kernel.load(at, space="shared", kind="i32", allocation="buffer")
    kernel.store(address, back, kind="i32")


def replacement(kernel: Kernel, value: Value, address: Value, _: Value) -> None:
    never = kernel.less(kernel.lane(), 0)
    kernel.store(address, kernel.load(address, never, [value], kind="i32"), kind="i32")


USES: list[Use] = [
    stored, stored_after_arithmetic, address_of_a_load, mask_of_a_store, condition, bound, carried, merged, shuffled,
    through_shared, replacement,
]  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_using_an_undefined_value_names_both_lines(use: Use) -> None:
    kernel = kernel_with(use)
    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    kernel.run((1,), x, y, 32)
    with pytest.raises(UninitializedReadError) as caught:
        kernel.run((1,), x, y, 31)
    assert caught.value.location is not None
    assert caught.value.location.line == 20
    assert [load.line for load in caught.value.details["loads"]] == [10]
    assert "kernel.py:10" in str(caught.value)
    assert caught.value.details["lane"] == (30 if use is shuffled else 31)


def chosen(kernel: Kernel, value: Value, address: Value, mask: Value) -> None:
    kernel.store(address, kernel.select(mask, value, kernel.i32(-1)), kind="i32")


def stored_where_loaded(kernel: Kernel, value: Value, address: Value, mask: Value) -> None:
    kernel.store(address, kernel.add(value, kernel.i32(0)), mask, kind="i32")


def shared_round_trip(kernel: Kernel, value: Value, address: Value, mask: Value) -> None:
    """Pairs of 16-bit halves: the store is a vector, the loads are elements."""
    at = kernel.mul(kernel.lane(), kernel.i32(4))
    low = kernel.do("truncate", value, to="i16")
    high = kernel.do("truncate", kernel.lane(), to="i16")
    kernel.store(at, [low, high], space="shared", kind="i16", allocation="buffer")
    back = kernel.load(kernel.add(at, kernel.i32(2)), space="shared", kind="i16", allocation="buffer")
    kernel.store(address, kernel.do("sign_extend", back, to="i32"), kind="i32")


def loop_in_the_branch(kernel: Kernel, value: Value, address: Value, mask: Value) -> None:
    with kernel.when(mask):
        (total,) = kernel.loop(kernel.i32(0), value, kernel.i32(1), [value], lambda _, total: (total,))
        kernel.store(address, total, kind="i32")


def overwritten_in_shared(kernel: Kernel, value: Value, address: Value, mask: Value) -> None:
    at = kernel.mul(kernel.lane(), kernel.i32(4))
    for stored_value in (value, kernel.lane()):
        kernel.store(at, stored_value, space="shared", kind="i32", allocation="buffer")
    kernel.store(address, kernel.load(at, space="shared", kind="i32", allocation="buffer"), kind="i32")


def decided_by_another_condition(kernel: Kernel, value: Value, address: Value, mask: Value) -> None:
    found = kernel.less(value, kernel.i32(10))
    outside = kernel.do("xor", mask, kernel.constant("i1", True))
    either = kernel.do("or", outside, found)
    kernel.store(address, kernel.i32(1), kernel.do("and", mask, found), kind="i32")
    kernel.store(address, kernel.i32(2), kernel.do("and", kernel.do("and", either, outside), outside), kind="i32")


ALLOWED: list[tuple[Use, Callable[[int], int]]] = [
    (chosen, lambda lane: lane if lane < 20 else -1),
    (stored_where_loaded, lambda lane: lane if lane < 20 else 77),
    (shared_round_trip, lambda lane: lane),
    (loop_in_the_branch, lambda lane: lane if lane < 20 else 77),
    (overwritten_in_shared, lambda lane: lane),
    (decided_by_another_condition, lambda lane: 1 if lane < 10 else 77 if lane < 20 else 2),
]


@pytest.mark.parametrize(("use", "expected"), ALLOWED)
def test_undefined_values_may_exist(use: Use, expected: Callable[[int], int]) -> None:
    x, y = np.arange(32, dtype=np.int32), np.full(32, 77, np.int32)
    kernel_with(use).run((1,), x[:20], y, 20)
    assert y.tolist() == [expected(lane) for lane in range(32)]


def test_poison_in_shared_memory_belongs_to_its_block() -> None:
    """Three blocks share one pattern of accesses, but only the last is ragged."""
    kernel = Kernel()
    kernel.allocate("buffer", 128)
    x, y, n, m = kernel.pointer("x"), kernel.pointer("y"), kernel.scalar("n"), kernel.scalar("m")
    place, at = kernel.place(32), kernel.mul(kernel.lane(), kernel.i32(4))
    value = kernel.load(kernel.address(x, place), kernel.less(place, n))
    kernel.store(at, value, space="shared", allocation="buffer")
    back = kernel.load(at, space="shared", allocation="buffer")
    kernel.store(kernel.address(y, place), back, kernel.less(place, m))
    x_array, out = np.arange(96, dtype=np.float32), np.zeros(96, np.float32)
    kernel.run((3,), x_array, out, 80, 80)
    assert (out[:80] == x_array[:80]).all()
    with pytest.raises(UninitializedReadError) as caught:
        kernel.run((3,), x_array, out, 80, 81)
    assert (caught.value.details["program"], caught.value.details["lane"]) == ((2, 0, 0), 16)


def test_what_is_stored_after_an_undefined_value_was_loaded_is_defined() -> None:
    """What a load from shared memory leaves with the machine is not for the next store."""
    kernel = Kernel()
    kernel.allocate("buffer", 256)
    x, y = kernel.pointer("x", "int32"), kernel.pointer("y", "int32")
    lane = kernel.lane()
    place = kernel.mul(lane, kernel.i32(4))
    kernel.store(place, kernel.load(kernel.address(x, lane), kernel.less(lane, 20), kind="i32"), space="shared",
                 kind="i32", allocation="buffer")  # fmt: skip
    kernel.load(place, space="shared", kind="i32", allocation="buffer")
    kernel.store(place, lane, space="shared", kind="i32", allocation="buffer", offset=128)
    value = kernel.load(place, space="shared", kind="i32", allocation="buffer", offset=128)
    kernel.store(kernel.address(y, lane), value, kind="i32")
    x_given, y_given = np.zeros(32, np.int32), np.zeros(32, np.int32)
    kernel.run((1,), x_given, y_given)
    assert y_given.tolist() == list(range(32))


def test_blocks_that_differ_in_what_is_undefined_alone() -> None:
    """They have rows of their own for that, and the report is of the right block."""
    kernel = Kernel()
    kernel.allocate("buffer", 128)
    x, y, n = kernel.pointer("x", "int32"), kernel.pointer("y", "int32"), kernel.scalar("n")
    lane = kernel.lane()
    place, index = kernel.mul(lane, kernel.i32(4)), kernel.place(32)
    value = kernel.load(kernel.address(x, index), kernel.less(index, n), kind="i32")
    kernel.store(place, value, space="shared", kind="i32", allocation="buffer")
    value = kernel.load(place, space="shared", kind="i32", allocation="buffer")
    kernel.at(9)
    kernel.store(kernel.address(y, index), value, kind="i32")
    x_given, y_given = np.arange(320, dtype=np.int32), np.zeros(320, np.int32)
    kernel.run((10,), x_given, y_given, 320)
    assert y_given.tolist() == x_given.tolist()
    with pytest.raises(UninitializedReadError, match=r"program \(7, 0, 0\), warp 0, lane 6") as caught:
        kernel.run((10,), x_given, y_given, 7 * 32 + 6)
    assert caught.value.location is not None
    assert caught.value.location.line == 9


def test_an_atomic_change_of_an_undefined_value_is_of_the_right_block() -> None:
    kernel = Kernel()
    kernel.allocate("buffer", 128)
    x, n = kernel.pointer("x", "int32"), kernel.scalar("n")
    lane = kernel.lane()
    place, index = kernel.mul(lane, kernel.i32(4)), kernel.place(32)
    value = kernel.load(kernel.address(x, index), kernel.less(index, n), kind="i32")
    kernel.store(place, value, space="shared", kind="i32", allocation="buffer")
    kernel.do("shared_add", place, 1, type="i32", count=1, allocation="buffer", masked=False)
    with pytest.raises(UninitializedReadError, match=r"program \(3, 0, 0\), warp 0, lane 5"):
        kernel.run((10,), np.zeros(320, np.int32), 3 * 32 + 5)
