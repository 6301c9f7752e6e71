"""Tile IR to thread IR: each tile becomes the registers its linear layout assigns to one thread.

Lowering neither allocates shared memory nor synchronises: the tile passes have put both into the tile IR.
"""

from __future__ import annotations

from collections.abc import Mapping

from glueball.errors import CompilationError, GlueballError
from glueball.lower import (  # noqa: F401 - importing a family registers its rules
    arithmetic,
    assembly,
    atomics,
    control,
    diagnostics,
    dot,
    expanded,
    functions,
    gathers,
    hints,
    memory,
    overflow,
    partitions,
    rearranging,
    reductions,
    scans,
    scratch,
    shape,
    shared_memory,
)
from glueball.lower.context import RULES, Context
from glueball.lower.nvidia import (  # noqa: F401 - as above
    asynchronous,
    bulk_copies,
    matrix,
    mbarriers,
    tensor_maps,
    warpgroup,
)
from glueball.lower.nvidia.cluster import cluster_words
from glueball.lower.partitions import KERNEL_BARRIER, capture_allocation
from glueball.lower.terms import Term, register_type
from glueball.targets import Target
from glueball.thread.builder import Builder
from glueball.thread.ir import Function, Parameter, Region
from glueball.tile.buffers import Places, groups_of, labels_of, views_of
from glueball.tile.bulk_boxes import tensor_map_type
from glueball.tile.cluster_accesses import arrivals_carry_data, words_elsewhere
from glueball.tile.ir import Region as TileRegion
from glueball.tile.ir import TileFunction
from glueball.tile.ir import Value as TileValue
from glueball.tile.operations.tensor_maps import MAP_BYTES
from glueball.tile.passes.contiguity import SHARING, runs_of
from glueball.tile.types import element_of, pointer_type, tensor_descriptor_type

SCRATCH_PARAMETER = "global_scratch"
DESCRIPTOR_BYTES = 64
"""The address of a tensor map is a multiple of so many bytes."""


def lower(function: TileFunction, target: Target) -> Function:
    """The kernel as one thread runs it. `CompilationError` at the author's line for what cannot be lowered."""
    body = Region()
    builder = Builder(body)
    views = views_of(function)
    made = {each.attributes["name"]: each for each in function.body.walk() if each.opcode == "allocate_shared"}
    context = Context(
        builder,
        target,
        function.num_warps,
        lower_region,
        views=views,
        groups=groups_of(labels_of(made.values()), views),
        tile_allocations=made,
        barrier=KERNEL_BARRIER if any(each.opcode == "warp_specialize" for each in function.body.walk()) else None,
        num_ctas=function.num_ctas,
        words_elsewhere=_words_elsewhere(function, views),
        arrivals_carry_data=function.num_ctas > 1 and arrivals_carry_data(function),
        runs=runs_of(function) if any(each.opcode in SHARING for each in function.body.walk()) else {},
    )
    parameters = _parameters(context, function)
    lower_region(context, function.body)
    shared_bytes = function.shared_bytes
    if (captures := capture_allocation(body, shared_bytes)) is not None:
        context.allocations[captures.name] = captures
        shared_bytes = captures.offset + captures.bytes
    if context.cluster_barriers:
        words = cluster_words(len(context.cluster_barriers), shared_bytes)
        context.allocations[words.name] = words
        shared_bytes = words.offset + words.bytes
    return Function(
        name=function.name,
        parameters=parameters,
        body=body,
        num_warps=function.num_warps,
        target=target,
        allocations=context.allocations,
        shared_bytes=shared_bytes,
        global_scratch_bytes=function.global_scratch_bytes,
        location=function.location,
        options=dict(function.options),
        num_ctas=function.num_ctas,
    )


def _words_elsewhere(function: TileFunction, views: Mapping[TileValue, Places]) -> frozenset[str]:
    """The allocations of mbarriers at which threads of other CTAs arrive; copy engines need no ordering of theirs."""
    found = (
        view
        for each in function.body.walk()
        if each.opcode != "bulk_load"
        for view in words_elsewhere(each, function.num_ctas)
    )
    return frozenset(place.allocation for view in found for place in views[view])


def _parameters(context: Context, function: TileFunction) -> list[Parameter]:
    """The kernel's parameters; scratch memory of the launch comes last."""
    builder, parameters = context.builder, []
    for argument, facts in zip(function.arguments, function.facts, strict=True):
        if isinstance(argument.type, tensor_descriptor_type):
            value = builder.new_value("i64", DESCRIPTOR_BYTES)
            parameters.append(Parameter(value, argument.name, descriptor=tensor_map_type(argument.type)))
        else:
            element = element_of(argument.type)
            value = builder.new_value(register_type(element), facts.divisibility)
            pointee = element.element_ty.name if isinstance(element, pointer_type) else None
            parameters.append(Parameter(value, argument.name, pointee))
        context.bind(argument, (Term(value),))
    if function.global_scratch_bytes:
        context.global_scratch = builder.new_value("i64", MAP_BYTES)
        parameters.append(Parameter(context.global_scratch, SCRATCH_PARAMETER))
    return parameters


def lower_region(context: Context, region: TileRegion) -> tuple[TileValue, ...]:
    """Lowers the operations of a region in order; gives the values its `yield` names."""
    outside = context.builder.location
    yielded: tuple[TileValue, ...] = ()
    for operation in region.operations:
        if operation.opcode == "yield":
            yielded = tuple(operation.operands)
            break
        context.builder.location = operation.location
        try:
            RULES[operation.opcode](context, operation)
        except CompilationError as error:
            if error.location is not None:
                raise
            raise CompilationError(error.error_message, operation.location) from error
        except GlueballError as error:
            raise CompilationError(str(error), operation.location) from error
    context.builder.location = outside
    return yielded
