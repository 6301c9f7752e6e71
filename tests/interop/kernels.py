"""The kernel of these tests, and how it is launched on arrays of any library."""

from __future__ import annotations

from typing import Any

import glueball
import glueball.language as gl

BLOCK = 128
LAYOUT = gl.BlockedLayout([1], [32], [4], [0])


@glueball.jit
def scaled_sum(x, y, out, n, factor, BLOCK: gl.constexpr, layout: gl.constexpr):
    index = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    mask = index < n
    gl.store(out + index, gl.load(x + index, mask=mask) * factor + gl.load(y + index, mask=mask), mask=mask)


def launch(x: Any, y: Any, out: Any, factor: float = 2.0) -> None:
    """`out = x * factor + y` for contiguous arrays of one size."""
    size = x.numel() if callable(getattr(x, "numel", None)) else x.size
    scaled_sum[(glueball.cdiv(size, BLOCK),)](x, y, out, size, factor, BLOCK, LAYOUT, num_warps=4)
