"""Doubles a matrix with bulk copies in a ring: while one tile is doubled, the next ones come and the last one goes.

python examples/bulk_ring.py
glueball explain examples/bulk_ring.py:double
glueball check examples/bulk_ring.py --fault wait

`--fault` plants one of four faults that the simulator finds: `wait` leaves out the wait for a tile's bytes, `phase`
waits for the wrong phase, `bytes` expects too few of them, `refill` fills a slot again while its store still reads it.
"""

import argparse

import numpy as np

import glueball
import glueball.language as gl
from glueball.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from glueball.nvidia.hopper import TensorDescriptor


@glueball.jit
def start_load(x_desc, ring, loaded, i, BYTES: gl.constexpr):
    slot = i % ring.shape[0]
    tile = gl.program_id(0) + i * gl.num_programs(0)
    mbarrier.expect(loaded.index(slot), BYTES)
    tma.async_load(x_desc, [tile * x_desc.block_shape[0], 0], loaded.index(slot), ring.index(slot))


@glueball.jit
def double(x_desc, y_desc, tiles, STAGES: gl.constexpr, layout: gl.constexpr, FAULT: gl.constexpr):
    BYTES: gl.constexpr = x_desc.nbytes_per_cta // 2 if FAULT == "bytes" else x_desc.nbytes_per_cta
    ROWS: gl.constexpr = x_desc.block_shape[0]
    COLUMNS: gl.constexpr = x_desc.block_shape[1]
    ring = gl.allocate_shared_memory(x_desc.dtype, [STAGES, ROWS, COLUMNS], x_desc.layout)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    for each in gl.static_range(STAGES):
        mbarrier.init(loaded.index(each), count=1)
    count = gl.cdiv(tiles - gl.program_id(0), gl.num_programs(0))

    for i in range(gl.minimum(count, STAGES - 1)):
        start_load(x_desc, ring, loaded, i, BYTES)

    for i in range(count):
        slot = ring.index(i % STAGES)
        phase = (i // STAGES) & 1
        if FAULT == "phase":
            phase = phase ^ 1
        if FAULT != "wait":
            mbarrier.wait(loaded.index(i % STAGES), phase)
        slot.store(slot.load(layout) * 2)
        fence_async_shared()
        tile = gl.program_id(0) + i * gl.num_programs(0)
        tma.async_store(y_desc, [tile * ROWS, 0], slot)
        if i + STAGES - 1 < count:
            if FAULT != "refill":
                tma.store_wait(1)
            start_load(x_desc, ring, loaded, i + STAGES - 1, BYTES)
    tma.store_wait(0)


def run(fault: str) -> None:
    x = np.arange(100 * 128, dtype=np.float32).reshape(100, 128)
    y = np.empty_like(x)
    shared = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2)
    x_desc, y_desc = (TensorDescriptor.from_tensor(array, [8, 128], shared) for array in (x, y))
    layout = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    double[(3,)](x_desc, y_desc, glueball.cdiv(100, 8), 3, layout, fault, num_warps=4)

    assert np.array_equal(y, 2 * x)
    print("doubled, equal to NumPy's result")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=("wait", "phase", "bytes", "refill"), default="")
    run(parser.parse_args().fault)


if __name__ == "__main__":
    main()
