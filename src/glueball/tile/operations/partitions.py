"""Partitions: regions that different warps execute side by side."""

from __future__ import annotations

from collections.abc import Sequence

from glueball.tile.ir import Operation
from glueball.tile.operations.definition import Effects, Machine, OperationDefinition, TileArray, fault


def _check(operation: Operation) -> None:
    workers = operation.attributes["worker_warps"]
    if len(operation.regions) != len(workers) + 1:
        raise fault(
            operation, f"has a region for each of {len(workers)} workers and one more, not {len(operation.regions)}"
        )
    yielded = [value.type for value in operation.regions[0].operations[-1].operands]
    if yielded != [result.type for result in operation.results]:
        raise fault(operation, "gives what its first region yields")


def _run(machine: Machine, operation: Operation, _: Sequence[TileArray]) -> Sequence[TileArray]:
    return machine.run_partitions(operation.regions)


PARTITION_OPERATIONS: tuple[OperationDefinition, ...] = (
    OperationDefinition(
        "warp_specialize",
        "Runs its regions side by side: the first on the kernel's warps, the others each on warps of their own.",
        _check,
        _run,
        effects=Effects(synchronises=True),
        pure=False,
        attributes=frozenset({"worker_warps", "worker_registers"}),
        regions=None,
    ),
)
