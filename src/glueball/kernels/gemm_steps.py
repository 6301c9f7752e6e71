"""A product of two matrices, told in steps from plain loads to warp groups that copying warps feed, each one idea.

All compute `c = a @ b` for matrices of 16-bit floats with neighbours along rows. The first steps take pointers and
strides, the later ones tensor descriptors. `glueball.kernels.gemm` is the last step with everything a library needs;
`glueball.kernels.gemm_ladder` launches the steps and says what each should cost.
"""

import glueball
import glueball.language as gl
from glueball.language.nvidia.ampere import async_copy, mma_v2
from glueball.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)


@glueball.jit
def place(row, column, rows, columns, stride, HEIGHT: gl.constexpr, WIDTH: gl.constexpr, layout: gl.constexpr):
    """Offsets of a tile's elements in a matrix, and the mask of those inside of it."""
    at_row = row + gl.arange(0, HEIGHT, layout=gl.SliceLayout(1, layout))
    at_column = column + gl.arange(0, WIDTH, layout=gl.SliceLayout(0, layout))
    mask = (at_row[:, None] < rows) & (at_column[None, :] < columns)
    return (at_row.to(gl.int64) * stride)[:, None] + at_column[None, :], mask


@glueball.jit
def load_tile(
    pointer, row, column, rows, columns, stride, HEIGHT: gl.constexpr, WIDTH: gl.constexpr, layout: gl.constexpr
):
    """A tile of a matrix, zero outside of it."""
    offset, mask = place(row, column, rows, columns, stride, HEIGHT, WIDTH, layout)
    return gl.load(pointer + offset, mask=mask, other=0.0)


@glueball.jit
def store_tile(pointer, tile, row, column, rows, columns, stride, layout: gl.constexpr):
    """Stores a tile, rounded to the matrix's type, along rows."""
    offset, mask = place(row, column, rows, columns, stride, tile.shape[0], tile.shape[1], layout)
    gl.store(pointer + offset, gl.convert_layout(tile.to(pointer.dtype.element_ty), layout), mask=mask)


@glueball.jit
def multiply_naive(
    a_ptr, b_ptr, c_ptr, rows, columns, inner, a_stride, b_stride, c_stride,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
):  # fmt: skip
    """v0: every thread loads the rows of `a` and the columns of `b` that its elements need, and multiplies and adds."""
    layout: gl.constexpr = gl.BlockedLayout([4, 4], [4, 8], [2, 2], [1, 0])
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    total = gl.zeros([BM, BN], gl.float32, layout)
    for k in range(0, inner, BK):
        a = load_tile(a_ptr, row, k, rows, inner, a_stride, BM, BK, gl.DotOperandLayout(0, layout, 0))
        b = load_tile(b_ptr, k, column, inner, columns, b_stride, BK, BN, gl.DotOperandLayout(1, layout, 0))
        total = gl.dot_fma(a.to(gl.float32), b.to(gl.float32), total)
    store_tile(c_ptr, total, row, column, rows, columns, c_stride, layout)


@glueball.jit
def multiply_shared(
    a_ptr, b_ptr, c_ptr, rows, columns, inner, a_stride, b_stride, c_stride,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
):  # fmt: skip
    """v1: a program loads each element of its tiles once, and threads take what they need from shared memory."""
    layout: gl.constexpr = gl.BlockedLayout([4, 4], [4, 8], [2, 2], [1, 0])
    a_layout: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (BK // 8), BK // 8], [4, 1], [1, 0])
    b_layout: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (BN // 8), BN // 8], [4, 1], [1, 0])
    a_shared = gl.allocate_shared_memory(a_ptr.dtype.element_ty, [BM, BK], gl.SwizzledSharedLayout(1, 1, 1, [0, 1]))
    b_shared = gl.allocate_shared_memory(b_ptr.dtype.element_ty, [BK, BN], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    total = gl.zeros([BM, BN], gl.float32, layout)
    for k in range(0, inner, BK):
        a_shared.store(load_tile(a_ptr, row, k, rows, inner, a_stride, BM, BK, a_layout))
        b_shared.store(load_tile(b_ptr, k, column, inner, columns, b_stride, BK, BN, b_layout))
        a = a_shared.load(gl.DotOperandLayout(0, layout, 0))
        b = b_shared.load(gl.DotOperandLayout(1, layout, 0))
        total = gl.dot_fma(a.to(gl.float32), b.to(gl.float32), total)
    store_tile(c_ptr, total, row, column, rows, columns, c_stride, b_layout)


@glueball.jit
def multiply_matrix_units(
    a_ptr, b_ptr, c_ptr, rows, columns, inner, a_stride, b_stride, c_stride,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
):  # fmt: skip
    """v2: the matrix instructions of a warp multiply 16 x 16 by 16 x 8 at once."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [4, 2], [16, 8])
    a_layout: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (BK // 8), BK // 8], [8, 1], [1, 0])
    b_layout: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (BN // 8), BN // 8], [8, 1], [1, 0])
    a_shared = gl.allocate_shared_memory(a_ptr.dtype.element_ty, [BM, BK], gl.SwizzledSharedLayout(8, 1, 8, [1, 0]))
    b_shared = gl.allocate_shared_memory(b_ptr.dtype.element_ty, [BK, BN], gl.SwizzledSharedLayout(8, 1, 8, [1, 0]))
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    total = gl.zeros([BM, BN], gl.float32, layout)
    for k in range(0, inner, BK):
        a_shared.store(load_tile(a_ptr, row, k, rows, inner, a_stride, BM, BK, a_layout))
        b_shared.store(load_tile(b_ptr, k, column, inner, columns, b_stride, BK, BN, b_layout))
        a = a_shared.load(gl.DotOperandLayout(0, layout, 2))
        b = b_shared.load(gl.DotOperandLayout(1, layout, 2))
        total = mma_v2(a, b, total)
    store_tile(c_ptr, total, row, column, rows, columns, c_stride, b_layout)


@glueball.jit
def copy_step(
    a_ptr, b_ptr, a_shared, b_shared, row, column, k, rows, columns, inner, a_stride, b_stride,
    a_layout: gl.constexpr, b_layout: gl.constexpr,
):  # fmt: skip
    """Starts to copy the tiles of one step, as one group of copies."""
    a_place, a_mask = place(row, k, rows, inner, a_stride, a_shared.shape[0], a_shared.shape[1], a_layout)
    b_place, b_mask = place(k, column, inner, columns, b_stride, b_shared.shape[0], b_shared.shape[1], b_layout)
    async_copy.async_load(a_shared, a_ptr + a_place, mask=a_mask)
    async_copy.async_load(b_shared, b_ptr + b_place, mask=b_mask)
    async_copy.commit_group()


@glueball.jit
def multiply_copied(
    a_ptr, b_ptr, c_ptr, rows, columns, inner, a_stride, b_stride, c_stride,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """v3: copies to shared memory that threads do not wait for, STAGES - 1 steps ahead of the products."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [4, 2], [16, 8])
    a_layout: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (BK // 8), BK // 8], [8, 1], [1, 0])
    b_layout: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (BN // 8), BN // 8], [8, 1], [1, 0])
    swizzled: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    a_ring = gl.allocate_shared_memory(a_ptr.dtype.element_ty, [STAGES, BM, BK], swizzled)
    b_ring = gl.allocate_shared_memory(b_ptr.dtype.element_ty, [STAGES, BK, BN], swizzled)
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    total = gl.zeros([BM, BN], gl.float32, layout)
    for early in gl.static_range(STAGES - 1):
        copy_step(
            a_ptr, b_ptr, a_ring.index(early), b_ring.index(early), row, column, early * BK, rows, columns, inner,
            a_stride, b_stride, a_layout, b_layout,
        )  # fmt: skip
    for step in range(gl.cdiv(inner, BK)):
        async_copy.wait_group(STAGES - 2)
        ahead = step + STAGES - 1
        a = a_ring.index(step % STAGES).load(gl.DotOperandLayout(0, layout, 2))
        b = b_ring.index(step % STAGES).load(gl.DotOperandLayout(1, layout, 2))
        copy_step(
            a_ptr, b_ptr, a_ring.index(ahead % STAGES), b_ring.index(ahead % STAGES), row, column, ahead * BK, rows,
            columns, inner, a_stride, b_stride, a_layout, b_layout,
        )  # fmt: skip
        total = mma_v2(a, b, total)
    async_copy.wait_group(0)
    store_tile(c_ptr, total, row, column, rows, columns, c_stride, b_layout)


@glueball.jit
def multiply_warp_group(
    a_ptr, b_ptr, c_ptr, rows, columns, inner, a_stride, b_stride, c_stride,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
):  # fmt: skip
    """v4: four warps multiply together, straight from shared memory, 64 x BN at once."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [8, 1], [16, BN, 16])
    a_layout: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (BK // 8), BK // 8], [8, 1], [1, 0])
    b_layout: gl.constexpr = gl.BlockedLayout([1, 8], [1, 32], [8, 1], [1, 0])
    element: gl.constexpr = a_ptr.dtype.element_ty
    a_shared = gl.allocate_shared_memory(element, [BM, BK], gl.NVMMASharedLayout.get_default_for([BM, BK], element))
    b_shared = gl.allocate_shared_memory(element, [BK, BN], gl.NVMMASharedLayout.get_default_for([BK, BN], element))
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    total = gl.zeros([BM, BN], gl.float32, layout)
    for k in range(0, inner, BK):
        a_shared.store(load_tile(a_ptr, row, k, rows, inner, a_stride, BM, BK, a_layout))
        b_shared.store(load_tile(b_ptr, k, column, inner, columns, b_stride, BK, BN, b_layout))
        fence_async_shared()
        total = warpgroup_mma(a_shared, b_shared, total)
    store_tile(c_ptr, total, row, column, rows, columns, c_stride, b_layout)


@glueball.jit
def start_loads(a_desc, b_desc, a_shared, b_shared, loaded, row, k, column):
    """One thread starts the copies of one step's tiles; `loaded` counts their bytes."""
    mbarrier.expect(loaded, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
    tma.async_load(a_desc, [row, k], loaded, a_shared)
    tma.async_load(b_desc, [k, column], loaded, b_shared)


@glueball.jit
def start_store(c_desc, shared, tile, row, column):
    """A tile to shared memory, and one thread starts its copy to the result."""
    shared.store(tile.to(c_desc.dtype))
    fence_async_shared()
    tma.async_store(c_desc, [row, column], shared)


@glueball.jit
def multiply_bulk(a_desc, b_desc, c_desc, WARPS: gl.constexpr):
    """v5: one thread has a unit of its own copy whole tiles, and no thread computes an address."""
    BM: gl.constexpr = a_desc.block_type.shape[0]
    BK: gl.constexpr = a_desc.block_type.shape[1]
    BN: gl.constexpr = b_desc.block_type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, BN, 16])
    a_shared = gl.allocate_shared_memory(a_desc.dtype, [BM, BK], a_desc.layout)
    b_shared = gl.allocate_shared_memory(b_desc.dtype, [BK, BN], b_desc.layout)
    c_shared = gl.allocate_shared_memory(c_desc.dtype, [BM, BN], c_desc.layout)
    loaded = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(loaded, count=1)
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    total = gl.zeros([BM, BN], gl.float32, layout)
    for step in range(gl.cdiv(a_desc.shape[1], BK)):
        start_loads(a_desc, b_desc, a_shared, b_shared, loaded, row, step * BK, column)
        mbarrier.wait(loaded, step & 1)
        total = warpgroup_mma(a_shared, b_shared, total)
    start_store(c_desc, c_shared, total, row, column)
    tma.store_wait(0)


@glueball.jit
def multiply_pipelined(a_desc, b_desc, c_desc, STAGES: gl.constexpr, WARPS: gl.constexpr):
    """v6: a ring of STAGES: a step is multiplied while later ones are copied, and nothing waits for either."""
    BM: gl.constexpr = a_desc.block_type.shape[0]
    BK: gl.constexpr = a_desc.block_type.shape[1]
    BN: gl.constexpr = b_desc.block_type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, BN, 16])
    a_ring = gl.allocate_shared_memory(a_desc.dtype, [STAGES, BM, BK], a_desc.layout)
    b_ring = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BK, BN], b_desc.layout)
    loaded = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(loaded.index(i), count=1)
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    steps = gl.cdiv(a_desc.shape[1], BK)
    acc = warpgroup_mma_init(gl.zeros([BM, BN], gl.float32, layout))
    for i in range(gl.minimum(steps, STAGES - 1)):
        start_loads(a_desc, b_desc, a_ring.index(i), b_ring.index(i), loaded.index(i), row, i * BK, column)
    for step in range(steps):
        stage = step % STAGES
        mbarrier.wait(loaded.index(stage), (step // STAGES) & 1)
        acc = warpgroup_mma_init(warpgroup_mma_wait(0, deps=(acc,)))
        acc = warpgroup_mma(a_ring.index(stage), b_ring.index(stage), acc, is_async=True)
        ahead = step + STAGES - 1
        if ahead < steps:
            free = ahead % STAGES
            start_loads(
                a_desc, b_desc, a_ring.index(free), b_ring.index(free), loaded.index(free), row, ahead * BK, column
            )  # fmt: skip
    total = warpgroup_mma_wait(0, deps=(acc,))
    c_shared = gl.allocate_shared_memory(c_desc.dtype, [BM, BN], c_desc.layout)
    start_store(c_desc, c_shared, total, row, column)
    tma.store_wait(0)


@glueball.jit
def tile_place(tile, tiles_m, tiles_n, GROUP: gl.constexpr):
    """Row and column of a tile: down GROUP tiles before one across, so that those under way at a time form a block."""
    first = tile // (GROUP * tiles_n) * GROUP
    within = tile % (GROUP * tiles_n)
    height = gl.minimum(tiles_m - first, GROUP)
    return first + within % height, within // height


@glueball.jit
def load_ahead(a_desc, b_desc, a_ring, b_ring, loaded, number, count, m, k, n, STAGES: gl.constexpr):
    """Starts the copies of this program's step `number`, counted over all its tiles, if there is one.

    It is step `k` of the tile at `m`, `n`.
    """
    if number < count:
        stage = number % STAGES
        start_loads(
            a_desc, b_desc, a_ring.index(stage), b_ring.index(stage), loaded.index(stage),
            m * a_desc.block_type.shape[0], k * a_desc.block_type.shape[1], n * b_desc.block_type.shape[1],
        )  # fmt: skip


@glueball.jit
def next_step(tile, m, k, n, steps, tiles_m, tiles_n, GROUP: gl.constexpr):
    """The step after step `k` of a tile: one further along it, or the first one of the program's next tile."""
    k += 1
    if k == steps:
        k = 0
        tile += gl.num_programs(0)
        m, n = tile_place(tile, tiles_m, tiles_n, GROUP)
    return tile, m, k, n


@glueball.jit
def multiply_persistent(a_desc, b_desc, c_desc, GROUP: gl.constexpr, STAGES: gl.constexpr, WARPS: gl.constexpr):
    """v7: programs that go from tile to tile: a tile is stored while the next one's first steps are copied."""
    BM: gl.constexpr = a_desc.block_type.shape[0]
    BK: gl.constexpr = a_desc.block_type.shape[1]
    BN: gl.constexpr = b_desc.block_type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [WARPS, 1], [16, BN, 16])
    a_ring = gl.allocate_shared_memory(a_desc.dtype, [STAGES, BM, BK], a_desc.layout)
    b_ring = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BK, BN], b_desc.layout)
    c_shared = gl.allocate_shared_memory(c_desc.dtype, [BM, BN], c_desc.layout)
    loaded = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(loaded.index(i), count=1)
    tiles_m = gl.cdiv(c_desc.shape[0], BM)
    tiles_n = gl.cdiv(c_desc.shape[1], BN)
    steps = gl.cdiv(a_desc.shape[1], BK)
    own = gl.cdiv(tiles_m * tiles_n - gl.program_id(0), gl.num_programs(0))
    count = own * steps
    ahead = gl.program_id(0)
    m_ahead, n_ahead = tile_place(ahead, tiles_m, tiles_n, GROUP)
    k_ahead = 0
    for i in range(STAGES - 1):
        load_ahead(a_desc, b_desc, a_ring, b_ring, loaded, i, count, m_ahead, k_ahead, n_ahead, STAGES)
        ahead, m_ahead, k_ahead, n_ahead = next_step(ahead, m_ahead, k_ahead, n_ahead, steps, tiles_m, tiles_n, GROUP)
    number = 0
    for each in range(own):
        m, n = tile_place(gl.program_id(0) + each * gl.num_programs(0), tiles_m, tiles_n, GROUP)
        acc = warpgroup_mma_init(gl.zeros([BM, BN], gl.float32, layout))
        for k in range(steps):
            stage = number % STAGES
            mbarrier.wait(loaded.index(stage), (number // STAGES) & 1)
            acc = warpgroup_mma_init(warpgroup_mma_wait(0, deps=(acc,)))
            acc = warpgroup_mma(a_ring.index(stage), b_ring.index(stage), acc, use_acc=k > 0, is_async=True)
            load_ahead(
                a_desc, b_desc, a_ring, b_ring, loaded, number + STAGES - 1, count, m_ahead, k_ahead, n_ahead, STAGES
            )  # fmt: skip
            ahead, m_ahead, k_ahead, n_ahead = next_step(
                ahead, m_ahead, k_ahead, n_ahead, steps, tiles_m, tiles_n, GROUP
            )  # fmt: skip
            number += 1
        total = warpgroup_mma_wait(0, deps=(acc,))
        tma.store_wait(0)
        start_store(c_desc, c_shared, total, m * BM, n * BN)
    tma.store_wait(0)


@glueball.jit
def produce(a_desc, b_desc, a_ring, b_ring, full, empty, tiles_m, tiles_n, GROUP: gl.constexpr):
    """The copying warp of v8: fills each stage once the multiplying groups have emptied it."""
    BM: gl.constexpr = a_ring.shape[1]
    BK: gl.constexpr = a_ring.shape[2]
    BN: gl.constexpr = b_ring.shape[2]
    STAGES: gl.constexpr = a_ring.shape[0]
    steps = gl.cdiv(a_desc.shape[1], BK)
    stage = 0
    phase = 1
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        m, n = tile_place(tile, tiles_m, tiles_n, GROUP)
        for k in range(steps):
            mbarrier.wait(empty.index(stage), phase)
            start_loads(
                a_desc, b_desc, a_ring.index(stage), b_ring.index(stage), full.index(stage), m * BM, k * BK, n * BN
            )  # fmt: skip
            stage += 1
            if stage == STAGES:
                stage = 0
                phase = phase ^ 1


@glueball.jit
def consume(
    c_desc, a_ring, b_ring, c_shared, full, empty, inner, tiles_m, tiles_n, HALF: gl.constexpr, GROUP: gl.constexpr
):
    """A multiplying group of v8: one half of the rows of each tile."""
    BM: gl.constexpr = a_ring.shape[1] // 2
    BK: gl.constexpr = a_ring.shape[2]
    BN: gl.constexpr = b_ring.shape[2]
    STAGES: gl.constexpr = a_ring.shape[0]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    steps = gl.cdiv(inner, BK)
    stage = 0
    phase = 0
    for tile in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):
        m, n = tile_place(tile, tiles_m, tiles_n, GROUP)
        acc = warpgroup_mma_init(gl.zeros([BM, BN], gl.float32, layout))
        last = stage
        for k in range(steps):
            mbarrier.wait(full.index(stage), phase)
            a = a_ring.index(stage).slice(HALF * BM, BM, 0)
            acc = warpgroup_mma(a, b_ring.index(stage), acc, use_acc=k > 0, is_async=True)
            acc = warpgroup_mma_init(warpgroup_mma_wait(1, deps=(acc,)))
            mbarrier.arrive(empty.index(last), count=1, pred=k > 0)
            last = stage
            stage += 1
            if stage == STAGES:
                stage = 0
                phase = phase ^ 1
        total = warpgroup_mma_wait(0, deps=(acc,))
        mbarrier.arrive(empty.index(last), count=1)
        tma.store_wait(0)
        start_store(c_desc, c_shared, total, m * 2 * BM + HALF * BM, n * BN)
    tma.store_wait(0)


@glueball.jit
def multiply_specialized(a_desc, b_desc, c_desc, GROUP: gl.constexpr, STAGES: gl.constexpr):
    """v8: one warp copies, two groups of four multiply, and each waits for the other only where data is missing."""
    BM: gl.constexpr = a_desc.block_type.shape[0]
    BK: gl.constexpr = a_desc.block_type.shape[1]
    BN: gl.constexpr = b_desc.block_type.shape[1]
    a_ring = gl.allocate_shared_memory(a_desc.dtype, [STAGES, BM, BK], a_desc.layout)
    b_ring = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BK, BN], b_desc.layout)
    upper = gl.allocate_shared_memory(c_desc.dtype, [BM // 2, BN], c_desc.layout)
    lower = gl.allocate_shared_memory(c_desc.dtype, [BM // 2, BN], c_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
    tiles_m = gl.cdiv(c_desc.shape[0], BM)
    tiles_n = gl.cdiv(c_desc.shape[1], BN)
    inner = a_desc.shape[1]
    gl.warp_specialize(
        [
            (consume, (c_desc, a_ring, b_ring, upper, full, empty, inner, tiles_m, tiles_n, 0, GROUP)),
            (consume, (c_desc, a_ring, b_ring, lower, full, empty, inner, tiles_m, tiles_n, 1, GROUP)),
            (produce, (a_desc, b_desc, a_ring, b_ring, full, empty, tiles_m, tiles_n, GROUP)),
        ],
        [4, 1],
        [232, 40],
    )
