"""What statements, expressions and records compute, on every executor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import glueball
import glueball.language as gl
from tests.kernels.harness import EXECUTORS, run

LINE = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
PAIRS = gl.constexpr(gl.BlockedLayout([2], [32], [4], [0]))
SQUARE = gl.constexpr(gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]))
NOTHING = -77

pytestmark = pytest.mark.parametrize("executor", EXECUTORS)


def check(executor: str, kernel: Any, expected: Sequence[int], *arguments: Any, grid: tuple[int, ...] = (1,)) -> None:
    """Compare what a kernel leaves in an int32 array of `NOTHING`."""
    out = np.full(max(len(expected), 8), NOTHING, np.int32)
    with pytest.MonkeyPatch.context() as patch:
        run(executor, patch, kernel[grid], out, *arguments)
    assert out[: len(expected)].tolist() == list(expected)


@glueball.jit
def assignments(out, n):
    (a, (b, c)) = (1, (2, n))
    gl.store(out, a + b + c)
    if (m := n + 1) > 3:
        gl.store(out + 1, m)
    n += 1
    n *= 2
    n -= 1
    n //= 2
    n <<= 1
    n |= 1
    n &= 31
    n ^= 2
    n %= 100
    gl.store(out + 2, n)
    x: gl.constexpr
    x = 5
    y: gl.int32 = x
    gl.store(out + 3, gl.arange(0, x + 3, LINE).shape[0] + y)


def test_assignments(executor: str) -> None:
    expected = (((((10 + 1) * 2 - 1) // 2) << 1 | 1) & 31) ^ 2
    check(executor, assignments, [13, 11, expected, 13], 10)


@glueball.jit
def annotated(x: gl.constexpr):
    return x + 1


@glueball.jit
def annotations(out):
    """An annotation keeps a constant constant; it makes none of a run-time value."""
    n: gl.constexpr = gl.load(out)
    gl.store(out, annotated(n))
    size: gl.constexpr = 8
    gl.store(out + 1, gl.arange(0, size, LINE).shape[0])
    size = 3
    gl.static_assert(isinstance(size, gl.tensor))
    pair = (1, gl.float32, None)
    gl.static_assert(isinstance(pair[0], gl.tensor) and pair[1] == gl.float32 and pair[2] is None)
    gl.store(out + 2, size + pair[0])


def test_annotations_never_force(executor: str) -> None:
    check(executor, annotations, [NOTHING + 1, 8, 4])


class Pair(NamedTuple):
    first: Any
    second: Any


@glueball.jit
def tuples(out):
    a: gl.constexpr = (1, 2, 3, 4)
    gl.store(out, a[1:][0] + len(a[:-1]) + (a == (1, 2, 3, 4)) + len(a * 2))
    c, d, e = (1, 2) + (3,)  # noqa: RUF005 - the operator is what is tested
    gl.store(out + 1, c + d + e)
    pair = Pair(1, second=gl.load(out + 2))
    gl.store(out + 2, pair.second + pair.first + pair[-2])
    squares = [value * value for value in (1, 2, 3) if value != 2]
    gl.store(out + 3, squares[0] + squares[1] * 10 + len(squares) * 100)


def test_tuples(executor: str) -> None:
    check(executor, tuples, [14, 6, NOTHING + 2, 291])


@glueball.jit
def logic(out, n, nothing: gl.constexpr):
    x: gl.constexpr = 3 if nothing is None else 4
    gl.store(out, x + (0 or 5) * 10 + (nothing is not None))  # noqa: SIM222 - `or` is what is tested
    gl.store(out + 1, 1 if n > 2 else 2)
    gl.store(out + 2, n if n > 20 else gl.to_tensor(7))
    gl.store(out + 3, True and n > 3)
    gl.store(out + 4, 3 < n < 11 != n)
    gl.store(out + 5, ((n == 10) and (n != 11)) or (n == 5))
    gl.store(out + 6, not (n == 10))  # noqa: SIM201 - `not` is what is tested
    label: gl.constexpr = f"{3}{'a'}-{x:02d}"
    gl.static_assert(label == "3a-03")
    gl.store(out + 7, len(label))


def test_logic_and_choices(executor: str) -> None:
    check(executor, logic, [53, 1, 7, 1, 1, 1, 0, 5], 10, None)


@glueball.jit
def python_functions(out, n):
    gl.store(out, min(n, 3, 4) + max(1, 2) * 10)
    gl.store(out + 1, max(n, 30))
    gl.store(out + 2, len([1, 2]) + int(2.7) + int(float("inf") > 1) + abs(-3))
    gl.store(out + 3, int(isinstance(n, gl.tensor)) + 2 * int(hasattr(n, "dtype")) + 4 * int(getattr(LINE, "rank", 0)))
    gl.store(out + 4, int(math.log2(8)) + math.floor(2.5) + gl.cdiv(7, 2))


def test_python_functions(executor: str) -> None:
    check(executor, python_functions, [23, 30, 8, 7, 9], 10)


@glueball.jit
def loops(out, n):
    pair = (gl.to_tensor(0), gl.to_tensor(1))
    for _ in range(n):
        pair = (pair[1], pair[0] + pair[1])
    gl.store(out, pair[0])
    total = 0
    for i in range(n, 0, -1):
        total += i
    gl.store(out + 1, total)
    total = 0
    i = gl.to_tensor(0)
    while i < n and total < 40:
        total += i
        i += 1
    gl.store(out + 2, total)
    for a in gl.static_range(2):
        gl.static_assert(isinstance(a, gl.constexpr))
        gl.store(out + 3 + a, a * 2)
    for b in gl.static_range(4, 0, -2):
        gl.store(out + 5, b)
    wide = gl.to_tensor(0).to(gl.int64)
    for j in range(n.to(gl.int64), n + 4, 2):
        gl.static_assert(j.dtype == gl.int64)
        wide += j
    gl.store(out + 6, wide)
    for nowhere in range(n, n):
        gl.store(out + 7, nowhere)


def test_loops(executor: str) -> None:
    check(executor, loops, [55, 55, 45, 0, 2, 2, 22, NOTHING], 10)


@glueball.jit
def early(x):
    if x > 5:
        return 1
    if x < 0:
        return 2
    return 3


@glueball.jit
def swapped(x, y=7, *rest, scale=1):
    return y * scale, x + len(rest)


@glueball.jit
def returns(out, n):
    gl.store(out, early(n) + 10 * early(gl.to_tensor(-1)) + 100 * early(2))
    first, second = swapped(n)
    gl.store(out + 1, first + second)
    gl.store(out + 2, swapped(1, 2, 3, 4, scale=n)[0] + swapped(1, 2, 3, 4)[1])
    function = early
    gl.store(out + 3, function(n))
    if n > 3:
        gl.store(out + 4, 1)
        return
    gl.store(out + 4, 2)


def test_calls_and_returns(executor: str) -> None:
    check(executor, returns, [321, 17, 23, 1, 1], 10)


@glueball.jit
def in_turns(x, COUNT: gl.constexpr, NAMES: gl.constexpr):
    """The first turn that `x` is below; the place of a name."""
    for turn in gl.static_range(COUNT):
        if x < turn:
            if turn == 1:
                return turn * 10, 7
            return turn * 100, 7
        for place in gl.static_range(len(NAMES)):
            if NAMES[place] == "second" and turn == COUNT - 1:
                return x, place
    return -1, -1


@glueball.jit
def returns_in_turns(out, n):
    for turn in range(n - 7):
        first, second = in_turns(turn, 3, ("first", "second"))
        gl.store(out + turn, first + second)
    first, second = in_turns(n, 2, ())
    gl.store(out + 3, first + second)
    for turn in gl.static_range(9):
        gl.store(out + 4, turn)
        if n < 2 * turn:
            return
    gl.store(out + 4, -1)


def test_returns_in_unrolled_loops(executor: str) -> None:
    check(executor, returns_in_turns, [17, 207, 3, -2, 6], 10)


@glueball.jit(noinline=True)
def apart(x):
    return x + 1


@glueball.jit
def branches(out, n):
    x = gl.to_tensor(1)
    if n > 3:
        x = x + 1
        y = n
    elif n > 1:
        x = x + 2
        y = n + 1
    else:
        y = n + 2
    gl.store(out, x)
    gl.store(out + 1, apart(y))
    if n:
        gl.store(out + 2, 5)
    if gl.arange(0, 1, LINE) == 0:
        gl.store(out + 3, 6)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_branches_merge_names(executor: str) -> None:
    check(executor, branches, [2, 11, 5, 6], 10)
    check(executor, branches, [3, 4, 5, 6], 2)
    check(executor, branches, [1, 3, NOTHING, 6], 0)


@glueball.aggregate
class Base:  # noqa: PLW1641 - a record of the language
    value: gl.tensor
    scale: gl.constexpr = 7

    @glueball.jit
    def total(self, n):
        return self.value + n + self.scale

    @glueball.constexpr_function
    def double(self):
        return self.scale * 2

    @glueball.jit
    def made(n):  # noqa: N805 - called through the class
        return Base(n, 3)

    @glueball.jit
    def __add__(self, other):
        return Base(self.value + other, self.scale)

    @glueball.jit
    def __radd__(self, other):
        return Base(self.value * other, self.scale)

    @glueball.jit
    def __neg__(self):
        return Base(-self.value, self.scale)

    @glueball.jit
    def __eq__(self, other):
        return self.value == other


@glueball.aggregate
class Derived(Base):
    extra: gl.tuple

    @glueball.jit
    def both(self):
        return self.total(1) + self.extra[0]


@glueball.jit
def records(out, n):
    plain = Base(n)
    made = Base.made(gl.to_tensor(4))
    gl.store(out, plain.total(1) + made.double() * 100)
    gl.store(out + 1, (3 + made).value + 100 * (made + 3).value)
    gl.store(out + 2, (-made).value)
    gl.store(out + 3, made == 4)
    gl.store(out + 4, Derived(n, extra=(5, 6)).both())
    changed = gl.aggregate_replace(plain, scale=9)
    for step in range(n):
        if step > 1:
            changed = changed + 1
    gl.store(out + 5, changed.total(0))
    if n > 100:
        made = made + n
    gl.store(out + 6, made.value)


def test_records(executor: str) -> None:
    check(executor, records, [18 + 600, 712, -4, 1, 23, 10 + 9 + 8, 4], 10)


@glueball.jit
def numbers(out, n):
    gl.store(out, n // 2)
    gl.store(out + 1, n % 2)
    gl.store(out + 2, -7 // 2 * 10 + -7 % 2)
    gl.store(out + 3, n >> 1)
    gl.store(out + 4, (n.to(gl.uint32) >> 1).to(gl.int32))
    gl.store(out + 5, gl.maximum(float("nan"), 2.0).to(gl.int32) + gl.clamp(5.0, 0.0, 3.0).to(gl.int32))
    gl.store(out + 6, gl.add(n, 1) + gl.sub(n, 1, sanitize_overflow=False) * 10 + gl.mul(n, 4, False) * 100)


def test_run_time_division_truncates_and_constants_floor(executor: str) -> None:
    check(executor, numbers, [-3, -1, -39, -4, (2**32 - 7) >> 1, 5, -6 - 80 - 2800], -7)


@glueball.jit
def creation(out):
    x = gl.full([4], 0.0, gl.int32, LINE)
    y = gl.full([4], 300, gl.int8, LINE)
    one = gl.load(out + gl.arange(0, 1, LINE))
    index = gl.arange(3, 7, LINE)
    gl.store(out + index - 3, y.to(gl.int32) + x + gl.full([4], one, gl.int32, LINE))
    like = gl.full_like(gl.zeros([8], gl.float32, LINE), 3)
    gl.static_assert(
        gl.full_like(like, 2, shape=[16], dtype=gl.int32).type == gl.distributed_type(gl.int32, [16], LINE)
    )
    gl.static_assert(gl.zeros_like(like, layout=PAIRS).type.layout == PAIRS)
    gl.store(out + 4, gl.sum(like + gl.zeros_like(like)).to(gl.int32) + gl.full([], 7, gl.int32))
    gl.static_assert(gl.zeros((), gl.int32).shape == ())
    gl.store(out + 5, gl.to_tensor(1e-40).dtype.is_fp64() + gl.to_tensor(2**31).dtype.is_uint32() * 2)


def test_creation(executor: str) -> None:
    check(executor, creation, [44 + NOTHING] * 4 + [24 + 7, 3])


@glueball.jit
def pointers(out, n, flags):
    unsigned = (n + 255).to(gl.uint8)
    gl.store(out + unsigned - 255, 4)
    gl.store(1 + out, 9)
    gl.store(out + 3 - 1, 7)
    address = out.to(gl.int64)
    again = (address + 12).to(gl.pointer_type(gl.int32))
    gl.store(again, again.to(gl.int1))
    narrow = again.to(gl.pointer_type(gl.int8)).to(gl.pointer_type(gl.int32), bitcast=True)
    gl.store(narrow + 1, 5)
    line = gl.arange(0, 4, LINE)
    flag = gl.load(flags + line)
    gl.static_assert(flag.dtype == gl.int1)
    gl.store(out + 5, gl.sum(flag))
    gl.store(flags, False)
    gl.store(gl.where(line > 2, out + line + 3, out + line + 4), 8, line > 2)


def test_pointers(executor: str) -> None:
    flags = np.array([True, False, True, True])
    check(executor, pointers, [4, 9, 7, 1, 5, 3, 8], 0, flags)
    assert flags.tolist() == [False, False, True, True]


@glueball.jit
def accesses(out):
    policy: gl.constexpr = gl.CachePolicy(".cg", "evict_first")
    old = gl.load(out, cache_policy=policy)
    gl.store(out, gl.load(out, cache_modifier=".cg", eviction_policy="evict_last", volatile=True) + 1)
    gl.store(out + 1, old, mask=True, cache_modifier=".cs", eviction_policy="evict_first")
    gl.store(out + 2, 3.7, mask=gl.to_tensor(False))
    (out + 3).store(3.7, cache_policy=gl.CachePolicy(".wt"))
    rows = gl.arange(0, 2, gl.SliceLayout(1, SQUARE))[:, None]
    columns = gl.arange(0, 2, gl.SliceLayout(0, SQUARE))[None, :]
    grown = gl.load(out + 1 + rows, mask=columns < 1, other=5)
    gl.static_assert(grown.shape == (2, 2))
    gl.store(out + 4 + rows * 2 + columns, grown)


def test_accesses(executor: str) -> None:
    check(executor, accesses, [NOTHING + 1, NOTHING, NOTHING, 3, NOTHING, 5, NOTHING, 5])


@glueball.jit
def atomic_methods(out):
    gl.store(out + 1, (out).atomic_add(1, mask=True))
    (out + 2).atomic_store(6)
    gl.store(out + 3, (out + 2).atomic_load(sem="relaxed", scope="sys"))
    gl.store(out + 4, (out + 2).atomic_poll(6) & gl.atomic_poll(out + 2, 6, timeout_ns=0))
    gl.store(out + 5, gl.atomic_cas(out + 2, 6, 9))
    gl.atomic_add(out + 6, 5, False)


def test_atomic_methods(executor: str) -> None:
    check(executor, atomic_methods, [NOTHING + 1, NOTHING, 9, 6, 1, 6, NOTHING])


@glueball.jit
def tensor_methods(out):
    x = gl.arange(0, 8, LINE)
    gl.store(out, x.argmax(0) + 10 * (3 - x).argmin(0))
    gl.store(
        out + 1, ((x > 1).logical_and(x < 4)).to(gl.int32).sum() + 10 * (x > 5).logical_or(x < 1).sum().to(gl.int32)
    )
    gl.store(out + 2, x.cdiv(3).sum())
    shares = x.to(gl.float32).softmax()
    gl.store(out + 3, (shares.sum() * 1000 + 0.5).to(gl.int32))
    gl.store(out + 4, ((x - 4).to(gl.float32).sigmoid().max() * 1000).to(gl.int32))
    counts = (x & 1).histogram(2, layout=LINE)
    gl.store(out + 5 + gl.arange(0, 2, LINE), counts)
    gl.static_assert(x.numel == 8 and x.shape == (8,) and x.type.nbytes == 32 and x.dtype == gl.int32)


def test_tensor_methods(executor: str) -> None:
    check(executor, tensor_methods, [77, 32, 12, 1000, int(1000 / (1 + math.exp(-3))), 4, 4])


@glueball.jit
def places(out):
    row: gl.constexpr = 4
    index = gl.program_id(0) + gl.num_programs(0) * gl.program_id(1)
    gl.store(out + index, gl.num_programs(1) * 10 + gl.num_programs(axis=2))
    gl.barrier()
    gl.barrier(cluster=True)
    gl.store(out + row, gl.num_warps() + gl.num_ctas())


def test_places_in_the_grid(executor: str) -> None:
    check(executor, places, [21, 21, 21, 21, 5], grid=(2, 2))


@glueball.jit
def compile_time(out):
    tile = gl.zeros([32, 32], gl.float32, COLUMN_OF_LANES)
    view = gl.allocate_shared_memory(gl.float32, [32, 32], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    gl.store(out, gl.bank_conflicts(tile.type, view.type))
    linear: gl.constexpr = gl.to_linear_layout(LINE, [8])
    gl.static_assert(linear.shape == [8] and gl.to_linear_layout(linear, [16]) == linear)
    gl.store(out + 1, len(linear.lane_bases) + len(linear.warp_bases))
    gl.static_print("conflicts:", gl.bank_conflicts(tile.type, view.type))
    view._keep_alive()


COLUMN_OF_LANES = gl.constexpr(gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1]))


def test_questions_answered_at_compile_time(executor: str, capsys: pytest.CaptureFixture[str]) -> None:
    check(executor, compile_time, [31, 7])
    assert set(capsys.readouterr().out.splitlines()) <= {"conflicts: 31"}
