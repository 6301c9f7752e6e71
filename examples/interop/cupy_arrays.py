"""CuPy arrays as arguments, on CuPy's current stream. Needs CuPy and a GPU.

python examples/interop/cupy_arrays.py
"""

import cupy
import numpy as np

import glueball
import glueball.language as gl
from glueball.interop.arrays import from_dlpack

BLOCK = 1024
LAYOUT = gl.BlockedLayout(size_per_thread=[4], threads_per_warp=[32], warps_per_cta=[4], order=[0])


@glueball.jit
def add(x_ptr, y_ptr, sum_ptr, n, BLOCK: gl.constexpr, layout: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    mask = offsets < n
    total = gl.load(x_ptr + offsets, mask=mask) + gl.load(y_ptr + offsets, mask=mask)
    gl.store(sum_ptr + offsets, total, mask=mask)


def main() -> None:
    n = 100_000
    with cupy.cuda.Stream(non_blocking=True) as stream:
        # CuPy makes the arguments on this stream, and the launch follows on it.
        x, y = cupy.arange(n, dtype=cupy.float32), cupy.full(n, 0.5, dtype=cupy.float32)
        total = cupy.empty_like(x)
        add[(glueball.cdiv(n, BLOCK),)](x, y, total, n, BLOCK, LAYOUT, num_warps=4)
        shared = cupy.from_dlpack(from_dlpack(total))
        stream.synchronize()
    assert shared.data.ptr == total.data.ptr
    assert np.array_equal(cupy.asnumpy(total), np.arange(n, dtype=np.float32) + np.float32(0.5))
    print(f"{n} sums on CuPy's stream, equal to NumPy's")


if __name__ == "__main__":
    main()
