"""The table of tile operations: the one place that says what each takes, gives and does."""

from __future__ import annotations

from glueball.tile.operations.arithmetic import ARITHMETIC_OPERATIONS
from glueball.tile.operations.assembly import ASSEMBLY_OPERATIONS
from glueball.tile.operations.asynchronous import ASYNCHRONOUS_OPERATIONS
from glueball.tile.operations.atomics import ATOMIC_OPERATIONS
from glueball.tile.operations.bulk_copies import BULK_COPY_OPERATIONS
from glueball.tile.operations.cluster import CLUSTER_OPERATIONS
from glueball.tile.operations.control import CONTROL_OPERATIONS
from glueball.tile.operations.definition import Effects, OperationDefinition, TileArray
from glueball.tile.operations.diagnostics import DIAGNOSTIC_OPERATIONS
from glueball.tile.operations.dot import DOT_OPERATIONS
from glueball.tile.operations.expanded import EXPANDED_OPERATIONS
from glueball.tile.operations.functions import FUNCTION_OPERATIONS
from glueball.tile.operations.gathers import GATHER_OPERATIONS
from glueball.tile.operations.hints import HINT_OPERATIONS
from glueball.tile.operations.lanes import LANE_OPERATIONS
from glueball.tile.operations.mbarriers import MBARRIER_OPERATIONS
from glueball.tile.operations.memory import MEMORY_OPERATIONS
from glueball.tile.operations.mma import MMA_OPERATIONS
from glueball.tile.operations.overflow import OVERFLOW_OPERATIONS
from glueball.tile.operations.partitions import PARTITION_OPERATIONS
from glueball.tile.operations.rearranging import REARRANGING_OPERATIONS
from glueball.tile.operations.reductions import REDUCTION_OPERATIONS
from glueball.tile.operations.scalar import SCALAR_OPERATIONS
from glueball.tile.operations.scratch import SCRATCH_OPERATIONS
from glueball.tile.operations.shape import SHAPE_OPERATIONS
from glueball.tile.operations.shared_memory import SHARED_MEMORY_OPERATIONS
from glueball.tile.operations.tensor_maps import TENSOR_MAP_OPERATIONS
from glueball.tile.operations.warpgroup import WARPGROUP_OPERATIONS

TILE_OPERATIONS: dict[str, OperationDefinition] = {
    definition.name: definition
    for definition in (
        *SCALAR_OPERATIONS,
        *SHAPE_OPERATIONS,
        *ARITHMETIC_OPERATIONS,
        *FUNCTION_OPERATIONS,
        *DOT_OPERATIONS,
        *HINT_OPERATIONS,
        *MEMORY_OPERATIONS,
        *CONTROL_OPERATIONS,
        *PARTITION_OPERATIONS,
        *EXPANDED_OPERATIONS,
        *SHARED_MEMORY_OPERATIONS,
        *ASYNCHRONOUS_OPERATIONS,
        *MBARRIER_OPERATIONS,
        *CLUSTER_OPERATIONS,
        *BULK_COPY_OPERATIONS,
        *TENSOR_MAP_OPERATIONS,
        *MMA_OPERATIONS,
        *WARPGROUP_OPERATIONS,
        *REARRANGING_OPERATIONS,
        *REDUCTION_OPERATIONS,
        *GATHER_OPERATIONS,
        *ATOMIC_OPERATIONS,
        *ASSEMBLY_OPERATIONS,
        *DIAGNOSTIC_OPERATIONS,
        *OVERFLOW_OPERATIONS,
        *LANE_OPERATIONS,
        *SCRATCH_OPERATIONS,
    )
}

__all__ = ["TILE_OPERATIONS", "Effects", "OperationDefinition", "TileArray"]
