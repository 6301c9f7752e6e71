"""Addition of two matrices in seven steps, from plain loads to bulk copies that warps of their own start and wait for.

A tile is XBLOCK x YBLOCK elements; tile number t starts at row `t // across * XBLOCK` and column `t % across * YBLOCK`,
`across` tiles covering a row. The first and third kernel work on one tile a program, the others go from tile to tile:
program p of P takes p, p + P, and so on.
"""

import glueball
import glueball.language as gl
from glueball.language.nvidia.ampere import async_copy
from glueball.language.nvidia.hopper import fence_async_shared, mbarrier, tma


@glueball.jit
def tile_offsets(tile, across, rows, columns, stride, XBLOCK: gl.constexpr, YBLOCK: gl.constexpr, layout: gl.constexpr):
    """Offsets of a tile's elements in a matrix of that stride, and the mask of those inside of it."""
    row = tile // across * XBLOCK + gl.arange(0, XBLOCK, layout=gl.SliceLayout(1, layout))
    column = tile % across * YBLOCK + gl.arange(0, YBLOCK, layout=gl.SliceLayout(0, layout))
    mask = (row[:, None] < rows) & (column[None, :] < columns)
    return (row.to(gl.int64) * stride)[:, None] + column[None, :], mask


@glueball.jit
def add_plain(
    x_ptr, y_ptr, out_ptr, rows, columns, across, x_stride, y_stride, out_stride,
    XBLOCK: gl.constexpr, YBLOCK: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    """Loads into registers, adds, stores."""
    tile = gl.program_id(0)
    x_place, mask = tile_offsets(tile, across, rows, columns, x_stride, XBLOCK, YBLOCK, layout)
    y_place, _ = tile_offsets(tile, across, rows, columns, y_stride, XBLOCK, YBLOCK, layout)
    out_place, _ = tile_offsets(tile, across, rows, columns, out_stride, XBLOCK, YBLOCK, layout)
    total = gl.load(x_ptr + x_place, mask=mask) + gl.load(y_ptr + y_place, mask=mask)
    gl.store(out_ptr + out_place, total, mask=mask)


@glueball.jit
def start_copies(
    x_ptr, y_ptr, x_buffer, y_buffer, tile, across, rows, columns, x_stride, y_stride, layout: gl.constexpr
):
    """Every thread starts to copy its elements of a tile, as one group; zeros outside of the matrix."""
    XBLOCK: gl.constexpr = x_buffer.shape[0]
    YBLOCK: gl.constexpr = x_buffer.shape[1]
    x_place, mask = tile_offsets(tile, across, rows, columns, x_stride, XBLOCK, YBLOCK, layout)
    y_place, _ = tile_offsets(tile, across, rows, columns, y_stride, XBLOCK, YBLOCK, layout)
    async_copy.async_load(x_buffer, x_ptr + x_place, mask=mask)
    async_copy.async_load(y_buffer, y_ptr + y_place, mask=mask)
    async_copy.commit_group()


@glueball.jit
def add_copied(
    x_ptr, y_ptr, out_ptr, rows, columns, across, x_stride, y_stride, out_stride,
    XBLOCK: gl.constexpr, YBLOCK: gl.constexpr, layout: gl.constexpr, shared: gl.constexpr,
):  # fmt: skip
    """Copies to shared memory with cp.async, waits, adds what each thread has copied itself."""
    x_buffer = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [XBLOCK, YBLOCK], shared)
    y_buffer = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [XBLOCK, YBLOCK], shared)
    tile = gl.program_id(0)
    start_copies(x_ptr, y_ptr, x_buffer, y_buffer, tile, across, rows, columns, x_stride, y_stride, layout)
    async_copy.wait_group(0)
    total = x_buffer.load(layout) + y_buffer.load(layout)
    place, mask = tile_offsets(tile, across, rows, columns, out_stride, XBLOCK, YBLOCK, layout)
    gl.store(out_ptr + place, total, mask=mask)


@glueball.jit
def add_copied_ring(
    x_ptr, y_ptr, out_ptr, rows, columns, across, tiles, x_stride, y_stride, out_stride,
    XBLOCK: gl.constexpr, YBLOCK: gl.constexpr, STAGES: gl.constexpr, layout: gl.constexpr, shared: gl.constexpr,
):  # fmt: skip
    """A ring of STAGES buffers: while one tile is added, the copies of the next STAGES - 1 are under way.

    Slots are known at compile time, so that it is plain that a thread reads and overwrites only what it has copied
    itself: no barrier is needed. Tiles past the last one lie outside of the matrix, where nothing is copied or stored.
    """
    x_ring = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [STAGES, XBLOCK, YBLOCK], shared)
    y_ring = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [STAGES, XBLOCK, YBLOCK], shared)
    first = gl.program_id(0)
    step = gl.num_programs(0)
    for early in gl.static_range(STAGES - 1):
        start_copies(
            x_ptr, y_ptr, x_ring.index(early), y_ring.index(early), first + early * step, across, rows, columns,
            x_stride, y_stride, layout,
        )  # fmt: skip
    for start in range(0, gl.cdiv(tiles - first, step), STAGES):
        for each in gl.static_range(STAGES):
            start_copies(
                x_ptr, y_ptr, x_ring.index((each + STAGES - 1) % STAGES), y_ring.index((each + STAGES - 1) % STAGES),
                first + (start + each + STAGES - 1) * step, across, rows, columns, x_stride, y_stride, layout,
            )  # fmt: skip
            async_copy.wait_group(STAGES - 1)
            total = x_ring.index(each).load(layout) + y_ring.index(each).load(layout)
            tile = first + (start + each) * step
            place, mask = tile_offsets(tile, across, rows, columns, out_stride, XBLOCK, YBLOCK, layout)
            gl.store(out_ptr + place, total, mask=mask)
    async_copy.wait_group(0)


@glueball.jit
def start_loads(x_desc, y_desc, x_buffer, y_buffer, loaded, tile, across):
    """One thread starts to copy a tile of both matrices; the mbarrier `loaded` counts the bytes."""
    row = tile // across * x_desc.block_shape[0]
    column = tile % across * x_desc.block_shape[1]
    mbarrier.expect(loaded, x_desc.nbytes_per_cta + y_desc.nbytes_per_cta)
    tma.async_load(x_desc, [row, column], loaded, x_buffer)
    tma.async_load(y_desc, [row, column], loaded, y_buffer)


@glueball.jit
def start_store(out_desc, buffer, tile, across):
    """One thread starts to copy a tile to the result."""
    tma.async_store(
        out_desc, [tile // across * out_desc.block_shape[0], tile % across * out_desc.block_shape[1]], buffer
    )


@glueball.jit
def add_bulk(x_desc, y_desc, out_desc, across, layout: gl.constexpr):
    """One thread has a whole tile copied, everyone waits for the bytes, adds in place, and one thread stores."""
    x_buffer = gl.allocate_shared_memory(x_desc.dtype, x_desc.block_shape, x_desc.layout)
    y_buffer = gl.allocate_shared_memory(y_desc.dtype, y_desc.block_shape, y_desc.layout)
    loaded = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    tile = gl.program_id(0)
    start_loads(x_desc, y_desc, x_buffer, y_buffer, loaded, tile, across)
    mbarrier.wait(loaded, 0)
    x_buffer.store(x_buffer.load(layout) + y_buffer.load(layout))
    fence_async_shared()
    start_store(out_desc, x_buffer, tile, across)
    tma.store_wait(0)


@glueball.jit
def add_bulk_ring(x_desc, y_desc, out_desc, across, tiles, STAGES: gl.constexpr, layout: gl.constexpr):
    """A ring of STAGES pairs of buffers: loads of later tiles and the store of the last one are under way meanwhile."""
    x_ring = gl.allocate_shared_memory(x_desc.dtype, [STAGES] + x_desc.block_shape, x_desc.layout)
    y_ring = gl.allocate_shared_memory(y_desc.dtype, [STAGES] + y_desc.block_shape, y_desc.layout)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    for each in gl.static_range(STAGES):
        mbarrier.init(loaded.index(each), count=1)
    first = gl.program_id(0)
    step = gl.num_programs(0)
    count = gl.cdiv(tiles - first, step)
    for i in range(gl.minimum(count, STAGES - 1)):
        start_loads(x_desc, y_desc, x_ring.index(i), y_ring.index(i), loaded.index(i), first + i * step, across)
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(loaded.index(stage), (i // STAGES) & 1)
        x_ring.index(stage).store(x_ring.index(stage).load(layout) + y_ring.index(stage).load(layout))
        fence_async_shared()
        start_store(out_desc, x_ring.index(stage), first + i * step, across)
        ahead = i + STAGES - 1
        if ahead < count:
            # The slot to fill held the tile before this one: all stores but the one just started have read theirs.
            tma.store_wait(1)
            slot = ahead % STAGES
            start_loads(
                x_desc, y_desc, x_ring.index(slot), y_ring.index(slot), loaded.index(slot), first + ahead * step, across
            )
    tma.store_wait(0)


@glueball.jit
def loading_partition(x_desc, y_desc, x_ring, y_ring, loaded, free, count, first, step, across):
    """One warp that waits for free slots and has them filled."""
    STAGES: gl.constexpr = x_ring.shape[0]
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(free.index(stage), ((i // STAGES) & 1) ^ 1)
        start_loads(
            x_desc, y_desc, x_ring.index(stage), y_ring.index(stage), loaded.index(stage), first + i * step, across
        )


@glueball.jit
def adding_partition(x_ring, y_ring, loaded, added, count, layout: gl.constexpr):
    """The warps that add, in place."""
    STAGES: gl.constexpr = x_ring.shape[0]
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(loaded.index(stage), (i // STAGES) & 1)
        x_ring.index(stage).store(x_ring.index(stage).load(layout) + y_ring.index(stage).load(layout))
        fence_async_shared()
        mbarrier.arrive(added.index(stage), count=1)


@glueball.jit
def storing_partition(out_desc, x_ring, added, free, count, first, step, across):
    """One warp that stores what was added, and frees the slot before as soon as its store has read it."""
    STAGES: gl.constexpr = x_ring.shape[0]
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(added.index(stage), (i // STAGES) & 1)
        start_store(out_desc, x_ring.index(stage), first + i * step, across)
        tma.store_wait(1)
        mbarrier.arrive(free.index((i + STAGES - 1) % STAGES), count=1, pred=i > 0)
    tma.store_wait(0)


@glueball.jit
def add_partitions(x_desc, y_desc, out_desc, across, tiles, STAGES: gl.constexpr, layout: gl.constexpr):
    """The same ring, walked by three partitions: one loads, one adds, one stores, and no one waits for two things."""
    x_ring = gl.allocate_shared_memory(x_desc.dtype, [STAGES] + x_desc.block_shape, x_desc.layout)
    y_ring = gl.allocate_shared_memory(y_desc.dtype, [STAGES] + y_desc.block_shape, y_desc.layout)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    added = mbarrier.allocate_mbarrier(batch=STAGES)
    free = mbarrier.allocate_mbarrier(batch=STAGES)
    for each in gl.static_range(STAGES):
        mbarrier.init(loaded.index(each), count=1)
        mbarrier.init(added.index(each), count=1)
        mbarrier.init(free.index(each), count=1)
    first = gl.program_id(0)
    step = gl.num_programs(0)
    count = gl.cdiv(tiles - first, step)
    gl.warp_specialize(
        [
            (adding_partition, (x_ring, y_ring, loaded, added, count, layout)),
            (loading_partition, (x_desc, y_desc, x_ring, y_ring, loaded, free, count, first, step, across)),
            (storing_partition, (out_desc, x_ring, added, free, count, first, step, across)),
        ],
        [1, 1],
        [24, 24],
    )
