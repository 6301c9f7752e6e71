"""Tile IR to thread IR: each tile becomes the registers its linear layout assigns to one thread.

Lowering neither allocates shared memory nor synchronises: the tile passes have put both into the tile IR.
"""

from __future__ import annotations

from glueball.errors import CompilationError, GlueballError
from glueball.lower import (  # noqa: F401 - importing a family registers its rules
    arithmetic,
    assembly,
    atomics,
    control,
    diagnostics,
    expanded,
    functions,
    gathers,
    hints,
    memory,
    rearranging,
    reductions,
    scans,
    scratch,
    shape,
    shared_memory,
)
from glueball.lower.context import RULES, Context
from glueball.lower.terms import Term, register_type
from glueball.targets import Target
from glueball.thread.builder import Builder
from glueball.thread.ir import Function, Parameter, Region
from glueball.tile.buffers import groups_of, labels_of, views_of
from glueball.tile.ir import Region as TileRegion
from glueball.tile.ir import TileFunction
from glueball.tile.ir import Value as TileValue
from glueball.tile.types import element_of, pointer_type


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
    )
    parameters = []
    for argument, facts in zip(function.arguments, function.facts, strict=True):
        element = element_of(argument.type)
        value = builder.new_value(register_type(element), facts.divisibility)
        pointee = element.element_ty.name if isinstance(element, pointer_type) else None
        parameters.append(Parameter(value, argument.name, pointee))
        context.bind(argument, (Term(value),))
    lower_region(context, function.body)
    return Function(
        name=function.name,
        parameters=parameters,
        body=body,
        num_warps=function.num_warps,
        target=target,
        allocations=context.allocations,
        shared_bytes=function.shared_bytes,
        location=function.location,
        options=dict(function.options),
    )


def lower_region(context: Context, region: TileRegion) -> tuple[TileValue, ...]:
    """Lowers the operations of a region in order; gives the values its `yield` names."""
    for operation in region.operations:
        if operation.opcode == "yield":
            return tuple(operation.operands)
        context.builder.location = operation.location
        try:
            RULES[operation.opcode](context, operation)
        except CompilationError as error:
            if error.location is not None:
                raise
            raise CompilationError(error.error_message, operation.location) from error
        except GlueballError as error:
            raise CompilationError(str(error), operation.location) from error
    return ()
