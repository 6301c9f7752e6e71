"""The table of tile operations, and each elementwise operation against NumPy or Python."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from glueball.tile.operations import TILE_OPERATIONS, Effects
from glueball.tile.reference import run
from glueball.tile.types import (
    bfloat16,
    distributed_type,
    float8e4b15,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    pointer_type,
    uint8,
    uint32,
)
from tests.tile.programs import LINEAR, Program

APPLY_A_REGION = {"associative_scan", "map_elementwise", "reduce", "reduce_warp", "scan_finish", "scan_warp"}


def test_the_table_is_consistent():
    for name, definition in TILE_OPERATIONS.items():
        assert definition.name == name
        assert definition.meaning.endswith(".")
        if definition.pure:
            assert definition.effects == Effects()
            assert not definition.regions or name in APPLY_A_REGION
            assert not definition.terminator
        assert not definition.attributes & definition.optional_attributes


SCRATCH_READS = {"scratch_gather", "scratch_read"}
SCRATCH_WRITES = {"scratch_count", "scratch_write", "scratch_write_slice"}
ATOMIC_READS = {"atomic_change", "atomic_compare_exchange", "atomic_load", "atomic_poll"}
ATOMIC_WRITES = {"atomic_change", "atomic_compare_exchange", "atomic_store"}
ASYNCHRONOUS_LOADS = {"async_copy", "bulk_load"}
ON_WORDS = {f"mbarrier_{name}" for name in ("arrive", "copy_arrive", "expect", "init", "invalidate", "wait")}
UNITS_READ = {"bulk_store", "warpgroup_mma"}


def test_effects():
    by_effect = {
        field: {name for name, definition in TILE_OPERATIONS.items() if getattr(definition.effects, field)}
        for field in Effects.__dataclass_fields__
    }
    assert by_effect == {
        "reads_global": {*ATOMIC_READS, *ASYNCHRONOUS_LOADS, "load"},
        "writes_global": {*ATOMIC_WRITES, "bulk_store", "store"},
        "reads_shared": {
            *SCRATCH_READS, *ON_WORDS, *UNITS_READ, "shared_load", "view_atomic", "view_gather", "view_load",
        },
        "writes_shared": {
            *SCRATCH_WRITES, *ON_WORDS, *ASYNCHRONOUS_LOADS, "async_store", "make_descriptor", "shared_store",
            "view_atomic", "view_scatter", "view_store",
        },
        "synchronises": {"barrier", "cluster_barrier", "grid_launch_dependents", "grid_wait", "warp_specialize"},
    }  # fmt: skip


def apply(opcode, element, result, *arrays, **attributes):
    """One operation on whole tiles, through a kernel that loads the operands and stores the result."""
    names = [f"operand{position}" for position in range(len(arrays))]
    program = Program("apply", {**dict.fromkeys(names, pointer_type(element)), "out": pointer_type(result)})
    extent = len(arrays[0])
    offsets = program.offsets(extent)
    operands = [program.load(program.arguments[name], offsets) for name in names]
    value = program(opcode, *operands, to=distributed_type(result, (extent,), LINEAR), **attributes)
    program.do("store", program.pointers(program.arguments["out"], offsets), value)
    out = np.zeros(extent, result.numpy)
    run(program.finish(), (1,), [*(np.asarray(array, element.numpy) for array in arrays), out])
    return out


X = [7, -7, 7, -7, 100, -128, 0, 5]
Y = [2, 2, -2, -2, 7, -1, 3, 5]


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("add", [9, -5, 5, -9, 107, 127, 3, 10]),
        ("sub", [5, -9, 9, -5, 93, -127, -3, 0]),
        ("mul", [14, -14, -14, 14, -68, -128, 0, 25]),
        ("div", [3, -3, -3, 3, 14, -128, 0, 1]),
        ("rem", [1, -1, 1, -1, 2, 0, 0, 0]),
        ("minimum", [2, -7, -2, -7, 7, -128, 0, 5]),
        ("maximum", [7, 2, 7, -2, 100, -1, 3, 5]),
        ("and", [2, 0, 6, -8, 4, -128, 0, 5]),
        ("or", [7, -5, -1, -1, 103, -1, 3, 5]),
        ("xor", [5, -5, -7, 7, 99, 127, 3, 0]),
        ("shl", [28, -28, 0, 0, 0, 0, 0, -96]),
        ("shr", [1, -2, 0, -1, 0, -1, 0, 0]),
    ],
)
def test_integers_of_eight_bits(opcode, expected):
    assert apply(opcode, int8, int8, X, Y).tolist() == expected


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [("div", [127, 0]), ("rem", [1, 7]), ("shr", [63, 0]), ("minimum", [2, 7]), ("maximum", [255, 249])],
)
def test_unsigned_integers(opcode, expected):
    assert apply(opcode, uint8, uint8, [255, 7], [2, 249]).tolist() == expected


def test_booleans_count_modulo_two():
    x, y = [False, False, True, True], [False, True, False, True]
    assert apply("add", int1, int1, x, y).tolist() == [False, True, True, False]
    assert apply("mul", int1, int1, x, y).tolist() == [False, False, False, True]
    assert apply("compare", int1, int1, x, y, predicate="lt").tolist() == [False, True, False, False]


@pytest.mark.parametrize("element", [float16, bfloat16, float32, float64], ids=str)
@pytest.mark.parametrize("opcode", ["add", "sub", "mul", "div", "rem"])
def test_float_arithmetic_rounds_once(element, opcode):
    x, y = np.random.default_rng(3).standard_normal((2, 256)).astype(element.numpy)
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rem": np.fmod}[opcode]
    wide = np.float64 if element == float64 else np.float32
    expected = function(x.astype(wide), y.astype(wide)).astype(element.numpy)
    result = apply(opcode, element, element, x, y)
    np.testing.assert_array_equal(result.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("element", [float16, bfloat16, float32], ids=str)
def test_minimum_ignores_nan(element):
    x, y = [np.nan, 1, -0.0, 0.0], [2, np.nan, 0.0, -0.0]
    least = apply("minimum", element, element, x, y).astype(np.float32)
    assert least.tolist() == [2, 1, 0, 0]
    assert np.signbit(least).tolist() == [False, False, True, True]
    greatest = apply("maximum", element, element, x, y).astype(np.float32)
    assert not np.signbit(greatest).any()


@pytest.mark.parametrize("element", [bfloat16, float32], ids=str)
@pytest.mark.parametrize("predicate", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_float_comparisons_are_ordered_but_for_inequality(element, predicate):
    values = [float("nan"), -1.0, -0.0, 0.0, 2.0, float("inf"), float("-inf"), 1.0]
    for shift in range(8):
        other = values[shift:] + values[:shift]
        expected = [getattr(operator, predicate)(a, b) for a, b in zip(values, other, strict=True)]
        assert apply("compare", element, int1, values, other, predicate=predicate).tolist() == expected


def test_comparison_goes_by_signedness():
    assert apply("compare", int8, int1, [-1, 1], [1, -1], predicate="lt").tolist() == [True, False]
    assert apply("compare", uint8, int1, [255, 1], [1, 255], predicate="lt").tolist() == [False, True]


@pytest.mark.parametrize(
    ("source", "target", "values", "expected"),
    [
        (int8, int32, [-1, 127], [-1, 127]),
        (uint8, int32, [255, 1], [255, 1]),
        (int32, int8, [300, -129], [44, 127]),
        (int1, int32, [True, False], [1, 0]),
        (int32, float32, [2**24 + 1, -3], [2**24, -3]),
        (int1, float32, [True, False], [1, 0]),
        (float32, int32, [-2.9, 1e10], [-2, 2**31 - 1]),
        (float32, uint32, [-1.0, float("nan")], [0, 0]),
        (float32, bfloat16, [1 + 2**-8, 1 + 3 * 2**-8], [1, 1 + 2**-6]),
        (float16, bfloat16, [1.0, 65504.0], [1, 65536]),
        (float64, int64, [2.0**62, -(2.0**70)], [2**62, -(2**63)]),
    ],
)
def test_casts(source, target, values, expected):
    assert apply("cast", source, target, values).astype(object).tolist() == expected


def test_cast_toward_zero():
    assert apply("cast", float32, float16, [1 + 2**-11 * 1.5, 1e6], rounding="zero").tolist() == [1, 65504]


def test_bitcast_keeps_bits():
    assert apply("bitcast", float32, int32, [1.0, -0.0]).tolist() == [0x3F800000, -(2**31)]
    assert apply("bitcast", int16, bfloat16, [0x3F80, 0x4000]).astype(np.float32).tolist() == [1, 2]


def test_floats_without_arithmetic_can_be_moved_only():
    program = Program("add", {"p": pointer_type(float8e4b15)})
    value = program("load", program.arguments["p"], to=float8e4b15)
    program.do("store", program.arguments["p"], value)
    data = np.array([77], np.uint8)
    run(program.finish(), (1,), [data])
    assert data[0] == 77
    program = Program("add", {"p": pointer_type(float8e4b15)})
    value = program("load", program.arguments["p"], to=float8e4b15)
    program("add", value, value, to=float8e4b15)
    with pytest.raises(RuntimeError, match="`add` needs integers or floats, not fp8e4b15"):
        run(program.finish(), (1,), [data])


def test_pointers_count_elements_and_turn_into_integers():
    program = Program("address", {"p": pointer_type(int16), "out": pointer_type(int64), "n": int32})
    pointer, out, n = program.arguments.values()
    moved = program("pointer_add", pointer, n, to=pointer_type(int16))
    distance = program("sub", program("cast", moved, to=int64), program("cast", pointer, to=int64), to=int64)
    program.do("store", out, distance)
    result = np.zeros(1, np.int64)
    run(program.finish(), (1,), [np.zeros(1, np.int16), result, -3])
    assert result[0] == -6
