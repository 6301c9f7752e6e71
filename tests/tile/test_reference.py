"""The reference executor on whole kernels: values, memory of every shape, poison and faults."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from glueball.errors import MisalignedAccessError, OutOfBoundsError, SimulationError, UninitializedReadError
from glueball.targets import DEFAULT_TARGET
from glueball.tile.ir import Value
from glueball.tile.reference import run
from glueball.tile.types import (
    bfloat16,
    distributed_type,
    float8e4nv,
    float16,
    int1,
    int8,
    int32,
    int64,
    pointer_type,
    uint8,
)
from glueball.tile.verifier import verify
from tests.tile.programs import LINEAR, Program, choose, copy_2d, sum_blocks, vector_add

TILE = distributed_type(int32, (128,), LINEAR)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 200, 1000])
def test_vector_add_of_ragged_sizes(size):
    random = np.random.default_rng(size)
    x, y = random.standard_normal((2, size)).astype(np.float32)
    out = np.zeros(size, np.float32)
    function = vector_add()
    verify(function, DEFAULT_TARGET)
    run(function, (-(-size // 128),), [x, y, out, size])
    np.testing.assert_array_equal(out, x + y)


@pytest.mark.parametrize("element", [float8e4nv, float16, bfloat16, int8, uint8, int32, int64], ids=str)
def test_vector_add_of_every_kind_of_element(element):
    bits = np.random.default_rng(1).integers(0, 256, (2, 128 * element.itemsize), np.uint8)
    x, y = bits.view(element.numpy)
    out = np.zeros(128, element.numpy)
    run(vector_add(element), (1,), [x, y, out, 128])
    if element.is_int():
        expected = x + y
        np.testing.assert_array_equal(out, expected)
        return
    with np.errstate(all="ignore"):
        total = x.astype(np.float32) + y.astype(np.float32)
        if element == float8e4nv:
            total = np.clip(total, -448, 448)
        expected = total.astype(element.numpy)
    np.testing.assert_array_equal(out.astype(np.float64), expected.astype(np.float64))


def copy(x, out):
    strides = [stride // 4 for stride in (*x.strides, *out.strides)]
    grid = (-(-x.shape[0] // 16), -(-x.shape[1] // 32))
    function = copy_2d()
    verify(function, DEFAULT_TARGET)
    run(function, grid, [x, out, *x.shape, *strides])


STORAGE = np.arange(80 * 90, dtype=np.float32).reshape(80, 90)


@pytest.mark.parametrize(
    "x",
    [
        STORAGE,
        STORAGE[::2],
        STORAGE[::-1, ::-1],
        STORAGE[3:40, 5:77].T,
        STORAGE[::-3, 1::2],
        STORAGE[:1, :1],
        np.broadcast_to(STORAGE[0], (20, 90)),
        np.broadcast_to(STORAGE[:, :1], (80, 40)),
    ],
    ids=["whole", "every other row", "reversed", "transposed view", "mixed", "one", "rows equal", "columns equal"],
)
def test_copy_of_views_with_any_strides(x):
    out = np.full((*x.shape[::-1], 2), -1, np.float32)[:, ::-1, 0].T
    copy(x, out)
    np.testing.assert_array_equal(out, x)


def test_store_touches_only_what_it_names():
    storage = np.zeros((40, 50), np.float32)
    copy(STORAGE[:10, :11], storage[2:22:2, 7:18])
    assert np.count_nonzero(storage) == 109  # element (0, 0) of the source is zero
    np.testing.assert_array_equal(storage[2:22:2, 7:18], STORAGE[:10, :11])


@pytest.mark.parametrize(("first", "last", "step"), [(0, 4, 1), (0, 4, 3), (3, -1, -1), (2, 2, 1), (3, 1, 1)])
def test_loop(first, last, step):
    x = np.arange(4 * 128, dtype=np.float32)
    out = np.full(128, -1, np.float32)
    function = sum_blocks()
    verify(function, DEFAULT_TARGET)
    run(function, (1,), [x, out, first, last, step])
    expected = np.zeros(128, np.float32)
    for block in range(first, last, step):
        expected += x[128 * block : 128 * (block + 1)]
    np.testing.assert_array_equal(out, expected)


def test_loop_that_steps_by_zero_is_an_error():
    with pytest.raises(SimulationError, match="cannot step by zero"):
        run(sum_blocks(), (1,), [np.zeros(128, np.float32), np.zeros(128, np.float32), 0, 1, 0])


@pytest.mark.parametrize(("n", "sign"), [(11, -1), (10, 1)])
def test_branch(n, sign):
    x = np.arange(256, dtype=np.int32)
    out = np.zeros_like(x)
    function = choose()
    verify(function, DEFAULT_TARGET)
    run(function, (2,), [x, out, n])
    np.testing.assert_array_equal(out, sign * x)


def test_while_loop_counts_down():
    program = Program("halve", {"out": pointer_type(int32), "n": int32})
    out, n = program.arguments.values()
    one = program.constant(1)
    initial = program.constant(0)
    carried = [Value(int32, "rest"), Value(int32, "turns")]

    def condition(rest, turns):
        return [program("compare", rest, one, to=int1, predicate="gt"), rest, turns]

    def body(rest, turns):
        return [program("shr", rest, one, to=int32), program("add", turns, one, to=int32)]

    regions = [
        program.inside(carried, condition),
        program.inside([Value(int32), Value(int32)], body),
    ]
    turns = program.operation("while", n, initial, gives=[int32, int32], regions=regions).results[1]
    program.do("store", out, turns)
    result = np.zeros(1, np.int32)
    run(program.finish(), (1,), [result, 1000])
    assert result[0] == 9


def test_programs_know_their_place_in_the_grid():
    program = Program("places", {"out": pointer_type(int32)})
    axes = [[program(opcode, to=int32, axis=axis) for axis in range(3)] for opcode in ("program_id", "num_programs")]
    (x, y, z), (width, height, _) = axes
    index = program("mul", z, height, to=int32)
    index = program("mul", program("add", index, y, to=int32), width, to=int32)
    index = program("add", index, x, to=int32)
    pointer = program("pointer_add", program.arguments["out"], index, to=pointer_type(int32))
    program.do("store", pointer, index)
    out = np.full(2 * 3 * 4, -1, np.int32)
    run(program.finish(), (2, 3, 4), [out])
    np.testing.assert_array_equal(out, np.arange(24))


def test_booleans_in_memory_are_bytes_other_than_zero():
    program = Program("invert", {"x": pointer_type(int1), "out": pointer_type(int1)})
    x, out = program.arguments.values()
    offsets = program.offsets(128)
    values = program.load(x, offsets)
    true = program("splat", program.constant(True, int1), to=values.type)
    program.do("store", program.pointers(out, offsets), program("xor", values, true, to=values.type))
    bits = np.arange(128, dtype=np.uint8) % 3
    result = np.full(128, 7, np.uint8)
    run(program.finish(), (1,), [bits, result])
    np.testing.assert_array_equal(result, bits == 0)


def test_masked_off_elements_take_the_other():
    program = Program("fill", {"x": pointer_type(int32), "out": pointer_type(int32), "n": int32})
    x, out, n = program.arguments.values()
    offsets = program.offsets(128)
    other = program("splat", program.constant(-5), to=TILE)
    values = program.load(x, offsets, program.below(offsets, n), other)
    program.do("store", program.pointers(out, offsets), values)
    result = np.zeros(128, np.int32)
    run(program.finish(), (1,), [np.arange(100, dtype=np.int32), result, 100])
    np.testing.assert_array_equal(result, [*range(100), *[-5] * 28])


def poisoned(finish):
    """A kernel that loads 100 of 128 elements without `other` and hands them to `finish`."""
    program = Program("poisoned", {"x": pointer_type(int32), "out": pointer_type(int32), "n": int32})
    x, out, n = program.arguments.values()
    offsets = program.offsets(128)
    values = program.load(x, offsets, program.below(offsets, n))
    finish(program, out, offsets, program("add", values, offsets, to=TILE))
    program.finish()
    arrays = [np.zeros(100, np.int32), np.zeros(4096, np.int32)]
    run(program.function, (1,), [*arrays, 100])
    return arrays[1]


def test_storing_what_was_masked_off_is_an_error():
    with pytest.raises(UninitializedReadError, match=r"element \[100\] of the value of `store` was never") as caught:
        poisoned(lambda program, out, offsets, bad: program.do("store", program.pointers(out, offsets), bad))
    assert caught.value.details == {"index": (100,), "program": (0, 0, 0)}
    assert caught.value.location.file == "kernel.py"


def test_addressing_by_what_was_masked_off_is_an_error():
    with pytest.raises(UninitializedReadError, match="address of `load`"):
        poisoned(lambda program, out, offsets, bad: program.load(out, bad))


def test_masking_by_what_was_masked_off_is_an_error():
    def finish(program, out, offsets, bad):
        mask = program.below(bad, program.arguments["n"])
        program.do("store", program.pointers(out, offsets), offsets, mask)

    with pytest.raises(UninitializedReadError, match="mask of `store`"):
        poisoned(finish)


def test_a_select_clears_poison():
    def finish(program, out, offsets, bad):
        clean = program("select", program.below(offsets, program.arguments["n"]), bad, offsets, to=TILE)
        program.do("store", program.pointers(out, offsets), clean)

    np.testing.assert_array_equal(poisoned(finish)[:128], np.arange(128))


def test_branching_on_what_was_masked_off_is_an_error():
    program = Program("branch", {"x": pointer_type(int1)})
    false = program.constant(False, int1)
    value = program("load", program.arguments["x"], false, to=int1)
    program.do("if", value, regions=[program.inside([], list), program.inside([], list)])
    with pytest.raises(UninitializedReadError, match="the condition of `if` was never written"):
        run(program.finish(), (1,), [np.zeros(1, bool)])


def test_access_out_of_bounds_names_argument_index_and_program():
    arrays = [np.zeros(200, np.float32) for _ in range(3)]
    arrays[1] = arrays[1][:150]
    with pytest.raises(
        OutOfBoundsError, match=r"element 150 of argument `y`, whose storage holds elements 0 to 149"
    ) as e:
        run(vector_add(), (2,), [*arrays, 200])
    assert e.value.details == {"argument": "y", "index": 150, "program": (1, 0, 0)}
    assert e.value.location.function == "vector_add"
    assert isinstance(e.value, IndexError)


def test_the_bound_is_what_the_view_reaches():
    storage = np.zeros(300, np.float32)
    view = storage[100:200][::-1]
    with pytest.raises(OutOfBoundsError, match=r"element 1 of argument `x`, whose storage holds elements -99 to 0"):
        run(vector_add(), (1,), [view, storage, storage, 128])


def test_empty_arrays_hold_nothing():
    empty = np.zeros(0, np.float32)
    with pytest.raises(OutOfBoundsError, match="whose storage holds no elements"):
        run(vector_add(), (1,), [empty, empty, empty, 1])


def test_an_address_of_no_argument_is_an_error():
    program = Program("wild", {"n": int64})
    pointer = program("cast", program.arguments["n"], to=pointer_type(int32))
    program("load", pointer, to=int32)
    with pytest.raises(OutOfBoundsError, match="at address 0x10, near no argument"):
        run(program.finish(), (1,), [16])


def test_misaligned_elements_are_an_error():
    packed = np.zeros(128 * 4 + 1, np.uint8)[1:].view(np.float32)
    aligned = np.zeros(128, np.float32)
    with pytest.raises(MisalignedAccessError, match="load of 4 bytes at byte 0 of argument `x`"):
        run(vector_add(), (1,), [packed, aligned, aligned, 128])


def test_read_only_arrays_are_not_written():
    out = np.zeros(128, np.float32)
    out.flags.writeable = False
    with pytest.raises(SimulationError, match="argument `out`, whose array is read-only"):
        run(vector_add(), (1,), [np.zeros(128, np.float32), np.zeros(128, np.float32), out, 128])


def test_integers_wrap():
    x = np.array([2**31 - 1] * 128, np.int32)
    out = np.zeros(128, np.int32)
    run(vector_add(int32), (1,), [x, np.ones_like(x), out, 128])
    assert (out == -(2**31)).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([1, 2], TypeError, "takes 4 arguments, not 2"),
        ([None, None, None, 1], TypeError, r"`x` is a pointer<fp32>, so it must be an array, not None"),
        ([np.zeros(1), np.zeros(1), np.zeros(1), 1], TypeError, "cannot be an array of float64"),
        ([*[np.zeros(1, np.float32)] * 3, 2**31], OverflowError, "`n` is an int32, which 2147483648 does not fit"),
        ([*[np.zeros(1, np.float32)] * 3, 1.5], TypeError, "`n` is an int32, not 1.5"),
        ([*[np.zeros(1, np.float32)] * 3, np.zeros(3)], TypeError, "`n` is an int32, not an array"),
    ],
)
def test_arguments_that_do_not_fit(arguments, error, message):
    with pytest.raises(error, match=message):
        run(vector_add(), (1,), arguments)


@pytest.mark.parametrize("grid", [(), (1, 1, 1, 1), (-1,)])
def test_grids_that_cannot_be(grid):
    with pytest.raises(ValueError, match="one to three extents"):
        run(vector_add(), grid, [*[np.zeros(1, np.float32)] * 3, 1])


def test_shared_memory_hands_on_the_tile():
    program = Program("round_trip", {"x": pointer_type(bfloat16), "out": pointer_type(bfloat16)})
    x, out = program.arguments.values()
    offsets = program.offsets(128)
    values = program.load(x, offsets)
    program.do("allocate_shared", name="scratch", bytes=256, alignment=16)
    program.do("shared_store", values, allocation="scratch", plan=None)
    program.do("barrier")
    values = program("shared_load", to=values.type, allocation="scratch", plan=None)
    program.do("store", program.pointers(out, offsets), values)
    data = np.arange(128).astype(ml_dtypes.bfloat16)
    result = np.zeros_like(data)
    run(program.finish(), (1,), [data, result])
    np.testing.assert_array_equal(result, data)


def test_shared_memory_never_stored_is_an_error():
    program = Program("early", {})
    program.do("allocate_shared", name="scratch", bytes=256, alignment=16)
    program("shared_load", to=TILE, allocation="scratch", plan=None)
    with pytest.raises(UninitializedReadError, match="reads `scratch`, which nothing was stored to"):
        run(program.finish(), (1,), [])
