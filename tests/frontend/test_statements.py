"""What statements and expressions mean, by running what they build."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

import glueball.language as gl
from glueball.language.function import JITCallable, constexpr_function
from tests.frontend.harness import build_kernel, operations, run_kernel

LAYOUT = gl.BlockedLayout([1], [32], [4], [0])
SIZE = gl.constexpr(64)


class Pair(NamedTuple):
    first: object
    second: object


def outputs(function, count=4, kind=np.int32, **arguments):
    """What a kernel that stores to `out` leaves there."""
    out = np.full(count, -99, kind)
    run_kernel(function, (1,), out=out, **arguments)
    return out.tolist()


@JITCallable
def swap(a, b):
    return b, a


@JITCallable
def with_defaults(a, b=7, *rest, c=3):
    total = a + b * 10 + c * 100
    for position in gl.static_range(len(rest)):
        total += rest[position]
    return total


def test_tuples_unpack_nest_and_return():
    @JITCallable
    def kernel(out, n):
        a, (b, c) = n, swap(n + 1, n + 2)
        pair = (a, b, c)
        gl.store(out, pair[0])
        gl.store(out + 1, pair[-1])
        gl.store(out + 2, pair[1:][0])
        gl.store(out + 3, len(pair + (1, 2)))  # noqa: RUF005 - the operator is what is tested

    assert outputs(kernel, n=np.int32(10)) == [10, 11, 12, 5]


def test_calls_take_defaults_keywords_and_star():
    @JITCallable
    def kernel(out, n):
        extra = (n, n)
        gl.store(out, with_defaults(n))
        gl.store(out + 1, with_defaults(n, 0, c=1))
        gl.store(out + 2, with_defaults(n, 0, *extra, c=0))
        gl.store(out + 3, with_defaults(b=0, a=n))

    assert outputs(kernel, n=np.int32(5)) == [375, 105, 15, 305]


def test_literals_become_run_time_values_unless_annotated():
    @JITCallable
    def kernel(out):
        n: gl.constexpr = 64
        m: gl.constexpr
        m = n // 2
        x = gl.arange(0, n, layout=LAYOUT)
        run_time = 5
        run_time += m
        gl.store(out + x, x + run_time)

    tile = build_kernel(kernel, out=gl.pointer_type(gl.int32))
    assert not [op for op in operations(tile, "constant") if op.result.name == "n"]
    assert outputs(kernel, 64)[:2] == [37, 38]


def test_compile_time_values_fold_with_pythons_meaning():
    @JITCallable
    def kernel(out, A: gl.constexpr, NAME: gl.constexpr):
        gl.store(out, A // 2)
        gl.store(out + 1, A**2 if A < 0 else 0)
        gl.store(out + 2, int(float("inf") > A) + (NAME is None) + (A is not None) + (not A))
        label: gl.constexpr = f"{NAME}-{A:+d}"
        gl.store(out + 3, len(label))

    assert outputs(kernel, A=-7, NAME=None) == [-4, 49, 3, len("None--7")]


def test_run_time_division_truncates():
    @JITCallable
    def kernel(out, a, b):
        gl.store(out, a // b)
        gl.store(out + 1, a % b)
        gl.store(out + 2, a >> 1)
        gl.store(out + 3, -a)

    assert outputs(kernel, a=np.int32(-7), b=np.int32(2)) == [-3, -1, -4, 7]


def test_shift_goes_by_the_left_operand():
    @JITCallable
    def kernel(out, a, b):
        gl.store(out, (a >> b).to(gl.int64))
        gl.store(out + 1, ((a + 0).to(gl.uint32) >> b).to(gl.int64))

    assert outputs(kernel, 2, np.int64, a=np.int32(-16), b=np.uint32(2)) == [2**32 - 4, (2**32 - 16) >> 2]


def test_comparison_chains_and_logic():
    @JITCallable
    def kernel(out, n):
        gl.store(out, 0 < n < 10)
        gl.store(out + 1, n > 100 or n == 5)
        gl.store(out + 2, not n == 5)  # noqa: SIM201 - `not` is what is tested
        gl.store(out + 3, n == 5 and SIZE == 64)

    assert outputs(kernel, n=np.int32(5)) == [1, 1, 0, 1]


def test_constants_short_circuit():
    @JITCallable
    def kernel(out, A: gl.constexpr):
        gl.store(out, (A and undefined_name) is None)  # noqa: F821 - never looked at
        gl.store(out + 1, A is None or undefined_name)  # noqa: F821
        value = 1 if A is None else undefined_name  # noqa: F821
        gl.store(out + 2, value)

    assert outputs(kernel, 3, A=None) == [1, 1, 1]


def test_min_max_and_cdiv():
    @JITCallable
    def kernel(out, n):
        gl.store(out, min(n, 3, 4))
        gl.store(out + 1, max(n, 30))
        gl.store(out + 2, gl.cdiv(n, 4))
        blocks: gl.constexpr = gl.cdiv(SIZE, 10)
        gl.store(out + 3, gl.arange(0, 8, layout=LAYOUT).shape[0] + blocks + max(1, 2))

    assert outputs(kernel, n=np.int32(10)) == [3, 30, 3, 17]


def test_walrus_comprehension_and_named_tuples():
    @JITCallable
    def kernel(out, n):
        if (doubled := n * 2) > 5:
            gl.store(out, doubled)
        squares = [value * value for value in (n, n + 1, n + 2)]
        gl.store(out + 1, squares[2])
        pair = Pair(n, second=n + 5)
        gl.store(out + 2, pair.second)
        kept = [value for value in (1, 2, 3) if value != 2]
        gl.store(out + 3, len(kept))

    assert outputs(kernel, n=np.int32(4)) == [8, 36, 9, 2]


def test_python_functions_run_on_constants():
    @constexpr_function
    def half(value):
        return value // 2

    @JITCallable
    def kernel(out, A: gl.constexpr):
        gl.store(out, half(A))
        gl.store(out + 1, int(math.log2(A)))
        gl.store(out + 2, LAYOUT.rank)
        gl.store(out + 3, isinstance(A, int))

    assert outputs(kernel, A=16) == [8, 4, 1, 1]


def test_functions_are_values():
    @JITCallable
    def twice(function, x):
        return function(function(x))

    @JITCallable
    def add_three(x):
        return x + 3

    @JITCallable
    def kernel(out, n):
        f = add_three
        gl.store(out, twice(f, n))

    assert outputs(kernel, 1, n=np.int32(1)) == [7]


def test_two_dimensional_indexing_broadcast_and_permute():
    @JITCallable
    def kernel(out, LAYOUT2: gl.constexpr):
        rows = gl.arange(0, 4, layout=gl.SliceLayout(1, LAYOUT2))
        columns = gl.arange(0, 8, layout=gl.SliceLayout(0, LAYOUT2))
        value = rows[:, None] * 10 + columns[None, :]
        flipped = value.T
        place = rows[:, None] * 8 + columns[None, :]
        gl.store(out + place.trans(), flipped)
        gl.static_assert(flipped.shape == (8, 4))
        gl.static_assert(rows.expand_dims(-1).broadcast_to(4, 8).type.layout == LAYOUT2)

    layout = gl.BlockedLayout([1, 1], [4, 8], [4, 1], [1, 0])
    expected = [row * 10 + column for row in range(4) for column in range(8)]
    assert outputs(kernel, 32, LAYOUT2=layout) == expected


def test_where_full_zeros_and_masks():
    @JITCallable
    def kernel(out, x):
        offsets = gl.arange(0, 64, layout=LAYOUT)
        value = gl.load(x + offsets, mask=offsets < 10, other=7)
        value = gl.where(offsets < 20, value, gl.full([64], 3, gl.int32, layout=LAYOUT))
        value += gl.zeros([64], gl.int32, layout=LAYOUT)
        gl.store(out + offsets, value, mask=offsets != 63)

    values = outputs(kernel, 64, x=np.arange(64, dtype=np.int32))
    assert values == [*range(10), *[7] * 10, *[3] * 43, -99]


def test_layouts_with_one_map_mix_and_the_first_spelling_stays():
    linear = gl.DistributedLinearLayout([], [[1], [2], [4], [8], [16]], [[32], [64]], [], [128])

    @JITCallable
    def kernel(out):
        x = gl.arange(0, 128, layout=LAYOUT)
        y = gl.arange(0, 128, layout=linear)
        gl.static_assert((x + y).type.layout == LAYOUT)
        gl.static_assert((y + x).type.layout == linear)
        z = gl.convert_layout(y, LAYOUT, assert_trivial=True)
        gl.store(out + x, x + y + z)

    assert outputs(kernel, 128) == [3 * index for index in range(128)]


def test_expand_dims_takes_any_layout_that_is_a_slice():
    parent = gl.BlockedLayout([1, 1], [4, 8], [4, 1], [1, 0])
    spelled = gl.DistributedLinearLayout([], [[0], [0], [0], [1], [2]], [[4], [8]], [], [16])
    assert spelled.linear([16]) == gl.SliceLayout(1, parent).linear([16])

    @JITCallable
    def kernel(out):
        rows = gl.arange(0, 16, layout=spelled)
        columns = gl.arange(0, 1, layout=gl.SliceLayout(0, parent))
        gl.store(out + rows[:, None], rows[:, None] + columns[None, :])

    assert outputs(kernel, 16) == list(range(16))


def test_static_print_writes_values_and_types(capsys):
    @JITCallable
    def kernel(out, A: gl.constexpr):
        gl.static_print("A is", A, gl.load(out), sep=" ")

    build_kernel(kernel, out=gl.pointer_type(gl.float32), A=(1, 2))
    assert capsys.readouterr().out == "A is (1, 2) tensor[fp32]\n"


def test_values_are_named_after_variables():
    @JITCallable
    def kernel(out, n):
        total = n + 1
        pair = (total * 2, total * 3)
        for index in range(3):
            total += index
        gl.store(out, total + pair[0])

    tile = build_kernel(kernel, out=gl.pointer_type(gl.int32), n=gl.int32)
    (loop,) = operations(tile, "for")
    assert [argument.name for argument in loop.regions[0].arguments] == ["index", "total"]
    assert loop.result.name == "total"
    assert [op.result.name for op in operations(tile, "mul")] == ["pair.0", "pair.1"]


def test_numbers_known_at_compile_time_leave_no_operations():
    @JITCallable
    def kernel(out, n):
        offset = 3
        offset = offset * 4 + 1
        gl.store(out + 0, (n + 0) * 1 + offset)

    tile = build_kernel(kernel, out=gl.pointer_type(gl.int32), n=gl.int32)
    assert [op.opcode for op in tile.body.walk() if op.opcode != "constant"] == ["add", "store", "return"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"), [("float16", 2.7, 2), ("float32", -2.7, -2), ("bool", True, 1), ("int8", -3, -3)]
)
def test_casts(kind, value, expected):
    @JITCallable
    def kernel(out, x):
        gl.store(out, x.to(gl.int32))
        gl.store(out + 1, gl.cast(x, gl.int1))
        gl.store(out + 2, x.to(gl.float64).to(gl.int64))

    assert outputs(kernel, 3, x=np.dtype(kind).type(value)) == [expected, 1, expected]


def test_bitcast_and_pointers_as_integers():
    @JITCallable
    def kernel(out, x):
        gl.store(out, x.to(gl.int32, bitcast=True))
        moved = (out.to(gl.int64) + 4).to(gl.pointer_type(gl.int32))
        gl.store(moved, 5)
        gl.store(out + 3 - 1, 6)

    assert outputs(kernel, 3, x=np.float32(1.0)) == [0x3F800000, 5, 6]


def test_layouts_are_made_inside_kernels():
    @constexpr_function
    def spread(size, warps):
        return gl.BlockedLayout([size // (32 * warps)], [32], [warps], [0])

    @JITCallable
    def kernel(out, SIZE: gl.constexpr):
        layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
        wide: gl.constexpr = spread(SIZE, gl.num_warps())
        x = gl.convert_layout(gl.arange(0, SIZE, layout=layout), wide)
        gl.static_assert(x.type.layout == wide and x.dtype.is_int() and x.shape[0] == SIZE)
        (out + x - 0).store(x, x < SIZE)

    assert outputs(kernel, 256, SIZE=256) == list(range(256))


def test_logic_on_tiles_warns_at_the_authors_line():
    @JITCallable
    def kernel(out):
        x = gl.arange(0, 128, layout=LAYOUT)
        gl.store(out + x, x, mask=x > 1 and x < 9)

    with pytest.warns(UserWarning, match="write `&`") as caught:
        build_kernel(kernel, out=gl.pointer_type(gl.int32))
    assert caught[0].filename == __file__
