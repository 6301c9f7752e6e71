"""Kernels whose programs are clusters of several CTAs."""

from __future__ import annotations

import glueball
import glueball.language as gl
from glueball.language.extra.cuda import gdc_launch_dependents, gdc_wait
from glueball.language.nvidia.hopper import (
    async_store,
    cluster,
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
)


@glueball.jit
def places(layout: gl.constexpr, R: gl.constexpr, C: gl.constexpr):
    row = gl.arange(0, R, layout=gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, C, layout=gl.SliceLayout(0, layout))[None, :]
    return row * C + column


@glueball.jit
def program_numbers(out):
    """What each program is told of the grid, by one of its threads."""
    place = (gl.program_id(1) * gl.num_programs(0) + gl.program_id(0)) * 4
    gl.store(out + place, gl.program_id(0))
    gl.store(out + place + 1, gl.num_programs(0))
    gl.store(out + place + 2, gl.num_programs(1))
    gl.store(out + place + 3, gl.num_ctas())


@glueball.jit
def counted_stores(counts, layout: gl.constexpr, N: gl.constexpr):
    """Every element is counted as often as a store of it happens."""
    i = gl.arange(0, N, layout=layout)
    gl.atomic_add(counts + i, gl.full([N], 1, gl.int32, layout))


@glueball.jit
def row_sums(x, y, layout: gl.constexpr, R: gl.constexpr, C: gl.constexpr):
    tile = gl.load(x + gl.program_id(0) * R * C + places(layout, R, C))
    total = gl.sum(tile, 1)
    gl.store(y + gl.program_id(0) * R + gl.arange(0, R, layout=gl.SliceLayout(1, layout)), total)


@glueball.jit
def whole_sum(x, y, layout: gl.constexpr, N: gl.constexpr):
    total = gl.sum(gl.load(x + gl.program_id(0) * N + gl.arange(0, N, layout=layout)), 0)
    gl.store(y + gl.program_id(0), total)


@glueball.jit
def row_maxima(x, y, z, layout: gl.constexpr, R: gl.constexpr, C: gl.constexpr):
    found, where = gl.max(gl.load(x + places(layout, R, C)), 1, return_indices=True)
    row = gl.arange(0, R, layout=gl.SliceLayout(1, layout))
    gl.store(y + row, found)
    gl.store(z + row, where)


@glueball.jit
def softmax_rows(x, y, rows, layout: gl.constexpr, N: gl.constexpr):
    """Rows of which every CTA has a part; two reductions over all CTAs for each."""
    i = gl.arange(0, N, layout=layout)
    for row in range(gl.program_id(0), rows, gl.num_programs(0)):
        tile = gl.load(x + row * N + i)
        tile = gl.exp(tile - gl.max(tile, 0))
        gl.store(y + row * N + i, tile / gl.sum(tile, 0))


@glueball.jit
def converted(x, y, source: gl.constexpr, target: gl.constexpr, R: gl.constexpr, C: gl.constexpr):
    tile = gl.load(x + places(source, R, C))
    gl.store(y + places(target, R, C), gl.convert_layout(tile, target))


@glueball.jit
def converted_in_turns(x, y, n, source: gl.constexpr, target: gl.constexpr, R: gl.constexpr, C: gl.constexpr):
    tile = gl.load(x + places(source, R, C))
    for _ in range(n):
        tile = gl.convert_layout(gl.convert_layout(tile, target) + 1, source)
    gl.store(y + places(source, R, C), tile)


@glueball.jit
def scanned(x, y, layout: gl.constexpr, N: gl.constexpr):
    i = gl.arange(0, N, layout=layout)
    gl.store(y + i, gl.cumsum(gl.load(x + i), 0))


@glueball.jit
def gathered(x, index, y, layout: gl.constexpr, N: gl.constexpr):
    i = gl.arange(0, N, layout=layout)
    gl.store(y + i, gl.gather(gl.load(x + i), gl.load(index + i), 0))


@glueball.jit
def gathered_in_rows(x, index, y, layout: gl.constexpr, R: gl.constexpr, C: gl.constexpr):
    place = places(layout, R, C)
    gl.store(y + place, gl.gather(gl.load(x + place), gl.load(index + place), 1))


@glueball.jit
def counted(x, y, layout: gl.constexpr, bins: gl.constexpr, N: gl.constexpr, B: gl.constexpr):
    values = gl.load(x + gl.arange(0, N, layout=layout))
    gl.store(y + gl.arange(0, B, layout=bins), gl.histogram(values, B, layout=bins))


@glueball.jit
def tickets(counter, y, layout: gl.constexpr, N: gl.constexpr):
    """The old value of one counter, and of N, as every CTA sees it."""
    ticket = gl.atomic_add(counter, 1)
    i = gl.arange(0, N, layout=gl.SliceLayout(1, layout))
    old = gl.atomic_add(counter + 1 + i, gl.full([N], 1, gl.int32, gl.SliceLayout(1, layout)))
    tile = gl.full([N, 2], 0, gl.int32, layout) + old[:, None] + ticket
    gl.store(y + i[:, None] * 2 + gl.arange(0, 2, layout=gl.SliceLayout(0, layout))[None, :], tile)


@glueball.jit
def through_view(x, y, source: gl.constexpr, shared: gl.constexpr, target: gl.constexpr, R: gl.constexpr,
                 C: gl.constexpr):  # fmt: skip
    view = gl.allocate_shared_memory(gl.int32, [R, C], shared)
    view.store(gl.load(x + places(source, R, C)))
    gl.store(y + places(target, R, C), view.load(target))


@glueball.jit
def passed_on(x, y, n, FROM: gl.constexpr, layout: gl.constexpr, N: gl.constexpr):
    """CTAs wait for the first one, or each for itself, before they go on."""
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=2)
    i = gl.arange(0, N, layout=layout)
    total = gl.full([N], 0, gl.int32, layout)
    for k in range(n):
        total += gl.load(x + i) * k
        mbarrier.arrive(bar, count=2, from_cta=FROM)
        mbarrier.wait(bar, k & 1)
        cluster.barrier()
    mbarrier.invalidate(bar)
    gl.store(y + i, total)


@glueball.jit
def shared_barrier(x, y, layout: gl.constexpr, N: gl.constexpr):
    """All CTAs of a pair arrive at the mbarrier of its first one."""
    bar = mbarrier.allocate_mbarrier(two_ctas=True)
    mbarrier.init(bar, count=1)
    i = gl.arange(0, N, layout=layout)
    tile = gl.load(x + i)
    mbarrier.arrive(bar)
    mbarrier.wait(bar, 0)
    cluster.barrier()
    mbarrier.invalidate(bar)
    gl.store(y + i, tile + 1)


@glueball.jit
def sent(x, y, source: gl.constexpr, shared: gl.constexpr, target: gl.constexpr, N: gl.constexpr):
    """Every element goes to the CTA that has its place in the view, where an mbarrier waits for the bytes."""
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    view = gl.allocate_shared_memory(gl.float32, [N], shared)
    mbarrier.expect(bar, view.nbytes_per_cta)
    async_store(view, gl.load(x + gl.arange(0, N, layout=source)), bar)
    mbarrier.wait(bar, 0)
    gl.store(y + gl.arange(0, N, layout=target), view.load(target))


@glueball.jit
def copied(source, target, n, MULTICAST: gl.constexpr, layout: gl.constexpr):
    """Blocks from one tensor to another, through a tile."""
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    out = gl.allocate_shared_memory(target.dtype, target.block_shape, target.layout)
    for k in range(n):
        row = (gl.program_id(0) * n + k) * source.block_shape[0]
        mbarrier.expect(bar, source.nbytes_per_cta)
        tma.async_load(source, [row, 0], bar, view, multicast=MULTICAST)
        mbarrier.wait(bar, k & 1)
        tma.store_wait(0)
        out.store(view.load(layout) + 1)
        fence_async_shared()
        tma.async_store(target, [row, 0], out)
        cluster.barrier()
    tma.store_wait(0)
    mbarrier.invalidate(bar)


@glueball.jit
def producing(source, view, full, empty, n, multicast: gl.constexpr):
    for k in range(n):
        mbarrier.wait(empty, (k & 1) ^ 1)
        mbarrier.expect(full, source.nbytes_per_cta)
        tma.async_load(source, [k * source.block_shape[0], 0], full, view, multicast=multicast)


@glueball.jit
def consuming(y, view, full, empty, n, layout: gl.constexpr):
    R: gl.constexpr = view.shape[0]
    C: gl.constexpr = view.shape[1]
    for k in range(n):
        mbarrier.wait(full, k & 1)
        tile = view.load(layout)
        cluster.barrier()
        mbarrier.arrive(empty, count=1)
        gl.store(y + k * R * C + places(layout, R, C), tile)


@glueball.jit
def in_partitions(source, y, n, MULTICAST: gl.constexpr, layout: gl.constexpr):
    """One partition loads, the other waits in step with its like in the other CTAs."""
    full = mbarrier.allocate_mbarrier()
    empty = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(empty, count=1)
    view = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    gl.warp_specialize(
        [(consuming, (y, view, full, empty, n, layout)), (producing, (source, view, full, empty, n, MULTICAST))],
        [1],
        [24],
    )


@glueball.jit
def filling(source, ring, full, free, all_free, n):
    """The first CTA fills a slot of all CTAs once all have freed it; each says what it expects once its own is free."""
    STAGES: gl.constexpr = ring.shape[0]
    for k in range(n):
        stage = k % STAGES
        turn = (k // STAGES) & 1
        mbarrier.wait(free.index(stage), turn ^ 1)
        mbarrier.wait(all_free.index(stage), turn ^ 1)
        mbarrier.expect(full.index(stage), source.nbytes_per_cta)
        tma.async_load(source, [k * source.block_shape[0], 0], full.index(stage), ring.index(stage), multicast=True)


@glueball.jit
def emptying(y, ring, full, free, all_free, n, layout: gl.constexpr):
    """Every CTA stores its rows of what all have, and tells its own loading warp and the first CTA's."""
    STAGES: gl.constexpr = ring.shape[0]
    R: gl.constexpr = ring.shape[1]
    C: gl.constexpr = ring.shape[2]
    for k in range(n):
        stage = k % STAGES
        mbarrier.wait(full.index(stage), (k // STAGES) & 1)
        tile = ring.index(stage).load(layout)
        mbarrier.arrive(free.index(stage), count=1)
        mbarrier.arrive(all_free.index(stage), count=1)
        gl.store(y + k * R * C + places(layout, R, C), tile)


@glueball.jit
def shared_ring(source, y, n, STAGES: gl.constexpr, layout: gl.constexpr):
    """A ring whose slots a multicast copy fills in all CTAs, each emptied at its own pace."""
    ring = gl.allocate_shared_memory(source.dtype, [STAGES, *source.block_shape], source.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    free = mbarrier.allocate_mbarrier(batch=STAGES)
    all_free = mbarrier.allocate_mbarrier(batch=STAGES, two_ctas=True)
    for each in gl.static_range(STAGES):
        mbarrier.init(full.index(each), count=1)
        mbarrier.init(free.index(each), count=1)
        mbarrier.init(all_free.index(each), count=1)
    gl.warp_specialize(
        [
            (emptying, (y, ring, full, free, all_free, n, layout)),
            (filling, (source, ring, full, free, all_free, n)),
        ],
        [1],
        [24],
    )


@glueball.jit
def multiplied(a_desc, b_desc, c_desc, layout: gl.constexpr, MULTICAST: gl.constexpr):
    """A product of which every CTA of the cluster has a part; parts of operands that CTAs share come once."""
    BK: gl.constexpr = a_desc.block_shape[1]
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    a = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_shape, b_desc.layout)
    M: gl.constexpr = c_desc.block_shape[0]
    N: gl.constexpr = c_desc.block_shape[1]
    total = gl.full([M, N], 0.0, gl.float32, layout)
    for k in range(gl.cdiv(a_desc.shape[1], BK)):
        mbarrier.expect(bar, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        tma.async_load(a_desc, [gl.program_id(0) * M, k * BK], bar, a, multicast=MULTICAST)
        tma.async_load(b_desc, [k * BK, gl.program_id(1) * N], bar, b, multicast=MULTICAST)
        mbarrier.wait(bar, k & 1)
        total = warpgroup_mma(a, b, total)
        cluster.barrier()
    mbarrier.invalidate(bar)
    out = gl.allocate_shared_memory(c_desc.dtype, c_desc.block_shape, c_desc.layout)
    out.store(total.to(c_desc.dtype))
    fence_async_shared()
    tma.async_store(c_desc, [gl.program_id(0) * M, gl.program_id(1) * N], out)
    tma.store_wait(0)


@glueball.jit
def dependent(x, y, layout: gl.constexpr, N: gl.constexpr):
    i = gl.arange(0, N, layout=layout)
    gdc_wait()
    tile = gl.load(x + i)
    gdc_launch_dependents()
    gl.store(y + i, tile * 2)
