"""Floats of four bits: every byte, along both axes, in any layout."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import glueball
import glueball.language as gl
from glueball.errors import CompilationError
from tests.kernels import random_layouts
from tests.kernels.harness import EXECUTORS, run

MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
VALUES = np.concatenate([MAGNITUDES, -MAGNITUDES])
BLOCKED = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])


@glueball.jit
def unpack(x, out, axis: gl.constexpr, kind: gl.constexpr, layout: gl.constexpr, wide: gl.constexpr):
    rows = gl.arange(0, 16, gl.SliceLayout(1, layout))[:, None]
    packed = gl.load(x + rows * 16 + gl.arange(0, 16, gl.SliceLayout(0, layout))[None, :])
    numbers = gl.fp4_to_fp(packed, kind, axis)
    M: gl.constexpr = numbers.shape[0]
    N: gl.constexpr = numbers.shape[1]
    rows = gl.arange(0, M, gl.SliceLayout(1, wide))[:, None]
    place = rows * N + gl.arange(0, N, gl.SliceLayout(0, wide))[None, :]
    gl.store(out + place, gl.convert_layout(numbers, wide))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_every_byte(axis, kind, executor, monkeypatch):
    random = np.random.default_rng(axis + 1)
    x = np.arange(256, dtype=np.uint8).reshape(16, 16)
    numbers = np.stack([VALUES[x & 15], VALUES[x >> 4]], -1)
    expected = numbers.reshape(16, 32) if axis else np.moveaxis(numbers, -1, 1).reshape(32, 16)
    element = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else np.float16)
    for number, layout in enumerate([BLOCKED, *(random_layouts.linear(random, 32, 4, (16, 16)) for _ in range(3))]):
        out = np.zeros(expected.shape, element)
        arguments = (x if number % 2 else x.view(np.int8), out, axis, getattr(gl, kind), layout, BLOCKED)
        run(executor, monkeypatch, unpack[(1,)], *arguments)
        np.testing.assert_array_equal(out.view(np.uint16), expected.astype(element).view(np.uint16), f"{layout}")


@glueball.jit
def layouts(layout: gl.constexpr):
    x = gl.zeros([64, 32], gl.uint8, layout)
    wide: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    gl.static_assert(gl.fp4_to_fp(x, gl.float16, 1).type == gl.distributed_type(gl.float16, [64, 64], wide))
    gl.static_assert(gl.fp4_to_fp(x, gl.bfloat16, 0).shape == (128, 32))
    gl.set_auto_layout(gl.fp4_to_fp(gl.zeros([64, 32], gl.uint8), gl.float16, 1), wide)


def test_layouts_of_results(monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    layouts[(1,)](BLOCKED)


@glueball.jit
def wrong(case: gl.constexpr, layout: gl.constexpr):
    x = gl.zeros([8, 8], gl.int8, layout)
    if case == 0:
        gl.fp4_to_fp(x.to(gl.int16), gl.float16, 0)
    elif case == 1:
        gl.fp4_to_fp(x, gl.float32, 0)
    elif case == 2:
        gl.fp4_to_fp(x, gl.float16, 2)
    else:
        gl.fp4_to_fp(3, gl.float16, 0)


@pytest.mark.parametrize(
    ("case", "message"),
    [(0, "int8 or uint8"), (1, "float16 or bfloat16"), (2, "invalid axis 2"), (3, "distributed_type")],
)
def test_mistakes(case, message, monkeypatch):
    monkeypatch.setenv("GLUEBALL_EXECUTOR", "reference")
    with pytest.raises(CompilationError, match=message):
        wrong[(1,)](case, BLOCKED)
