"""Gives the tensor descriptors that a kernel makes memory: shared to build them in, global to keep them in."""

from __future__ import annotations

from glueball.targets import Target
from glueball.tile.ir import Operation, Region, TileFunction, Value
from glueball.tile.operations.tensor_maps import MAP_BYTES
from glueball.tile.types import int64


def place_descriptors(function: TileFunction, _: Target) -> None:
    """Adds the allocations of every `make_descriptor`, and the function's `global_scratch_bytes`."""
    found = [operation for operation in function.body.walk() if operation.opcode == "make_descriptor"]
    if not found:
        return
    function.global_scratch_bytes = MAP_BYTES * len(found)
    scratch = Operation(
        "global_scratch", (), (int64,), {"bytes": function.global_scratch_bytes}, location=function.location
    )
    offsets = {operation: MAP_BYTES * number for number, operation in enumerate(found)}
    _place(function.body, offsets, scratch.result)
    function.body.operations.insert(0, scratch)


def _place(region: Region, offsets: dict[Operation, int], scratch: Value) -> None:
    result: list[Operation] = []
    for operation in region.operations:
        for inner in operation.regions:
            _place(inner, offsets, scratch)
        if operation in offsets:
            name = f"descriptor_{offsets[operation] // MAP_BYTES}"
            allocation = {"name": name, "bytes": MAP_BYTES, "alignment": MAP_BYTES, "offset": 0}
            result.append(Operation("allocate_shared", (), (), allocation, location=operation.location))
            operation.operands = [*operation.operands, scratch]
            operation.attributes |= {"allocation": name, "offset": offsets[operation]}
        result.append(operation)
    region.operations[:] = result
