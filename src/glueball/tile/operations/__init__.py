"""The table of tile operations: the one place that says what each takes, gives and does."""

from __future__ import annotations

from glueball.tile.operations.arithmetic import ARITHMETIC_OPERATIONS
from glueball.tile.operations.assembly import ASSEMBLY_OPERATIONS
from glueball.tile.operations.atomics import ATOMIC_OPERATIONS
from glueball.tile.operations.control import CONTROL_OPERATIONS
from glueball.tile.operations.definition import Effects, OperationDefinition, TileArray
from glueball.tile.operations.diagnostics import DIAGNOSTIC_OPERATIONS
from glueball.tile.operations.expanded import EXPANDED_OPERATIONS
from glueball.tile.operations.functions import FUNCTION_OPERATIONS
from glueball.tile.operations.gathers import GATHER_OPERATIONS
from glueball.tile.operations.hints import HINT_OPERATIONS
from glueball.tile.operations.lanes import LANE_OPERATIONS
from glueball.tile.operations.memory import MEMORY_OPERATIONS
from glueball.tile.operations.rearranging import REARRANGING_OPERATIONS
from glueball.tile.operations.reductions import REDUCTION_OPERATIONS
from glueball.tile.operations.scalar import SCALAR_OPERATIONS
from glueball.tile.operations.scratch import SCRATCH_OPERATIONS
from glueball.tile.operations.shape import SHAPE_OPERATIONS
from glueball.tile.operations.shared_memory import SHARED_MEMORY_OPERATIONS

TILE_OPERATIONS: dict[str, OperationDefinition] = {
    definition.name: definition
    for definition in (
        *SCALAR_OPERATIONS,
        *SHAPE_OPERATIONS,
        *ARITHMETIC_OPERATIONS,
        *FUNCTION_OPERATIONS,
        *HINT_OPERATIONS,
        *MEMORY_OPERATIONS,
        *CONTROL_OPERATIONS,
        *EXPANDED_OPERATIONS,
        *SHARED_MEMORY_OPERATIONS,
        *REARRANGING_OPERATIONS,
        *REDUCTION_OPERATIONS,
        *GATHER_OPERATIONS,
        *ATOMIC_OPERATIONS,
        *ASSEMBLY_OPERATIONS,
        *DIAGNOSTIC_OPERATIONS,
        *LANE_OPERATIONS,
        *SCRATCH_OPERATIONS,
    )
}

__all__ = ["TILE_OPERATIONS", "Effects", "OperationDefinition", "TileArray"]
