"""Kernels that the runtime's tests launch."""

from __future__ import annotations

from typing import Any

import glueball
import glueball.language as gl

STEP: gl.constexpr = gl.constexpr(1)


def layout(lanes: int = 32, warps: int = 4) -> gl.BlockedLayout:
    """A 1-D layout."""
    return gl.BlockedLayout([1], [lanes], [warps], [0])


@glueball.jit
def copy(x: Any, y: Any, n: Any, BLOCK: gl.constexpr, spread: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=spread)
    gl.store(y + offsets, gl.load(x + offsets, mask=offsets < n), mask=offsets < n)


@glueball.jit
def write_scalars(y: Any, a: Any, b: gl.float64, c: Any = 5, *, d: Any = None):  # type: ignore[valid-type]
    gl.store(y, a)
    gl.store(y + 1, b)
    gl.store(y + 2, c)
    if d is not None:
        gl.store(y + 3, d)


@glueball.jit
def count_programs(y: Any):
    place = gl.program_id(0) + gl.num_programs(0) * (gl.program_id(1) + gl.num_programs(1) * gl.program_id(2))
    gl.store(y + place, place + 1)


@glueball.jit
def plus_step(x: Any):
    return x + STEP


@glueball.jit
def step(y: Any):
    gl.store(y, plus_step(gl.load(y)))


def plain_two() -> int:
    return 2


@glueball.constexpr_function
def four() -> int:
    return 2 * plain_two()


@glueball.jit
def write_four(y: Any):
    gl.store(y, four())


@glueball.jit
def nothing(n: Any):
    pass


@glueball.jit
def broken(y: Any):
    gl.store(y, undefined_name)  # noqa: F821
