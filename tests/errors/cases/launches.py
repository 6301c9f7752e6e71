"""Launches that cannot be."""
# ruff: noqa: RUF012

import os
from types import SimpleNamespace

import numpy as np

import glueball
import glueball.language as gl

LINE = gl.BlockedLayout([1], [32], [4], [0])
X = np.zeros(256, np.float32)


class OnTheDevice:
    """Looks like an array in a GPU's memory."""

    __cuda_array_interface__ = {
        "shape": (256,),
        "typestr": "<f4",
        "data": (0x7F0000000000, False),
        "version": 3,
        "strides": None,
    }


class OnDeviceZero(OnTheDevice):
    """Says which device, as CuPy's arrays do."""

    device = SimpleNamespace(id=0)


@glueball.jit
def copy(x, y, n, layout: gl.constexpr):
    place = gl.arange(0, 256, layout=layout)
    gl.store(y + place, gl.load(x + place, mask=place < n), mask=place < n)


def host_and_device_arrays():
    copy[(1,)](X, OnDeviceZero(), 256, LINE)


def device_array_without_a_device():
    copy[(1,)](OnTheDevice(), OnTheDevice(), 256, LINE)


def too_few_arguments():
    copy[(1,)](X, X, 256)


def too_many_arguments():
    copy[(1,)](X, X, 256, LINE, 4)


def argument_given_twice():
    copy[(1,)](X, X, 256, LINE, n=4)


def unknown_option():
    copy[(1,)](X, X, 256, LINE, num_warp=4)


def warps_no_power_of_two():
    copy[(1,)](X, X, 256, LINE, num_warps=3)


def warps_are_a_float():
    copy[(1,)](X, X, 256, LINE, num_warps=4.0)


def more_threads_than_a_block_may_have():
    copy[(1,)](X, X, 256, LINE, num_warps=64)


def negative_grid():
    copy[(-1,)](X, X, 256, LINE)


def grid_beyond_the_limit():
    copy[(1, 70000)](X, X, 256, LINE)


def grid_of_floats():
    copy[(256 / 128,)](X, X, 256, LINE)


def grid_of_four_extents():
    copy[(1, 1, 1, 1)](X, X, 256, LINE)


def no_grid():
    copy(X, X, 256, LINE)


@glueball.jit
def annotated(x, n: gl.int32):
    gl.store(x, n)


def float_for_an_annotated_integer():
    annotated[(1,)](X, 2.5)


def integer_that_does_not_fit_its_annotation():
    annotated[(1,)](X, 2**40)


def integer_of_more_than_64_bits():
    copy[(1,)](X, X, 2**65, LINE)


def array_where_a_constant_is_needed():
    copy[(1,)](X, X, 256, X)


def list_for_an_array():
    copy[(1,)](X, [0.0] * 256, 256, LINE)


def array_of_complex_numbers():
    copy[(1,)](X, np.zeros(256, np.complex64), 256, LINE)


@glueball.jit
def pipelines(x, layout: gl.constexpr, STAGES: gl.constexpr):
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    buffers = gl.allocate_shared_memory(gl.float32, [STAGES, 8192], plain)
    others = gl.allocate_shared_memory(gl.float32, [STAGES, 8192], plain)
    offsets = gl.arange(0, 8192, layout=layout)
    buffers.index(0).store(gl.load(x + offsets))
    others.index(1).store(gl.load(x + offsets))
    gl.store(x + offsets, buffers.index(0).load(layout) + others.index(1).load(layout))


def too_much_shared_memory():
    pipelines[(1,)](np.zeros(8192, np.float32), LINE, 4)


def unknown_target():
    glueball.compile_only(copy, "*fp32", "*fp32", "i32", LINE, target="sm_89")


def unknown_target_in_the_environment():
    os.environ["GLUEBALL_TARGET"] = "gfx90a"
    try:
        copy[(1,)](X, X, 256, LINE)
    finally:
        del os.environ["GLUEBALL_TARGET"]


def unknown_executor():
    os.environ["GLUEBALL_EXECUTOR"] = "cpu"
    copy[(1,)](X, X, 256, LINE)


def unknown_type_description():
    glueball.compile_only(copy, "*float", "*fp32", "i32", LINE)
