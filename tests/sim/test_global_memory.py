"""Global memory: what is copied, and every fault of an access told with its argument, index and line."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from glueball.errors import IntegerOverflowError, MisalignedAccessError, OutOfBoundsError, ReadOnlyWriteError
from glueball.sim import HostArray
from glueball.sim.scheduler import SCHEDULES
from tests.sim.kernels import Kernel

KINDS = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def copy_kernel(kind: str = "f32", count: int = 1, masked: bool = True, num_warps: int = 2) -> Kernel:
    """Copies `n` elements, `count` per thread."""
    size = np.dtype(KINDS[kind]).itemsize
    kernel = Kernel(num_warps)
    x, y, n = kernel.pointer("x"), kernel.pointer("y"), kernel.scalar("n")
    index = kernel.mul(kernel.place(kernel.threads), kernel.i32(count))
    mask = kernel.less(index, n) if masked else None
    kernel.at(10)
    value = kernel.load(kernel.address(x, index, size), mask, kind=kind, count=count)
    kernel.at(11)
    kernel.store(kernel.address(y, index, size), value, mask, kind=kind)
    return kernel


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("kind", "count"),
    [(kind, count) for kind in KINDS for count in (1, 2, 4) if np.dtype(KINDS[kind]).itemsize * count <= 16],
)
def test_copy_is_bit_equal(kind: str, count: int, schedule: str) -> None:
    for size in (0, count, 200 * count, 1000 * count):
        x = np.random.default_rng(0).integers(0, 256, size * np.dtype(KINDS[kind]).itemsize).astype(np.uint8)
        x, y = x.view(KINDS[kind]), np.zeros(size + count, KINDS[kind])
        copy_kernel(kind, count).run((max(1, -(-size // (64 * count))),), x, y, size, schedule=schedule, seed=3)
        assert y[:size].tobytes() == x.tobytes()
        assert not y[size:].astype(np.float32).any()


def test_three_dimensional_grid_covers_every_program() -> None:
    kernel = Kernel()
    y = kernel.pointer("y")
    x, y_axis, z = (kernel.do("program_id", axis=axis) for axis in range(3))
    sizes = [kernel.do("num_programs", axis=axis) for axis in range(3)]
    index = kernel.add(x, kernel.mul(sizes[0], kernel.add(y_axis, kernel.mul(sizes[1], z))))
    kernel.store(kernel.address(y, index), kernel.add(index, kernel.mul(z, kernel.i32(1000))), kind="i32")
    out = np.zeros((5, 3, 4), np.int32)
    kernel.run((4, 3, 5), out)
    expected = np.arange(60).reshape(5, 3, 4) + 1000 * np.arange(5)[:, None, None]
    assert (out == expected).all()


def strided_kernel(vector: int = 1) -> Kernel:
    """`y[i] = x[i * stride]` for `i < n`, one block."""
    kernel = Kernel(4)
    x, y, n, stride = kernel.pointer("x"), kernel.pointer("y"), kernel.scalar("n"), kernel.scalar("stride")
    index = kernel.mul(kernel.thread(), kernel.i32(vector))
    mask = kernel.less(index, n)
    kernel.at(20)
    value = kernel.load(kernel.address(x, kernel.mul(index, stride)), mask, count=vector)
    kernel.at(21)
    kernel.store(kernel.address(y, index), value, mask)
    return kernel


@pytest.mark.parametrize("view", [np.s_[::-1], np.s_[::2], np.s_[::-3], np.s_[5:37:4]])
def test_views_are_reachable_exactly(view: slice) -> None:
    storage = np.arange(64, dtype=np.float32)
    x = storage[view]
    y = np.zeros(64, np.float32)
    stride = x.strides[0] // 4
    strided_kernel().run((1,), x, y, x.size, stride)
    assert (y[: x.size] == x).all()
    with pytest.raises(OutOfBoundsError) as caught:
        strided_kernel().run((1,), x, y, x.size + 1, stride)
    assert caught.value.details["index"] == x.size * stride
    assert caught.value.details["argument"] == "x"


def test_gap_of_a_view_is_out_of_bounds() -> None:
    x, y = np.arange(64, dtype=np.float32)[::2], np.zeros(64, np.float32)
    with pytest.raises(OutOfBoundsError, match="gap of its view") as caught:
        strided_kernel().run((1,), x, y, 10, 1)
    assert caught.value.details["index"] == 1
    with pytest.raises(OutOfBoundsError, match="gap of its view"):
        strided_kernel(vector=4).run((1,), x, y, 4, 1)


def test_zero_stride_view_is_one_row() -> None:
    x = np.broadcast_to(np.arange(8, dtype=np.float32), (1000, 8))
    y = np.zeros(64, np.float32)
    strided_kernel().run((1,), x, y, 8, 1)
    assert (y[:8] == x[0]).all()
    with pytest.raises(OutOfBoundsError):
        strided_kernel().run((1,), x, y, 9, 1)


def test_out_of_bounds_names_argument_index_and_thread() -> None:
    x, y = np.zeros((10, 100), np.float32), np.zeros(2000, np.float32)
    with pytest.raises(OutOfBoundsError, match=r"`x` is read at element 1000 = \[10, 0\]") as caught:
        copy_kernel().run((32,), x, y, 1001)
    assert caught.value.location is not None
    assert caught.value.location.line == 10
    assert caught.value.details["program"] == (1000 // 64, 0, 0)
    assert (caught.value.details["warp"], caught.value.details["lane"]) == divmod(1000 % 64, 32)
    with pytest.raises(OutOfBoundsError, match="`y` is written at element 200") as caught:
        copy_kernel().run((32,), np.zeros(2000, np.float32), y[:200], 201)
    assert caught.value.location is not None
    assert caught.value.location.line == 11


def test_far_address_belongs_to_no_argument() -> None:
    kernel = Kernel()
    x = kernel.pointer("x")
    kernel.load(kernel.add(x, kernel.constant("i64", 1 << 41)))
    with pytest.raises(OutOfBoundsError, match=r"is read, which belongs to no argument; the nearest is `x` \(program"):
        kernel.run((1,), np.zeros(4, np.float32))
    orphan = Kernel()
    orphan.load(orphan.constant("i64", 64))
    with pytest.raises(OutOfBoundsError, match="no pointer argument"):
        orphan.run((1,))


def test_empty_array_has_no_element() -> None:
    with pytest.raises(OutOfBoundsError, match="`x` is read at element 0"):
        copy_kernel().run((1,), np.zeros(0, np.float32), np.zeros(4, np.float32), 1)


def test_vector_access_must_be_aligned_as_a_whole() -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    copy_kernel(count=4).run((1,), x[4:], y, 16)
    assert (y[:16] == x[4:20]).all()
    with pytest.raises(MisalignedAccessError, match="only a multiple of 8") as caught:
        copy_kernel(count=4).run((1,), x[2:], y, 16)
    assert caught.value.location is not None
    assert caught.value.location.line == 10
    assert caught.value.details["argument"] == "x"


def test_read_only_array_may_only_be_read() -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    x.flags.writeable = False
    copy_kernel().run((1,), x, y, 64)
    assert (x == y).all()
    y.flags.writeable = False
    with pytest.raises(ReadOnlyWriteError, match="`y` is written"):
        copy_kernel().run((1,), x, y, 64)


def test_host_array_of_an_address() -> None:
    storage, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    host = HostArray(storage.ctypes.data + 252, (8, 8), (-8, -1), 4, keepalive=storage)
    strided_kernel().run((1,), host, y, 64, -1)
    assert (y == storage[::-1]).all()
    with pytest.raises(OutOfBoundsError):
        strided_kernel().run((1,), host, y, 2, 1)


def test_lanes_may_access_different_arguments() -> None:
    kernel = Kernel(2)
    x, y, z = kernel.pointer("x"), kernel.pointer("y"), kernel.pointer("z")
    thread = kernel.thread()
    odd = kernel.do("compare_signed", kernel.do("and", thread, 1), 1, predicate="eq")
    address = kernel.select(odd, kernel.address(x, thread), kernel.address(y, thread))
    value = kernel.load(address)
    kernel.store(address, kernel.do("fadd", value, value))
    kernel.store(kernel.address(z, thread), value)
    a, b, c = np.arange(64, dtype=np.float32), -np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    before = a.copy(), b.copy()
    report = kernel.run((1,), a, b, c)
    assert (c[1::2] == before[0][1::2]).all()
    assert (c[::2] == before[1][::2]).all()
    assert (a[1::2] == 2 * before[0][1::2]).all()
    assert (a[::2] == before[0][::2]).all()
    assert report.global_loads.requests == 2
    assert report.global_loads.sectors == 2 * 2 * 4


def test_checked_arithmetic_reports_the_values() -> None:
    for record, limit, step, kind in (
        ("add_no_wrap", 2**31 - 1, 1, "i32"),
        ("mul_no_wrap", 2**30, 2, "i32"),
        ("add_no_wrap", -(2**63), -1, "i64"),
        ("mul_no_wrap", 2**62, 2, "i64"),
    ):
        kernel = Kernel()
        y, n = kernel.pointer("y"), kernel.scalar("n", kind)
        kernel.at(30)
        total = kernel.do(record, n, kernel.constant(kind, step))
        kernel.store(kernel.address(y, 0, 8), total, kind=kind)
        out = np.zeros(1, np.int64)
        kernel.run((1,), out, 5)
        with pytest.raises(IntegerOverflowError) as caught:
            kernel.run((1,), out, limit)
        assert caught.value.details["values"] == (limit, step)
        assert caught.value.location is not None
        assert caught.value.location.line == 30


def test_overflow_of_inactive_lanes_is_no_fault() -> None:
    kernel = Kernel()
    y, n = kernel.pointer("y"), kernel.scalar("n")
    lane = kernel.lane()
    with kernel.when(kernel.less(lane, 4)):
        total = kernel.do("add_no_wrap", kernel.mul(lane, n), n)
        kernel.store(kernel.address(y, lane), total, kind="i32")
    out = np.zeros(32, np.int32)
    kernel.run((1,), out, 2**29 - 1)
    assert out[:5].tolist() == [(lane + 1) * (2**29 - 1) for lane in range(4)] + [0]
    with pytest.raises(IntegerOverflowError):
        kernel.run((1,), out, 2**29)


def test_wrong_arguments_are_told() -> None:
    kernel = copy_kernel()
    x = np.zeros(4, np.float32)
    with pytest.raises(TypeError, match="takes 3 arguments, 2 were given"):
        kernel.run((1,), x, x)
    with pytest.raises(TypeError, match="`y` is a pointer"):
        kernel.run((1,), x, 3, 4)
    with pytest.raises(ValueError, match="unknown schedule"):
        kernel.run((1,), x, x, 4, schedule="backwards")
