"""A module of helpers, as a user's kernels would import one."""

from __future__ import annotations

import glueball.language as gl
from glueball.language.function import JITCallable

OFFSET = gl.constexpr(5)
DIVISOR = 2
LAYOUT = gl.BlockedLayout([1], [32], [4], [0])


@JITCallable
def deepest(p):
    return p + gl.arange(0, 128, layout=LAYOUT)


@JITCallable
def store_it(p, x):
    gl.store(deepest(p), x)
