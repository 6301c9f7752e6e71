"""Memory handed from library to library without a copy: DLPack in both directions.

python examples/interop/dlpack_exchange.py
"""

import numpy as np
import torch

import glueball
import glueball.language as gl
from glueball.interop.arrays import from_dlpack

LAYOUT = gl.BlockedLayout(size_per_thread=[1], threads_per_warp=[32], warps_per_cta=[1], order=[0])


@glueball.jit
def increment(x_ptr, n, stride, layout: gl.constexpr):
    offsets = gl.arange(0, 64, layout=layout)
    pointers = x_ptr + offsets * stride
    gl.store(pointers, gl.load(pointers, mask=offsets < n) + 1, mask=offsets < n)


class Provider:
    """A library of which a kernel knows nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def main() -> None:
    memory = np.arange(100, dtype=np.float32)
    column = memory[::2]

    # In: launches take whatever has __dlpack__.
    increment[(1,)](Provider(column), 50, 2, LAYOUT, num_warps=1)
    assert np.array_equal(memory[::2], np.arange(0, 100, 2) + 1)

    # Out: a view of any library's memory, for every other library.
    view = from_dlpack(column)
    tensor = torch.from_dlpack(view)
    tensor *= 2
    increment[(1,)](view, view.size, view.strides[0], LAYOUT, num_warps=1)
    assert np.array_equal(np.from_dlpack(view), (np.arange(0, 100, 2) + 1) * 2 + 1)
    assert np.array_equal(memory[1::2], np.arange(1, 100, 2))
    print("one memory, seen by torch, NumPy and a kernel; its values are equal to NumPy's")


if __name__ == "__main__":
    main()
