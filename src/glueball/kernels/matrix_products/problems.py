"""What is multiplied, as numbers that plans are made from: shapes, strides, types, and what is done to the sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from glueball.kernels.arrays import dtype_name
from glueball.kernels.ladder import strides_of

GRANULE = 16
"""Bytes of which addresses and strides of what bulk copies move are multiples."""
WIDE = ("float16", "bfloat16")
NARROW = ("float8_e4m3fn", "float8_e5m2")
RESULTS = ("float16", "bfloat16", "float32")
ACTIVATIONS = ("relu", "gelu", "silu")
ITEM_BYTES = {**dict.fromkeys(WIDE, 2), **dict.fromkeys(NARROW, 1), "float32": 4}


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix, or a batch of them: [batch, rows, columns], strides in elements.

    `aligned`: it starts at a multiple of 16 bytes. A matrix that serves every batch has a batch extent of 1.
    """

    dtype: str
    shape: tuple[int, int, int]
    strides: tuple[int, int, int]
    aligned: bool

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return ITEM_BYTES[self.dtype]

    @property
    def elements(self) -> int:
        """Elements of all batches."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def turned(self) -> bool:
        """Whether neighbours in memory lie along a column; of a line, which has no other, along its length."""
        unit = [extent == 1 or stride == 1 for extent, stride in zip(self.shape, self.strides, strict=True)]
        return unit[1] and (not unit[2] or self.shape[1] > self.shape[2] == 1)

    @property
    def bulk(self) -> bool:
        """Whether bulk copies can move it: neighbours along one dimension, everything else at multiples of 16 bytes."""
        near, far = (1, 2) if self.turned else (2, 1)
        if self.strides[near] != 1 and self.shape[near] > 1:
            return False
        outer = [self.strides[axis] for axis in (0, far) if self.shape[axis] > 1]
        return self.aligned and all(stride > 0 and stride * self.itemsize % GRANULE == 0 for stride in outer)

    def transposed(self) -> Matrix:
        """The same memory with rows and columns exchanged."""
        batch, rows, columns = self.shape
        first, second, third = self.strides
        return replace(self, shape=(batch, columns, rows), strides=(first, third, second))

    def packed(self, turned: bool) -> Matrix:
        """What a copy of it is: neighbours along rows, or columns where turned, that start at multiples of 16 bytes."""
        _, rows, columns = self.shape
        far, near = (columns, rows) if turned else (rows, columns)
        step = GRANULE // self.itemsize
        pitch = -(-near // step) * step
        strides = (far * pitch, 1, pitch) if turned else (far * pitch, pitch, 1)
        return replace(self, strides=strides, aligned=True)


@dataclass(frozen=True, slots=True)
class Problem:
    """`c = activation(a @ b * scales + bias)`.

    `row_scale` and `column_scale` are "" where there is none, else "one" or "each"; `bias_axis` is -1 without a bias, 0
    for one of a number for each row, 1 for each column.
    """

    a: Matrix
    b: Matrix
    c: Matrix
    row_scale: str = ""
    column_scale: str = ""
    bias_axis: int = -1
    activation: str = ""

    @property
    def batches(self) -> int:
        """Products."""
        return self.c.shape[0]

    @property
    def rows(self) -> int:
        """M."""
        return self.c.shape[1]

    @property
    def columns(self) -> int:
        """N."""
        return self.c.shape[2]

    @property
    def inner(self) -> int:
        """K."""
        return self.a.shape[2]

    @property
    def narrow(self) -> bool:
        """Whether elements have 8 bits."""
        return self.a.itemsize == 1

    @property
    def copied(self) -> tuple[bool, bool]:
        """Whether `a` and `b` must be copied before warp groups can take them, which take 8-bit ones along K."""
        return (
            not self.a.bulk or (self.narrow and self.a.turned),
            not self.b.bulk or (self.narrow and not self.b.turned),
        )

    def swapped(self) -> Problem:
        """The transpose of the product, which is that of the transposes the other way about."""
        return Problem(
            self.b.transposed(), self.a.transposed(), self.c.transposed(), self.column_scale, self.row_scale,
            -1 if self.bias_axis < 0 else 1 - self.bias_axis, self.activation,
        )  # fmt: skip


def stored_by_threads(matrix: Matrix) -> bool:
    """Whether a result is one that no bulk copy can write, which writes rows, in whole pieces of 16 bytes."""
    return not matrix.bulk or matrix.turned or matrix.shape[2] * matrix.itemsize % GRANULE != 0


def matrix_of(array: Any, name: str) -> Matrix:
    """An array of two or three dimensions as a matrix. `ValueError` for others, and for a dtype without products."""
    kind, shape, strides = dtype_name(array), tuple(array.shape), strides_of(array)
    if len(shape) not in (2, 3):
        raise ValueError(f"{name} must be a matrix, or have three dimensions for a batch of them, not {shape}")
    if kind not in ITEM_BYTES:
        raise ValueError(f"gemm multiplies {', '.join((*WIDE, *NARROW))}, and {name} is {kind}")
    if len(shape) == 2:
        shape, strides = (1, *shape), (0, *strides)
    return Matrix(kind, shape, strides, address_of(array) % GRANULE == 0)


def address_of(array: Any) -> int:
    """Where an array starts."""
    pointer: int = array.data_ptr() if callable(getattr(array, "data_ptr", None)) else array.ctypes.data
    return pointer


def check_operands(a: Matrix, b: Matrix) -> None:
    """`ValueError` where two matrices have no product."""
    narrow = a.dtype in NARROW and b.dtype in NARROW
    if not narrow and (a.dtype != b.dtype or a.dtype not in WIDE):
        raise ValueError(
            f"a and b must both be {WIDE[0]}, both {WIDE[1]}, or 8-bit floats ({', '.join(NARROW)}), not {a.dtype} and "
            f"{b.dtype}; glueball.kernels.matmul multiplies other types"
        )
    if a.shape[2] != b.shape[1]:
        raise ValueError(f"a has {a.shape[2]} columns and b {b.shape[1]} rows, which must be as many")
    if a.shape[0] != b.shape[0] and 1 not in (a.shape[0], b.shape[0]):
        raise ValueError(f"a is a batch of {a.shape[0]} matrices and b one of {b.shape[0]}")
