"""The ladder's kernels build, obey the tile IR's rules, and copy."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import glueball.language as gl
from glueball.frontend import build
from glueball.tile.ir import ArgumentFacts
from glueball.tile.types import float32, int32, pointer_type
from tests.checklist.recording import OPTION
from tests.frontend import ladder
from tests.frontend.harness import TARGET, build_kernel, operations, run_kernel, type_of

ROWS = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
ROWS_1D = gl.BlockedLayout([4], [32], [4], [0])
COLUMNS = gl.BlockedLayout([4, 1], [32, 1], [1, 4], [0, 1])


@pytest.mark.parametrize("count", [1, 200, 1000])
def test_scalar_loop_copy(count):
    source = np.arange(count, dtype=np.float32)
    target = np.zeros_like(source)
    run_kernel(ladder.scalar_copy, (-(-count // 256),), x_ptr=source, y_ptr=target, n=np.int32(count), XBLOCK=256)
    np.testing.assert_array_equal(target, source)


@pytest.mark.parametrize("per_thread", [1, 2, 16])
@pytest.mark.parametrize("kind", ["uint8", "float16", "float64", "bool"])
def test_tile_copy(per_thread, kind):
    source = (np.arange(3000) % 7).astype(kind)
    target = np.zeros_like(source)
    layout = gl.BlockedLayout([per_thread], [32], [4], [0])
    run_kernel(ladder.copy_1d, (2,), x_ptr=source, y_ptr=target, n=np.int32(len(source)), XBLOCK=2048, layout=layout)
    np.testing.assert_array_equal(target, source)


@pytest.mark.parametrize("layout", [ROWS, COLUMNS])
def test_two_dimensional_copy_with_strides(layout):
    source = np.arange(30 * 40, dtype=np.float32).reshape(30, 40).T
    target = np.zeros((40, 30), np.float32)
    strides = {
        f"{name}s{axis}": np.int32(array.strides[axis] // 4)
        for name, array in (("x", source), ("y", target))
        for axis in (0, 1)
    }
    arguments = {"x_ptr": source, "y_ptr": target, "x_n": np.int32(40), "y_n": np.int32(30), **strides}
    tile = run_kernel(ladder.copy_2d, (2, 1), **arguments, layout=layout, XBLOCK=32, YBLOCK=32)
    np.testing.assert_array_equal(target, source)
    (load,) = operations(tile, "load")
    assert load.result.type.layout == layout
    assert load.result.name == "value"


def test_unit_strides_leave_no_multiplication():
    pointer = pointer_type(float32)
    tile = build_kernel(
        ladder.copy_2d,
        x_ptr=pointer, y_ptr=pointer, x_n=int32, y_n=int32, xs0=int32, xs1=1, ys0=int32, ys1=1,
        layout=ROWS, XBLOCK=128, YBLOCK=128,
    )  # fmt: skip
    assert len(operations(tile, "mul")) == 4


def test_converting_copy_through_helpers():
    source = np.arange(50 * 60, dtype=np.int32).reshape(50, 60)
    target = np.zeros((60, 50), np.int32).T
    tile = run_kernel(
        ladder.copy_converting, (2, 2),
        x_ptr=source, y_ptr=target, x_n=np.int32(50), y_n=np.int32(60),
        xs0=np.int32(60), xs1=1, ys0=1, ys1=np.int32(50),
        source_layout=ROWS, target_layout=COLUMNS, XBLOCK=32, YBLOCK=32,
    )  # fmt: skip
    np.testing.assert_array_equal(target, source)
    (conversion,) = operations(tile, "convert_layout")
    assert (conversion.operands[0].type.layout, conversion.result.type.layout) == (ROWS, COLUMNS)
    assert [argument.name for argument in tile.arguments] == ["x_ptr", "y_ptr", "x_n", "y_n", "xs0", "ys1"]


def test_operations_know_the_authors_line_and_the_call_chain():
    pointer = pointer_type(float32)
    tile = build_kernel(
        ladder.copy_converting,
        x_ptr=pointer, y_ptr=pointer, x_n=int32, y_n=int32, xs0=int32, xs1=1, ys0=1, ys1=int32,
        source_layout=ROWS, target_layout=COLUMNS, XBLOCK=128, YBLOCK=128,
    )  # fmt: skip
    make_range = operations(tile, "make_range")[0].location
    assert [place.function for place in make_range.chain()] == ["tile_offsets", "mask_and_offsets", "copy_converting"]
    assert make_range.text()[make_range.column : make_range.end_column] == (
        "gl.arange(0, XBLOCK, layout=gl.SliceLayout(1, layout))"
    )
    (load,) = operations(tile, "load")
    assert load.location.text().strip() == "value = gl.load(x_ptr + x_offsets, mask=x_mask)"


def test_facts_follow_the_arguments():
    types = {"x_ptr": pointer_type(float32), "y_ptr": pointer_type(float32), "n": int32, "XBLOCK": gl.constexpr(64)}
    facts = {"y_ptr": ArgumentFacts(divisibility=16)}
    tile = build(ladder.scalar_copy, types, facts, num_warps=4, target=TARGET, name="renamed")
    assert tile.name == "renamed"
    assert [fact.divisibility for fact in tile.facts] == [1, 16, 1]


POINTER = pointer_type(float32)
ONE_DIMENSIONAL = {"x_ptr": POINTER, "y_ptr": POINTER, "n": int32, "XBLOCK": 2048, "layout": ROWS_1D}
TWO_DIMENSIONAL = {
    "x_ptr": POINTER, "y_ptr": POINTER, "x_n": int32, "y_n": int32, "xs0": int32, "xs1": 1, "ys0": 1, "ys1": int32,
}  # fmt: skip
ONE_LAYOUT = {"layout": ROWS, "XBLOCK": 128, "YBLOCK": 128}
TWO_LAYOUTS = {"source_layout": ROWS, "target_layout": COLUMNS, "XBLOCK": 128, "YBLOCK": 128}


@pytest.mark.parametrize(
    ("kernel", "arguments", "limit"),
    [
        (ladder.copy_1d, ONE_DIMENSIONAL, 1400),
        (ladder.copy_2d, TWO_DIMENSIONAL | ONE_LAYOUT, 4000),
        (ladder.copy_converting, TWO_DIMENSIONAL | TWO_LAYOUTS, 7000),
    ],
)
def test_building_takes_few_calls(kernel, arguments, limit, pytestconfig):
    if pytestconfig.getoption(OPTION):
        pytest.skip("what records the language calls much itself")
    types = {name: type_of(value) for name, value in arguments.items()}
    build(kernel, types, {}, num_warps=4, target=TARGET, name="kernel")
    events: list[str] = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        build(kernel, types, {}, num_warps=4, target=TARGET, name="kernel")
    finally:
        sys.setprofile(before)
    assert events.count("call") < limit
