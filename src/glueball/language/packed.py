"""Numbers of four bits, two in a byte."""

from __future__ import annotations

from typing import Any

from glueball.language.arithmetic import bitwise_and, bitwise_or, lshift, mul, rshift
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr, constexpr
from glueball.language.conversion import bitcast, convert
from glueball.language.rearranging import join, reshape
from glueball.language.reductions import axis_of
from glueball.language.shape import permute, tile_argument
from glueball.language.tensor import tensor
from glueball.layouts import fp4_to_fp_layout
from glueball.tile.types import bfloat16, distributed_type, dtype, float16, int8, int16, uint8

SIGN, MAGNITUDE = 0b1000, 0b0111
EXPONENT_BIAS = 1


@builtin
def fp4_to_fp(
    src: tensor, elem_type: dtype | constexpr, axis: int | constexpr, *, _builder: KernelBuilder = HIDDEN
) -> tensor:
    """The numbers of bytes (int8 or uint8) that each hold two of four bits along `axis`, the first in the lower half.

    Each is a float of one sign, two exponent bits and one of the mantissa: 0, 0.5, 1, 1.5, 2, 3, 4 or 6. `elem_type` is
    float16 or bfloat16, which have them all. The extent of `axis` doubles; both numbers of a byte stay in its thread.
    Errors: `ValueError` for a scalar, bytes of another type, another `elem_type` and an axis out of range.
    """
    x, tile = tile_argument(src, "fp4_to_fp")
    wanted = _unwrap_if_constexpr(elem_type)
    if x.dtype not in (int8, uint8):
        raise ValueError(f"fp4_to_fp takes int8 or uint8, each with two numbers, not {x.dtype}")
    if wanted not in (float16, bfloat16):
        raise ValueError(f"fp4_to_fp gives float16 or bfloat16, not {wanted}")
    along = axis_of(axis, len(tile.shape), "fp4_to_fp")
    pairs = convert(bitcast(x, uint8, _builder), int16, _builder)
    upper = rshift(pairs, 4, _builder=_builder)
    both = join(_float(pairs, wanted, _builder), _float(upper, wanted, _builder), _builder=_builder)
    rank = len(tile.shape)
    beside = permute(both, *range(along + 1), rank, *range(along + 1, rank), _builder=_builder)
    shape = [extent * (2 if place == along else 1) for place, extent in enumerate(tile.shape)]
    result = reshape(beside, shape, _builder=_builder)
    layout = fp4_to_fp_layout(tile.layout, tile.shape, along)
    assert isinstance(result.type, distributed_type)
    if result.type.layout == layout:
        return result
    return _builder.emit("convert_layout", [result], distributed_type(wanted, (*shape,), layout))


def _float(bits: tensor, element: dtype, builder: KernelBuilder) -> tensor:
    """The lower four bits of each int16 as a float: moved into place, then scaled by the distance of the biases."""
    place = element.fp_mantissa_width - 1
    magnitude = lshift(bitwise_and(bits, MAGNITUDE, _builder=builder), place, _builder=builder)
    sign = lshift(bitwise_and(bits, SIGN, _builder=builder), 12, _builder=builder)
    number = bitcast(bitwise_or(magnitude, sign, _builder=builder), element, builder)
    scale: Any = 2.0 ** (element.exponent_bias - EXPONENT_BIAS)
    return mul(number, scale, _builder=builder)
