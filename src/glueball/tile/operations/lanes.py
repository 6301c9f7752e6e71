"""Values handed from one lane to others."""

from __future__ import annotations

from glueball.tile.ir import Operation
from glueball.tile.operations.definition import OperationDefinition, fault
from glueball.tile.operations.rules import expect_counts, same_type
from glueball.tile.operations.shape import keep, moving


def _check_share(operation: Operation) -> None:
    expect_counts(operation, 1, 1)
    if not same_type(operation.operands[0].type, operation.result.type):
        raise fault(operation, f"keeps the type, not {operation.operands[0].type} to {operation.result.type}")


LANE_OPERATIONS = (
    OperationDefinition(
        "share_lanes", "Every lane gets what the lane without its bits `lanes` has.", _check_share, moving(keep),
        pure=False, attributes=frozenset({"lanes"}),
    ),
)  # fmt: skip
