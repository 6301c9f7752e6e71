"""Matrix products by multiply-adds in the registers of each thread."""

from __future__ import annotations

import math
import warnings
from typing import Any

from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.tensor import tensor
from glueball.layouts import BlockedLayout, DistributedLayout, DotOperandLayout
from glueball.tile.operations.dot import ACCUMULATORS
from glueball.tile.types import distributed_type, dtype

LARGE = 1 << 19
"""Multiply-adds of a tile from which on unrolling them takes long."""


@builtin
def dot_fma(a: tensor, b: tensor, acc: tensor, *, _builder: KernelBuilder = HIDDEN) -> tensor:
    """`acc + a @ b`, one multiply-add for each element of `acc` and each k, in registers; of the type of `acc`.

    `acc` (M x N, or batch x M x N) is in a BlockedLayout P, `a` (M x K) in DotOperandLayout(0, P, 0), `b` (K x N) in
    DotOperandLayout(1, P, 0): a thread holds all of K. k goes up from 0, and each step rounds once, in the type of
    `acc`. Types of `a` and `b`: float16 and the 8-bit floats (which may differ) into float16, float32 or float64;
    bfloat16 and float32 into float32; float64 into float64; int8 or uint8 into int32, which wraps.
    Errors: `AssertionError` for other types, layouts and shapes. A `UserWarning` above 2^19 multiply-adds a tile: they
    are unrolled, which takes long to compile.
    """
    _check_layouts(*(_layout_of(value, name) for value, name in ((a, "a"), (b, "b"), (acc, "acc"))))
    _check_shapes(a, b, acc)
    _check_types(a.dtype, b.dtype, acc.dtype)
    extents = (*acc.extents, a.extents[-1])
    if math.prod(extents) > LARGE:
        kind = "batched dot" if len(acc.extents) == 3 else "dot"
        size = "x".join(map(str, extents))
        warnings.warn(f"Large {kind} FMA instruction size {size} may have slow compile times", stacklevel=2)
    return _builder.emit("dot_fma", [a, b, acc], acc.type)


def _layout_of(value: Any, name: str) -> DistributedLayout:
    assert isinstance(value, tensor) and isinstance(value.type, distributed_type), (
        f"{name} must be a tile, not {value!r}"
    )
    return value.type.layout


def _check_layouts(a: DistributedLayout, b: DistributedLayout, parent: DistributedLayout) -> None:
    assert isinstance(parent, BlockedLayout), f"acc must have a BlockedLayout, not {parent}"
    for index, (name, layout) in enumerate((("a", a), ("b", b))):
        wanted = f"gl.convert_layout({name}, gl.DotOperandLayout({index}, acc.type.layout, 0)) gives it one"
        assert isinstance(layout, DotOperandLayout), f"{name} must have a DotOperandLayout, not {layout}; {wanted}"
        assert layout.parent == parent, (
            f"{name}'s parent layout must be the same as acc's layout: {layout.parent} is not {parent}; {wanted}"
        )
        assert layout.operand_index == index, (
            f"{name}'s operand index must be {index}, not {layout.operand_index}; {wanted}"
        )


def _check_shapes(a: tensor, b: tensor, acc: tensor) -> None:
    shapes = {name: list(value.extents) for name, value in (("a", a), ("b", b), ("acc", acc))}
    text = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    rank = len(acc.extents)
    assert rank in (2, 3) and len(a.extents) == len(b.extents) == rank, (
        f"dot_fma takes matrices, or batches of them, of one rank: {text}"
    )
    assert a.extents[-1] == b.extents[-2], (
        f"the last dimension of a and the second to last of b must agree, since the sum runs over them: {text}"
    )
    wanted = [*a.extents[:-1], b.extents[-1]]
    assert list(b.extents[:-2]) == list(a.extents[:-2]) and list(acc.extents) == wanted, (
        f"acc must have the shape of the product a @ b: {text}"
    )


def _check_types(left: Any, right: Any, accumulator: Any) -> None:
    assert left == right or (
        isinstance(left, dtype) and isinstance(right, dtype) and left.is_fp8() and right.is_fp8()
    ), f"Both operands must be same dtype. Got {left} and {right}"
    for side, element in (("lhs", left), ("rhs", right)):
        assert isinstance(element, dtype) and element.name in ACCUMULATORS, (
            f"Unsupported {side} dtype {element}; dot_fma multiplies {', '.join(ACCUMULATORS)}"
        )
    allowed = ACCUMULATORS[left.name]
    assert isinstance(accumulator, dtype) and accumulator.name in allowed, (
        f"the product of {left} accumulates in {' or '.join(allowed)}, so acc cannot be {accumulator}"
    )
