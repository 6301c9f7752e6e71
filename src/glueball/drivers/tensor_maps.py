"""Tensor maps as the hardware reads them: 128 bytes that the driver makes (`cuTensorMapEncodeTiled`, `...Im2col`)."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from glueball.drivers.cuda import cuda_driver
from glueball.tensor_map import ELEMENTS, TensorMap

BYTES = 128
LINE = 16
"""What the driver is given as the stride of a line, which has none: it takes no empty list."""
SWIZZLE_CODES = {0: 0, 32: 1, 64: 2, 128: 3}


@functools.lru_cache(maxsize=4096)
def encoded(tensor: TensorMap) -> bytes:
    """A tensor map of device memory. `CudaError` where the driver refuses it."""
    driver = cuda_driver()
    bindings: Any = driver.bindings
    rank, size = tensor.rank, tensor.item_bytes
    fixed = (
        bindings.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        bindings.CUtensorMapSwizzle(SWIZZLE_CODES[tensor.swizzle]),
        bindings.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        bindings.CUtensorMapFloatOOBfill(1 if tensor.fill == "nan" else 0),
    )
    start = (
        bindings.CUtensorMapDataType(ELEMENTS[tensor.element].code),
        rank,
        tensor.base,
        [bindings.cuuint64_t(extent) for extent in reversed(tensor.shape)],
        [bindings.cuuint64_t(stride * size) for stride in reversed(tensor.strides[:-1])] or [bindings.cuuint64_t(LINE)],
    )
    steps = [bindings.cuuint32_t(step) for step in reversed(tensor.steps)]
    action = f"encoding a tensor map of shape {list(tensor.shape)}"
    if tensor.pixels is None:
        box = [bindings.cuuint32_t(extent) for extent in reversed(tensor.box)]
        made = driver.call(action, "cuTensorMapEncodeTiled", *start, box, steps, *fixed)
    else:
        pixels, channels = tensor.box
        corners = [list(reversed(corner)) for corner in (tensor.pixels.lower, tensor.pixels.upper)]
        made = driver.call(action, "cuTensorMapEncodeIm2col", *start, *corners, channels, pixels, steps, *fixed)
    return ctypes.string_at(int(made.getPtr()), BYTES)
