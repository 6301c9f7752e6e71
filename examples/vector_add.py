"""Adds two vectors: the smallest kernel with a layout. Runs on the simulator; pass torch CUDA tensors to run on a GPU.

python examples/vector_add.py
glueball explain examples/vector_add.py:add
"""

import numpy as np

import glueball
import glueball.language as gl


@glueball.jit
def add(x_ptr, y_ptr, sum_ptr, n, BLOCK: gl.constexpr, layout: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    mask = offsets < n
    x = gl.load(x_ptr + offsets, mask=mask)
    y = gl.load(y_ptr + offsets, mask=mask)
    gl.store(sum_ptr + offsets, x + y, mask=mask)


def main() -> None:
    n, block = 100_000, 1024
    generator = np.random.default_rng(0)
    x = generator.standard_normal(n, dtype=np.float32)
    y = generator.standard_normal(n, dtype=np.float32)
    total = np.empty_like(x)

    # Four neighbouring elements a thread: one 16-byte access each, and neighbouring threads side by side.
    layout = gl.BlockedLayout(size_per_thread=[4], threads_per_warp=[32], warps_per_cta=[4], order=[0])
    kernel = add[(glueball.cdiv(n, block),)](x, y, total, n, block, layout, num_warps=4)

    assert np.array_equal(total, x + y)
    loads = kernel.report.global_loads
    print(f"{n} sums, equal to NumPy's; {loads.sectors} sectors in {loads.requests} requests were loaded")


if __name__ == "__main__":
    main()
