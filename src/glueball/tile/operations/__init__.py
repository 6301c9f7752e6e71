"""The table of tile operations: the one place that says what each takes, gives and does."""

from __future__ import annotations

from glueball.tile.operations.arithmetic import ARITHMETIC_OPERATIONS
from glueball.tile.operations.control import CONTROL_OPERATIONS
from glueball.tile.operations.definition import Effects, OperationDefinition, TileArray
from glueball.tile.operations.expanded import EXPANDED_OPERATIONS
from glueball.tile.operations.memory import MEMORY_OPERATIONS
from glueball.tile.operations.scalar import SCALAR_OPERATIONS
from glueball.tile.operations.shape import SHAPE_OPERATIONS

TILE_OPERATIONS: dict[str, OperationDefinition] = {
    definition.name: definition
    for definition in (
        *SCALAR_OPERATIONS,
        *SHAPE_OPERATIONS,
        *ARITHMETIC_OPERATIONS,
        *MEMORY_OPERATIONS,
        *CONTROL_OPERATIONS,
        *EXPANDED_OPERATIONS,
    )
}

__all__ = ["TILE_OPERATIONS", "Effects", "OperationDefinition", "TileArray"]
