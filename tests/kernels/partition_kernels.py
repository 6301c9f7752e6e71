"""Kernels whose warps do different things."""

from __future__ import annotations

import glueball
import glueball.language as gl
from glueball.language.nvidia.hopper import fence_async_shared, mbarrier, tma


@glueball.jit
def loading(x_desc, ring, loaded, free, count, first, step):
    """One warp that has the program's rows brought, each once its slot is free."""
    STAGES: gl.constexpr = ring.shape[0]
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(free.index(stage), ((i // STAGES) & 1) ^ 1)
        mbarrier.expect(loaded.index(stage), x_desc.nbytes_per_cta)
        tma.async_load(x_desc, [first + i * step, 0], loaded.index(stage), ring.index(stage))


@glueball.jit
def exponentiating(ring, results, loaded, free, done, stored, count, layout: gl.constexpr):
    """The warps that compute; a row's slot is free as soon as it is in registers."""
    STAGES: gl.constexpr = ring.shape[0]
    N: gl.constexpr = ring.shape[2]
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(loaded.index(stage), (i // STAGES) & 1)
        x = ring.index(stage).reshape([N]).load(layout)
        mbarrier.arrive(free.index(stage), count=1)
        power = gl.exp(x - gl.max(x, axis=0))
        y = power / gl.sum(power, axis=0)
        mbarrier.wait(stored.index(stage), ((i // STAGES) & 1) ^ 1)
        results.index(stage).reshape([N]).store(y)
        fence_async_shared()
        mbarrier.arrive(done.index(stage), count=1)


@glueball.jit
def storing(y_desc, results, done, stored, count, first, step):
    """One warp that stores what has been computed."""
    STAGES: gl.constexpr = results.shape[0]
    for i in range(count):
        stage = i % STAGES
        mbarrier.wait(done.index(stage), (i // STAGES) & 1)
        tma.async_store(y_desc, [first + i * step, 0], results.index(stage))
        tma.store_wait(1)
        mbarrier.arrive(stored.index((i + STAGES - 1) % STAGES), count=1, pred=i > 0)
    tma.store_wait(0)


@glueball.jit
def softmax_partitions(x_desc, y_desc, rows, STAGES: gl.constexpr, layout: gl.constexpr):
    """Softmax of rows: one warp loads, four compute, one stores, and each waits for another only where it must."""
    ring = gl.allocate_shared_memory(x_desc.dtype, [STAGES, *x_desc.block_shape], x_desc.layout)
    results = gl.allocate_shared_memory(y_desc.dtype, [STAGES, *y_desc.block_shape], y_desc.layout)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    free = mbarrier.allocate_mbarrier(batch=STAGES)
    done = mbarrier.allocate_mbarrier(batch=STAGES)
    stored = mbarrier.allocate_mbarrier(batch=STAGES)
    for each in gl.static_range(STAGES):
        mbarrier.init(loaded.index(each), count=1)
        mbarrier.init(free.index(each), count=1)
        mbarrier.init(done.index(each), count=1)
        mbarrier.init(stored.index(each), count=1)
    first = gl.program_id(0)
    step = gl.num_programs(0)
    count = gl.cdiv(rows - first, step)
    gl.warp_specialize(
        [
            (exponentiating, (ring, results, loaded, free, done, stored, count, layout)),
            (loading, (x_desc, ring, loaded, free, count, first, step)),
            (storing, (y_desc, results, done, stored, count, first, step)),
        ],
        [1, 1],
        [24, 24],
    )
