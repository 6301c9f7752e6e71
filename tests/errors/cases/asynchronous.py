"""Asynchronous copies, mbarriers and bulk copies that are put together wrongly."""

import numpy as np

import glueball
import glueball.language as gl
from glueball.language.nvidia.hopper import CachePolicy, async_copy, cluster, mbarrier, tma
from glueball.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col

ROWS = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
NARROW = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
PLAIN = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
SWIZZLED = gl.NVMMASharedLayout(128, 16)


def _described(block=(64, 64), layout=SWIZZLED, dtype=np.float16):
    return TensorDescriptor.from_tensor(np.zeros((128, 128), dtype), list(block), layout)


def _compiled(kernel, *arguments, target="sm_90a"):
    return glueball.compile_only(kernel, *arguments, target=target).asm["ptx"]


@glueball.jit
def copies(x, n, M: gl.constexpr, N: gl.constexpr, layout: gl.constexpr, shared: gl.constexpr):
    row = gl.arange(0, 16, layout=gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))[None, :]
    view = gl.allocate_shared_memory(x.dtype.element_ty, [M, N], shared)
    async_copy.async_load(view, x + row * 64 + column, mask=column < n)


def copy_of_single_halves():
    _compiled(copies, np.zeros(1024, np.float16), 64, 16, 64, NARROW, PLAIN)


def copy_whose_mask_cuts_vectors():
    _compiled(copies, np.zeros(1024, np.float16), 63, 16, 64, ROWS, PLAIN)


def copy_across_the_shared_layout():
    _compiled(copies, np.zeros(1024, np.float16), 64, 16, 64, ROWS, gl.SwizzledSharedLayout(1, 1, 1, [0, 1]))


def copy_to_another_shape():
    _compiled(copies, np.zeros(1024, np.float16), 64, 64, 16, ROWS, PLAIN)


def copy_on_another_vendors_gpu():
    layout = gl.BlockedLayout([1, 8], [8, 8], [4, 1], [1, 0])
    _compiled(copies, np.zeros(1024, np.float16), 64, 16, 64, layout, PLAIN, target="gfx942")


@glueball.jit
def waits_for_fewer_than_none(x):
    async_copy.wait_group(-1)


def negative_wait():
    _compiled(waits_for_fewer_than_none, np.zeros(1, np.float16))


@glueball.jit
def initialises(x, COUNT: gl.constexpr):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=COUNT)


def mbarrier_of_no_arrivals():
    _compiled(initialises, np.zeros(1, np.float16), 0)


def mbarrier_of_too_many_arrivals():
    _compiled(initialises, np.zeros(1, np.float16), 1 << 20)


@glueball.jit
def initialises_several(x):
    bars = mbarrier.allocate_mbarrier(batch=4)
    mbarrier.init(bars, count=1)


def several_mbarriers_at_once():
    _compiled(initialises_several, np.zeros(1, np.float16))


@glueball.jit
def waits_for_phase_two(x):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.wait(bar, 2)


def phase_that_is_none():
    _compiled(waits_for_phase_two, np.zeros(1, np.float16))


@glueball.jit
def expects_a_run_time_number(x, n):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, n)


def bytes_known_too_late():
    _compiled(expects_a_run_time_number, np.zeros(1, np.float16), 7)


@glueball.jit
def loads(source, x, M: gl.constexpr, N: gl.constexpr, dtype: gl.constexpr, shared: gl.constexpr):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    view = gl.allocate_shared_memory(dtype, [M, N], shared)
    tma.async_load(source, [0, 0], bar, view)


def view_of_another_size():
    _compiled(loads, _described(), np.zeros(1, np.float16), 32, 64, gl.float16, SWIZZLED)


def view_of_another_type():
    _compiled(loads, _described(), np.zeros(1, np.float16), 64, 64, gl.bfloat16, SWIZZLED)


def view_of_another_layout():
    _compiled(loads, _described(), np.zeros(1, np.float16), 64, 64, gl.float16, gl.NVMMASharedLayout(64, 16))


def bulk_copy_on_an_older_gpu():
    _compiled(loads, _described(), np.zeros(1, np.float16), 64, 64, gl.float16, SWIZZLED, target="sm_80")


def pointer_in_place_of_a_descriptor():
    _compiled(loads, np.zeros(1, np.float16), np.zeros(1, np.float16), 64, 64, gl.float16, SWIZZLED)


def images_loaded_as_tiles():
    corners = {"pixel_box_lower_corner": [0, 0], "pixel_box_upper_corner": [0, 0]}
    source = TensorDescriptorIm2Col.from_tensor(np.zeros((2, 8, 8, 64), np.float16), [64, 64], SWIZZLED, **corners)
    _compiled(loads, source, np.zeros(1, np.float16), 64, 64, gl.float16, SWIZZLED)


@glueball.jit
def loads_with_one_coordinate(source):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    tma.async_load(source, [0], bar, view)


def too_few_coordinates():
    _compiled(loads_with_one_coordinate, _described())


@glueball.jit
def loads_past_the_first_level(source, policy: gl.constexpr):
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    tma.async_load(source, [0, 0], bar, view, cache_policy=policy)


def bulk_copy_with_a_cache_modifier():
    _compiled(loads_past_the_first_level, _described(), CachePolicy("cg"))


@glueball.jit
def takes_the_least(target):
    view = gl.allocate_shared_memory(target.dtype, target.block_shape, target.layout)
    tma.async_atomic_min(target, [0, 0], view)


def reduction_that_is_not_there():
    _compiled(takes_the_least, _described((64, 32), gl.NVMMASharedLayout(128, 32), np.float32))


@glueball.jit
def describes(x, n, STRIDE: gl.constexpr, WIDTH: gl.constexpr, layout: gl.constexpr):
    tma.make_tensor_descriptor(x, [n, n], [STRIDE, 1], [16, WIDTH], layout)


def made_descriptor_of_short_rows():
    _compiled(describes, np.zeros(1, np.float16), 7, 64, 4, gl.NVMMASharedLayout(0, 16))


def made_descriptor_of_odd_stride():
    _compiled(describes, np.zeros(1, np.float16), 7, 63, 64, SWIZZLED)


@glueball.jit
def waits_for_the_cluster(x):
    cluster.barrier()


def cluster_of_one():
    _compiled(waits_for_the_cluster, np.zeros(1, np.float16))


@glueball.jit
def calls_a_removed_name(source):
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    tma.async_copy_shared_to_global(source, [0, 0], view)


def name_that_was_removed():
    _compiled(calls_a_removed_name, _described())
