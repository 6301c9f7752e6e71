"""Copies of tensors of any rank: box by box through shared memory alone, transposed on the way, or element by element.

Boxes are numbered row by row, the last dimension first, `counts` along each dimension. Programs take RUN boxes in turn:
program p of P the runs p, p + P, and so on. What lies past the last box is outside of the tensor, where nothing moves.
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
def nth_box(i, first, step, RUN: gl.constexpr):
    """The number of the box that a program comes to as its `i`-th one."""
    if RUN == 1:
        return first + i * step
    return (first + i // RUN * step) * RUN + i % RUN


@glueball.jit
def start_box(desc, ring, loaded, i, first, step, counts, RUN: gl.constexpr, POLICY: gl.constexpr):
    """Starts to load the program's `i`-th box into its slot of the ring."""
    slot = i % ring.shape[0]
    mbarrier.expect(loaded.index(slot), desc.nbytes_per_cta)
    start = box_start(nth_box(i, first, step, RUN), counts, desc.block_shape)
    tma.async_load(desc, start, loaded.index(slot), ring.index(slot), cache_policy=POLICY)


@glueball.jit
def copy_boxes(
    x_desc, y_desc, counts, boxes, STAGES: gl.constexpr, STORES: gl.constexpr = 1, RUN: gl.constexpr = 1,
    LOAD_POLICY: gl.constexpr = None, STORE_POLICY: gl.constexpr = None,
):  # fmt: skip
    """A ring of STAGES boxes of which no thread touches an element.

    Up to STORES stores read their slots meanwhile, STAGES - STORES loads fill theirs.
    """
    ring = gl.allocate_shared_memory(x_desc.dtype, [STAGES] + x_desc.block_shape, x_desc.layout)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    for each in gl.static_range(STAGES):
        mbarrier.init(loaded.index(each), count=1)
    first = gl.program_id(0)
    step = gl.num_programs(0)
    count = gl.cdiv(gl.cdiv(boxes, RUN) - first, step) * RUN
    for i in range(gl.minimum(count, STAGES - STORES)):
        start_box(x_desc, ring, loaded, i, first, step, counts, RUN, LOAD_POLICY)
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(loaded.index(stage), (i // STAGES) & 1)
        start = box_start(nth_box(i, first, step, RUN), counts, y_desc.block_shape)
        tma.async_store(y_desc, start, ring.index(stage), cache_policy=STORE_POLICY)
        if i + STAGES - STORES < count:
            tma.store_wait(STORES)
            start_box(x_desc, ring, loaded, i + STAGES - STORES, first, step, counts, RUN, LOAD_POLICY)
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
def start_swapped_box(desc, ring, loaded, i, first, step, counts, block_shape: gl.constexpr, POLICY: gl.constexpr):
    """Starts to load the box of the source that becomes the program's `i`-th box of the result."""
    slot = i % ring.shape[0]
    mbarrier.expect(loaded.index(slot), desc.nbytes_per_cta)
    start = swapped(box_start(first + i * step, counts, block_shape))
    tma.async_load(desc, start, loaded.index(slot), ring.index(slot), cache_policy=POLICY)


@glueball.jit
def transpose_boxes(
    x_desc, y_desc, counts, boxes, STAGES: gl.constexpr, STORES: gl.constexpr, layout: gl.constexpr,
    LOAD_POLICY: gl.constexpr = None, STORE_POLICY: gl.constexpr = None,
):  # fmt: skip
    """As `copy_boxes`, to a tensor whose last two dimensions are exchanged; `counts` are those of the result.

    Threads read a box along its rows and write it to a second ring, of STORES boxes, along its columns: the swizzle of
    128 bytes keeps both free of bank conflicts. A slot is filled again as soon as it has been read.
    """
    ROWS: gl.constexpr = y_desc.block_shape[len(y_desc.block_shape) - 2]
    COLUMNS: gl.constexpr = y_desc.block_shape[len(y_desc.block_shape) - 1]
    ring = gl.allocate_shared_memory(x_desc.dtype, [STAGES] + x_desc.block_shape, x_desc.layout)
    turned = gl.allocate_shared_memory(y_desc.dtype, [STORES] + y_desc.block_shape, y_desc.layout)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    for each in gl.static_range(STAGES):
        mbarrier.init(loaded.index(each), count=1)
    first = gl.program_id(0)
    step = gl.num_programs(0)
    count = gl.cdiv(boxes - first, step)
    for i in range(gl.minimum(count, STAGES)):
        start_swapped_box(x_desc, ring, loaded, i, first, step, counts, y_desc.block_shape, LOAD_POLICY)
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(loaded.index(stage), (i // STAGES) & 1)
        value = ring.index(stage).reshape([COLUMNS, ROWS]).permute([1, 0]).load(layout)
        if i + STAGES < count:
            start_swapped_box(x_desc, ring, loaded, i + STAGES, first, step, counts, y_desc.block_shape, LOAD_POLICY)
        tma.store_wait(STORES - 1)
        turned.index(i % STORES).reshape([ROWS, COLUMNS]).store(value)
        fence_async_shared()
        start = box_start(first + i * step, counts, y_desc.block_shape)
        tma.async_store(y_desc, start, turned.index(i % STORES), cache_policy=STORE_POLICY)
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
