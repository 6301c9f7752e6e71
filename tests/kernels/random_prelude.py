"""What the text of every random kernel starts with: the names that it uses and the functions that it calls."""

from __future__ import annotations

import glueball
import glueball.language as gl
from glueball.language.arithmetic import PropagateNan
from glueball.language.extra import libdevice

__all__ = [
    "ALL", "affine", "either", "gl", "glueball", "least_two", "libdevice", "offsets_1", "offsets_2", "offsets_3",
    "steps",
]  # fmt: skip

ALL = gl.constexpr(PropagateNan.ALL)


@glueball.jit
def offsets_1(A: gl.constexpr, layout: gl.constexpr):
    return gl.arange(0, A, layout)


@glueball.jit
def offsets_2(A: gl.constexpr, B: gl.constexpr, layout: gl.constexpr):
    return gl.arange(0, A, gl.SliceLayout(1, layout))[:, None] * B + gl.arange(0, B, gl.SliceLayout(0, layout))[None, :]


@glueball.jit
def offsets_3(A: gl.constexpr, B: gl.constexpr, C: gl.constexpr, layout: gl.constexpr):
    rows = offsets_2(A, B, gl.SliceLayout(2, layout))
    last = gl.arange(0, C, gl.SliceLayout(0, gl.SliceLayout(1, layout)))
    return rows[:, :, None] * C + last[None, None, :]


@glueball.jit
def affine(factor, shift, next_factor, next_shift):
    return factor * next_factor, shift * next_factor + next_shift


@glueball.jit
def steps(x, y):
    count = x * 0
    while (x > 1) & (count < 9):
        if x % 2 == 0:  # noqa: SIM108 - a branch is what is wanted
            x = x // 2
        else:
            x = 3 * x + y
        count += 1
    return count, x


@glueball.jit
def either(x, y, first):
    if first:
        return x + y, x
    return x * y, y


@glueball.jit
def least_two(a, b):
    if a < b:
        return a + b
    return a - b
