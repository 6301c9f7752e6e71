"""Inserts a barrier where two shared accesses of different threads may touch the same bytes, and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, field

from glueball.targets import Target
from glueball.tile.ir import Operation, Region, TileFunction

Span = tuple[int, int]


@dataclass(slots=True)
class Pending:
    """Byte ranges of the arena read and written since the last barrier, on some path."""

    reads: set[Span] = field(default_factory=set)
    writes: set[Span] = field(default_factory=set)

    def merged(self, other: Pending) -> Pending:
        """What is pending where two paths meet."""
        return Pending(self.reads | other.reads, self.writes | other.writes)

    def conflicts(self, span: Span, *, writing: bool) -> bool:
        """Whether an access needs a barrier before it."""
        against = self.writes | self.reads if writing else self.writes
        return any(start < span[1] and span[0] < end for start, end in against)


def insert_barriers(function: TileFunction, _: Target) -> None:
    """Adds `barrier` operations, each at the location of the access it protects."""
    spans = {
        operation.attributes["name"]: (
            operation.attributes["offset"],
            operation.attributes["offset"] + operation.attributes["bytes"],
        )
        for operation in function.body.walk()
        if operation.opcode == "allocate_shared"
    }
    if spans:
        _visit(function.body, Pending(), spans)


def _visit(region: Region, pending: Pending, spans: dict[str, Span]) -> Pending:
    """Walks a region with what is pending at its start; gives what is pending at its end."""
    result: list[Operation] = []
    for operation in region.operations:
        access = _access(operation, spans)
        if operation.opcode == "barrier":
            pending = Pending()
        elif access is not None:
            span, writing = access
            if pending.conflicts(span, writing=writing):
                result.append(Operation("barrier", (), (), location=operation.location))
                pending = Pending()
            (pending.writes if writing else pending.reads).add(span)
        elif operation.regions:
            pending = _visit_regions(operation, pending, spans)
        result.append(operation)
    region.operations[:] = result
    return pending


def _visit_regions(operation: Operation, pending: Pending, spans: dict[str, Span]) -> Pending:
    if operation.opcode == "if":
        first, second = (
            _visit(region, Pending(set(pending.reads), set(pending.writes)), spans) for region in operation.regions
        )
        return first.merged(second)
    while True:
        after = Pending(set(pending.reads), set(pending.writes))
        for region in operation.regions:
            after = _visit(region, after, spans)
        grown = pending.merged(after)
        if grown == pending:
            return grown
        pending = grown


def _access(operation: Operation, spans: dict[str, Span]) -> tuple[Span, bool] | None:
    if operation.opcode not in ("shared_store", "shared_load"):
        return None
    return spans[operation.attributes["allocation"]], operation.opcode == "shared_store"
