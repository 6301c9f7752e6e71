"""Which arguments of a kernel lead to memory that it may write."""

from __future__ import annotations

from collections.abc import Iterable

from glueball.tile.ir import Operation, Region, TileFunction, Value
from glueball.tile.operations import TILE_OPERATIONS
from glueball.tile.operations.definition import NO_EFFECTS
from glueball.tile.types import pointer_type

Sources = dict[Value, frozenset[int]]

NONE: frozenset[int] = frozenset()


def written_arguments(function: TileFunction) -> frozenset[int]:
    """Positions of the arguments through which the kernel may write global memory; never one too few.

    Pointers are followed from the arguments through arithmetic and regions. An address that the kernel loads from
    memory is followed to where it was loaded from.
    """
    sources: Sources = {argument: frozenset({position}) for position, argument in enumerate(function.arguments)}
    while _spread(function.body, sources):
        pass
    written = (_leading(operation.operands, sources) for operation in function.body.walk() if _writes(operation))
    return NONE.union(*written)


def _spread(region: Region, sources: Sources) -> bool:
    """Carries sources over every operation once; whether anything was new."""
    changed = False
    for operation in region.operations:
        found = _leading(operation.operands, sources)
        for inner in operation.regions:
            changed |= _add(inner.arguments, found, sources)
            changed |= _spread(inner, sources)
            if inner.operations:
                found |= _leading(inner.operations[-1].operands, sources)
        changed |= _add(operation.results, found, sources)
        for inner in operation.regions:
            changed |= _add(inner.arguments, found, sources)
    return changed


def _add(values: Iterable[Value], found: frozenset[int], sources: Sources) -> bool:
    changed = False
    for value in values:
        known = sources.get(value, NONE)
        if not found <= known:
            sources[value] = known | found
            changed = True
    return changed


def _leading(operands: Iterable[Value], sources: Sources) -> frozenset[int]:
    """Where addresses among the operands come from: through those that are pointers, else through all."""
    operands = list(operands)
    pointers = [operand for operand in operands if isinstance(getattr(operand.type, "scalar", None), pointer_type)]
    return NONE.union(*(sources.get(operand, NONE) for operand in pointers or operands))


def _writes(operation: Operation) -> bool:
    """Whether an operation may write global memory; one that says nothing of what it does, such as assembly, may."""
    definition = TILE_OPERATIONS[operation.opcode]
    if definition.effects != NO_EFFECTS or definition.pure:
        return definition.effects.writes_global
    return not definition.regions and not definition.terminator
