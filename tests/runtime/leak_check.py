"""Growth of memory over many launches or compilations, in a process of its own: `python -m tests.runtime.leak_check`.

Prints JSON: the growth in bytes between the first tenth and the end, so that what is made once does not count.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import gc
import importlib.util
import itertools
import json
import linecache
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glueball
import glueball.language as gl
from tests.runtime.fake_gpu import DeviceArray, fake_gpu
from tests.runtime.launcher_support import FRAMEWORK, LAUNCH_TYPE, ExchangeTensor

SOURCE = """
import glueball
import glueball.language as gl

@glueball.jit
def kernel(x, y, n):
    offsets = gl.arange(0, 256, layout=gl.BlockedLayout([1], [32], [4], [0]))
    value = gl.load(x + offsets, mask=offsets < n, other=0.0)
    value = gl.convert_layout(value * {number}.0, gl.BlockedLayout([2], [32], [4], [0]))
    gl.store(y + gl.arange(0, 256, layout=gl.BlockedLayout([2], [32], [4], [0])), value)
"""


def resident_bytes() -> int:
    """Memory of this process that is not swapped out."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(step: Callable[[int], None], count: int) -> int:
    """Bytes by which memory grows between the first tenth of `count` steps and the last."""
    first = max(1, count // 10)
    for index in range(first):
        step(index)
    before = resident_bytes()
    for index in range(first, count):
        step(index)
    return resident_bytes() - before


class ExchangeArray(DeviceArray):
    """An array on a device that the native launcher can read."""

    __dlpack_c_exchange_api__ = ExchangeTensor.__dlpack_c_exchange_api__
    offset, dtype, status, shape = 0, (2, 32, 1), 0, (ctypes.c_int64 * 1)(32)
    device = (2, 0)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


@glueball.jit
def fill(y, n, factor, layout: gl.constexpr):
    offsets = gl.arange(0, 32, layout=layout)
    gl.store(y + offsets, offsets * factor, mask=offsets < n)


LAYOUT = gl.BlockedLayout([1], [32], [1], [0])


def launch_on_simulator(index: int) -> None:
    """A launch with an array, scalars and a grid of its own."""
    fill[(1 + index % 3,)](np.zeros(32, np.float32), 3 + 2 * (index % 1000), index, LAYOUT, num_warps=1)


def launch_on_fake_gpu(index: int) -> None:
    """A launch that the native launcher makes; every hundredth has new objects, as a caller's may."""
    layout = LAYOUT if index % 100 else gl.BlockedLayout([1], [32], [1], [0])
    fill[(1 + index % 2000,)](ARRAYS[index % len(ARRAYS)], 3 + 2 * (index % 1000), index, layout, num_warps=1)


ARRAYS = [ExchangeArray(32) for _ in range(4)]


def compile_anew(folder: Path) -> Callable[[int], None]:
    """Compiles a kernel of a new module each time, to machine code where there is an assembler, and forgets it."""

    def step(index: int) -> None:
        path = folder / f"kernels_{index}.py"
        path.write_text(SOURCE.format(number=index))
        specification = importlib.util.spec_from_file_location(path.stem, path)
        assert specification is not None
        assert specification.loader is not None
        module: Any = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        made = glueball.compile_only(module.kernel, "*fp32:16", "*fp32:16", 200, target="sm_90a")
        assert made.asm["ptx"]
        path.unlink()
        linecache.clearcache()

    return step


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["sim", "gpu", "compile"])
    parser.add_argument("count", type=int)
    given = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLUEBALL_CACHE_DIR", folder)
        patch.setenv("GLUEBALL_CACHE_LIMIT", "1MB")
        if given.what == "gpu":
            with fake_gpu(patch) as driver:
                patch.setattr(FRAMEWORK, "asked", collections.deque(maxlen=1))
                native = itertools.count()
                driver._launch = LAUNCH_TYPE(lambda *_: next(native) and 0)
                found = growth(launch_on_fake_gpu, given.count)
                extra = {"native": next(native), "by Python": len(driver.launches)}
        else:
            found = growth(launch_on_simulator if given.what == "sim" else compile_anew(Path(folder)), given.count)
            extra = {}
    seconds = round(time.perf_counter() - start, 1)
    print(json.dumps({"what": given.what, "count": given.count, "growth": found, "seconds": seconds, **extra}))


if __name__ == "__main__":
    sys.exit(main())
