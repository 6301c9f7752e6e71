"""Kernels that are hard to take out of their file."""

from __future__ import annotations

import dataclasses
import enum
from collections import namedtuple
from typing import Any

import numpy as np

import glueball
import glueball.language as gl
from tests.runtime import repro_helpers
from tests.runtime.repro_helpers import Pair as Two
from tests.runtime.repro_helpers import scaled as times_scale

BLOCK = 64
Shape = namedtuple("Shape", ["rows", "columns"])


class Mode(enum.Enum):
    PLAIN = 1
    SCALED = 2


@dataclasses.dataclass(frozen=True)
class Tuning:
    offset: int
    names: tuple[str, ...] = ()


def layout(warps: int = 2) -> gl.BlockedLayout:
    return gl.BlockedLayout([1], [32], [warps], [0])


def make_step(step: Any) -> Any:
    @glueball.jit
    def inner(x):
        return x + step

    return inner


def make_kernel(step: Any, inner: Any, default: int = 3) -> Any:
    @glueball.jit(do_not_specialize=["n"])
    def kernel(
        x,
        y,
        n,
        mode: gl.constexpr,
        tuning: gl.constexpr,
        spread: gl.constexpr,
        size: gl.constexpr = BLOCK,
        extra: gl.constexpr = default + 1,
    ):
        # Numbers as text: "é", which takes two bytes.
        i = gl.program_id(0) * size + gl.arange(0, size, layout=spread)
        value = gl.load(x + i, mask=i < n, other=0.0)
        if mode == Mode.SCALED:
            value = times_scale(value) + repro_helpers.deeper.CONSTANT
        pair = Two(value, inner(value))
        gl.store(y + i, pair.total() + step + tuning.offset + extra, mask=i < n)

    return kernel


def expected(x: np.ndarray, scaled: bool) -> np.ndarray:
    value = 3.0 * x + 8 + 100 if scaled else x
    return value + value + 5 + 7 + 11 + 4


@glueball.jit
def launch(x, y, shape, spread: gl.constexpr):
    i = gl.arange(0, 64, layout=spread)
    gl.store(y + i, gl.load(x + i) * shape.rows + shape.columns)


@glueball.jit
def overrun(x, y, spread: gl.constexpr):
    i = gl.arange(0, 64, layout=spread)
    gl.store(y + i, gl.load(x + i + 1))


@glueball.jit
def recursive(x, spread: gl.constexpr):
    gl.store(x + gl.arange(0, 64, layout=spread), gl.arange(0, 32, layout=spread))
