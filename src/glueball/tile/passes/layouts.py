"""Finds the layouts that the author left open: how a tile is used, or made, says what its layout is.

Nothing is chosen: every layout comes from a `set_auto_layout`, along what operations do to layouts, in both directions;
a CoalescedLayout is that of the memory access it feeds. There is no layout for what none of them reaches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from glueball.errors import CompilationError, LayoutError
from glueball.layouts import (
    BlockedLayout,
    CoalescedLayout,
    DistributedLayout,
    SliceLayout,
    expand_dims_layout,
    join_layout,
    permute_layout,
    reshape_layout,
    split_layout,
)
from glueball.location import SourceLocation
from glueball.targets import Target
from glueball.tile.ir import Operation, Region, TileFunction, Value
from glueball.tile.partitions import walk_with_warps
from glueball.tile.passes.contiguity import Runs, runs_of
from glueball.tile.types import distributed_type, pointer_type

WIDEST_BYTES = 16
MEMORY = frozenset({"load", "store"})
KEEPS_OPERANDS_APART = frozenset(
    {
        "breakpoint",
        "convert_layout",
        "dot_fma",
        "histogram",
        "mma_v2",
        "view_store",
        "warpgroup_mma",
        "warpgroup_wait",
        "if",
        "for",
        "while",
        "yield",
    }
)
"""Operations that say nothing of the layouts of their operands; control flow ties them elsewhere."""

Rule = Callable[[DistributedLayout], DistributedLayout | None]


class Tie:
    """Two values of which either's layout gives the other's."""

    __slots__ = ("backward", "first", "forward", "location", "second")

    def __init__(self, first: Value, second: Value, forward: Rule, backward: Rule, location: SourceLocation) -> None:
        self.first = first
        self.second = second
        self.forward = forward
        self.backward = backward
        self.location = location


def resolve_layouts(function: TileFunction, _: Target) -> None:
    """Gives every tile a layout. `CompilationError` where two disagree on one, and where none is found."""
    open_values = [value for value, _ in _all_values(function) if is_open(value)]
    if not open_values:
        return
    ties: dict[Value, list[Tie]] = {}
    for operation in function.body.walk():
        for tie in _ties(operation):
            ties.setdefault(tie.first, []).append(tie)
            ties.setdefault(tie.second, []).append(tie)
    layouts = _propagated(ties, _seeds(function), function)
    for value, location in _all_values(function):
        kind = value.type
        if is_open(value):
            assert isinstance(kind, distributed_type)
            if value not in layouts:
                raise _unknown(kind, location)
            value.type = distributed_type(kind.element_ty, kind.shape, layouts[value])
    _drop_statements(function.body, {})


def is_open(value: Value) -> bool:
    """Whether a value is a tile whose layout is to be found."""
    return isinstance(value.type, distributed_type) and not value.type.is_placed


def _unknown(kind: distributed_type, location: SourceLocation) -> CompilationError:
    return CompilationError(
        f"Failed to infer return type: nothing says what the layout of this tile of shape {list(kind.shape)} is; give "
        "it one where it is made, or say it with gl.set_auto_layout(x, layout), which gl.convert_layout does not",
        location,
    )


def _seeds(function: TileFunction) -> Iterator[tuple[Value, DistributedLayout, SourceLocation]]:
    """Tiles of which something says what their layout is: those of memory accesses in a CoalescedLayout, and all known
    ones, which pass theirs on."""
    runs: dict[Value, Runs] | None = None
    for operation, warps in walk_with_warps(function):
        if operation.opcode in MEMORY and isinstance(operation.operands[0].type, distributed_type):
            pointer = operation.operands[0]
            assert isinstance(pointer.type, distributed_type)
            if isinstance(pointer.type.layout, CoalescedLayout):
                if function.num_ctas > 1:
                    raise CompilationError(
                        "a CoalescedLayout does not say which CTA of a cluster holds what: give the tile a layout with "
                        "a cga_layout",
                        operation.location,
                    )
                runs = runs_of(function) if runs is None else runs
                layout = coalesced(pointer.type, runs.get(pointer), warps, function.lanes)
                yield pointer, layout, operation.location
    for value, location in _all_values(function):
        if isinstance(value.type, distributed_type) and value.type.is_placed:
            yield value, value.type.layout, location


def coalesced(kind: distributed_type, runs: Runs | None, num_warps: int, lanes: int) -> BlockedLayout:
    """The layout in which neighbouring lanes access neighbouring addresses, each thread as much as one access takes."""
    rank = len(kind.shape)
    known = runs or Runs.unknown(rank)
    element = kind.element_ty
    size = element.element_ty.itemsize if isinstance(element, pointer_type) else element.itemsize
    order = sorted(range(rank), key=lambda axis: (-known.contiguity[axis], -axis))
    fastest = order[0]
    share = max(1, kind.numel // (num_warps * lanes))
    vector = max(1, min(known.contiguity[fastest], known.divisibility // size, WIDEST_BYTES // size, share))
    sizes = [vector if axis == fastest else 1 for axis in range(rank)]
    covered = list(sizes)

    def spread(count: int) -> list[int]:
        level = [1] * rank
        for axis in order:
            level[axis] = count if axis == order[-1] else min(count, max(1, kind.shape[axis] // covered[axis]))
            covered[axis] *= level[axis]
            count //= level[axis]
        return level

    return BlockedLayout(sizes, spread(lanes), spread(num_warps), order)


def _propagated(
    ties: dict[Value, list[Tie]],
    seeds: Iterator[tuple[Value, DistributedLayout, SourceLocation]],
    function: TileFunction,
) -> dict[Value, DistributedLayout]:
    layouts: dict[Value, DistributedLayout] = {}
    pending: deque[Value] = deque()

    def settle(value: Value, layout: DistributedLayout, location: SourceLocation) -> None:
        if value not in layouts:
            layouts[value] = layout
            pending.append(value)
        elif not _agree(value, layouts[value], layout):
            raise CompilationError(
                f"found conflicting encodings for value: one use needs {layouts[value]}, another {layout}; write the "
                f"expression twice, or convert one of the two with gl.convert_layout",
                location,
            )

    for value, layout, location in seeds:
        settle(value, layout, location)
    while pending:
        value = pending.popleft()
        for tie in ties.get(value, ()):
            here = value is tie.first
            other = tie.second if here else tie.first
            if not is_open(other):
                continue
            try:
                found = (tie.forward if here else tie.backward)(layouts[value])
            except LayoutError as error:
                raise CompilationError(str(error), tie.location) from error
            if found is not None:
                settle(other, found, tie.location)
    return layouts


def _agree(value: Value, first: DistributedLayout, second: DistributedLayout) -> bool:
    shape = value.type.shape
    return first == second or first.linear(shape) == second.linear(shape)


def _equal(first: Value, second: Value, location: SourceLocation) -> Tie:
    return Tie(first, second, lambda layout: layout, lambda layout: layout, location)


def _chain(values: Sequence[Value], location: SourceLocation) -> Iterator[Tie]:
    tiles = [value for value in values if isinstance(value.type, distributed_type)]
    for first, second in pairwise(tiles):
        yield _equal(first, second, location)


def _ties(operation: Operation) -> Iterator[Tie]:
    """What an operation says of the layouts of its tiles."""
    special = TIES.get(operation.opcode)
    if special is not None:
        yield from special(operation)
    elif operation.opcode not in KEEPS_OPERANDS_APART:
        yield from _chain((*operation.operands, *operation.results), operation.location)


def _slice_of(axis: int, layout: DistributedLayout) -> DistributedLayout:
    return SliceLayout(axis, layout)


def _parent_of(axis: int, layout: DistributedLayout) -> DistributedLayout | None:
    return layout.parent if isinstance(layout, SliceLayout) and layout.dim == axis else None


def _expand_dims(operation: Operation) -> Iterator[Tie]:
    (source,), axis = operation.operands, operation.attributes["axis"]
    yield Tie(
        source,
        operation.result,
        lambda layout: expand_dims_layout(layout, axis, source.type.shape),
        lambda layout: _slice_of(axis, layout),
        operation.location,
    )


def _reduce(operation: Operation) -> Iterator[Tie]:
    axis = operation.attributes["axis"]
    yield from _chain(operation.operands, operation.location)
    yield from _chain(operation.results, operation.location)
    source, result = operation.operands[0], operation.results[0]
    if isinstance(result.type, distributed_type):
        yield Tie(
            source,
            result,
            lambda layout: _slice_of(axis, layout),
            lambda layout: _parent_of(axis, layout),
            operation.location,
        )


def _permute(operation: Operation) -> Iterator[Tie]:
    (source,), order = operation.operands, list(operation.attributes["order"])
    back = [order.index(axis) for axis in range(len(order))]
    shape, result = source.type.shape, operation.result
    yield Tie(
        source,
        result,
        lambda layout: permute_layout(layout, order, shape),
        lambda layout: permute_layout(layout, back, result.type.shape),
        operation.location,
    )


def _reshape(operation: Operation) -> Iterator[Tie]:
    (source,), result = operation.operands, operation.result
    shapes = source.type.shape, result.type.shape
    yield Tie(
        source,
        result,
        lambda layout: reshape_layout(layout, *shapes),
        lambda layout: reshape_layout(layout, *reversed(shapes)),
        operation.location,
    )


def _join(operation: Operation) -> Iterator[Tie]:
    yield from _chain(operation.operands, operation.location)
    yield _halves(operation.operands[0], operation.result, operation.location)


def _split(operation: Operation) -> Iterator[Tie]:
    yield from _chain(operation.results, operation.location)
    yield _halves(operation.results[0], operation.operands[0], operation.location)


def _halves(half: Value, whole: Value, location: SourceLocation) -> Tie:
    def joined(layout: DistributedLayout) -> DistributedLayout:
        return _parent_of(len(half.type.shape), layout) or join_layout(layout, half.type.shape)

    return Tie(half, whole, joined, lambda layout: split_layout(layout, whole.type.shape), location)


def _indexed(operation: Operation) -> Iterator[Tie]:
    """The source of a gather has a layout of its own."""
    yield _equal(operation.operands[1], operation.result, operation.location)


def _yielded(region: Region) -> Sequence[Value]:
    last = region.operations[-1:]
    return last[0].operands if last and last[0].opcode == "yield" else ()


def _control(operation: Operation) -> Iterator[Tie]:
    groups: list[Sequence[Value]] = [operation.results]
    if operation.opcode == "if":
        groups += [_yielded(region) for region in operation.regions]
    elif operation.opcode == "for":
        (body,) = operation.regions
        groups += [operation.operands[3:], body.arguments[1:], _yielded(body)]
    else:
        condition, body = operation.regions
        groups += [operation.operands, condition.arguments, _yielded(condition)[1:], body.arguments, _yielded(body)]
    for column in zip(*(group for group in groups if group), strict=False):
        yield from _chain(column, operation.location)


TIES: dict[str, Callable[[Operation], Iterator[Tie]]] = {
    "expand_dims": _expand_dims,
    "for": _control,
    "gather": _indexed,
    "if": _control,
    "join": _join,
    "permute": _permute,
    "reduce": _reduce,
    "reshape": _reshape,
    "split": _split,
    "while": _control,
}


def _all_values(function: TileFunction) -> Iterator[tuple[Value, SourceLocation]]:
    for operation in function.body.walk():
        for result in operation.results:
            yield result, operation.location
        for region in operation.regions:
            for argument in region.arguments:
                yield argument, operation.location


def _drop_statements(region: Region, renamed: dict[Value, Value]) -> None:
    """Removes the operations that only said what a layout is."""
    kept = []
    for operation in region.operations:
        operation.operands = [renamed.get(operand, operand) for operand in operation.operands]
        for inner in operation.regions:
            _drop_statements(inner, renamed)
        if operation.opcode == "set_auto_layout":
            renamed[operation.result] = operation.operands[0]
        else:
            kept.append(operation)
    region.operations[:] = kept
