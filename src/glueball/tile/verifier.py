"""The rules of the tile IR, one function per rule."""

from __future__ import annotations

from collections.abc import Iterator

from glueball.errors import LayoutError, VerificationError
from glueball.location import SourceLocation
from glueball.targets import Target
from glueball.tile.ir import Operation, Region, TileFunction, Value
from glueball.tile.operations import TILE_OPERATIONS
from glueball.tile.operations.definition import fault
from glueball.tile.partitions import partition_warps, walk_with_warps
from glueball.tile.types import TileType, distributed_type, shared_memory_descriptor_type


def verify(function: TileFunction, target: Target) -> None:
    """Check a function against every rule; `VerificationError` at the operation that breaks one."""
    verify_structure(function)
    verify_placement(function, target)


def verify_structure(function: TileFunction) -> None:
    """Check the rules that hold whatever the target."""
    operations_are_known(function)
    regions_end_properly(function)
    uses_are_dominated(function)
    operations_obey_their_types(function)
    allocations_are_declared(function)


def verify_placement(function: TileFunction, target: Target) -> None:
    """Check the rules of how tiles are spread over the threads of a target."""
    lanes_are_the_targets(function, target)
    layouts_fit(function, target)


def operations_are_known(function: TileFunction) -> None:
    """Every operation is in the table, with its attributes and regions."""
    for operation in function.body.walk():
        definition = TILE_OPERATIONS.get(operation.opcode)
        if definition is None:
            raise fault(operation, "is no operation of the tile IR")
        given = operation.attributes.keys()
        if missing := definition.attributes - given:
            raise fault(operation, f"lacks the attribute {', '.join(sorted(missing))}")
        if unknown := given - definition.attributes - definition.optional_attributes:
            raise fault(operation, f"has no attribute {', '.join(sorted(unknown))}")
        if definition.regions is not None and len(operation.regions) != definition.regions:
            raise fault(operation, f"has {definition.regions} regions, not {len(operation.regions)}")


def regions_end_properly(function: TileFunction) -> None:
    """The body ends in `return`, and only there; a region of an operation ends in `yield` where values are taken."""
    body = function.body
    if not body.operations or body.operations[-1].opcode != "return":
        location = body.operations[-1].location if body.operations else function.location
        raise VerificationError(f"kernel `{function.name}` does not end in `return`", location)
    for parent, region in _regions(function):
        if parent is not None and parent.results and not _ends_in_yield(region):
            raise fault(parent, "takes values, so each of its regions ends in `yield`")
        for position, operation in enumerate(region.operations):
            if not TILE_OPERATIONS[operation.opcode].terminator:
                continue
            if position != len(region.operations) - 1:
                raise fault(operation, "ends its region, but operations follow")
            if (operation.opcode == "return") != (parent is None):
                raise fault(operation, "ends a kernel" if parent is not None else "ends a region of an operation")


def uses_are_dominated(function: TileFunction) -> None:
    """Every operand is an argument in scope or the result of an earlier operation in scope."""
    _check_region(function.body, set(function.arguments))


def _check_region(region: Region, outer: set[Value]) -> None:
    visible = outer | set(region.arguments)
    for operation in region.operations:
        for position, operand in enumerate(operation.operands):
            if operand not in visible:
                name = f" `{operand.name}`" if operand.name else ""
                raise fault(operation, f"uses a value{name} as operand {position} that is not defined before it")
        for inner in operation.regions:
            _check_region(inner, visible)
        visible.update(operation.results)


def operations_obey_their_types(function: TileFunction) -> None:
    """Every operation obeys its rule of operand and result types; loop-carried types are among them."""
    for operation in function.body.walk():
        TILE_OPERATIONS[operation.opcode].check(operation)


def allocations_are_declared(function: TileFunction) -> None:
    """Shared memory is allocated once, before it is stored to or loaded from."""
    declared: set[str] = set()
    for operation in function.body.walk():
        if operation.opcode == "allocate_shared":
            name = operation.attributes["name"]
            if name in declared:
                raise fault(operation, f"allocates `{name}` a second time")
            declared.add(name)
        elif (name := operation.attributes.get("allocation")) not in {None, *declared}:
            raise fault(operation, f"uses `{name}`, which is not allocated before it")


def lanes_are_the_targets(function: TileFunction, target: Target) -> None:
    """The function was built for warps of as many lanes as the target has."""
    if function.lanes != target.lanes:
        raise VerificationError(
            f"kernel `{function.name}` is built for {function.lanes} lanes per warp, {target.name} has {target.lanes}",
            function.location,
        )


def layouts_fit(function: TileFunction, target: Target) -> None:
    """Every tile is spread over exactly the lanes of the target's warps, the warps of its partition, and all CTAs.

    So is every view over all CTAs.
    """
    fitting: set[tuple[TileType, int]] = set()
    for value, what, location, warps in _values(function):
        kind = value.type
        if isinstance(kind, distributed_type | shared_memory_descriptor_type) and (kind, warps) not in fitting:
            if isinstance(kind, distributed_type):
                mistake = _misfit(kind, function, warps, target)
            else:
                mistake = _wrong_ctas(kind.layout.ctas, function)
            if mistake:
                raise VerificationError(f"{what} has an invalid layout {kind.layout}: {mistake}", location)
            fitting.add((kind, warps))


def _wrong_ctas(found: int, function: TileFunction) -> str:
    """What is wrong with the number of CTAs that a layout is made for; nothing where it is the kernel's."""
    if found == function.num_ctas:
        return ""
    bases = function.num_ctas.bit_length() - 1
    advice = f"give the layout a cga_layout of {bases} bases" if bases else "leave the layout's cga_layout out"
    return (
        f"Layout has {found} CTAs per CGA, but the context requires {function.num_ctas} CTAs per CGA; launch kernel "
        f"`{function.name}` with num_ctas={found} or {advice}"
    )


def _misfit(kind: distributed_type, function: TileFunction, warps: int, target: Target) -> str:
    """What is wrong with how a tile is spread over threads; nothing where it fits."""
    layout = kind.layout
    if not kind.is_placed:
        return "it was never found out"
    kernel, launch = f"kernel `{function.name}`", f"launch with num_warps={layout.warps} or change the layout"
    if warps != function.num_warps:
        kernel, launch = "the worker", f"start it with {layout.warps} warps or change the layout"
    for found, wanted, unit, holder, advice in (
        (layout.lanes, target.lanes, "lanes per warp", target.name, "change the layout, or compile for another target"),
        (layout.warps, warps, "warps", kernel, launch),
    ):
        if found != wanted:
            return f"it is made for {found} {unit}, but {holder} has {wanted}; {advice}"
    if mistake := _wrong_ctas(layout.ctas, function):
        return mistake
    try:
        layout.linear(kind.shape)
    except LayoutError as error:
        return str(error)
    return ""


def _values(function: TileFunction) -> Iterator[tuple[Value, str, SourceLocation, int]]:
    """Every value where it is bound or used: what to call it there, where that is, and how many warps it is for."""
    for argument in function.arguments:
        yield argument, f"argument `{argument.name}`", function.location, function.num_warps
    for operation, warps in walk_with_warps(function):
        for position, operand in enumerate(operation.operands):
            yield operand, f"operand {position} of `{operation.opcode}`", operation.location, warps
        for result in operation.results:
            yield result, f"the result of `{operation.opcode}`", operation.location, warps
        for region, inner in zip(operation.regions, partition_warps(operation, warps), strict=True):
            for argument in region.arguments:
                yield argument, f"a value carried by `{operation.opcode}`", operation.location, inner


def _regions(function: TileFunction) -> Iterator[tuple[Operation | None, Region]]:
    yield None, function.body
    for operation in function.body.walk():
        for region in operation.regions:
            yield operation, region


def _ends_in_yield(region: Region) -> bool:
    return bool(region.operations) and region.operations[-1].opcode == "yield"
