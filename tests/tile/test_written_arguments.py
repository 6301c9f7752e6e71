"""Which arguments a kernel may write."""

from __future__ import annotations

from typing import Any

import pytest

import glueball
import glueball.language as gl
from glueball.tile.written_arguments import written_arguments

LINE: gl.constexpr = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))


@glueball.jit
def copy(x: Any, y: Any, n: Any):
    offsets = gl.arange(0, 128, layout=LINE)
    gl.store(y + offsets, gl.load(x + offsets, mask=offsets < n), mask=offsets < n)


@glueball.jit
def scatter(places: Any, x: Any, y: Any):
    offsets = gl.arange(0, 128, layout=LINE)
    gl.store(y + gl.load(places + offsets), gl.load(x + offsets))


@glueball.jit
def bump(x: Any, amount: Any):
    gl.atomic_add(x, gl.load(amount))


@glueball.jit
def helped(x: Any, y: Any, z: Any):
    bump(y + 1, x)
    pointer = z
    if gl.load(x) > 0:
        gl.store(y, 1)
        pointer = x
    gl.store(pointer, 1)


@glueball.jit
def swapping(x: Any, y: Any, n: Any):
    first = x
    second = x
    for _ in range(n):
        gl.store(second, 1)
        second = first
        first = y


@glueball.jit
def loading(x: Any, y: Any, n: Any):
    total = 0.0
    for index in range(n):
        total += gl.load(x + index)
    gl.store(y, total)


@pytest.mark.parametrize(
    ("kernel", "arguments", "written"),
    [
        (copy, ("*fp32", "*fp32", "i32"), {1}),
        (scatter, ("*i32", "*fp32", "*fp32"), {2}),
        (bump, ("*fp32", "*fp32"), {0}),
        (helped, ("*fp32", "*fp32", "*fp32"), {0, 1, 2}),
        (swapping, ("*fp32", "*fp32", "i32"), {0, 1}),
        (loading, ("*fp32", "*fp32", "i32"), {1}),
    ],
)
def test_written_arguments(kernel: Any, arguments: tuple[str, ...], written: set[int]) -> None:
    compiled = glueball.compile_only(kernel, *arguments, target="gfx1250")
    assert written_arguments(compiled.source_tile) == written
    assert written_arguments(compiled.tile) == written
