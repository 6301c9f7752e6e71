"""Which warps execute an operation: those of the kernel, or of a worker partition."""

from __future__ import annotations

from collections.abc import Iterator

from glueball.tile.ir import Operation, Region, TileFunction


def partition_warps(operation: Operation, own: int) -> tuple[int, ...]:
    """The warps of every region of an operation that warps numbering `own` execute."""
    if operation.opcode == "warp_specialize":
        return (own, *operation.attributes["worker_warps"])
    return (own,) * len(operation.regions)


def walk_with_warps(function: TileFunction) -> Iterator[tuple[Operation, int]]:
    """Every operation, outer before inner, with the number of warps that execute it."""
    yield from _walk(function.body, function.num_warps)


def _walk(region: Region, warps: int) -> Iterator[tuple[Operation, int]]:
    for operation in region.operations:
        yield operation, warps
        for inner, count in zip(operation.regions, partition_warps(operation, warps), strict=True):
            yield from _walk(inner, count)


def launched_warps(function: TileFunction) -> int:
    """Warps of a block: the kernel's own, and for the workers whole groups of four."""
    workers = [
        sum(operation.attributes["worker_warps"])
        for operation in function.body.walk()
        if operation.opcode == "warp_specialize"
    ]
    return function.num_warps + max([-(-count // 4) * 4 for count in workers], default=0)
