"""Kernels to tune, and a benchmark that no clock takes part in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import glueball
import glueball.language as gl


def line(num_warps: int = 4) -> gl.BlockedLayout:
    """A 1-D layout."""
    return gl.BlockedLayout([1], [32], [num_warps], [0])


LINE: gl.constexpr = gl.constexpr(line())


@glueball.jit
def double(x: Any, n: Any, BLOCK: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=LINE)
    gl.store(x + offsets, gl.load(x + offsets, mask=offsets < n) * 2, mask=offsets < n)


@glueball.jit
def copy_part(x: Any, y: Any, n: Any, START: gl.constexpr, BLOCK: gl.constexpr):
    offsets = START + gl.arange(0, BLOCK, layout=LINE)
    gl.store(y + offsets, gl.load(x + offsets, mask=offsets < n), mask=offsets < n)


@glueball.jit
def add_up(x: Any, total: Any, n: Any, BLOCK: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=LINE)
    gl.atomic_add(total, gl.sum(gl.load(x + offsets, mask=offsets < n, other=0), 0))


@glueball.jit
def choosy(x: Any, n: Any, BLOCK: gl.constexpr):
    gl.static_assert(BLOCK < 256, "blocks are small")
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=LINE)
    gl.store(x + offsets, gl.load(x + offsets, mask=offsets < n) + 1, mask=offsets < n)


@glueball.autotune([glueball.Config({"BLOCK": 64}), glueball.Config({"BLOCK": 128})], key=["n"])
@glueball.jit
def tuned(x: Any, n: Any, BLOCK: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=LINE)
    gl.store(x + offsets, 1, mask=offsets < n)


def blocks(*sizes: int, **options: Any) -> list[glueball.Config]:
    """A configuration for each block size."""
    return [glueball.Config({"BLOCK": size}, **options) for size in sizes]


def programs(n: int) -> Callable[[Mapping[str, Any]], tuple[int]]:
    """A grid that covers `n` elements."""
    return lambda meta: (glueball.cdiv(n, meta["BLOCK"]),)


class Clock:
    """A `do_bench` that runs a callable `runs` times and reports the next of some times, in the order of its calls."""

    def __init__(self, *times: float, runs: int = 3) -> None:
        self.times = list(times)
        self.runs = runs
        self.calls = 0

    def __call__(self, fn: Callable[[], Any], quantiles: Sequence[float]) -> list[float]:
        for _ in range(self.runs):
            fn()
        time = self.times[self.calls % len(self.times)]
        self.calls += 1
        return [time + step for step in range(len(quantiles))]
