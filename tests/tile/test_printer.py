"""Printed functions, word for word."""

from __future__ import annotations

from glueball.layouts import SwizzledSharedLayout
from glueball.tile.ir import ArgumentFacts, Operation, Value
from glueball.tile.printer import print_function
from glueball.tile.types import float32, int32, shared_memory_descriptor_type
from tests.tile.programs import Program, choose, copy_2d, sum_blocks, vector_add

BLOCKED = (
    "#blocked = BlockedLayout(size_per_thread=[1], threads_per_warp=[32], warps_per_cta=[4], order=[0], "
    "cga_layout=[])\n"
)

STRAIGHT_LINE = """
kernel @vector_add(%x: pointer<fp32> {divisibility = 16}, %y: pointer<fp32>, %out: pointer<fp32>, %n: int32)
    attributes {num_warps = 4, lanes = 32, shared_bytes = 512} {
  %4 = program_id {axis = 0} : int32
  %5 = constant {value = 128} : int32
  %6 = mul %4, %5 : int32
  %7 = make_range {start = 0, end = 128} : tile<128xint32, #blocked>
  %8 = splat %6 : tile<128xint32, #blocked>
  %offsets = add %8, %7 : tile<128xint32, #blocked>
  %10 = splat %n : tile<128xint32, #blocked>
  %mask = compare %offsets, %10 {predicate = 'lt'} : tile<128xint1, #blocked>
  %12 = splat %x : tile<128xpointer<fp32>, #blocked>
  %13 = pointer_add %12, %offsets : tile<128xpointer<fp32>, #blocked>
  %left = load %13, %mask : tile<128xfp32, #blocked>
  %15 = splat %y : tile<128xpointer<fp32>, #blocked>
  %16 = pointer_add %15, %offsets : tile<128xpointer<fp32>, #blocked>
  %right = load %16, %mask : tile<128xfp32, #blocked>
  %18 = add %left, %right : tile<128xfp32, #blocked>
  %19 = splat %out : tile<128xpointer<fp32>, #blocked>
  %20 = pointer_add %19, %offsets : tile<128xpointer<fp32>, #blocked>
  store %20, %18, %mask : tile<128xpointer<fp32>, #blocked>, tile<128xfp32, #blocked>, tile<128xint1, #blocked>
  return
}
"""

LOOP = """
kernel @sum_blocks(%x: pointer<fp32>, %out: pointer<fp32>, %first: int32, %last: int32, %step: int32)
    attributes {num_warps = 4, lanes = 32} {
  %5 = program_id {axis = 0} : int32
  %6 = constant {value = 128} : int32
  %7 = mul %5, %6 : int32
  %8 = make_range {start = 0, end = 128} : tile<128xint32, #blocked>
  %9 = splat %7 : tile<128xint32, #blocked>
  %offsets = add %9, %8 : tile<128xint32, #blocked>
  %11 = constant {value = 0.0} : fp32
  %zero = splat %11 : tile<128xfp32, #blocked>
  %13 = for %first, %last, %step, %zero : tile<128xfp32, #blocked> { (%block: int32, %total: tile<128xfp32, #blocked>):
    %16 = constant {value = 128} : int32
    %17 = mul %block, %16 : int32
    %18 = splat %17 : tile<128xint32, #blocked>
    %19 = add %offsets, %18 : tile<128xint32, #blocked>
    %20 = splat %x : tile<128xpointer<fp32>, #blocked>
    %21 = pointer_add %20, %19 : tile<128xpointer<fp32>, #blocked>
    %22 = load %21 : tile<128xfp32, #blocked>
    %23 = add %total, %22 : tile<128xfp32, #blocked>
    yield %23 : tile<128xfp32, #blocked>
  }
  %24 = splat %out : tile<128xpointer<fp32>, #blocked>
  %25 = pointer_add %24, %offsets : tile<128xpointer<fp32>, #blocked>
  store %25, %13 : tile<128xpointer<fp32>, #blocked>, tile<128xfp32, #blocked>
  return
}
"""

BRANCH = """
kernel @choose(%x: pointer<int32>, %out: pointer<int32>, %n: int32)
    attributes {num_warps = 4, lanes = 32} {
  %3 = program_id {axis = 0} : int32  // kernel.py:1:1
  %4 = constant {value = 128} : int32  // kernel.py:2:1
  %5 = mul %3, %4 : int32  // kernel.py:3:1
  %6 = make_range {start = 0, end = 128} : tile<128xint32, #blocked>  // kernel.py:4:1
  %7 = splat %5 : tile<128xint32, #blocked>  // kernel.py:5:1
  %offsets = add %7, %6 : tile<128xint32, #blocked>  // kernel.py:6:1
  %9 = splat %x : tile<128xpointer<int32>, #blocked>  // kernel.py:7:1
  %10 = pointer_add %9, %offsets : tile<128xpointer<int32>, #blocked>  // kernel.py:8:1
  %values = load %10 : tile<128xint32, #blocked>  // kernel.py:9:1
  %12 = constant {value = 10} : int32  // kernel.py:10:1
  %large = compare %n, %12 {predicate = 'gt'} : int1  // kernel.py:11:1
  %14 = if %large : tile<128xint32, #blocked> {  // kernel.py:15:1
    %15 = negate %values : tile<128xint32, #blocked>  // kernel.py:12:1
    yield %15 : tile<128xint32, #blocked>  // kernel.py:13:1
  }, {
    yield %values : tile<128xint32, #blocked>  // kernel.py:14:1
  }
  %16 = splat %out : tile<128xpointer<int32>, #blocked>  // kernel.py:16:1
  %17 = pointer_add %16, %offsets : tile<128xpointer<int32>, #blocked>  // kernel.py:17:1
  store %17, %14 : tile<128xpointer<int32>, #blocked>, tile<128xint32, #blocked>  // kernel.py:18:1
  return  // kernel.py:19:1
}
"""


def test_straight_line():
    function = vector_add()
    function.facts = [ArgumentFacts(16), *function.facts[1:]]
    function.shared_bytes = 512
    assert print_function(function) == BLOCKED + STRAIGHT_LINE


def test_loop():
    assert print_function(sum_blocks()) == BLOCKED + LOOP


def test_branch_with_locations():
    assert print_function(choose(), locations=True) == BLOCKED + BRANCH


def test_layouts_are_named_once_by_kind():
    lines = print_function(copy_2d()).split("\n\n")[0].splitlines()
    assert [line.split(" = ")[0] for line in lines] == ["#slice", "#blocked", "#slice1"]
    assert lines[0].startswith("#slice = SliceLayout(dim=1, parent=BlockedLayout(")


def test_names_of_the_author_stay_apart():
    text = print_function(copy_2d())
    assert "%mask = compare" in text
    assert "%mask$1 = compare" in text
    assert "and %mask, %mask$1 :" in text


def test_wrong_functions_print_too():
    function = vector_add()
    function.body.operations.insert(0, Operation("frobnicate", [Value(int32)], []))
    assert "  frobnicate %<undefined> : int32\n" in print_function(function)


def test_views_of_shared_memory_have_short_layouts():
    shared = SwizzledSharedLayout(1, 1, 1, [1, 0])
    whole = shared_memory_descriptor_type(float32, (2, 32, 32), shared, (2, 32, 32))
    program = Program("views", {})
    attributes = {"name": "buffer", "bytes": 8192, "alignment": 16}
    view = program.builder.create("allocate_shared", [], [whole], attributes).result
    program.builder.create("keep_alive", [view])
    text = print_function(program.finish())
    assert "#swizzled = SwizzledSharedLayout(" in text
    assert "alignment = 16} : view<2x32x32xfp32, #swizzled>" in text
