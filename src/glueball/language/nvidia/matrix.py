"""Matrix products of warps (PTX ISA, `mma.sync`)."""

from __future__ import annotations

from typing import Any

from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.features import require
from glueball.language.nvidia.precision import check_precision
from glueball.language.tensor import tensor
from glueball.layouts import DotOperandLayout, NVMMADistributedLayout
from glueball.layouts.base import DistributedLayout
from glueball.tile.operations.mma import MMA_TYPES, RUN_LANES, word_elements, words_along_k
from glueball.tile.types import distributed_type, dtype

VERSION = (2, 0)
RUN_BITS = (32, 64, 128)
"""Bits that a run along K may have in a lane."""


@builtin
def mma_v2(
    a: tensor, b: tensor, acc: tensor, input_precision: Any = None, *, _builder: KernelBuilder = HIDDEN
) -> tensor:
    """`acc + a @ b` by the matrix instructions of a warp; of the type of `acc`.

    `acc` (M x N, or batch x M x N) is in an NVMMADistributedLayout P of version [2, 0], `a` (M x K) in
    DotOperandLayout(0, P, k_width), `b` (K x N) in DotOperandLayout(1, P, k_width), with runs of 32, 64 or 128 bits
    along K. Types of `a` and `b`: float16 into float32 or float16; bfloat16 into float32; float32 into float32, of
    which the instruction sees 10 bits of the fraction (tf32); float8e4nv and float8e5, also mixed, into float32 or
    float16 (from sm_89 on); int8 or uint8 into int32, which saturates; float64 into float64. `input_precision` is about
    float32 alone, and may say "tf32" there.
    Errors: `AssertionError` for other types, layouts and shapes, `ValueError` for another `k_width` or
    `input_precision`, `TargetError` where the target has no such instruction.
    """
    require(_builder, "nvidia", "mma_v2", "an NVIDIA GPU from sm_80 on")
    _check_layouts(*(_layout_of(value, name) for value, name in ((a, "a"), (b, "b"), (acc, "acc"))))
    _check_types(a.dtype, b.dtype, acc.dtype)
    _check_shapes(a, b, acc)
    if isinstance(a.dtype, dtype) and a.dtype.is_fp8():
        require(_builder, "float8_pairs", f"mma_v2 of {a.dtype}", "sm_89")
    check_precision(input_precision, a.dtype, "mma_v2", "input_precision")
    return _builder.emit("mma_v2", [a, b, acc], acc.type)


def _layout_of(value: Any, name: str) -> DistributedLayout:
    assert isinstance(value, tensor) and isinstance(value.type, distributed_type), (
        f"{name} must be a tile, not {_unwrap_if_constexpr(value)!r}"
    )
    return value.type.layout


def _check_layouts(a: DistributedLayout, b: DistributedLayout, parent: DistributedLayout) -> None:
    assert isinstance(parent, NVMMADistributedLayout), f"acc must have an NVMMADistributedLayout, not {parent}"
    assert parent.version == VERSION, (
        f"acc must have an NVMMADistributedLayout of version {list(VERSION)}, not {list(parent.version)}"
    )
    for index, (name, layout) in enumerate((("a", a), ("b", b))):
        wanted = f"gl.convert_layout({name}, gl.DotOperandLayout({index}, acc.type.layout, k_width)) gives it one"
        assert isinstance(layout, DotOperandLayout), f"{name} must have a DotOperandLayout, not {layout}; {wanted}"
        assert layout.parent == parent, (
            f"{name}'s parent layout must be the same as acc's layout: {layout.parent} is not {parent}; {wanted}"
        )
        assert layout.operand_index == index, (
            f"{name}'s operand index must be {index}, not {layout.operand_index}; {wanted}"
        )
    assert isinstance(a, DotOperandLayout) and isinstance(b, DotOperandLayout)
    assert a.k_width == b.k_width, f"a and b must have one k_width, not {a.k_width} and {b.k_width}"


def _check_types(left: Any, right: Any, accumulator: Any) -> None:
    mixed = isinstance(left, dtype) and isinstance(right, dtype) and left.is_fp8() and right.is_fp8()
    assert left == right or mixed, f"Both operands must be same dtype. Got {left} and {right}"
    for side, element in (("lhs", left), ("rhs", right)):
        allowed = (
            MMA_TYPES[element.name].accumulators if isinstance(element, dtype) and element.name in MMA_TYPES else ()
        )
        known = ", ".join(name for name, entry in MMA_TYPES.items() if entry.accumulators)
        assert allowed, f"Unsupported {side} dtype {element}; mma_v2 multiplies {known}"
        assert isinstance(accumulator, dtype) and accumulator.name in allowed, (
            f"the product of {element} accumulates in {' or '.join(allowed)}, so acc cannot be {accumulator}"
        )


def _check_shapes(a: tensor, b: tensor, acc: tensor) -> None:
    shapes = {name: list(value.extents) for name, value in (("a", a), ("b", b), ("acc", acc))}
    text = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    wanted = [*a.extents[:-1], b.extents[-1]]
    agrees = a.extents[-1] == b.extents[-2] and list(a.extents[:-2]) == list(b.extents[:-2])
    assert agrees and list(acc.extents) == wanted, f"mma_v2 multiplies M x K by K x N to M x N: {text}"
    layout, element = _layout_of(a, "a"), a.dtype
    assert isinstance(layout, DotOperandLayout) and isinstance(element, dtype)
    width = layout.k_width
    if width * element.primitive_bitwidth not in RUN_BITS:
        legal = [bits // element.primitive_bitwidth for bits in RUN_BITS if bits >= element.primitive_bitwidth]
        raise ValueError(
            f"k_width must be {', '.join(map(str, legal[:-1]))} or {legal[-1]} for {element}, which makes runs of 32, "
            f"64 or 128 bits, not {width}"
        )
    least = RUN_LANES * max(width, word_elements(element) * words_along_k(element))
    assert a.extents[-1] >= least, (
        f"Input shapes should have M >= 1, N >= 1 and K >= {least} for {element} with a k_width of {width}: {text}"
    )
