"""The instruction table: every record by name."""

from __future__ import annotations

from types import ModuleType

from glueball.thread import (
    arithmetic,
    assembly,
    atomics,
    control,
    conversion,
    diagnostics,
    float8,
    mathematics,
    memory,
    promises,
    shared_atomics,
    special,
    synchronization,
)
from glueball.thread.ir import Record
from glueball.thread.nvidia import (
    asynchronous_copy,
    bulk_tensor,
    cluster,
    dependent_grids,
    election,
    matrix,
    matrix_moves,
    mbarrier,
    warpgroup,
)

FAMILIES: tuple[ModuleType, ...] = (
    special, arithmetic, assembly, atomics, conversion, diagnostics, float8, mathematics, memory, promises,
    shared_atomics, synchronization, asynchronous_copy, matrix_moves, election, mbarrier, bulk_tensor, matrix,
    warpgroup, cluster, dependent_grids, control,
)  # fmt: skip

INSTRUCTIONS: dict[str, Record] = {
    record.name: record for family in FAMILIES for record in vars(family).values() if isinstance(record, Record)
}
