"""Copies from global to shared memory that threads start and wait for in groups."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from glueball.errors import CompilationError, LayoutError
from glueball.lower.context import Context, lowers
from glueball.lower.control import only_where
from glueball.lower.memory import Access, idle_mask, plan_accesses
from glueball.lower.shared_memory import View, element_address, view_of
from glueball.lower.terms import materialize
from glueball.thread.nvidia import asynchronous_copy
from glueball.tile.ir import Operation
from glueball.tile.shared_moves import vector_elements
from glueball.tile.shared_views import tile_ctas, tile_offsets
from glueball.tile.types import distributed_type

LEAST_BYTES = 4
"""The least that one instruction copies (PTX ISA, `cp.async`)."""


@lowers("async_copy")
def copy(context: Context, operation: Operation) -> None:
    """Each thread copies its registers' elements, as wide as they lie side by side on both sides."""
    builder, view = context.builder, view_of(context, operation.operands[0])
    pointers = operation.operands[1]
    assert isinstance(pointers.type, distributed_type)
    masks = context.terms(operation.operands[2]) if len(operation.operands) > 2 else None
    linear = pointers.type.linear
    redundant = linear.free_variables()
    size = view.type.element_ty.itemsize
    accesses = plan_accesses(
        context.terms(pointers), masks, size, {}, None, lambda register: register & redundant["register"] == 0
    )
    holders = idle_mask(builder, redundant["lane"], redundant["warp"])
    guard: AbstractContextManager[Any] = nullcontext() if holders is None else only_where(context, holders)
    with guard:
        for access in accesses:
            _copy_run(context, operation, view, access)


def _copy_run(context: Context, operation: Operation, view: View, access: Access) -> None:
    """One run of elements side by side in global memory, in pieces that are so in shared memory too."""
    builder, pointers = context.builder, operation.operands[1]
    assert isinstance(pointers.type, distributed_type)
    size = view.type.element_ty.itemsize
    linear = pointers.type.linear
    offsets, ctas = tile_offsets(linear, view.type), tile_ctas(linear, view.type)
    if any(ctas.all_columns()):
        raise LayoutError("an asynchronous copy does not write to the memory of another CTA, as these layouts need")
    table = offsets.table("register").tolist()
    count = min(len(access.registers), vector_elements(offsets, ctas, view.type))
    while any(
        table[access.registers[start + index]] != table[access.registers[start]] + index
        for start in range(0, len(access.registers), count)
        for index in range(count)
    ):
        count //= 2
    if count * size < LEAST_BYTES:
        raise CompilationError(_too_narrow(count * size, len(access.registers) * size), operation.location)
    for start in range(0, len(access.registers), count):
        place = element_address(builder, view, offsets, access.registers[start])
        operands = [access.address, place.base]
        masked = len(operation.operands) > 2 and access.mask.base.constant is not True
        if masked:
            operands.append(materialize(builder, access.mask))
        attributes = {
            "allocation": view.allocation,
            "offset": place.offset,
            "source_offset": access.offset + start * size,
            "bytes": count * size,
            "masked": masked,
            "cache": operation.attributes["cache_modifier"],
            "cache_policy": operation.attributes["cache_policy"],
            "prefetch": operation.attributes["prefetch"],
        }
        builder.emit(asynchronous_copy.COPY_ASYNC, operands, attributes)


def _too_narrow(found: int, in_global: int) -> str:
    reason = (
        f"side by side in global memory, as far as pointers and mask tell, are {in_global} bytes"
        if in_global < LEAST_BYTES
        else "the shared layout does not keep side by side what a thread holds side by side"
    )
    return (
        f"cp.async does not support transfers smaller than 4 bytes; calculated this as {found} bytes: {reason}. More "
        "elements a thread in the pointers' layout, gl.multiple_of and gl.max_contiguous, or an aligned mask widen them"
    )


@lowers("async_copy_commit")
def commit(context: Context, _: Operation) -> None:
    """Each thread closes its group."""
    context.builder.emit(asynchronous_copy.COMMIT_GROUP)


@lowers("async_copy_wait")
def wait(context: Context, operation: Operation) -> None:
    """Each thread waits for its own groups."""
    context.builder.emit(asynchronous_copy.WAIT_GROUP, (), {"pending": operation.attributes["pending"]})
