"""What the kernels of `repro_kernels` take from another module."""

import types

import glueball
import glueball.language as gl

SCALE = gl.constexpr(3.0)
deeper = types.ModuleType("deeper")
deeper.CONSTANT = gl.constexpr(100)  # type: ignore[attr-defined]


@glueball.constexpr_function
def twice(n):
    return 2 * n


@glueball.jit
def shifted(x):
    return x + twice(4)


@glueball.jit
def scaled(x):
    return shifted(x * SCALE)


@glueball.aggregate
class Pair:
    first: gl.tensor
    second: gl.tensor

    @glueball.jit
    def total(self):
        return self.first + self.second
