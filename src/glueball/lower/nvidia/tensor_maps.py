"""Tensor descriptors that a kernel makes: the first warp of the partition builds one, scratch memory keeps it."""

from __future__ import annotations

from functools import reduce

from glueball.lower.context import Context, lowers
from glueball.lower.linear import lane_id, warp_id
from glueball.lower.terms import Term, materialize
from glueball.thread import arithmetic, conversion, special
from glueball.thread.builder import Builder
from glueball.thread.ir import Value
from glueball.thread.nvidia import tensor_maps
from glueball.tile.bulk_boxes import tensor_map_type
from glueball.tile.ir import Operation
from glueball.tile.types import tensor_descriptor_type


@lowers("global_scratch")
def global_scratch(context: Context, operation: Operation) -> None:
    """Blocks have their parts one after another, in the order of their linear numbers."""
    builder, base = context.builder, context.global_scratch
    assert base is not None
    size = builder.constant("i64", operation.attributes["bytes"])
    distance = builder.mul(_linear_block(builder), size)
    context.bind(operation.result, (Term(builder.add(base, distance)),))


def _linear_block(builder: Builder) -> Value:
    """The number of the block in the grid; programs of several blocks have as many numbers."""
    axes = [builder.convert(conversion.ZERO_EXTEND, builder.program_id(axis), "i64") for axis in (2, 1, 0)]
    counts = [builder.emit(special.NUM_PROGRAMS, (), {"axis": axis})[0] for axis in (1, 0)]
    extents = [builder.convert(conversion.ZERO_EXTEND, count, "i64") for count in counts]
    return reduce(
        lambda number, axis: builder.add(builder.mul(number, axis[0]), axis[1]),
        zip(extents, axes[1:], strict=True),
        axes[0],
    )


@lowers("descriptor_none")
def descriptor_none(context: Context, operation: Operation) -> None:
    """Nothing that anybody looks at."""
    context.bind(operation.result, (Term(context.builder.constant("i64", 0)),))


@lowers("make_descriptor")
def make_descriptor(context: Context, operation: Operation) -> None:
    """Numbers go from the innermost dimension outward, strides in bytes."""
    builder, kind, attributes = context.builder, operation.result.type, operation.attributes
    assert isinstance(kind, tensor_descriptor_type)
    base, *numbers, scratch = (materialize(builder, context.term(operand)) for operand in operation.operands)
    size = builder.constant("i64", kind.element_ty.itemsize)
    extents = numbers[: kind.rank][::-1]
    strides = [builder.mul(stride, size) for stride in numbers[kind.rank : -1][::-1]]
    address = builder.add(scratch, builder.constant("i64", attributes["offset"]))
    zero = builder.constant("i32", 0)
    first_warp = builder.constant("i1", True)
    if context.num_warps > 1:
        first_warp = builder.compare(arithmetic.COMPARE_SIGNED, "eq", warp_id(builder), zero)
    first_lane = builder.compare(arithmetic.COMPARE_SIGNED, "eq", lane_id(builder), zero)
    leader = builder.logical_and(first_warp, first_lane)
    (handle,) = builder.emit(
        tensor_maps.MAKE_TENSOR_MAP,
        [zero, lane_id(builder), address, first_warp, leader, base, *extents, *strides],
        {
            "allocation": attributes["allocation"],
            "offset": 0,
            "type": "i32",
            "count": 1,
            "tensor": tensor_map_type(kind),
            "fill": attributes["fill"],
        },
    )
    context.bind(operation.result, (Term(handle),))
