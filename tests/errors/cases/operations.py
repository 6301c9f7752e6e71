"""Operations on what they do not take."""

import numpy as np

import glueball
import glueball.language as gl

LINE = gl.BlockedLayout([1], [32], [4], [0])
X = np.zeros(256, np.float32)


def _run(kernel, *arguments):
    kernel[(1,)](X, *arguments)


@glueball.jit
def writes(x, y):
    gl.store(y, gl.load(x))


def store_to_a_constant_pointer():
    glueball.compile_only(writes, "*fp32", "*kfp32", target="sm_90a")


def store_through_a_number():
    _run(writes, 5)


@glueball.jit
def replaces(x):
    place = gl.arange(0, 256, layout=LINE)
    gl.store(x + place, gl.load(x + place, other=0.0))


def other_without_mask():
    _run(replaces)


@glueball.jit
def masks_by_number(x, n):
    place = gl.arange(0, 256, layout=LINE)
    gl.store(x + place, 1.0, mask=place - n)


def mask_is_an_integer():
    _run(masks_by_number, 9)


@glueball.jit
def masks_a_scalar(x, n):
    gl.store(x, 1.0, mask=gl.arange(0, 256, layout=LINE) < n)


def mask_is_larger_than_the_pointer():
    _run(masks_a_scalar, 9)


@glueball.jit
def stores_a_tile(x):
    gl.store(x, gl.arange(0, 256, layout=LINE))


def tile_stored_through_a_scalar_pointer():
    _run(stores_a_tile)


@glueball.jit
def float_index(x, n):
    gl.store(x + n / 2, 1.0)


def float_as_an_index():
    _run(float_index, 9)


@glueball.jit
def float_bound(x, n):
    for i in range(n / 2):
        gl.store(x + i, 1.0)


def float_as_a_bound():
    _run(float_bound, 9)


@glueball.jit
def masks_bits(x):
    value = gl.load(x)
    gl.store(x, value & 1)


def bits_of_a_float():
    _run(masks_bits)


@glueball.jit
def floor_divides(x):
    gl.store(x, gl.load(x) // 2)


def floor_division_of_a_float():
    _run(floor_divides)


@glueball.jit
def scales_a_pointer(x):
    gl.store(2 * x, 1.0)


def product_of_a_pointer():
    _run(scales_a_pointer)


@glueball.jit
def modifies(x):
    gl.store(x, 1.0, cache_modifier=".ca")


def cache_modifier_of_a_load():
    _run(modifies)


@glueball.jit
def fourth_axis(x):
    gl.store(x + gl.program_id(3), 1.0)


def axis_that_grids_do_not_have():
    _run(fourth_axis)


@glueball.jit
def out_of_range(x):
    gl.store(x, gl.load(x).to(gl.int8) + 300)


def literal_does_not_fit():
    _run(out_of_range)


@glueball.jit
def reinterprets(x):
    gl.store(x, gl.load(x).to(gl.int16, bitcast=True))


def bitcast_to_another_size():
    _run(reinterprets)


@glueball.jit
def picks_an_element(x):
    place = gl.arange(0, 256, layout=LINE)
    gl.store(x, place[0])


def element_of_a_tile():
    _run(picks_an_element)


@glueball.jit
def misspelled_keyword(x):
    gl.load(x, masks=True)


def unknown_keyword():
    _run(misspelled_keyword)


@glueball.jit
def divides(x):
    gl.store(x, 7 // 0)


def constant_division_by_zero():
    _run(divides)
