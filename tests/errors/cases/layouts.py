"""Layouts that cannot be, or that disagree."""
# ruff: noqa: SIM108

import numpy as np

import glueball
import glueball.language as gl

ONE = gl.BlockedLayout([1], [32], [4], [0])
TWO = gl.BlockedLayout([2], [32], [4], [0])
EIGHT_WARPS = gl.BlockedLayout([1], [32], [8], [0])
WIDE = gl.BlockedLayout([1], [64], [4], [0])
SQUARE = gl.BlockedLayout([1, 1], [4, 8], [4, 1], [1, 0])
TALL = gl.BlockedLayout([1, 1], [8, 4], [4, 1], [1, 0])
X = np.zeros(256, np.float32)


@glueball.jit
def sum_of_two(x, first: gl.constexpr, second: gl.constexpr):
    a = gl.load(x + gl.arange(0, 256, layout=first))
    b = gl.load(x + gl.arange(0, 256, layout=second))
    gl.store(x + gl.arange(0, 256, layout=first), a + b)


def layouts_disagree_in_a_sum():
    sum_of_two[(1,)](X, ONE, TWO)


def layout_has_other_warps():
    sum_of_two[(1,)](X, EIGHT_WARPS, EIGHT_WARPS)


def layout_has_other_lanes():
    sum_of_two[(1,)](X, WIDE, WIDE)


def layout_has_other_lanes_than_a_wave_of_64():
    glueball.compile_only(sum_of_two, "*fp32", ONE, ONE, target="gfx950")


@glueball.jit
def ranges(x, n: gl.constexpr, layout: gl.constexpr):
    gl.store(x + gl.arange(0, n, layout=layout), 1.0)


def range_is_no_power_of_two():
    ranges[(1,)](X, 200, ONE)


def range_has_a_layout_of_two_dimensions():
    ranges[(1,)](X, 256, SQUARE)


def range_has_something_else_as_layout():
    ranges[(1,)](X, 256, 4)


@glueball.jit
def range_alone(x):
    gl.store(x + gl.arange(0, 256), 1.0)


def range_has_no_layout():
    range_alone[(1,)](X)


@glueball.jit
def converts(x, source: gl.constexpr, target: gl.constexpr):
    value = gl.load(x + gl.arange(0, 256, layout=source))
    there = gl.convert_layout(value, target, assert_trivial=True)
    gl.store(x + gl.arange(0, 256, layout=target), there)


def conversion_is_not_trivial():
    converts[(1,)](X, ONE, TWO)


@glueball.jit
def column_of(x, layout: gl.constexpr):
    rows = gl.arange(0, 16, layout=layout)
    gl.store(x + rows[:, None], 1.0)


def expands_the_other_slice():
    column_of[(1,)](X, gl.SliceLayout(0, SQUARE))


@glueball.jit
def outer_sum(x, rows_layout: gl.constexpr, columns_layout: gl.constexpr, width: gl.constexpr):
    rows = gl.arange(0, 16, layout=gl.SliceLayout(1, rows_layout))[:, None]
    columns = gl.arange(0, width, layout=gl.SliceLayout(0, columns_layout))[None, :]
    gl.store(x + 16 * rows + columns, 1.0)


def slices_have_different_parents():
    outer_sum[(1,)](X, SQUARE, TALL, 16)


@glueball.jit
def two_shapes(x, layout: gl.constexpr):
    short = gl.arange(0, 128, layout=layout)
    long = gl.arange(0, 256, layout=layout)
    gl.store(x + long, gl.load(x + short + long))


def shapes_disagree_in_a_sum():
    two_shapes[(1,)](X, ONE)


@glueball.jit
def masks_with(x, layout: gl.constexpr, mask_layout: gl.constexpr):
    mask = gl.arange(0, 256, layout=mask_layout) < 100
    gl.store(x + gl.arange(0, 256, layout=layout), 1.0, mask=mask)


def mask_has_another_layout():
    masks_with[(1,)](X, ONE, TWO)


@glueball.jit
def changes_in_a_loop(x, n, first: gl.constexpr, second: gl.constexpr):
    value = gl.load(x + gl.arange(0, 256, layout=first))
    for i in range(n):
        value = gl.load(x + gl.arange(0, 256, layout=second) + i)
    gl.store(x + gl.arange(0, 256, layout=first), value)


def loop_changes_a_layout():
    changes_in_a_loop[(1,)](X, 3, ONE, TWO)


@glueball.jit
def changes_in_a_branch(x, n, first: gl.constexpr, second: gl.constexpr):
    if n > 4:
        place = gl.arange(0, 256, layout=first)
    else:
        place = gl.arange(0, 256, layout=second)
    gl.store(x + place, 1.0)


def branches_give_different_layouts():
    changes_in_a_branch[(1,)](X, 3, ONE, TWO)
