"""Tensor descriptors that a kernel makes itself, of tensors whose place and shape it only then knows."""

from __future__ import annotations

from typing import Any

from glueball.language.broadcasting import to_operand
from glueball.language.builder import HIDDEN, KernelBuilder, builtin
from glueball.language.constexpr import _unwrap_if_constexpr
from glueball.language.conversion import convert
from glueball.language.features import require
from glueball.language.memory import pointer_argument
from glueball.language.nvidia.tensor_descriptors import make_descriptor, tensor_descriptor
from glueball.language.tensor import tensor
from glueball.language.tuple import unwrap
from glueball.layouts import NVMMASharedLayout
from glueball.tile.bulk_boxes import boxes_of
from glueball.tile.types import distributed_type, dtype, int32, int64, tensor_descriptor_type

GRANULE = 16
"""Bytes that a row of a block has at least, and of which a stride is a multiple."""
GREATEST_RANK = 5


@builtin
def make_tensor_descriptor(
    base: tensor,
    shape: Any,
    strides: Any,
    block_shape: Any,
    layout: NVMMASharedLayout,
    padding_option: Any = "zero",
    *,
    _builder: KernelBuilder = HIDDEN,
) -> tensor_descriptor:
    """The descriptor of the tensor that starts where `base` points to.

    `shape` and `strides` (in elements, the last one 1) have an integer for each of 1 to 5 dimensions, outermost first;
    `block_shape` and `layout` are what one copy moves and how it lies in shared memory. Loads bring zeros from outside
    of the tensor, or with `padding_option="nan"` NaN. The base and the strides must be multiples of 16 bytes. The
    launch provides 128 bytes of global memory for every program, from the allocator that `set_allocator` sets.
    Errors: `ValueError` for what is no pointer, another number of strides or block extents, a last stride other than 1,
    a stride that is known not to be a multiple of 16 bytes, rows of fewer than 16 bytes, another padding, NaN for
    integers; `AssertionError` for another kind of layout; `LayoutError` for a block that does not fit it.
    """
    require(_builder, "bulk_copy", "tma.make_tensor_descriptor", "sm_90a")
    extents, steps, block = _sequence(shape), _sequence(strides), _sequence(block_shape)
    rank = len(extents)
    if not 1 <= rank <= GREATEST_RANK:
        raise ValueError(f"Expected 1 <= ndim <= {GREATEST_RANK} but got {rank} dimensions")
    if len(steps) != rank:
        raise ValueError(f"Expected {rank} strides but got {len(steps)}")
    if len(block) != rank:
        raise ValueError(f"Expected block_shape to have {rank} dimensions but got {len(block)}")
    address, element = pointer_argument(base, "make_tensor_descriptor")
    if isinstance(address.type, distributed_type):
        raise ValueError(f"the base of a tensor is one pointer, not a tile of them: {address.type}")
    kind = _described(element, block, _unwrap_if_constexpr(layout))
    fill = _padding(padding_option, element)
    _check_strides(steps, element.itemsize)
    sizes = [_integer(extent, "shape", int32, _builder) for extent in extents]
    distances = [_integer(step, "strides", int64, _builder) for step in steps]
    operands = [address.handle, *(number.handle for number in (*sizes, *distances))]
    made = _builder.create("make_descriptor", operands, [kind], {"fill": fill})
    return make_descriptor(made.result, sizes, distances)


def _sequence(values: Any) -> list[Any]:
    given = unwrap(values)
    if not isinstance(given, tuple | list):
        raise ValueError(f"expected a sequence of integers, but got {given!r}")
    return [_unwrap_if_constexpr(value) for value in given]


def _described(element: dtype, block: list[Any], layout: Any) -> tensor_descriptor_type:
    """The type of the descriptor, its block and layout checked."""
    for position, extent in enumerate(block):
        if isinstance(extent, bool) or not isinstance(extent, int):
            raise TypeError(f"Shape element {position} must have type `constexpr[int]`, not {extent!r}")
        if extent < 1 or extent & (extent - 1):
            raise ValueError(f"Shape element {position} must be a power of 2, not {extent}")
    size = element.itemsize
    if block[-1] * size < GRANULE:
        raise ValueError(
            f"Descriptor block shape must have at least {GRANULE} bytes in the last dimension, but got {block[-1]} * "
            f"{size} = {block[-1] * size} bytes"
        )
    assert isinstance(layout, NVMMASharedLayout), f"Expected layout to be a NVMMASharedLayout, not {layout!r}"
    assert layout.rank == len(block), f"layout rank must match block shape rank: {layout.rank} and {len(block)}"
    kind = tensor_descriptor_type(element, tuple(block), layout, len(block))
    boxes_of(kind)
    return kind


def _padding(padding_option: Any, element: dtype) -> str:
    padding = _unwrap_if_constexpr(padding_option)
    if padding not in ("zero", "nan"):
        raise ValueError(f"Padding option {padding} not supported; there are zero and nan")
    if padding == "nan" and element.is_int():
        raise ValueError("Padding option `nan` is not supported for integer blocks")
    return str(padding)


def _check_strides(strides: list[Any], size: int) -> None:
    """What can be said of strides before the kernel runs."""
    *outer, last = strides
    if isinstance(last, tensor) or last != 1:
        raise ValueError(f"Tensor descriptor last dim must be 1 but got {last}")
    for stride in outer:
        if isinstance(stride, int) and stride * size % GRANULE:
            raise ValueError(
                f"Tensor descriptor strides must be {GRANULE}-byte aligned, but got a stride of {stride} * {size} = "
                f"{stride * size} bytes"
            )


def _integer(value: Any, name: str, element: dtype, builder: KernelBuilder) -> tensor:
    operand = to_operand(value, builder)
    if isinstance(operand.type, distributed_type) or not operand.dtype.is_int():
        raise ValueError(f"expected {name!r} to hold integer scalars, but got {value!r}")
    return convert(operand, element, builder)
