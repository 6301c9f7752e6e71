"""Copies of tensors of any rank: box by box through shared memory alone, transposed on the way, or element by element.

Boxes are numbered row by row, the last dimension first, `counts` along each dimension; program p takes box p.
"""

import glueball
import glueball.language as gl
from glueball.language.nvidia.hopper import fence_async_shared, mbarrier, tma


@glueball.jit
def box_start(number, counts, block_shape: gl.constexpr):
    """Coordinates of the first element of a box."""
    RANK: gl.constexpr = len(counts)
    start = ()
    for each in gl.static_range(RANK - 1):
        start = (number % counts[RANK - 1 - each] * block_shape[RANK - 1 - each],) + start
        number = number // counts[RANK - 1 - each]
    return (number * block_shape[0],) + start


@glueball.jit
def loaded_box(desc, start, POLICY: gl.constexpr):
    """Shared memory with the box that starts there, once it has come."""
    box = gl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout)
    loaded = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.expect(loaded, desc.nbytes_per_cta)
    tma.async_load(desc, start, loaded, box, cache_policy=POLICY)
    mbarrier.wait(loaded, 0)
    return box


@glueball.jit
def copy_box(
    x_desc, y_desc, counts, LOAD_POLICY: gl.constexpr = None, STORE_POLICY: gl.constexpr = None,
):  # fmt: skip
    """One box a program, of which no thread touches an element.

    Programs start in the order of the boxes, so that what is read and written at a time lies close together in memory.
    """
    start = box_start(gl.program_id(0), counts, y_desc.block_shape)
    box = loaded_box(x_desc, start, LOAD_POLICY)
    tma.async_store(y_desc, start, box, cache_policy=STORE_POLICY)
    tma.store_wait(0)


@glueball.jit
def swapped(pair):
    """A tuple with its last two entries exchanged."""
    RANK: gl.constexpr = len(pair)
    result = ()
    for axis in gl.static_range(RANK - 2):
        result = result + (pair[axis],)
    return result + (pair[RANK - 1], pair[RANK - 2])


@glueball.jit
def turn_boxes(
    x_desc, y_desc, counts, total, read_layout: gl.constexpr, write_layout: gl.constexpr, BOXES: gl.constexpr,
    LOAD_POLICY: gl.constexpr = None, STORE_POLICY: gl.constexpr = None,
):  # fmt: skip
    """As `copy_box`, to a tensor whose last two dimensions are exchanged; `counts` are those of the result.

    Threads read the rows of a box, change places, and write the rows of the turned box to the same memory. A program
    takes `BOXES` of the `total`, as far apart as may be, and asks for all of them at once: programs that follow one
    another still write side by side, and later boxes come while the first one is turned.
    """
    RANK: gl.constexpr = len(y_desc.block_shape)
    ROWS: gl.constexpr = y_desc.block_shape[RANK - 2]
    COLUMNS: gl.constexpr = y_desc.block_shape[RANK - 1]
    boxes = gl.allocate_shared_memory(x_desc.dtype, [BOXES] + x_desc.block_shape, x_desc.layout)
    loaded = mbarrier.allocate_mbarrier(batch=BOXES)
    for each in gl.static_range(BOXES):
        mbarrier.init(loaded.index(each), count=1)
    gl.barrier()
    for each in gl.static_range(BOXES):
        number = gl.program_id(0) + each * gl.num_programs(0)
        if number < total:
            start = box_start(number, counts, y_desc.block_shape)
            mbarrier.expect(loaded.index(each), x_desc.nbytes_per_cta)
            tma.async_load(x_desc, swapped(start), loaded.index(each), boxes.index(each), cache_policy=LOAD_POLICY)
    for each in gl.static_range(BOXES):
        number = gl.program_id(0) + each * gl.num_programs(0)
        if number < total:
            start = box_start(number, counts, y_desc.block_shape)
            box = boxes.index(each)
            mbarrier.wait(loaded.index(each), 0)
            value = box.reshape([COLUMNS, ROWS]).permute([1, 0]).load(read_layout)
            turned = box.reinterpret(y_desc.dtype, y_desc.block_shape, y_desc.layout)
            turned.reshape([ROWS, COLUMNS]).store(gl.convert_layout(value, write_layout))
            fence_async_shared()
            tma.async_store(y_desc, start, turned, cache_policy=STORE_POLICY)
    for each in gl.static_range(BOXES):
        mbarrier.invalidate(loaded.index(each))
    tma.store_wait(0)


@glueball.jit
def copy_strided(
    x_ptr, y_ptr, outer, x_outer, y_outer, rows, columns, x_stride_0, x_stride_1, y_stride_0, y_stride_1,
    load_layout: gl.constexpr, store_layout: gl.constexpr, XBLOCK: gl.constexpr, YBLOCK: gl.constexpr,
):  # fmt: skip
    """One tile of the last two dimensions a program, for tensors of any rank and strides, with plain loads and stores.

    `outer` are the extents of the other dimensions, `x_outer` and `y_outer` their strides.
    """
    across = gl.cdiv(columns, YBLOCK)
    down = gl.cdiv(rows, XBLOCK)
    number = gl.program_id(0)
    corner_column = number % across * YBLOCK
    corner_row = number // across % down * XBLOCK
    number = number // across // down
    RANK: gl.constexpr = len(outer)
    for each in gl.static_range(RANK):
        index = (number % outer[RANK - 1 - each]).to(gl.int64)
        x_ptr += index * x_outer[RANK - 1 - each]
        y_ptr += index * y_outer[RANK - 1 - each]
        number = number // outer[RANK - 1 - each]
    row = corner_row + gl.arange(0, XBLOCK, layout=gl.SliceLayout(1, load_layout))
    column = corner_column + gl.arange(0, YBLOCK, layout=gl.SliceLayout(0, load_layout))
    mask = (row[:, None] < rows) & (column[None, :] < columns)
    place = (row.to(gl.int64) * x_stride_0)[:, None] + (column.to(gl.int64) * x_stride_1)[None, :]
    value = gl.convert_layout(gl.load(x_ptr + place, mask=mask), store_layout)
    row = corner_row + gl.arange(0, XBLOCK, layout=gl.SliceLayout(1, store_layout))
    column = corner_column + gl.arange(0, YBLOCK, layout=gl.SliceLayout(0, store_layout))
    mask = (row[:, None] < rows) & (column[None, :] < columns)
    place = (row.to(gl.int64) * y_stride_0)[:, None] + (column.to(gl.int64) * y_stride_1)[None, :]
    gl.store(y_ptr + place, value, mask=mask)
